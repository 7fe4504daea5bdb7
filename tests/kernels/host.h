// CUDA's language on the CPU, as far as kernels/ speaks it: the threads of a block are fibers, so barriers and shuffles
// mean what they mean on a GPU. Blocks run one after the other. Put in front of a kernel's source by fake.cpp.

// Fibers jump between stacks, which a checked longjmp refuses.
#undef _FORTIFY_SOURCE
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <setjmp.h>
#include <tuple>
#include <ucontext.h>
#include <utility>
#include <vector>

#define ON_HOST
#define __CUDA_ARCH__ 0
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static
#define DYNAMIC_SHARED(type, name) type* name = reinterpret_cast<type*>(host_shared.data())

struct Dim { unsigned x = 1, y = 1, z = 1; };
static Dim threadIdx, blockIdx, blockDim, gridDim;
static std::vector<char> host_shared;

static inline unsigned __float_as_uint(float value) { unsigned bits; memcpy(&bits, &value, 4); return bits; }
static inline float __uint_as_float(unsigned bits) { float value; memcpy(&value, &bits, 4); return value; }
#define __expf expf
#define __logf logf
#define __cosf cosf
static inline float __fdividef(float a, float b) { return a / b; }
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline float atomicAdd(float* target, float more) { float old = *target; *target += more; return old; }
static inline int atomicMax(int* target, int more) { int old = *target; *target = std::max(old, more); return old; }
static inline unsigned atomicCAS(unsigned* target, unsigned expected, unsigned wanted) {
    unsigned old = *target;
    if (old == expected) *target = wanted;
    return old;
}
static inline float host_from_half(unsigned short bits) {
    int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
    float magnitude = exponent == 31 ? (mantissa ? NAN : INFINITY)
                      : exponent     ? ldexpf((float)(mantissa + 1024), exponent - 25)
                                     : ldexpf((float)mantissa, -24);
    return bits & 0x8000 ? -magnitude : magnitude;
}
static inline unsigned short host_to_half(float value) {
    unsigned short sign = std::signbit(value) ? 0x8000 : 0;
    float magnitude = fabsf(value);
    if (std::isnan(value)) return 0x7fff;
    if (magnitude >= 65520.0f) return sign | 0x7c00;
    int exponent;
    frexpf(magnitude, &exponent);
    exponent = magnitude == 0 ? -14 : std::max(exponent - 1, -14);
    unsigned steps = (unsigned)nearbyintf(ldexpf(magnitude, 10 - exponent));
    return sign | (unsigned short)(((exponent + 14) << 10) + steps);
}

enum State { RUNNING, AT_SHUFFLE, AT_BARRIER, DONE };
struct Fiber {
    ucontext_t context;
    jmp_buf place;
    bool started;
    State state;
    Dim thread;
    float offered;
};
static std::vector<Fiber> fibers;
static jmp_buf scheduler;
static size_t current;
static std::function<void()> host_body;

static void wait_as(State state) {
#ifndef BARRIERS
    fprintf(stderr, "a barrier in a source that is said to have none\n");
    abort();
#endif
    fibers[current].state = state;
    // A context would save the mask of signals by a system call each time.
    if (_setjmp(fibers[current].place) == 0) _longjmp(scheduler, 1);
    threadIdx = fibers[current].thread;
}
static inline void __syncthreads() { wait_as(AT_BARRIER); }
static inline float __shfl_xor_sync(unsigned mask, float value, int offset) {
    if (mask != 0xffffffffu) { fprintf(stderr, "a shuffle of part of a warp\n"); abort(); }
    size_t me = current;
    fibers[me].offered = value;
    wait_as(AT_SHUFFLE);
    float taken = fibers[me ^ offset].offered;
    // Nobody offers anew before all have taken.
    wait_as(AT_SHUFFLE);
    return taken;
}
static void fiber_main() {
    host_body();
    fibers[current].state = DONE;
    _longjmp(scheduler, 1);
}
static void resume() {
    if (_setjmp(scheduler) != 0) return;
    Fiber& fiber = fibers[current];
    if (fiber.started) _longjmp(fiber.place, 1);
    fiber.started = true;
    setcontext(&fiber.context);
}

static void run_block(unsigned threads) {
#ifndef BARRIERS
    // Threads that never wait for each other need no fibers, which are a hundred times as slow.
    for (unsigned at = 0; at < threads; ++at) {
        threadIdx = {at % blockDim.x, at / blockDim.x, 0};
        host_body();
    }
    return;
#endif
    static std::vector<char> stacks;
    const size_t stack = 32 << 10;
    if (stacks.size() < threads * stack) stacks.resize(threads * stack);
    fibers.resize(threads);
    for (unsigned at = 0; at < threads; ++at) {
        Fiber& fiber = fibers[at];
        getcontext(&fiber.context);
        fiber.context.uc_stack.ss_sp = stacks.data() + at * stack;
        fiber.context.uc_stack.ss_size = stack;
        fiber.context.uc_link = nullptr;
        fiber.state = RUNNING;
        fiber.started = false;
        fiber.thread = {at % blockDim.x, at / blockDim.x, 0};
        makecontext(&fiber.context, fiber_main, 0);
    }
    for (;;) {
        bool ran = false, left = false;
        for (current = 0; current < threads; ++current) {
            if (fibers[current].state != RUNNING) continue;
            ran = true;
            threadIdx = fibers[current].thread;
            resume();
        }
        for (unsigned warp = 0; warp < threads; warp += 32) {
            unsigned waiting = 0, end = std::min(warp + 32, threads);
            for (unsigned at = warp; at < end; ++at) waiting += fibers[at].state == AT_SHUFFLE;
            if (waiting == 32)
                for (unsigned at = warp; at < end; ++at) fibers[at].state = RUNNING, ran = true;
        }
        bool all = true;
        for (Fiber& fiber : fibers) {
            left |= fiber.state != DONE;
            all &= fiber.state == AT_BARRIER || fiber.state == DONE;
        }
        if (!left) return;
        if (all) {
            for (Fiber& fiber : fibers)
                if (fiber.state == AT_BARRIER) fiber.state = RUNNING;
        } else if (!ran) {
            fprintf(stderr, "a barrier or shuffle that part of a block never reaches\n");
            abort();
        }
    }
}

// A launch with its arguments copied, as a driver copies them; whoever runs it may do so later and again.
template <typename... Arguments, size_t... At>
static auto copied(void (*)(Arguments...), void** parameters, std::index_sequence<At...>) {
    return std::tuple<Arguments...>(*static_cast<Arguments*>(parameters[At])...);
}
template <typename... Arguments>
static std::function<void()>* host_bind(void (*kernel)(Arguments...), void** parameters, const unsigned* shape) {
    auto values = copied(kernel, parameters, std::index_sequence_for<Arguments...>());
    unsigned blocks = shape[0], x = shape[1], y = shape[2], shared = shape[3];
    return new std::function<void()>([=] {
        host_body = [=] { std::apply(kernel, values); };
        gridDim.x = blocks;
        blockDim = {x, y, 1};
        host_shared.assign(shared, '\xff');
        for (unsigned block = 0; block < blocks; ++block) {
            blockIdx.x = block;
            run_block(x * y);
        }
    });
}
