// A cell's step over a whole sequence, forwards and backwards, with one launch each. The recurrent weights stay in registers.
//
//     products_t = W fed_{t-1},    new states, y_t = step(inputs_t, products_t, states)            forwards
//     errors_t = step's derivatives,    error of fed_{t-1} = W^T errors of products_t + direct    backwards, from the last step
//
// A block has UNITS units of ROWS rows of the batch; BLOCKS blocks share those rows, and groups of rows are independent. The warps of a block
// divide the depth of a product, each with its part of W in registers, and read the output of other blocks as soon as it is written: memory is
// filled with UNWRITTEN before the launch, so that a value is also the signal that it is ready, and no step needs a barrier between blocks. All
// blocks of a launch must be on the GPU together (a cooperative launch).
//
// `step.h` is generated from the traced step: sizes, parameters, and what a unit computes.
#include "step.h"

#include "prelude.cuh"

#define WARP (THREAD / 32)
#define LANE (THREAD % 32)
#define ROW_OF_LANE (LANE / 4)
#define PART_OF_LANE (LANE % 4)
#define PADDED (BLOCKS * UNITS)
#define TO_LANE (16 / NUMBER_BYTES)  // depth entries that a lane reads at once
#define CHUNK (4 * TO_LANE)          // depth entries of one warp product
#define PER ((UNITS * ROWS + WORKERS - 1) / WORKERS)
#define COUNT_CHUNKS(depth) (((depth) + CHUNK * WARPS - 1) / (CHUNK * WARPS))
#define COUNT_TILES(rows) (((rows) + 15) / 16)
#define SUMS_WIDTH(rows) (COUNT_TILES(rows) * 16 + 4)  // 4 more, so that lanes write to different banks

// Two 2-byte numbers are always written as one word.
INSIDE bool is_there(u32 w) { return w != UNWRITTEN; }

INSIDE bool is_there(const Words &w) { return is_there(w.at[0]) && is_there(w.at[1]) && is_there(w.at[2]) && is_there(w.at[3]); }

// Replaces a number that equals UNWRITTEN by another NaN.
INSIDE u32 written(u32 w) { return w == UNWRITTEN ? 0x7fffffffu : w; }

// Adds the product of a 16 x CHUNK part of W and CHUNK entries of 8 rows of `from`. IS_HALF: 8 rows of the part of W are 0.
template <bool IS_HALF>
INSIDE void add_chunk(float (&total)[4], const u32 (&held)[8], const Words &x) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
        u32 a0 = held[2 * half], a1 = IS_HALF ? 0 : held[4 + 2 * half], a2 = held[2 * half + 1], a3 = IS_HALF ? 0 : held[5 + 2 * half];
        const u32 b0 = x.at[2 * half], b1 = x.at[2 * half + 1];
#if NUMBER_KIND == 0 && !ROUND_PRODUCTS
        // Three products of 11-bit parts give 22 bits; an infinite number gives NaN. Split here at every step: both parts would not fit into registers.
        unknown(a0), unknown(a2);
        if (!IS_HALF) unknown(a1), unknown(a3);
        const u32 high = 0xffffe000u;
#define REST(w) as_word(as_float(w) - as_float((w) & high))
        add_tile(total, REST(a0), REST(a1), REST(a2), REST(a3), b0 & high, b1 & high);
        add_tile(total, a0 & high, a1 & high, a2 & high, a3 & high, REST(b0), REST(b1));
        add_tile(total, a0 & high, a1 & high, a2 & high, a3 & high, b0 & high, b1 & high);
#undef REST
#else
        add_tile(total, a0, a1, a2, a3, b0, b1);
#endif
    }
}

