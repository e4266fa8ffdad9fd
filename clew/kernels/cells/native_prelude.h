// Functions of one number for the steps that `native_source` generates. A compiler can vectorise all of them: they have
// no branches, and call only sqrtf and fabsf of the library.
#include <math.h>
#include <string.h>

typedef long long i64;

// Rows are divided among threads where the compiler has the runtime that torch uses (see native.py).
#if defined(_OPENMP) && !defined(__clang__)
#include <omp.h>
#define THREAD omp_get_thread_num()
#define OF_ROWS _Pragma("omp parallel for num_threads(threads) schedule(static) if (threads > 1)")
#else
#define THREAD 0
#define OF_ROWS
#endif

#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

// The values of a node at step t: entry (t + first) mod count, of which a row begins every `row` numbers.
typedef struct {
    float *data;
    i64 step, row, first, count;
} Array;

static inline float *entry(const Array *array, i64 t) { return array->data + (t + array->first) % array->count * array->step; }

// 2^n / 2 and e^r - 1, where x = n log 2 + r and |r| <= log(2) / 2. The sum with 1.5 * 2^23 rounds to the nearest whole
// number and holds it in its low bits. The part of log 2 in `HIGH` has few bits, so that n * HIGH is exact.
#define HIGH 0.693145751953125f
#define LOW 1.42860682030941723212e-6f
static inline float half_power(float x, float *less_one) {
    const float rounded = x * 1.44269504088896341f + 12582912.0f, n = rounded - 12582912.0f;
    const float r = x - n * HIGH - n * LOW;
    const float series = 1.0f / 2 + r * (1.0f / 6 + r * (1.0f / 24 + r * (1.0f / 120 + r * (1.0f / 720 + r * (1.0f / 5040)))));
    unsigned int bits;
    float power;
    memcpy(&bits, &rounded, sizeof bits);
    bits = (bits + 126u) << 23;
    memcpy(&power, &bits, sizeof power);
    *less_one = r + r * r * series;
    return power;
}

static inline float exponential(float x) {
    float less_one;
    const float within = x > 88.7f ? 88.7f : x < -87.0f ? -87.0f : x, half = half_power(within, &less_one);
    const float y = 2.0f * (half * less_one + half);
    return x > 88.7228f ? INFINITY : x < -87.0f ? 0.0f : y;
}

static inline float sigmoid(float x) { return 1.0f / (1.0f + exponential(-x)); }

// With e = exp(2x) - 1, which keeps its digits near 0: tanh x = e / (e + 2).
static inline float tangent(float x) {
    const float twice = 2.0f * x, within = twice > 20.0f ? 20.0f : twice < -20.0f ? -20.0f : twice;
    float less_one;
    const float half = half_power(within, &less_one), e = 2.0f * half * less_one + (2.0f * half - 1.0f);
    return e / (e + 2.0f);
}

static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }

// The sum of n numbers, in 16 parts: a single running sum cannot be vectorised.
static inline float total(const float *x, i64 n) {
    float parts[16] = {0.0f}, sum = 0.0f;
    i64 i = 0;
    for (; i + 16 <= n; i += 16)
        for (int lane = 0; lane < 16; lane++) parts[lane] += x[i + lane];
    for (; i < n; i++) sum += x[i];
    for (int lane = 0; lane < 16; lane++) sum += parts[lane];
    return sum;
}

#define expf exponential
