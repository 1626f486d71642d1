/* random.c: random tensors.
 *
 * The state of a generator is consumed when the call is made, so every number is drawn at once, into fresh memory.
 *
 * Invariant: numbers are drawn in the order in which PyTorch walks the tensor they are for: by its strides, the
 * smallest first. The fresh memory therefore has the tensor's packed layout (layout_packed), in which memory order is
 * that order, and the write that follows puts each number where it belongs. */
#include "core/random.h"

#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "autograd/slopeless.h"
#include "core/error.h"
#include "core/lock.h"
#include "core/memory.h"
#include "core/scope.h"
#include "ops/compose.h"
#include "ops/create.h"
#include "ops/elementwise.h"
#include "ops/read.h"

/* --- generators ---------------------------------------------------------------------------------------------- */

struct bk_generator {
    rng r;
};

static bk_generator the_generator;
static bool started;

static uint64_t unforeseen(void)
{
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof seed, 0) != sizeof seed) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        seed = (uint64_t)now.tv_nsec * 0x9E3779B97F4A7C15ull ^ (uint64_t)now.tv_sec;
    }
    return seed;
}

/* The caller holds the lock. */
static rng *words(bk_generator *g)
{
    if (g)
        return &g->r;
    if (!started)
        rng_seed(&the_generator.r, unforeseen());
    started = true;
    return &the_generator.r;
}

bk_generator *bk_generator_new(void)
{
    bk_generator *g = mem_alloc(sizeof *g);
    if (g)
        rng_seed(&g->r, 67280421310721ull); /* what PyTorch seeds a new generator with */
    return g;
}

void bk_generator_free(bk_generator *g) { mem_free(g); }

void bk_generator_manual_seed(bk_generator *g, uint64_t seed)
{
    lock_take();
    rng_seed(words(g), seed);
    lock_give();
}

uint64_t bk_generator_seed(bk_generator *g)
{
    uint64_t seed = unforeseen();
    bk_generator_manual_seed(g, seed);
    return seed;
}

uint64_t bk_generator_initial_seed(bk_generator *g)
{
    lock_take();
    uint64_t seed = words(g)->seed;
    lock_give();
    return seed;
}

void bk_generator_get_state(bk_generator *g, void *bytes)
{
    lock_take();
    rng_get_state(words(g), bytes);
    lock_give();
}

int bk_generator_set_state(bk_generator *g, const void *bytes, int64_t count)
{
    lock_take();
    int status = rng_set_state(words(g), bytes, count);
    lock_give();
    return status;
}

void bk_manual_seed(uint64_t seed) { bk_generator_manual_seed(NULL, seed); }

/* --- draws ---------------------------------------------------------------------------------------------------- */

/* One row of what can be drawn: a function over dense memory and its parameters. */
typedef struct draw draw;
struct draw {
    int (*fill)(const draw *d, rng *r, bk_dtype dtype, void *to, int64_t n);
    double a, b;
    int64_t lo, hi;
    bool contiguous;  /* of the tensor that is filled */
    const void *from; /* parameters by element, in the order of the draw */
    bk_dtype from_dtype;
};

