// Kernels that look at each element alone: activations, residual sums, dropout, masks.

// GELU by the hyperbolic tangent, as x times a sigmoid: 0.5 x (1 + tanh u) = x / (1 + exp(-2u)).
__device__ __forceinline__ float twice_inner(float x) { return 1.5957691216f * (x + 0.044715f * x * x * x); }
__device__ __forceinline__ float sigmoid(float x) { return __fdividef(1.0f, 1.0f + __expf(-x)); }

__device__ __forceinline__ float gelu(float x) { return x * sigmoid(twice_inner(x)); }
__device__ __forceinline__ float gelu_slope(float x) {
    float s = sigmoid(twice_inner(x));
    return s + x * s * (1.0f - s) * 1.5957691216f * (1.0f + 0.134145f * x * x);
}

template <typename F>
__device__ __forceinline__ void map_one(const Element* a, Element* out, Count elements, F function) {
    flat(
        elements,
        [&](Count pack) {
            Elements left = load<Elements>(a, pack), result;
#pragma unroll
            for (int at = 0; at < VECTOR; ++at) result.at[at] = narrow(function(widen(left.at[at])));
            store(out, pack, result);
        },
        [&](Count element) { out[element] = narrow(function(widen(a[element]))); });
}

template <typename F>
__device__ __forceinline__ void map_two(const Element* a, const Element* b, Element* out, Count elements, F function) {
    flat(
        elements,
        [&](Count pack) {
            Elements left = load<Elements>(a, pack), right = load<Elements>(b, pack), result;
#pragma unroll
            for (int at = 0; at < VECTOR; ++at)
                result.at[at] = narrow(function(widen(left.at[at]), widen(right.at[at])));
            store(out, pack, result);
        },
        [&](Count element) { out[element] = narrow(function(widen(a[element]), widen(b[element]))); });
}

extern "C" __global__ void __launch_bounds__(512)
gelu_forward(const Element* __restrict__ x, Element* __restrict__ y, Count elements) {
    map_one(x, y, elements, [](float x) { return gelu(x); });
}

extern "C" __global__ void __launch_bounds__(512)
gelu_backward(const Element* __restrict__ x, const Element* __restrict__ dy, Element* __restrict__ dx, Count elements) {
    map_two(x, dy, dx, elements, [](float x, float up) { return up * gelu_slope(x); });
}

extern "C" __global__ void __launch_bounds__(512)
add(const Element* __restrict__ x, const Element* __restrict__ skip, Element* __restrict__ y, Count elements) {
    map_two(x, skip, y, elements, [](float a, float b) { return a + b; });
}

extern "C" __global__ void __launch_bounds__(512)
zero(Element* __restrict__ y, Count elements) {
    Elements zeros;
#pragma unroll
    for (int at = 0; at < VECTOR; ++at) zeros.at[at] = narrow(0.0f);
    flat(
        elements, [&](Count pack) { store(y, pack, zeros); }, [&](Count element) { y[element] = narrow(0.0f); });
}

extern "C" __global__ void __launch_bounds__(512)
swiglu_forward(const Element* __restrict__ gate, const Element* __restrict__ up, Element* __restrict__ y,
               Count elements) {
    map_two(gate, up, y, elements, [](float gate, float up) { return gate * sigmoid(gate) * up; });
}

__device__ __forceinline__ void swiglu_gradients(float gate, float up, float upstream, float& dgate, float& dup) {
    float s = sigmoid(gate);
    dgate = upstream * up * s * (1.0f + gate * (1.0f - s));
    dup = upstream * gate * s;
}

extern "C" __global__ void __launch_bounds__(512)
swiglu_backward(const Element* __restrict__ gate, const Element* __restrict__ up, const Element* __restrict__ dy,
                Element* __restrict__ dgate, Element* __restrict__ dup, Count elements) {
    flat(
        elements,
        [&](Count pack) {
            Elements g = load<Elements>(gate, pack), u = load<Elements>(up, pack), d = load<Elements>(dy, pack);
            Elements first, second;
#pragma unroll
            for (int at = 0; at < VECTOR; ++at) {
                float left, right;
                swiglu_gradients(widen(g.at[at]), widen(u.at[at]), widen(d.at[at]), left, right);
                first.at[at] = narrow(left);
                second.at[at] = narrow(right);
            }
            store(dgate, pack, first);
            store(dup, pack, second);
        },
        [&](Count element) {
            float left, right;
            swiglu_gradients(widen(gate[element]), widen(up[element]), widen(dy[element]), left, right);
            dgate[element] = narrow(left);
            dup[element] = narrow(right);
        });
}

// An element stays where the mixed bits of its number reach the threshold; forward keeps a flag of one byte for each.
extern "C" __global__ void __launch_bounds__(512)
dropout_forward(const Element* __restrict__ x, Element* __restrict__ y, unsigned char* __restrict__ mask,
                Count elements, unsigned threshold, float survivor) {
    typedef Pack<unsigned char, VECTOR> Flags;
    flat(
        elements,
        [&](Count pack) {
            Elements values = load<Elements>(x, pack), result;
            Flags flags;
#pragma unroll
            for (int at = 0; at < VECTOR; ++at) {
                bool keep = mix((unsigned)(pack * VECTOR + at)) >= threshold;
                flags.at[at] = keep;
                result.at[at] = narrow(keep ? widen(values.at[at]) * survivor : 0.0f);
            }
            store(y, pack, result);
            store(mask, pack, flags);
        },
        [&](Count element) {
            bool keep = mix((unsigned)element) >= threshold;
            mask[element] = keep;
            y[element] = narrow(keep ? widen(x[element]) * survivor : 0.0f);
        });
}

