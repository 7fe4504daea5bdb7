// Softmax of rows, forward and backward, and the cross-entropy that ends a language model.

// Maximum and sum of exponentials below it, for any number of elements in one pass.
struct Online {
    float largest, sum;

    __device__ __forceinline__ Online() : largest(from_bits(0xff800000u)), sum(0.0f) {}

    template <int N>
    __device__ __forceinline__ void add(const Pack<Element, N>& elements) {
        float top = largest;
#pragma unroll
        for (int at = 0; at < N; ++at) top = fmaxf(top, widen(elements.at[at]));
        // Only masked elements so far: nothing to add, and infinity minus infinity is no number.
        if (top == from_bits(0xff800000u)) return;
        float more = 0.0f;
#pragma unroll
        for (int at = 0; at < N; ++at) more += __expf(widen(elements.at[at]) - top);
        sum = sum * __expf(largest - top) + more;
        largest = top;
    }

    // Brings the threads of a row together.
    __device__ __forceinline__ void join() {
        float top = row_max(largest);
        sum = row_sum(largest == top ? sum : sum * __expf(largest - top));
        largest = top;
    }
};

extern "C" __global__ void __launch_bounds__(512, 1)
softmax_forward(const Element* __restrict__ x, Element* __restrict__ y, Count rows, int cols) {
    Count row = row_of_thread();
    if (row >= rows) return;
    Row scores(x, row, cols);
    Online online;
    scores.each([&](int, const auto& elements) { online.add(elements); });
    online.join();
    float scale = 1.0f / online.sum, largest = online.largest;
    Element* out = y + row * cols;
    scores.each([&](int column, const auto& elements) {
        auto result = elements;
#pragma unroll
        for (int at = 0; at < result.count; ++at)
            result.at[at] = narrow(__expf(widen(elements.at[at]) - largest) * scale);
        put_column(out, column, result);
    });
}

extern "C" __global__ void __launch_bounds__(512, 1)
softmax_backward(const Element* __restrict__ y, const Element* __restrict__ dy, Element* __restrict__ dx, Count rows,
                 int cols) {
    Count row = row_of_thread();
    if (row >= rows) return;
    Row probabilities(y, row, cols), upstream(dy, row, cols);
    float sum = 0.0f;
    each_of_both(probabilities, upstream, [&](int, const auto& p, const auto& d) {
#pragma unroll
        for (int at = 0; at < p.count; ++at) sum += widen(p.at[at]) * widen(d.at[at]);
    });
    sum = row_sum(sum);
    Element* out = dx + row * cols;
    each_of_both(probabilities, upstream, [&](int column, const auto& p, const auto& d) {
        auto result = p;
#pragma unroll
        for (int at = 0; at < result.count; ++at) result.at[at] = narrow(widen(p.at[at]) * (widen(d.at[at]) - sum));
        put_column(out, column, result);
    });
}

extern "C" __global__ void __launch_bounds__(512, 1)
cross_entropy_forward(const Element* __restrict__ logits, const unsigned* __restrict__ classes,
                      float* __restrict__ loss, float* __restrict__ stats, Count rows, int cols) {
    Count row = row_of_thread();
    if (row >= rows) return;
    const Element* source = logits + row * cols;
    Online online;
    each_of_row(source, Parts(row, cols), [&](int, const auto& elements) { online.add(elements); });
    online.join();
    if (threadIdx.x == 0) {
        float total = online.largest + logf(online.sum);
        stats[row] = total;
        loss[row] = total - widen(source[classes[row]]);
    }
}

extern "C" __global__ void __launch_bounds__(512, 1)
cross_entropy_backward(const Element* __restrict__ logits, const unsigned* __restrict__ classes,
                       const float* __restrict__ stats, const float* __restrict__ dloss, Element* __restrict__ dlogits,
                       Count rows, int cols) {
    Count row = row_of_thread();
    if (row >= rows) return;
    const Element* source = logits + row * cols;
    Element* out = dlogits + row * cols;
    float total = stats[row], upstream = dloss[row];
    int hit = classes[row];
    each_of_row(source, Parts(row, cols), [&](int column, const auto& elements) {
        auto result = elements;
#pragma unroll
        for (int at = 0; at < result.count; ++at) {
            float probability = __expf(widen(elements.at[at]) - total);
            result.at[at] = narrow(upstream * (column + at == hit ? probability - 1.0f : probability));
        }
        put_column(out, column, result);
    });
}
