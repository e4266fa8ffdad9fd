// `prelude.cuh` for a CPU: a thread of the system for each of the GPU's, lanes of a warp and warps of a block meeting at barriers.
#pragma once
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

typedef unsigned int u32;
typedef unsigned short u16;

#define UNWRITTEN 0xffffffffu
#define LONGEST_WAIT (1u << 20)

class Barrier {
    std::mutex mutex;
    std::condition_variable all;
    int count, waiting = 0, round = 0;

  public:
    explicit Barrier(int count) : count(count) {}
    void wait() {
        std::unique_lock<std::mutex> lock(mutex);
        const int mine = round;
        if (++waiting == count) {
            waiting = 0;
            round++;
            all.notify_all();
        } else
            all.wait(lock, [&] { return round != mine; });
    }
};

struct Warp {
    Barrier barrier{32};
    u32 told[32][6];
};

struct BlockOfThreads {
    Barrier barrier;
    std::vector<Warp> warps;
    std::vector<float> memory;
    BlockOfThreads(int threads, int bytes) : barrier(threads), warps(threads / 32), memory(bytes / 4) {}
};

static thread_local int thread_number, block_number;
static thread_local BlockOfThreads *own_block;

#define THREAD thread_number
#define BLOCK block_number
#define INSIDE static inline
#define SHARED_MEMORY float *shared = own_block->memory.data();
#define __global__
#define __launch_bounds__(threads, blocks)

INSIDE u32 read_word(const void *from) {
    const u32 w = __atomic_load_n((const u32 *)from, __ATOMIC_RELAXED);
    if (w == UNWRITTEN) std::this_thread::yield();
    return w;
}

INSIDE Words read_words(const void *from) {
    if ((size_t)from % 16) abort();
    Words w;
    for (int i = 3; i >= 0; i--) w.at[i] = __atomic_load_n((const u32 *)from + i, __ATOMIC_ACQUIRE);
    std::this_thread::yield();
    return w;
}

INSIDE void write_word(void *to, u32 w) { __atomic_store_n((u32 *)to, w, __ATOMIC_RELAXED); }

INSIDE void unknown(u32 &w) {}

INSIDE void write_words(void *to, const Words &w) {  // the second half later, as a machine might
    for (int i = 0; i < 4; i++) {
        __atomic_store_n((u32 *)to + i, w.at[i], __ATOMIC_RELEASE);
        if (i == 1) std::this_thread::yield();
    }
}

INSIDE void fetch(const void *) {}

INSIDE void give_up() { abort(); }

INSIDE void wait_for_block() { own_block->barrier.wait(); }

INSIDE Warp &own_warp() { return own_block->warps[THREAD / 32]; }

INSIDE void wait_for_warp() { own_warp().barrier.wait(); }

INSIDE u32 shuffled(u32 x, int across) {
    Warp &warp = own_warp();
    warp.told[THREAD % 32][0] = x;
    warp.barrier.wait();
    const u32 y = warp.told[(THREAD % 32) ^ across][0];
    warp.barrier.wait();
    return y;
}

INSIDE float as_float(u32 x) {
    float y;
    memcpy(&y, &x, 4);
    return y;
}

INSIDE u32 as_word(float x) {
    u32 y;
    memcpy(&y, &x, 4);
    return y;
}

INSIDE float shuffled(float x, int across) { return as_float(shuffled(as_word(x), across)); }

#if NUMBER_KIND == 0
constexpr int DEPTH = 8;

INSIDE float entry(u32 w, int) { return as_float(w & 0xffffe000u); }
#elif NUMBER_KIND == 1
constexpr int DEPTH = 16;

INSIDE u16 to_half(float x) {
    const u32 w = as_word(x);
    if (x != x) return 0x7fff;
    return (w + 0x7fff + (w >> 16 & 1)) >> 16;
}

INSIDE float from_half(u16 half) { return as_float((u32)half << 16); }

INSIDE float entry(u32 w, int half) { return from_half(half ? w >> 16 : w & 0xffff); }
#endif

// Entries (row, k) of A and (k, column) of B lie where mma.m16n8k16 has them, or mma.m16n8k8 for float32.
INSIDE void add_tile(float (&c)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
    Warp &warp = own_warp();
    const int lane = THREAD % 32;
    const u32 own[6] = {a0, a1, a2, a3, b0, b1};
    memcpy(warp.told[lane], own, sizeof own);
    warp.barrier.wait();
    const int packed = DEPTH / 8, quarter = DEPTH / 2;
    for (int i = 0; i < 4; i++) {
        const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
        double sum = c[i];
        for (int k = 0; k < DEPTH; k++) {
            const int part = k % quarter / packed, half = k % packed;
            const u32 a = warp.told[row % 8 * 4 + part][row / 8 + 2 * (k / quarter)], b = warp.told[column * 4 + part][4 + k / quarter];
            sum += (double)entry(a, half) * entry(b, half);
        }
        c[i] = (float)sum;
    }
    warp.barrier.wait();
}

INSIDE float tangent(float x) { return std::tanh(x); }

INSIDE float sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }

INSIDE float rsqrtf(float x) { return 1.0f / std::sqrt(x); }

template <typename Kernel>
void run(int blocks, int threads, int bytes, Kernel kernel) {
    std::vector<std::thread> all;
    std::vector<BlockOfThreads *> held;
    for (int b = 0; b < blocks; b++) held.push_back(new BlockOfThreads(threads, bytes));
    for (int b = 0; b < blocks; b++)
        for (int i = 0; i < threads; i++)
            all.emplace_back([=] {
                thread_number = i;
                block_number = b;
                own_block = held[b];
                kernel();
            });
    for (auto &each : all) each.join();
    for (auto *each : held) delete each;
}
