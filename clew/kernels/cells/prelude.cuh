// Machine-level operations of a walk: numbers of 2 or 4 bytes as 32-bit words, products of 16 x 8 tiles on tensor cores, and reads that wait for
// other blocks.
#pragma once

typedef unsigned int u32;
typedef unsigned short u16;

// The content of memory before a block writes it: all bits set, a NaN that no arithmetic produces.
#define UNWRITTEN 0xffffffffu
#define LONGEST_WAIT (1u << 28)

#define THREAD ((int)threadIdx.x)
#define BLOCK ((int)blockIdx.x)
#define INSIDE __device__ __forceinline__
#define SHARED_MEMORY extern __shared__ float shared[];
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#endif

INSIDE Words read_words(const void *from) {
    Words w;
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(w.at[0]), "=r"(w.at[1]), "=r"(w.at[2]), "=r"(w.at[3]) : "l"(from) : "memory");
    return w;
}

INSIDE u32 read_word(const void *from) {
    u32 w;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(w) : "l"(from) : "memory");
    return w;
}

INSIDE void write_word(void *to, u32 w) { asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(to), "r"(w) : "memory"); }

// Keeps the compiler from hoisting computations on w out of a loop.
INSIDE void unknown(u32 &w) { asm volatile("" : "+r"(w)); }

INSIDE void write_words(void *to, const Words &w) {
    asm volatile("st.relaxed.gpu.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(w.at[0]), "r"(w.at[1]), "r"(w.at[2]), "r"(w.at[3]) : "memory");
}

// Prefetches into the cache that all blocks share.
INSIDE void fetch(const void *from) { asm volatile("prefetch.global.L2 [%0];" ::"l"(from)); }

INSIDE void give_up() { __trap(); }

INSIDE float shuffled(float x, int across) { return __shfl_xor_sync(0xffffffffu, x, across); }

INSIDE u32 shuffled(u32 x, int across) { return __shfl_xor_sync(0xffffffffu, x, across); }

INSIDE void wait_for_block() { __syncthreads(); }

INSIDE void wait_for_warp() { __syncwarp(); }

INSIDE float as_float(u32 x) { return __uint_as_float(x); }

INSIDE u32 as_word(float x) { return __float_as_uint(x); }

#if NUMBER_KIND == 0  // float32

INSIDE void add_tile(float (&c)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

INSIDE float sigmoid(float x) { return 1.0f / (1.0f + __expf(-x)); }

INSIDE float tangent(float x) {
    // The series near 0, where the difference of exponentials loses digits.
    const float square = x * x, e = __expf(-2.0f * fabsf(x));
    const float series = x * (1.0f + square * (-1.0f / 3.0f + square * (2.0f / 15.0f - square * (17.0f / 315.0f))));
    const float ratio = __fdividef(1.0f - e, 1.0f + e);
    return square < 0.04f ? series : copysignf(ratio, x);
}

#else

#if NUMBER_KIND == 1
#define TILE_TYPE "bf16"
#else
#define TILE_TYPE "f16"
#endif

INSIDE void add_tile(float (&c)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32." TILE_TYPE "." TILE_TYPE ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

INSIDE u16 to_half(float x) {
    u16 half;
#if NUMBER_KIND == 1
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(half) : "f"(x));
#else
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(x));
#endif
    return half;
}

INSIDE float from_half(u16 half) {
#if NUMBER_KIND == 1
    return __uint_as_float((u32)half << 16);
#else
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(half));
    return x;
#endif
}

INSIDE float tangent(float x) {
    float y;
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

INSIDE float sigmoid(float x) { return 0.5f * tangent(0.5f * x) + 0.5f; }

#endif
