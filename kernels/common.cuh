// What every kernel shares: number formats, wide accesses, reductions over the threads of a row. It stands in front of
// each kernel when that is compiled and includes nothing, so that no header of CUDA needs to be installed.
//
// TENSOR says which format operands are stored in, as the number of bits and the name: BF16, FP16, FP32 or FP8.
// VECTOR is how many elements one access moves. Arithmetic is in single precision.

#ifndef VECTOR
#define VECTOR 1
#endif

typedef unsigned long long Count;

// Shared memory whose size is given at launch. Tests compile the same sources for the CPU, where ON_HOST is defined.
#ifndef ON_HOST
#define DYNAMIC_SHARED(type, name) extern __shared__ type name[]
#endif

__device__ __forceinline__ unsigned bits_of(float value) { return __float_as_uint(value); }
__device__ __forceinline__ float from_bits(unsigned bits) { return __uint_as_float(bits); }

// A number of 32 bits mixed so that neighbours have nothing in common (lowbias32, Wellons 2018).
__device__ __forceinline__ unsigned mix(unsigned x) {
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ (x >> 16);
}

// E4M3: held at the largest finite number, nearest with ties to even.
__device__ __forceinline__ unsigned char to_e4m3(float value) {
#if __CUDA_ARCH__ >= 890
    unsigned short pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(value));
    return (unsigned char)pair;
#else
    unsigned sign = (bits_of(value) >> 24) & 0x80u;
    float magnitude = fminf(fabsf(value), 448.0f);
    if (magnitude < 0.015625f) return (unsigned char)(sign | (unsigned)rintf(magnitude * 512.0f));
    unsigned bits = bits_of(magnitude);
    unsigned rounded = bits + 0x7ffffu + ((bits >> 20) & 1u);
    return (unsigned char)(sign | ((rounded >> 20) - (120u << 3)));
#endif
}

#if defined(TENSOR_BF16)
typedef unsigned short Element;
__device__ __forceinline__ float widen(Element stored) { return from_bits((unsigned)stored << 16); }
__device__ __forceinline__ Element narrow(float value) {
#if __CUDA_ARCH__ >= 800
    Element stored;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(stored) : "f"(value));
    return stored;
#else
    unsigned bits = bits_of(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
    return (Element)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
#endif
}
#elif defined(TENSOR_FP16)
typedef unsigned short Element;
#ifdef ON_HOST
__device__ __forceinline__ float widen(Element stored) { return host_from_half(stored); }
__device__ __forceinline__ Element narrow(float value) { return host_to_half(value); }
#else
__device__ __forceinline__ float widen(Element stored) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(stored));
    return value;
}
__device__ __forceinline__ Element narrow(float value) {
    Element stored;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(stored) : "f"(value));
    return stored;
}
#endif
#elif defined(TENSOR_FP8)
typedef unsigned char Element;
__device__ __forceinline__ Element narrow(float value) { return to_e4m3(value); }
#else
typedef float Element;
__device__ __forceinline__ float widen(Element stored) { return stored; }
__device__ __forceinline__ Element narrow(float value) { return value; }
#endif

// Elements that one access moves; aligned to their size up to the 16 bytes of the widest access.
template <typename E, int N>
struct alignas(sizeof(E) * N < 16 ? sizeof(E) * N : 16) Pack {
    static constexpr int count = N;
    E at[N];
};
typedef Pack<Element, VECTOR> Elements;
typedef Pack<float, VECTOR> Singles;

template <typename P, typename E>
__device__ __forceinline__ P load(const E* __restrict__ base, Count pack) {
    return reinterpret_cast<const P*>(base)[pack];
}
template <typename P, typename E>
__device__ __forceinline__ void store(E* __restrict__ base, Count pack, const P& value) {
    reinterpret_cast<P*>(base)[pack] = value;
}

// Threads along x share a row. One warp needs no barrier, and a block then holds blockDim.y rows.
__device__ __forceinline__ Count row_of_thread() { return (Count)blockIdx.x * blockDim.y + threadIdx.y; }

template <typename F>
__device__ __forceinline__ float reduce(float value, float neutral, F combine) {
#pragma unroll
    for (int offset = 16; offset; offset >>= 1) value = combine(value, __shfl_xor_sync(0xffffffffu, value, offset));
    if (blockDim.x == 32) return value;
    __shared__ float warps[32];
    __syncthreads();
    if ((threadIdx.x & 31) == 0) warps[threadIdx.x >> 5] = value;
    __syncthreads();
    unsigned lane = threadIdx.x & 31;
    value = lane < blockDim.x / 32 ? warps[lane] : neutral;
#pragma unroll
    for (int offset = 16; offset; offset >>= 1) value = combine(value, __shfl_xor_sync(0xffffffffu, value, offset));
    return value;
}
__device__ __forceinline__ float row_sum(float value) {
    return reduce(value, 0.0f, [](float a, float b) { return a + b; });
}
__device__ __forceinline__ float row_max(float value) {
    return reduce(value, from_bits(0xff800000u), [](float a, float b) { return fmaxf(a, b); });
}

