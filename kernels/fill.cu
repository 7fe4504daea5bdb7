// Operands: random numbers that follow from a seed and the element's number, and the clock of the processor.

// A normal from two numbers of 32 bits (Box and Muller).
__device__ __forceinline__ float normal(Count element, unsigned seed) {
    unsigned a = mix((unsigned)element ^ seed ^ (unsigned)(element >> 32) * 0x9e3779b9u), b = mix(a + 0x9e3779b9u);
    float radius = sqrtf(fmaxf(-2.0f * __logf(((float)a + 1.0f) * 2.3283064e-10f), 0.0f));
    return radius * __cosf(6.2831853f * (float)b * 2.3283064e-10f);
}

// Normals times a factor; only their magnitudes where they stand for squares.
extern "C" __global__ void __launch_bounds__(512)
fill_normal(Element* __restrict__ out, Count elements, unsigned seed, float factor, int magnitudes) {
    flat(
        elements,
        [&](Count pack) {
            Elements drawn;
#pragma unroll
            for (int at = 0; at < VECTOR; ++at) {
                float value = factor * normal(pack * VECTOR + at, seed);
                drawn.at[at] = narrow(magnitudes ? fabsf(value) : value);
            }
            store(out, pack, drawn);
        },
        [&](Count element) {
            float value = factor * normal(element, seed);
            out[element] = narrow(magnitudes ? fabsf(value) : value);
        });
}

// Whole numbers below `end`: all of them once when `factor` has no divisor in common with `end` and n = end.
extern "C" __global__ void __launch_bounds__(512)
fill_order(unsigned* __restrict__ out, Count elements, Count factor, Count end) {
    for (Count element = first_pack(); element < elements; element += pack_stride())
        out[element] = (unsigned)(element % end * factor % end);
}

// The flags of dropout.
extern "C" __global__ void __launch_bounds__(512)
fill_flags(unsigned char* __restrict__ out, Count elements, unsigned threshold) {
    for (Count element = first_pack(); element < elements; element += pack_stride())
        out[element] = mix((unsigned)element) >= threshold;
}

// What the softmax of standard normals leaves behind: ln(keys seen) + 1/2, for queries that see all keys or, causally,
// those up to their own place.
extern "C" __global__ void __launch_bounds__(512)
fill_stats(float* __restrict__ out, Count rows, Count queries, Count keys, int causal) {
    for (Count row = first_pack(); row < rows; row += pack_stride()) {
        Count seen = causal ? keys - queries + row % queries + 1 : keys;
        out[row] = logf((float)seen) + 0.5f;
    }
}

// Nanoseconds, cycles of this processor, and which processor this is: two stamps of one processor give its clock.
extern "C" __global__ void stamp(Count* __restrict__ out) {
    Count nanoseconds = 0, cycles = 0;
    unsigned processor = 0;
#ifndef ON_HOST
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds)::"memory");
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(cycles)::"memory");
    asm volatile("mov.u32 %0, %%smid;" : "=r"(processor)::"memory");
#endif
    out[0] = nanoseconds;
    out[1] = cycles;
    out[2] = processor;
}

// Keeps the stream busy for so long, so that what is enqueued behind it is there when it ends: a launch that arrives late
// would be timed as work.
extern "C" __global__ void hold(Count nanoseconds) {
#ifndef ON_HOST
    Count begin, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin)::"memory");
    do {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
    } while (now - begin < nanoseconds);
#endif
}