// Reads this warp's part of COUNT rows of W, where row i is row_of(i); the rest of a tile is 0.
template <int COUNT, int TILES, int CHUNKS, typename RowOf>
INSIDE void hold(u32 (&held)[TILES][CHUNKS][8], const NUMBER *weight, i64 depth, RowOf row_of) {
#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
#pragma unroll
        for (int chunk = 0; chunk < CHUNKS; chunk++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const i64 k = (i64)(chunk * WARPS + WARP) * CHUNK + PART_OF_LANE * TO_LANE;
                Words w = {{0, 0, 0, 0}};
                if (tile * 16 + half * 8 < COUNT && k < depth)  // COUNT is a multiple of 8
                    w = *(const Words *)(weight + (i64)row_of(tile * 16 + half * 8 + ROW_OF_LANE) * depth + k);
#pragma unroll
                for (int i = 0; i < 4; i++) held[tile][chunk][4 * half + i] = w.at[i];
            }
}

// sums[row][m] = this warp's part of the sum over k of held[m][k] * from[row * stride + k]; `is_shared`: other blocks are still writing `from`.
template <bool IS_HALF, int TILES, int CHUNKS>
INSIDE void multiply(const u32 (&held)[TILES][CHUNKS][8], const NUMBER *from, i64 stride, int row0, int batch, i64 depth, bool is_shared, float *sums) {
    constexpr int WIDTH_OF_SUMS = TILES * 16 + 4;
    constexpr int READ_AHEAD = TILES * CHUNKS > 12 ? 4 : 8;  // chunks in flight, as registers allow
    constexpr int CHAINS = TILES == 1 ? 4 : TILES == 2 ? 2 : 1;  // independent sums
#pragma unroll 1
    for (int n = 0; n < ROWS; n += 8) {
        const int row = row0 + n + ROW_OF_LANE;
        float total[TILES][CHAINS][4];
#pragma unroll
        for (int i = 0; i < TILES * CHAINS * 4; i++) total[i / (4 * CHAINS)][i / 4 % CHAINS][i % 4] = 0.0f;
#pragma unroll
        for (int first = 0; first < CHUNKS; first += READ_AHEAD) {
            Words x[READ_AHEAD];
            const NUMBER *places = from + (i64)row * stride + (i64)(first * WARPS + WARP) * CHUNK + PART_OF_LANE * TO_LANE;
            const i64 here = depth - ((i64)(first * WARPS + WARP) * CHUNK + PART_OF_LANE * TO_LANE);
#pragma unroll
            for (int i = 0; i < READ_AHEAD; i++) {
                x[i] = Words{{0, 0, 0, 0}};
                if (first + i < CHUNKS && row < batch && (i64)i * WARPS * CHUNK < here) x[i] = read_words(places + i * WARPS * CHUNK);
            }
            if (is_shared) {
                u32 tries = 0;
                bool is_missing = true;
                while (is_missing) {
                    is_missing = false;
#pragma unroll
                    for (int i = 0; i < READ_AHEAD; i++)
                        if (first + i < CHUNKS && !is_there(x[i])) {
                            x[i] = read_words(places + i * WARPS * CHUNK);
                            is_missing = true;
                        }
                    if (++tries > LONGEST_WAIT) give_up();
                }
                wait_for_warp();
            }
#pragma unroll
            for (int i = 0; i < READ_AHEAD; i++)
                if (first + i < CHUNKS)
#pragma unroll
                    for (int tile = 0; tile < TILES; tile++) add_chunk<IS_HALF>(total[tile][i % CHAINS], held[tile][first + i], x[i]);
        }
#pragma unroll
        for (int tile = 0; tile < TILES; tile++) {
            float(&sum)[4] = total[tile][0];
#pragma unroll
            for (int chain = 1; chain < CHAINS; chain++)
#pragma unroll
                for (int i = 0; i < 4; i++) sum[i] += total[tile][chain][i];
            float *to = sums + (WARP * ROWS + n + 2 * PART_OF_LANE) * WIDTH_OF_SUMS + tile * 16 + ROW_OF_LANE;
            to[0] = sum[0];
            to[WIDTH_OF_SUMS] = sum[1];
            to[8] = sum[2];
            to[WIDTH_OF_SUMS + 8] = sum[3];
        }
    }
}