extern "C" __global__ void __launch_bounds__(512)
dropout_backward(const Element* __restrict__ dy, const unsigned char* __restrict__ mask, Element* __restrict__ dx,
                 Count elements, float survivor) {
    typedef Pack<unsigned char, VECTOR> Flags;
    flat(
        elements,
        [&](Count pack) {
            Elements values = load<Elements>(dy, pack), result;
            Flags flags = load<Flags>(mask, pack);
#pragma unroll
            for (int at = 0; at < VECTOR; ++at)
                result.at[at] = narrow(flags.at[at] ? widen(values.at[at]) * survivor : 0.0f);
            store(dx, pack, result);
        },
        [&](Count element) { dx[element] = narrow(mask[element] ? widen(dy[element]) * survivor : 0.0f); });
}

// A causal mask over stacked cols x cols scores: minus infinity above the diagonal forward, zero backward.
extern "C" __global__ void __launch_bounds__(512)
mask(const Element* __restrict__ x, Element* __restrict__ y, Count rows, int cols, float hidden) {
    Count row = row_of_thread();
    if (row >= rows) return;
    int diagonal = (int)(row % (Count)cols);
    Element* out = y + row * cols;
    Element covered = narrow(hidden);
    each_of_row(x + row * cols, Parts(row, cols), [&](int column, const auto& elements) {
        auto values = elements;
#pragma unroll
        for (int at = 0; at < values.count; ++at)
            if (column + at > diagonal) values.at[at] = covered;
        put_column(out, column, values);
    });
}

// Turns the pairs (i, i + width/2) of each head; turn is -1 for the way back. VECTOR divides width/2.
extern "C" __global__ void __launch_bounds__(512)
rotary(const Element* __restrict__ x, const float* __restrict__ cosines, const float* __restrict__ sines,
       Element* __restrict__ y, Count rows, int cols, int width, int positions, float turn) {
    Count row = row_of_thread();
    if (row >= rows) return;
    int half = width / 2, pairs = cols / 2 / VECTOR;
    const Element* source = x + row * cols;
    Element* out = y + row * cols;
    // Rows are fewer than 2^31: a division of 32 bits, one a row.
    Count angles = (Count)((unsigned)row % (unsigned)positions) * half;
    for (int pack = threadIdx.x; pack < pairs; pack += blockDim.x) {
        int pair = pack * VECTOR, head = pair / half, left = pair + head * half, right = left + half;
        Count angle = angles + (pair - head * half);
        Elements a = load<Elements>(source + left, 0), b = load<Elements>(source + right, 0);
        Singles c = load<Singles>(cosines + angle, 0), s = load<Singles>(sines + angle, 0);
#pragma unroll
        for (int at = 0; at < VECTOR; ++at) {
            float first = widen(a.at[at]), second = widen(b.at[at]), cosine = c.at[at], sine = turn * s.at[at];
            a.at[at] = narrow(first * cosine - second * sine);
            b.at[at] = narrow(second * cosine + first * sine);
        }
        store(out + left, 0, a);
        store(out + right, 0, b);
    }
}

struct AdamConstants {
    float rate, beta_1, beta_2, correction_1, correction_2, epsilon, decay;
};

__device__ __forceinline__ void adam_step(float gradient, float& weight, float& m, float& v, const AdamConstants& k) {
    m = k.beta_1 * m + (1.0f - k.beta_1) * gradient;
    v = k.beta_2 * v + (1.0f - k.beta_2) * gradient * gradient;
    float direction = m * k.correction_1 / (sqrtf(v * k.correction_2) + k.epsilon) + k.decay * weight;
    weight -= k.rate * direction;
}

// One step of AdamW in place; `low` is the copy of the weights in the format of the gradients, none in fp32.
extern "C" __global__ void __launch_bounds__(512)
adam(const Element* __restrict__ gradient, float* __restrict__ weight, float* __restrict__ m, float* __restrict__ v,
     Element* __restrict__ low, Count elements, float rate, float beta_1, float beta_2, float correction_1,
     float correction_2, float epsilon, float decay) {
    AdamConstants k = {rate, beta_1, beta_2, correction_1, correction_2, epsilon, decay};
    flat(
        elements,
        [&](Count pack) {
            Elements g = load<Elements>(gradient, pack), copy;
            Singles w = load<Singles>(weight, pack), first = load<Singles>(m, pack), second = load<Singles>(v, pack);
#pragma unroll
            for (int at = 0; at < VECTOR; ++at) {
                adam_step(widen(g.at[at]), w.at[at], first.at[at], second.at[at], k);
                copy.at[at] = narrow(w.at[at]);
            }
            store(weight, pack, w);
            store(m, pack, first);
            store(v, pack, second);
            if (low) store(low, pack, copy);
        },
        [&](Count element) {
            adam_step(widen(gradient[element]), weight[element], m[element], v[element], k);
            if (low) low[element] = narrow(weight[element]);
        });
}
