// Rows moved by an index: embedding look-up and its gradient, the permutation of tokens, and plain copies.

// y[i] = x[index[i]]
extern "C" __global__ void __launch_bounds__(512)
gather(const Element* __restrict__ x, const unsigned* __restrict__ index, Element* __restrict__ y, Count rows,
       int cols) {
    Count row = row_of_thread();
    if (row >= rows) return;
    const Element* source = x + (Count)index[row] * cols;
    Element* out = y + row * cols;
    for (int pack = threadIdx.x; pack < cols / VECTOR; pack += blockDim.x)
        store(out, pack, load<Elements>(source, pack));
}

// y[index[i]] = x[i], where no two rows have the same index.
extern "C" __global__ void __launch_bounds__(512)
scatter(const Element* __restrict__ x, const unsigned* __restrict__ index, Element* __restrict__ y, Count rows,
        int cols) {
    Count row = row_of_thread();
    if (row >= rows) return;
    const Element* source = x + row * cols;
    Element* out = y + (Count)index[row] * cols;
    for (int pack = threadIdx.x; pack < cols / VECTOR; pack += blockDim.x)
        store(out, pack, load<Elements>(source, pack));
}

#if defined(TENSOR_BF16) || defined(TENSOR_FP16)
// Two elements of 16 bits are added at once; on GPUs that cannot, by comparing and exchanging.
__device__ __forceinline__ void add_pair(unsigned* target, unsigned pair) {
#if defined(TENSOR_FP16) && !defined(ON_HOST)
    asm volatile("red.global.add.noftz.f16x2 [%0], %1;" ::"l"(target), "r"(pair) : "memory");
#elif defined(TENSOR_BF16) && __CUDA_ARCH__ >= 900
    asm volatile("red.global.add.noftz.bf16x2 [%0], %1;" ::"l"(target), "r"(pair) : "memory");
#else
    unsigned old = *target, seen;
    do {
        seen = old;
        unsigned low = narrow(widen((Element)seen) + widen((Element)pair));
        unsigned high = narrow(widen((Element)(seen >> 16)) + widen((Element)(pair >> 16)));
        old = atomicCAS(target, seen, low | high << 16);
    } while (old != seen);
#endif
}

// A single element; its neighbour in the same word is not touched, it may be no element at all.
__device__ __forceinline__ void add_single(Element* target, Element more) {
#if defined(TENSOR_FP16) && !defined(ON_HOST)
    asm volatile("red.global.add.noftz.f16 [%0], %1;" ::"l"(target), "h"(more) : "memory");
#elif defined(TENSOR_BF16) && __CUDA_ARCH__ >= 900
    asm volatile("red.global.add.noftz.bf16 [%0], %1;" ::"l"(target), "h"(more) : "memory");
#else
    unsigned long long address = reinterpret_cast<unsigned long long>(target);
    unsigned* word = reinterpret_cast<unsigned*>(address & ~3ull);
    int shift = address & 2 ? 16 : 0;
    unsigned old = *word, seen;
    do {
        seen = old;
        unsigned sum = narrow(widen((Element)(seen >> shift)) + widen(more));
        old = atomicCAS(word, seen, (seen & ~(0xffffu << shift)) | sum << shift);
    } while (old != seen);
#endif
}

__device__ __forceinline__ void accumulate(Element* target, const Elements& more) {
#if VECTOR == 1
    add_single(target, more.at[0]);
#else
#pragma unroll
    for (int at = 0; at < VECTOR; at += 2)
        add_pair(reinterpret_cast<unsigned*>(target + at), (unsigned)more.at[at] | (unsigned)more.at[at + 1] << 16);
#endif
}
#else
__device__ __forceinline__ void accumulate(Element* target, const Elements& more) {
#pragma unroll
    for (int at = 0; at < VECTOR; ++at) atomicAdd(target + at, more.at[at]);
}
#endif

// y[index[i]] += x[i]; rows may share an index.
extern "C" __global__ void __launch_bounds__(512)
scatter_add(const Element* __restrict__ x, const unsigned* __restrict__ index, Element* __restrict__ y, Count rows,
            int cols) {
    Count row = row_of_thread();
    if (row >= rows) return;
    const Element* source = x + row * cols;
    Element* out = y + (Count)index[row] * cols;
    for (int pack = threadIdx.x; pack < cols / VECTOR; pack += blockDim.x)
        accumulate(out + pack * VECTOR, load<Elements>(source, pack));
}