// Adds up the partial sums of all warps that `multiply` left for a row.
INSIDE float sum_of(const float *sums, int width, int row, int m) {
    float sum = 0.0f;
#pragma unroll
    for (int warp = 0; warp < WARPS; warp++) sum += sums[(warp * ROWS + row) * width + m];
    return sum;
}

// Prefetches memory that other blocks will soon write and read: a first access takes as long as a step.
INSIDE void expect(const NUMBER *row, bool is_row, int unit) {
    if (is_row && unit == 0) fetch(row);
}

// Writes a number for other blocks. The lanes of two units write one word together, so all lanes of a warp must call this.
INSIDE void publish(NUMBER *to, float x, bool is_row, int unit) {
#if NUMBER_KIND == 0
    if (is_row) write_word(to, written(as_word(x)));
#else
    const u32 own = to_half(x), other = shuffled(own, 1);
    if (is_row && unit % 2 == 0) write_word(to, written(own | other << 16));
#endif
}

INSIDE float total_of_units(float x) {
#pragma unroll
    for (int across = UNITS / 2; across > 0; across /= 2) x += shuffled(x, across);
    return x;
}

INSIDE float squared(float x) { return x * x; }

// Sends two numbers of this block's units, with their step, to the other blocks of the row. Steps alternate between two places: a block that
// sends for a step has read all numbers of the step before, so that nobody still reads those of two steps ago.
INSIDE void tell(Words *row, float first, float second, int t, bool is_row, int unit, int block) {
    const u32 step = t + 1;
    if (is_row && unit == 0) write_words(row + block, Words{{as_word(first), step, as_word(second), step}});
}

constexpr int SHARE = (BLOCKS + UNITS - 1) / UNITS;  // blocks whose numbers a lane reads

// Adds up the numbers of all blocks, 2 * PAIRS for each element's row. Every lane of a row's units reads a share of the blocks, and all reads
// are in flight together.
template <int PAIRS>
INSIDE void hear(float (&totals)[PER][2 * PAIRS], const Words *told, i64 batch, int t, int row0, const int (&row_of)[PER], const bool (&is_row)[PER], const int (&unit_of)[PER]) {
    Words w[PER][PAIRS][SHARE];
    u32 tries = 0;
#define PLACE_TOLD (told + (pair * batch + row0 + row_of[e]) * BLOCKS + unit_of[e] + i * UNITS)
#define OF_ALL_TOLD                                                     \
    _Pragma("unroll") for (int e = 0; e < PER; e++)                     \
        _Pragma("unroll") for (int pair = 0; pair < PAIRS; pair++)      \
            _Pragma("unroll") for (int i = 0; i < SHARE; i++)
    const u32 step = t + 1;
    // First one word per lane: many reads of words that are not there yet delay the blocks that write them.
    if (is_row[0] && unit_of[0] < BLOCKS) {
        constexpr int e = 0, pair = PAIRS - 1, i = 0;
        for (Words first = read_words(PLACE_TOLD); first.at[1] != step || first.at[3] != step; first = read_words(PLACE_TOLD))
            if (++tries > LONGEST_WAIT) give_up();
    }
    wait_for_warp();
    OF_ALL_TOLD w[e][pair][i] = is_row[e] && unit_of[e] + i * UNITS < BLOCKS ? read_words(PLACE_TOLD) : Words{{0, step, 0, step}};
    bool is_missing = true;
    while (is_missing) {
        is_missing = false;
        OF_ALL_TOLD if (w[e][pair][i].at[1] != step || w[e][pair][i].at[3] != step) {
            w[e][pair][i] = read_words(PLACE_TOLD);
            is_missing = true;
        }
        if (++tries > LONGEST_WAIT) give_up();
    }
    wait_for_warp();
#pragma unroll
    for (int e = 0; e < PER; e++)
#pragma unroll
        for (int number = 0; number < 2 * PAIRS; number++) {
            float sum = 0.0f;
#pragma unroll
            for (int i = 0; i < SHARE; i++) sum += as_float(w[e][number / 2][i].at[number % 2 * 2]);
            totals[e][number] = total_of_units(sum);
        }
}

INSIDE float load(const float *from) { return *from; }