// How a row divides into accesses of VECTOR elements that are aligned in memory: single elements up to the first of them
// (head), whole packs, and single elements after the last (rest). A row of any length so moves 16 bytes an access.
struct Parts {
    int cols, head, packs;

    __device__ __forceinline__ Parts(Count row, int cols) : cols(cols) {
        int before = (int)(row * cols % VECTOR);
        head = before ? VECTOR - before : 0;
        if (head > cols) head = cols;
        packs = (cols - head) / VECTOR;
    }

    // The column of the single element that is this thread's, or -1: the 32 and more threads of a row outnumber them.
    __device__ __forceinline__ int single() const {
        int rest = cols - head - packs * VECTOR, thread = threadIdx.x;
        if (thread < head) return thread;
        return thread < head + rest ? packs * VECTOR + thread : -1;
    }
};

// N elements of a row from this column on, which is aligned for as many.
template <int N>
__device__ __forceinline__ Pack<Element, N> at_column(const Element* __restrict__ row, int column) {
    return *reinterpret_cast<const Pack<Element, N>*>(row + column);
}
template <int N>
__device__ __forceinline__ void put_column(Element* __restrict__ row, int column, const Pack<Element, N>& value) {
    *reinterpret_cast<Pack<Element, N>*>(row + column) = value;
}

// As many elements of a vector that all rows share as `like` has: aligned only where the row has no head.
template <int N>
__device__ __forceinline__ Pack<Element, N> shared_by_rows(const Element* __restrict__ values, int column,
                                                           const Pack<Element, N>& like) {
    if (column % N == 0) return at_column<N>(values, column);
    Pack<Element, N> gathered;
#pragma unroll
    for (int at = 0; at < N; ++at) gathered.at[at] = values[column + at];
    return gathered;
}

// Calls visit(column, elements) for each access of this thread to a row, which is read as it goes.
template <typename F>
__device__ __forceinline__ void each_of_row(const Element* __restrict__ source, const Parts& parts, F visit) {
    for (int pack = threadIdx.x; pack < parts.packs; pack += blockDim.x) {
        int column = parts.head + pack * VECTOR;
        visit(column, at_column<VECTOR>(source, column));
    }
    int single = parts.single();
    if (single >= 0) visit(single, at_column<1>(source, single));
}

// What a thread looks at of a row, the first of it held in registers for a second look.
#define HELD 4
struct Row {
    const Element* source;
    Parts parts;
    Elements held[HELD];
    Pack<Element, 1> edge;

    __device__ __forceinline__ Row(const Element* base, Count row, int cols) : source(base + row * cols), parts(row, cols) {
#pragma unroll
        for (int slot = 0; slot < HELD; ++slot) {
            int pack = threadIdx.x + slot * blockDim.x;
            if (pack < parts.packs) held[slot] = at_column<VECTOR>(source, parts.head + pack * VECTOR);
        }
        if (parts.single() >= 0) edge = at_column<1>(source, parts.single());
    }

    // Calls visit(column, elements) for each; what does not fit into registers is loaded again.
    template <typename F>
    __device__ __forceinline__ void each(F visit) const {
#pragma unroll
        for (int slot = 0; slot < HELD; ++slot) {
            int pack = threadIdx.x + slot * blockDim.x;
            if (pack < parts.packs) visit(parts.head + pack * VECTOR, held[slot]);
        }
#pragma unroll 1
        for (int pack = threadIdx.x + HELD * blockDim.x; pack < parts.packs; pack += blockDim.x) {
            int column = parts.head + pack * VECTOR;
            visit(column, at_column<VECTOR>(source, column));
        }
        if (parts.single() >= 0) visit(parts.single(), edge);
    }
};

// Two rows of the same number and length, looked at together.
template <typename F>
__device__ __forceinline__ void each_of_both(const Row& left, const Row& right, F visit) {
    const Parts& parts = left.parts;
#pragma unroll
    for (int slot = 0; slot < HELD; ++slot) {
        int pack = threadIdx.x + slot * blockDim.x;
        if (pack < parts.packs) visit(parts.head + pack * VECTOR, left.held[slot], right.held[slot]);
    }
#pragma unroll 1
    for (int pack = threadIdx.x + HELD * blockDim.x; pack < parts.packs; pack += blockDim.x) {
        int column = parts.head + pack * VECTOR;
        visit(column, at_column<VECTOR>(left.source, column), at_column<VECTOR>(right.source, column));
    }
    if (parts.single() >= 0) visit(parts.single(), left.edge, right.edge);
}

// Flat tensors: whole packs first, then what is left of the last one.
__device__ __forceinline__ Count first_pack() { return (Count)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ __forceinline__ Count pack_stride() { return (Count)gridDim.x * blockDim.x; }

// Whole packs by visit_pack(pack), the up to VECTOR - 1 elements after them by visit_element(element).
template <typename P, typename E>
__device__ __forceinline__ void flat(Count elements, P visit_pack, E visit_element) {
    Count packs = elements / VECTOR;
    for (Count pack = first_pack(); pack < packs; pack += pack_stride()) visit_pack(pack);
    Count rest = packs * VECTOR + first_pack();
    if (rest < elements) visit_element(rest);
}
