// Layer norm and RMS norm of rows. Backward finds the gradients of the weights in the same pass: each block takes many
// rows and keeps a sum per column in shared memory, and a second small kernel adds the blocks.


// Stable for rows whose mean is far from zero: the spread is summed about the mean, from registers.
template <bool centred>
__device__ __forceinline__ void normalise(const Element* x, const Element* gamma, const Element* beta, Element* y,
                                          Count rows, int cols, float epsilon) {
    Count row = row_of_thread();
    if (row >= rows) return;
    Row values(x, row, cols);
    float mean = 0.0f;
    if (centred) {
        values.each([&](int, const auto& v) {
#pragma unroll
            for (int at = 0; at < v.count; ++at) mean += widen(v.at[at]);
        });
        mean = row_sum(mean) / cols;
    }
    float spread = 0.0f;
    values.each([&](int, const auto& v) {
#pragma unroll
        for (int at = 0; at < v.count; ++at) {
            float away = widen(v.at[at]) - mean;
            spread += away * away;
        }
    });
    float rstd = rsqrtf(row_sum(spread) / cols + epsilon);
    Element* out = y + row * cols;
    values.each([&](int column, const auto& v) {
        auto weight = shared_by_rows(gamma, column, v), shift = weight, result = weight;
        if (centred) shift = shared_by_rows(beta, column, v);
#pragma unroll
        for (int at = 0; at < v.count; ++at) {
            float unit = (widen(v.at[at]) - mean) * rstd * widen(weight.at[at]);
            result.at[at] = narrow(centred ? unit + widen(shift.at[at]) : unit);
        }
        put_column(out, column, result);
    });
}

extern "C" __global__ void __launch_bounds__(512, 1)
layer_norm_forward(const Element* __restrict__ x, const Element* __restrict__ gamma, const Element* __restrict__ beta,
                   Element* __restrict__ y, Count rows, int cols, float epsilon) {
    normalise<true>(x, gamma, beta, y, rows, cols, epsilon);
}

extern "C" __global__ void __launch_bounds__(512, 1)
rms_norm_forward(const Element* __restrict__ x, const Element* __restrict__ gamma, Element* __restrict__ y, Count rows,
                 int cols, float epsilon) {
    normalise<false>(x, gamma, gamma, y, rows, cols, epsilon);
}

// Where the sum of a column lies in shared memory: columns that neighbouring threads have at the same place of their packs
// lie side by side, so that no two threads of a warp meet in a bank.
__device__ __forceinline__ int place_of_sum(int column, int stride) { return column % VECTOR * stride + column / VECTOR; }

// partial is (gridDim.x, cols) for the weights, and below it as much again for the shifts.
template <bool centred>
__device__ __forceinline__ void differentiate(const Element* x, const Element* gamma, const Element* dy,
                                              const float* means, const float* rstds, Element* dx, float* partial,
                                              Count rows, int cols, float* columns) {
    int stride = (cols + VECTOR - 1) / VECTOR;
    float *weights = columns, *shifts = columns + stride * VECTOR;
    for (int at = threadIdx.x; at < (centred ? 2 : 1) * stride * VECTOR; at += blockDim.x) columns[at] = 0.0f;
    __syncthreads();
    for (Count row = blockIdx.x; row < rows; row += gridDim.x) {
        Row values(x, row, cols), upstream(dy, row, cols);
        float mean = centred ? means[row] : 0.0f, rstd = rstds[row];
        float along = 0.0f, sum = 0.0f;
        each_of_both(values, upstream, [&](int column, const auto& v, const auto& d) {
            auto weight = shared_by_rows(gamma, column, v);
#pragma unroll
            for (int at = 0; at < v.count; ++at) {
                float unit = (widen(v.at[at]) - mean) * rstd, up = widen(d.at[at]), scaled = up * widen(weight.at[at]);
                along += scaled * unit;
                sum += scaled;
                // A column of a row belongs to one thread, and the barriers of row_sum stand between two rows: these sums
                // need no atomics.
                int place = place_of_sum(column + at, stride);
                weights[place] += up * unit;
                if (centred) shifts[place] += up;
            }
        });
        along = row_sum(along) / cols;
        sum = centred ? row_sum(sum) / cols : 0.0f;
        Element* out = dx + row * cols;
        each_of_both(values, upstream, [&](int column, const auto& v, const auto& d) {
            auto weight = shared_by_rows(gamma, column, v), result = weight;
#pragma unroll
            for (int at = 0; at < v.count; ++at) {
                float unit = (widen(v.at[at]) - mean) * rstd, scaled = widen(d.at[at]) * widen(weight.at[at]);
                result.at[at] = narrow(rstd * (scaled - sum - unit * along));
            }
            put_column(out, column, result);
        });
    }
    __syncthreads();
    for (int col = threadIdx.x; col < cols; col += blockDim.x) {
        int place = place_of_sum(col, stride);
        partial[(Count)blockIdx.x * cols + col] = weights[place];
        if (centred) partial[((Count)gridDim.x + blockIdx.x) * cols + col] = shifts[place];
    }
}

extern "C" __global__ void __launch_bounds__(512, 1)
layer_norm_backward(const Element* __restrict__ x, const Element* __restrict__ gamma, const Element* __restrict__ dy,
                    const float* __restrict__ means, const float* __restrict__ rstds, Element* __restrict__ dx,
                    float* __restrict__ partial, Count rows, int cols) {
    DYNAMIC_SHARED(float, columns);
    differentiate<true>(x, gamma, dy, means, rstds, dx, partial, rows, cols, columns);
}

extern "C" __global__ void __launch_bounds__(512, 1)
rms_norm_backward(const Element* __restrict__ x, const Element* __restrict__ gamma, const Element* __restrict__ dy,
                  const float* __restrict__ rstds, Element* __restrict__ dx, float* __restrict__ partial, Count rows,
                  int cols) {
    DYNAMIC_SHARED(float, columns);
    differentiate<false>(x, gamma, dy, rstds, rstds, dx, partial, rows, cols, columns);
}

// Adds the sums of the blocks: threads along y share a column, so that few columns still fill the device.
extern "C" __global__ void __launch_bounds__(1024)
add_blocks(const float* __restrict__ partial, float* __restrict__ total, int blocks, int cols) {
    __shared__ float sums[32][33];
    int col = blockIdx.x * 32 + threadIdx.x;
    float sum = 0.0f;
    if (col < cols)
        for (int block = threadIdx.y; block < blocks; block += 32) sum += partial[(Count)block * cols + col];
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && col < cols) {
        for (int other = 1; other < 32; ++other) sum += sums[other][threadIdx.x];
        total[col] = sum;
    }
}