static int fill_uniform(const draw *d, rng *r, bk_dtype t, void *to, int64_t n)
{
    return rng_uniform(r, t, to, n, d->a, d->b);
}
static int fill_normal(const draw *d, rng *r, bk_dtype t, void *to, int64_t n)
{
    return rng_normal(r, t, to, n, d->contiguous, d->a, d->b);
}
static int fill_log_normal(const draw *d, rng *r, bk_dtype t, void *to, int64_t n)
{
    return rng_log_normal(r, t, to, n, d->a, d->b);
}
static int fill_exponential(const draw *d, rng *r, bk_dtype t, void *to, int64_t n)
{
    return rng_exponential(r, t, to, n, d->a);
}
static int fill_cauchy(const draw *d, rng *r, bk_dtype t, void *to, int64_t n)
{
    return rng_cauchy(r, t, to, n, d->a, d->b);
}
static int fill_geometric(const draw *d, rng *r, bk_dtype t, void *to, int64_t n)
{
    return rng_geometric(r, t, to, n, d->a);
}
static int fill_random(const draw *d, rng *r, bk_dtype t, void *to, int64_t n)
{
    (void)d;
    return rng_random(r, t, to, n);
}
static int fill_bernoulli(const draw *d, rng *r, bk_dtype t, void *to, int64_t n)
{
    return rng_bernoulli_p(r, t, to, n, d->a);
}
static int fill_bernoulli_tensor(const draw *d, rng *r, bk_dtype t, void *to, int64_t n)
{
    return rng_bernoulli_tensor(r, d->from_dtype, d->from, t, to, n);
}
static int fill_poisson(const draw *d, rng *r, bk_dtype t, void *to, int64_t n)
{
    return rng_poisson(r, t, d->from, to, n);
}

static int fill_standard_gamma(const draw *d, rng *r, bk_dtype t, void *to, int64_t n)
{
    return rng_standard_gamma(r, t, d->from, to, n);
}
static int fill_binomial(const draw *d, rng *r, bk_dtype t, void *to, int64_t n)
{
    return rng_binomial(r, t, d->from, (const char *)d->from + n * (int64_t)dtype_size(t), to, n);
}

/* Both ends must be numbers of the dtype: a float has them up to 2^digits. */
static int check_bounds(bk_dtype dtype, int64_t lo, int64_t hi)
{
    static const struct {
        int64_t low, high;
        const char *name;
    } of[BK_DTYPE_COUNT] = {
        [BK_FLOAT32] = { INT64_MIN, INT64_MAX, "float" }, [BK_FLOAT64] = { INT64_MIN, INT64_MAX, "double" },
        [BK_FLOAT16] = { -65504, 65504, "c10::Half" },    [BK_BFLOAT16] = { INT64_MIN, INT64_MAX, "c10::BFloat16" },
        [BK_INT64] = { INT64_MIN, INT64_MAX, "long" },    [BK_INT32] = { INT32_MIN, INT32_MAX, "int" },
        [BK_INT16] = { INT16_MIN, INT16_MAX, "short" },   [BK_INT8] = { INT8_MIN, INT8_MAX, "signed char" },
        [BK_UINT8] = { 0, UINT8_MAX, "unsigned char" },   [BK_BOOL] = { 0, 1, "bool" },
    };
    if (lo < of[dtype].low || lo > of[dtype].high)
        return error_int(BK_RUNTIME_ERROR, "from is out of bounds for %s", of[dtype].name);
    if (hi != INT64_MIN && (hi - 1 < of[dtype].low || hi - 1 > of[dtype].high))
        return error_int(BK_RUNTIME_ERROR, "to - 1 is out of bounds for %s", of[dtype].name);
    return 0;
}

static int fill_randint(const draw *d, rng *r, bk_dtype t, void *to, int64_t n)
{
    bool ordered = d->lo < d->hi || d->hi == INT64_MIN;
    if (ordered && check_bounds(t, d->lo, d->hi) < 0)
        return -1;
    return rng_randint(r, t, to, n, d->lo, d->hi);
}

/* The numbers for a tensor of layout l, in its packed layout. The caller holds the lock. */
static node *drawn_node(draw d, const layout *l, bk_dtype dtype, bk_generator *g)
{
    const layout *packed = l ? layout_packed(l) : NULL;
    storage *s = packed ? storage_new((size_t)packed->numel * dtype_size(dtype)) : NULL;
    if (!s)
        return NULL;
    d.contiguous = l->contiguous;
    if (d.fill(&d, words(g), dtype, s->data, packed->numel) < 0) {
        storage_release(s);
        return NULL;
    }
    return node_data(dtype, packed, s, s->data);
}

static bk_tensor *drawn(draw d, int ndim, const int64_t *sizes, bk_dtype dtype, bk_generator *g)
{
    lock_take();
    const layout *l = checked_layout(ndim, sizes);
    bk_tensor *t = l ? tensor_from_node(drawn_node(d, l, dtype, g)) : NULL;
    lock_give();
    return t;
}