INSIDE void store(float *to, float x) { *to = x; }

#if NUMBER_KIND != 0
INSIDE float load(const NUMBER *from) { return from_half(*from); }

INSIDE void store(NUMBER *to, float x) { *to = to_half(x); }
#endif

#define EARLY 4  // steps
#define OF_EVERY_ELEMENT _Pragma("unroll") for (int e = 0; e < PER; e++)

#define PLACES                                                                                              \
    int row_of[PER], unit_of[PER];                                                                          \
    bool is_row[PER], is_unit[PER];                                                                         \
    const bool is_working = THREAD < WORKERS;                                                               \
    OF_EVERY_ELEMENT {                                                                                      \
        const int id = THREAD % WORKERS + e * WORKERS;                                                      \
        row_of[e] = id / UNITS % ROWS;                                                                      \
        unit_of[e] = id % UNITS;                                                                            \
        is_row[e] = id < UNITS * ROWS && row0 + row_of[e] < batch;                                          \
        is_unit[e] = is_row[e] && unit0 + unit_of[e] < WIDTH;                                               \
    }
#define ROW (i64)(row0 + row_of[e])
#define UNIT (unit0 + unit_of[e])

extern "C" __global__ void __launch_bounds__(THREADS, 1) walk_forward(FORWARD_PARAMETERS) {
    SHARED_MEMORY
    constexpr int TILES = COUNT_TILES(PRODUCTS * UNITS), CHUNKS = COUNT_CHUNKS(PADDED), SUMS = SUMS_WIDTH(PRODUCTS * UNITS);
    const int block = BLOCK % BLOCKS, unit0 = block * UNITS, row0 = BLOCK / BLOCKS * ROWS;
    PLACES
    u32 held[TILES][CHUNKS][8];
    hold<PRODUCTS * UNITS>(held, weight, PADDED, [&](int m) { return m / UNITS * PADDED + unit0 + m % UNITS; });
#include "forward_start.h"
    for (int t = 0; t < length; t++) {
        float *sums = shared + t % 2 * (WARPS * ROWS * SUMS);
#include "forward_load.h"
        multiply<PRODUCTS * UNITS <= 8>(held, fed + (i64)t * PADDED, (i64)(length + 1) * PADDED, row0, batch, PADDED, t > 0, sums);
        wait_for_block();
        if (is_working) {
#include "forward_step.h"
        }
        if (PAIRS_OF_SUMS_AHEAD) wait_for_block();  // the other warps would read `fed` meanwhile, and delay the sums
    }
    if (is_working) {
#include "forward_end.h"
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) walk_backward(BACKWARD_PARAMETERS) {
    SHARED_MEMORY
    constexpr int TILES = COUNT_TILES(UNITS), CHUNKS = COUNT_CHUNKS(PRODUCTS * PADDED), SUMS = SUMS_WIDTH(UNITS);
    const int block = BLOCK % BLOCKS, unit0 = block * UNITS, row0 = BLOCK / BLOCKS * ROWS;
    PLACES
    u32 held[TILES][CHUNKS][8];
    hold<UNITS>(held, weight, (i64)PRODUCTS * PADDED, [&](int m) { return unit0 + m; });
#include "backward_start.h"
    for (int t = length - 1; t >= -1; t--) {
        float *sums = shared + (t + 2) % 2 * (WARPS * ROWS * SUMS);
        if (t >= 0) {
#include "backward_load.h"
        }
        if (t < length - 1) {
            multiply<UNITS <= 8>(held, errors + (i64)(t + 1) * PRODUCTS * PADDED, (i64)length * PRODUCTS * PADDED, row0, batch, (i64)PRODUCTS * PADDED, true, sums);
            wait_for_block();
            if (is_working) OF_EVERY_ELEMENT error_fed[e] += sum_of(sums, SUMS, row_of[e], unit_of[e]);
        }
        if (is_working && t >= 0) {
#include "backward_step.h"
        }
        if (PAIRS_OF_SUMS_BACK) wait_for_block();
    }
    if (is_working) {
#include "backward_end.h"
    }
}
