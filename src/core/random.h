/* random.h: the random numbers of PyTorch's CPU generator: same seed, same numbers.
 *
 * The generator is MT19937. Each fill below draws from it exactly as many words, in exactly the order, as PyTorch
 * does, so that a program may mix any calls and stay in step. Data is dense and filled in memory order. */
#ifndef BK_CORE_RANDOM_H
#define BK_CORE_RANDOM_H
#include "core/dtype.h"

enum {
    RNG_WORDS = 624,
    RNG_STATE_BYTES = 5056, /* PyTorch's get_rng_state() */
};

typedef struct rng {
    uint32_t state[RNG_WORDS];
    int position; /* the next word of the state to hand out; RNG_WORDS: all are spent */
    bool fresh;   /* seeded and not drawn from since */
    bool has_next_normal;
    double next_normal; /* Box-Muller makes two at a time: the second one waits here, across calls */
    uint64_t seed;
} rng;

void rng_seed(rng *r, uint64_t seed); /* a negative seed as its two's complement */
uint32_t rng_u32(rng *r);
uint64_t rng_u64(rng *r); /* the first word drawn is the upper half */
/* The same words as n calls of rng_u32. */
void rng_fill_u32(rng *r, uint32_t *out, int64_t n);

/* The bytes of PyTorch's get_rng_state and set_rng_state: states may be swapped between the two. */
void rng_get_state(const rng *r, void *bytes);
int rng_set_state(rng *r, const void *bytes, int64_t count);

/* Each fills n elements of the dtype, or returns -1 with the error set and nothing drawn. */
int rng_uniform(rng *r, bk_dtype dtype, void *data, int64_t n, double lo, double hi);
/* `contiguous`: of the tensor that is filled. PyTorch draws by another rule for tensors that are not. */
int rng_normal(rng *r, bk_dtype dtype, void *data, int64_t n, bool contiguous, double mean, double std);
int rng_log_normal(rng *r, bk_dtype dtype, void *data, int64_t n, double mean, double std);
int rng_exponential(rng *r, bk_dtype dtype, void *data, int64_t n, double lambda);
int rng_cauchy(rng *r, bk_dtype dtype, void *data, int64_t n, double median, double sigma);
int rng_geometric(rng *r, bk_dtype dtype, void *data, int64_t n, double p);
/* Integers lo <= x < hi. hi == INT64_MIN stands for 2^63, and with lo == INT64_MIN for all 64-bit integers. */
int rng_randint(rng *r, bk_dtype dtype, void *data, int64_t n, int64_t lo, int64_t hi);
/* random_() without bounds: 0 to the largest value of an integer dtype, to 2^digits of a float dtype. */
int rng_random(rng *r, bk_dtype dtype, void *data, int64_t n);
int rng_bernoulli_p(rng *r, bk_dtype dtype, void *data, int64_t n, double p);
int rng_bernoulli_tensor(rng *r, bk_dtype p_dtype, const void *p, bk_dtype dtype, void *data, int64_t n);
/* One number at a time: uniform in [0, 1), and normal, of which two are made at once. */
double rng_next_u53(rng *r);
double rng_next_normal(rng *r);
/* variates.c: a number of the standard gamma distribution for each alpha, and how it moves with alpha. */
int rng_standard_gamma(rng *r, bk_dtype dtype, const void *alphas, void *data, int64_t n);
double gamma_slope(double alpha, double x);
/* The successes of each number of trials. */
int rng_binomial(rng *r, bk_dtype dtype, const void *counts, const void *probs, void *data, int64_t n);
/* A Poisson number for each rate. */
int rng_poisson(rng *r, bk_dtype dtype, const void *rates, void *data, int64_t n);
void rng_randperm(rng *r, int64_t *out, int64_t n);
/* For each row of weights (rows, columns), `samples` column indices: out is (rows, samples). */
int rng_multinomial(rng *r, bk_dtype dtype, const void *weights, int64_t rows, int64_t columns, int64_t samples,
                    bool replacement, int64_t *out);

#endif