static int drawn_into(bk_tensor *t, draw d, bk_generator *g)
{
    if (!t)
        return -1;
    lock_take();
    int status = -1;
    node *n = tensor_check_write(t) == 0 ? drawn_node(d, t->layout, tensor_dtype(t), g) : NULL;
    if (n) {
        status = tensor_write(t, (operand){ .value = n }, false);
        node_release(n);
    }
    lock_give();
    return status;
}

bk_tensor *bk_rand(int ndim, const int64_t *sizes, bk_dtype dtype, bk_generator *g)
{
    return drawn((draw){ fill_uniform, .a = 0, .b = 1 }, ndim, sizes, dtype, g);
}

bk_tensor *bk_randn(int ndim, const int64_t *sizes, bk_dtype dtype, bk_generator *g)
{
    return drawn((draw){ fill_normal, .a = 0, .b = 1 }, ndim, sizes, dtype, g);
}

bk_tensor *bk_randint(int64_t lo, int64_t hi, int ndim, const int64_t *sizes, bk_dtype dtype, bk_generator *g)
{
    return drawn((draw){ fill_randint, .lo = lo, .hi = hi }, ndim, sizes, dtype, g);
}

int bk_uniform_(bk_tensor *t, double lo, double hi, bk_generator *g)
{
    return drawn_into(t, (draw){ fill_uniform, .a = lo, .b = hi }, g);
}

int bk_normal_(bk_tensor *t, double mean, double std, bk_generator *g)
{
    return drawn_into(t, (draw){ fill_normal, .a = mean, .b = std }, g);
}

int bk_log_normal_(bk_tensor *t, double mean, double std, bk_generator *g)
{
    return drawn_into(t, (draw){ fill_log_normal, .a = mean, .b = std }, g);
}

int bk_exponential_(bk_tensor *t, double lambda, bk_generator *g)
{
    return drawn_into(t, (draw){ fill_exponential, .a = lambda }, g);
}

int bk_cauchy_(bk_tensor *t, double median, double sigma, bk_generator *g)
{
    return drawn_into(t, (draw){ fill_cauchy, .a = median, .b = sigma }, g);
}

int bk_geometric_(bk_tensor *t, double p, bk_generator *g)
{
    return drawn_into(t, (draw){ fill_geometric, .a = p }, g);
}

int bk_random_(bk_tensor *t, bk_generator *g) { return drawn_into(t, (draw){ .fill = fill_random }, g); }

int bk_random_range_(bk_tensor *t, int64_t lo, int64_t hi, bk_generator *g)
{
    return drawn_into(t, (draw){ fill_randint, .lo = lo, .hi = hi }, g);
}

int bk_bernoulli_(bk_tensor *t, double p, bk_generator *g)
{
    return drawn_into(t, (draw){ fill_bernoulli, .a = p }, g);
}

/* --- draws with parameters by element ------------------------------------------------------------------------- */

/* The parameters repeated to the sizes of l and laid out as l is filled: evaluated, in the innermost scope. */
static const void *ordered(const bk_tensor *from, const layout *l)
{
    bk_tensor *wide = bk_expand(from, l->ndim, l->sizes);
    bk_tensor *dense = wide ? copy_as(wide, layout_packed(l), tensor_dtype(from)) : NULL;
    return dense ? tensor_data(dense) : NULL;
}

int bk_bernoulli_tensor_(bk_tensor *t, const bk_tensor *p, bk_generator *g)
{
    if (!t || !p)
        return -1;
    lock_take();
    bk_scope_push();
    draw d = { fill_bernoulli_tensor, .from = ordered(p, t->layout), .from_dtype = tensor_dtype(p) };
    int status = d.from ? drawn_into(t, d, g) : -1;
    bk_scope_pop();
    lock_give();
    return status;
}

