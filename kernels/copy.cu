// Bandwidth: copy and read, four wide accesses in flight per thread.

extern "C" __global__ void __launch_bounds__(512)
copy(const Element* __restrict__ x, Element* __restrict__ y, Count elements) {
    Count packs = elements / VECTOR, stride = pack_stride(), pack = first_pack();
    for (; pack + 3 * stride < packs; pack += 4 * stride) {
        Elements moved[4];
#pragma unroll
        for (int step = 0; step < 4; ++step) moved[step] = load<Elements>(x, pack + step * stride);
#pragma unroll
        for (int step = 0; step < 4; ++step) store(y, pack + step * stride, moved[step]);
    }
    for (; pack < packs; pack += stride) store(y, pack, load<Elements>(x, pack));
    Count rest = packs * VECTOR + first_pack();
    if (rest < elements) y[rest] = x[rest];
}

// Reads `words` of 32 bits, a multiple of four; the sink is written only by threads whose words cancel to this number,
// which the compiler cannot rule out.
extern "C" __global__ void __launch_bounds__(512)
read(const unsigned* __restrict__ x, unsigned* __restrict__ sink, Count words, unsigned number) {
    typedef Pack<unsigned, 4> Words;
    Count packs = words / 4, stride = pack_stride(), pack = first_pack();
    unsigned seen = 0;
    for (; pack + 3 * stride < packs; pack += 4 * stride) {
        Words moved[4];
#pragma unroll
        for (int step = 0; step < 4; ++step) moved[step] = load<Words>(x, pack + step * stride);
#pragma unroll
        for (int step = 0; step < 4; ++step)
            seen ^= moved[step].at[0] ^ moved[step].at[1] ^ moved[step].at[2] ^ moved[step].at[3];
    }
    for (; pack < packs; pack += stride) {
        Words moved = load<Words>(x, pack);
        seen ^= moved.at[0] ^ moved.at[1] ^ moved.at[2] ^ moved.at[3];
    }
    if (seen == number) sink[threadIdx.x] = seen;
}
