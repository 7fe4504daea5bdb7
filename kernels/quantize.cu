// Cast of activations to E4M3 under a scale that is known before (delayed scaling): as they are for the forward pass,
// transposed for the weight gradient, with the largest magnitude for the next scale, in one pass over memory.

#define TILE 64
// A padded column keeps the stores of a warp in different banks.
#define PITCH (TILE + 4)

// y = cast(scale * x) is (rows, cols), transposed is (cols, rows); amax grows to the largest magnitude in x.
extern "C" __global__ void __launch_bounds__(256)
quantize_forward(const Element* __restrict__ x, const float* __restrict__ scale, float* __restrict__ amax,
                 unsigned char* __restrict__ y, unsigned char* __restrict__ transposed, Count rows, int cols) {
    __shared__ unsigned char tile[TILE * PITCH];
    typedef Pack<unsigned char, VECTOR> Bytes;
    Count across = ((Count)cols + TILE - 1) / TILE;
    Count top = blockIdx.x / across * TILE, left = blockIdx.x % across * TILE;
    float by = *scale, largest = 0.0f;
    for (int pack = threadIdx.x; pack < TILE * TILE / VECTOR; pack += blockDim.x) {
        int row = pack / (TILE / VECTOR), col = pack % (TILE / VECTOR) * VECTOR;
        if (top + row >= rows || left + col >= cols) continue;
        Count at = ((top + row) * cols + left + col) / VECTOR;
        Elements read = load<Elements>(x, at);
        Bytes cast;
#pragma unroll
        for (int slot = 0; slot < VECTOR; ++slot) {
            float value = widen(read.at[slot]);
            largest = fmaxf(largest, fabsf(value));
            cast.at[slot] = to_e4m3(value * by);
            tile[(col + slot) * PITCH + row] = cast.at[slot];
        }
        store(y, at, cast);
    }
    largest = row_max(largest);
    // The bits of numbers that are not negative have their order.
    if (threadIdx.x == 0) atomicMax(reinterpret_cast<int*>(amax), (int)bits_of(largest));
    __syncthreads();
    if (rows % 4 == 0) {
        for (int word = threadIdx.x; word < TILE * TILE / 4; word += blockDim.x) {
            int col = word / (TILE / 4), row = word % (TILE / 4) * 4;
            if (left + col >= cols || top + row >= rows) continue;
            unsigned four = *reinterpret_cast<const unsigned*>(tile + col * PITCH + row);
            *reinterpret_cast<unsigned*>(transposed + (left + col) * rows + top + row) = four;
        }
        return;
    }
    for (int one = threadIdx.x; one < TILE * TILE; one += blockDim.x) {
        int col = one / TILE, row = one % TILE;
        if (left + col < cols && top + row < rows)
            transposed[(left + col) * rows + top + row] = tile[col * PITCH + row];
    }
}