/* A row-major tensor of the sizes of `from`, drawn by its elements. */
static bk_tensor *drawn_by(int (*fill)(const draw *, rng *, bk_dtype, void *, int64_t), const bk_tensor *from,
                           bk_generator *g)
{
    if (!from)
        return NULL;
    lock_take();
    bk_scope_push();
    const layout *plain = from->layout->plain;
    draw d = { fill, .from = ordered(from, plain), .from_dtype = tensor_dtype(from) };
    bk_tensor *t = d.from ? tensor_from_node(drawn_node(d, plain, tensor_dtype(from), g)) : NULL;
    t = scope_return(t);
    lock_give();
    return t;
}

bk_tensor *bk_bernoulli(const bk_tensor *p, bk_generator *g) { return drawn_by(fill_bernoulli_tensor, p, g); }
bk_tensor *bk_poisson(const bk_tensor *rate, bk_generator *g) { return drawn_by(fill_poisson, rate, g); }

bk_tensor *bk_standard_gamma(const bk_tensor *alpha, bk_generator *g)
{
    return drawn_by(fill_standard_gamma, alpha, g);
}

bk_tensor *bk_binomial(const bk_tensor *count, const bk_tensor *p, bk_generator *g)
{
    if (!count || !p)
        return NULL;
    if (tensor_dtype(count) != tensor_dtype(p))
        return error_null(BK_RUNTIME_ERROR, "expected scalar type %s but found %s",
                          dtypes[tensor_dtype(count)].type_name, dtypes[tensor_dtype(p)].type_name);
    lock_take();
    bk_scope_push();
    bk_tensor *both = bk_stack((bk_tensor *[]){ (bk_tensor *)count, (bk_tensor *)p }, 2, 0);
    draw d = { fill_binomial, .from = both ? ordered(both, both->layout) : NULL, .from_dtype = tensor_dtype(p) };
    bk_tensor *t = d.from ? tensor_from_node(drawn_node(d, count->layout->plain, tensor_dtype(p), g)) : NULL;
    t = slopeless_as(scope_return(t), "binomial", (const bk_tensor *[]){ count, p }, 2);
    lock_give();
    return t;
}

/* Over the elements as they are: both are evaluated. */
bk_tensor *bk_standard_gamma_grad(const bk_tensor *alpha, const bk_tensor *x)
{
    if (!alpha || !x)
        return NULL;
    lock_take();
    bk_scope_push();
    bk_tensor *a = bk_contiguous(bk_to(alpha, BK_FLOAT64)), *at = bk_contiguous(bk_to(x, BK_FLOAT64));
    bk_tensor *slopes = a && at && a->layout->plain == at->layout->plain ? bk_clone(at) : NULL;
    const double *from = slopes ? bk_data(a) : NULL;
    double *to = from ? bk_data(slopes) : NULL;
    for (int64_t i = 0; to && i < slopes->layout->numel; i++)
        to[i] = gamma_slope(from[i], to[i]);
    bk_tensor *t = scope_return(to ? bk_to(slopes, tensor_dtype(x)) : NULL);
    lock_give();
    return t;
}

static int check_deviations(const bk_tensor *std)
{
    const layout *l = std->layout;
    const char *p = ordered(std, l);
    if (!p)
        return -1;
    for (int64_t i = 0; i < l->numel; i++)
        if (dtype_load_double(tensor_dtype(std), p + i * (int64_t)dtype_size(tensor_dtype(std))) < 0)
            return error_int(BK_RUNTIME_ERROR, "normal expects all elements of std >= 0.0");
    return 0;
}

static bk_tensor *scaled_normal(const bk_tensor *mean, const bk_tensor *std, bk_generator *g)
{
    operand in[2];
    int count = 0;
    if ((mean && !tensor_read(mean, &in[count++])) || (std && !tensor_read(std, &in[count++])))
        return NULL;
    const layout *l = operands_broadcast(in, count);
    if (!l || (std && check_deviations(std) < 0))
        return NULL;
    bk_dtype dtype = (bk_dtype)in[0].value->dtype;
    bk_tensor *t = bk_randn(l->ndim, l->sizes, dtype, g);
    if (std)
        t = bk_to(bk_mul(t, std), dtype); /* which may be the wider one */
    return laid_as(mean && t ? bk_add(t, mean) : t, l);
}

bk_tensor *bk_normal(const bk_tensor *mean, const bk_tensor *std, bk_generator *g)
{
    if (!mean && !std)
        return NULL;
    bool grad = bk_set_grad_enabled(false); /* the numbers drawn do not depend on them smoothly, says PyTorch */
    lock_take();
    bk_scope_push();
    bk_tensor *t = scope_return(scaled_normal(mean, std, g));
    lock_give();
    bk_set_grad_enabled(grad);
    return t;
}

/* --- orders and choices ---------------------------------------------------------------------------------------- */

static int check_permutation(int64_t n, bk_dtype dtype)
{
    static const int64_t most[BK_DTYPE_COUNT] = { [BK_FLOAT32] = 1 << 24, [BK_FLOAT64] = (int64_t)1 << 53,
                                                  [BK_FLOAT16] = 1 << 11, [BK_BFLOAT16] = 1 << 8,
                                                  [BK_INT64] = INT64_MAX, [BK_INT32] = INT32_MAX,
                                                  [BK_INT16] = INT16_MAX, [BK_INT8] = INT8_MAX,
                                                  [BK_UINT8] = UINT8_MAX };
    if (dtype == BK_BOOL)
        return error_int(BK_NOT_IMPLEMENTED, "\"randperm\" not implemented for 'Bool'");
    if (n > most[dtype])
        return error_int(BK_RUNTIME_ERROR, "n is too large for result tensor type: '%s'", dtypes[dtype].name);
    return 0;
}

bk_tensor *bk_randperm(int64_t n, bk_dtype dtype, bk_generator *g)
{
    lock_take();
    bk_tensor *t = NULL;
    const layout *l = checked_layout(1, &n);
    storage *s = l && check_permutation(n, dtype) == 0 ? storage_new((size_t)n * sizeof(int64_t)) : NULL;
    if (s) {
        rng_randperm(words(g), (int64_t *)s->data, n);
        bk_scope_push();
        bk_tensor *order = tensor_adopt(s, l, BK_INT64);
        t = scope_return(order ? bk_to(order, dtype) : NULL);
    }
    lock_give();
    return t;
}

static bk_tensor *sample(const bk_tensor *weights, int64_t samples, bool replacement, bk_generator *g)
{
    const layout *l = weights->layout;
    if (l->ndim < 1 || l->ndim > 2)
        return error_null(BK_RUNTIME_ERROR, "prob_dist must be 1 or 2 dim");
    int64_t rows = l->ndim == 2 ? l->sizes[0] : 1, columns = l->sizes[l->ndim - 1];
    bk_tensor *dense = bk_contiguous(weights);
    const char *data = dense ? tensor_data(dense) : NULL;
    const layout *out = data ? layout_get(l->ndim,
                                          l->ndim == 2 ? (int64_t[]){ rows, samples < 0 ? 0 : samples }
                                                       : (int64_t[]){ samples < 0 ? 0 : samples },
                                          NULL)
                             : NULL;
    storage *s = out ? storage_new((size_t)out->numel * sizeof(int64_t)) : NULL;
    if (!s)
        return NULL;
    if (rng_multinomial(words(g), tensor_dtype(weights), data, rows, columns, samples, replacement,
                        (int64_t *)s->data) < 0) {
        storage_release(s);
        return NULL;
    }
    return tensor_adopt(s, out, BK_INT64);
}

bk_tensor *bk_multinomial(const bk_tensor *weights, int64_t samples, bool replacement, bk_generator *g)
{
    if (!weights)
        return NULL;
    lock_take();
    bk_scope_push();
    bk_tensor *t = scope_return(sample(weights, samples, replacement, g));
    lock_give();
    return t;
}
