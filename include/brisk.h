/* brisk.h: tensors and autograd in C that are fast as written.
 *
 * Conventions, the same for every function:
 *   - Arguments are borrowed, results are owned: release each with bk_release, or open a scope
 *     (bk_scope_push ... bk_scope_pop) and let it release everything made inside.
 *   - A constructor that fails returns NULL and leaves a message in bk_error(). A NULL argument makes the
 *     result NULL and keeps the first message, so a chain of calls is checked once, at its end.
 *   - Functions that return int return 0, or -1 on failure.
 *   - Nothing is computed when it is recorded: bk_item, bk_data, bk_eval and friends evaluate.
 *   - Names follow PyTorch; a trailing underscore writes in place.
 */
#ifndef BRISK_H
#define BRISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BK_VERSION  "0.1.0"
#define BK_MAX_NDIM 32 /* dimensions a tensor may have */

#if defined(__GNUC__)
#define BK_API __attribute__((visibility("default")))
#else
#define BK_API
#endif

typedef struct bk_tensor bk_tensor;

typedef enum bk_dtype {
    BK_FLOAT32,
    BK_FLOAT64,
    BK_FLOAT16,
    BK_BFLOAT16,
    BK_INT64,
    BK_INT32,
    BK_INT16,
    BK_INT8,
    BK_UINT8,
    BK_BOOL,
    BK_DTYPE_COUNT
} bk_dtype;

/* What went wrong, as the Python exception a front end raises for it. */
typedef enum bk_error_kind {
    BK_OK,
    BK_RUNTIME_ERROR,
    BK_TYPE_ERROR,
    BK_VALUE_ERROR,
    BK_INDEX_ERROR,
    BK_MEMORY_ERROR,
    BK_NOT_IMPLEMENTED,
    BK_LINALG_ERROR,   /* a matrix that is singular or not positive-definite */
    BK_CALLBACK_ERROR, /* a callback failed and keeps its own error (a Python exception, say) */
    BK_INTERRUPTED     /* bk_interrupt was called */
} bk_error_kind;

/* The calling thread's last error; NULL when there is none. */
BK_API const char *bk_error(void);
BK_API bk_error_kind bk_error_code(void);
BK_API void bk_error_clear(void);

/* --- life -------------------------------------------------------------------------------------------------- */

BK_API bk_tensor *bk_retain(bk_tensor *t);
BK_API void bk_release(bk_tensor *t);
BK_API void bk_scope_push(void);
BK_API void bk_scope_pop(void);
/* Takes t out of the innermost scope, so that it outlives the scope's end. */
BK_API bk_tensor *bk_scope_keep(bk_tensor *t);

/* --- what a tensor is -------------------------------------------------------------------------------------- */

BK_API int bk_ndim(const bk_tensor *t);
BK_API const int64_t *bk_sizes(const bk_tensor *t);
BK_API const int64_t *bk_strides(const bk_tensor *t); /* in elements */
BK_API int64_t bk_numel(const bk_tensor *t);
BK_API bk_dtype bk_dtype_of(const bk_tensor *t);
BK_API const char *bk_dtype_name(bk_dtype dtype);
BK_API size_t bk_dtype_size(bk_dtype dtype);
BK_API bool bk_is_contiguous(const bk_tensor *t);

/* --- settings ---------------------------------------------------------------------------------------------- */

BK_API const char *bk_isa(void); /* "baseline", "avx2" or "avx512" */
BK_API int bk_get_num_threads(void);
BK_API int bk_set_num_threads(int n);
BK_API bk_dtype bk_get_default_dtype(void);
BK_API int bk_set_default_dtype(bk_dtype dtype);

/* --- evaluation -------------------------------------------------------------------------------------------- */

BK_API int bk_sync(void);               /* evaluates everything recorded so far */
BK_API int bk_eval(const bk_tensor *t); /* evaluates what t needs, and what else is recorded */
/* Evaluates, and forgets how: what comes is planned anew. For who measures first calls. */
BK_API int bk_forget_plans(void);
/* For signal handlers: the evaluation under way, if any, stops between two of its steps and fails with BK_INTERRUPTED.
 * It keeps its place: whoever next needs a value, or records, goes on from there, and nothing is done twice. */
BK_API void bk_interrupt(void);
/* The address of the first element, evaluated; the memory stays at that address for the tensor's life. */
BK_API void *bk_data(bk_tensor *t);
BK_API double bk_item(const bk_tensor *t);
BK_API int64_t bk_item_int(const bk_tensor *t);
/* PyTorch's printed form; the caller frees it with bk_free. */
BK_API char *bk_to_string(const bk_tensor *t);
BK_API void bk_free(void *p);

/* --- making tensors ------------------------------------------------------------------------------------------ */

BK_API bk_tensor *bk_empty(int ndim, const int64_t *sizes, bk_dtype dtype);
BK_API bk_tensor *bk_zeros(int ndim, const int64_t *sizes, bk_dtype dtype);
BK_API bk_tensor *bk_ones(int ndim, const int64_t *sizes, bk_dtype dtype);
BK_API bk_tensor *bk_full(int ndim, const int64_t *sizes, double value, bk_dtype dtype);
BK_API bk_tensor *bk_full_int(int ndim, const int64_t *sizes, int64_t value, bk_dtype dtype);
BK_API bk_tensor *bk_empty_strided(int ndim, const int64_t *sizes, const int64_t *strides, bk_dtype dtype);
BK_API bk_tensor *bk_empty_like(const bk_tensor *t, bk_dtype dtype);
BK_API bk_tensor *bk_full_like(const bk_tensor *t, double value, bk_dtype dtype);
BK_API bk_tensor *bk_zeros_like(const bk_tensor *t);
BK_API bk_tensor *bk_ones_like(const bk_tensor *t);
BK_API bk_tensor *bk_scalar(double value, bk_dtype dtype);
/* A copy of row-major memory. */
BK_API bk_tensor *bk_from_data(const void *data, int ndim, const int64_t *sizes, bk_dtype dtype);
/* Memory of somebody else's: reads see what it holds at the time, writes go to it. release(owner) is called when the
 * last tensor on it is gone. Strides in elements, NULL for row-major. */
BK_API bk_tensor *bk_from_memory(void *data, int ndim, const int64_t *sizes, const int64_t *strides, bk_dtype dtype,
                                 void (*release)(void *owner), void *owner);

/* start, start + step, ... below end; bk_range includes end. */
BK_API bk_tensor *bk_arange(double start, double end, double step, bk_dtype dtype);
BK_API bk_tensor *bk_arange_int(int64_t start, int64_t end, int64_t step, bk_dtype dtype);
BK_API bk_tensor *bk_range(double start, double end, double step, bk_dtype dtype);
BK_API bk_tensor *bk_linspace(double start, double end, int64_t steps, bk_dtype dtype);
BK_API bk_tensor *bk_logspace(double start, double end, int64_t steps, double base, bk_dtype dtype);
BK_API bk_tensor *bk_eye(int64_t rows, int64_t columns, bk_dtype dtype);
/* out[k] (owned) is tensor k along dimension k of the grid; xy swaps the first two dimensions. */
BK_API int bk_meshgrid(bk_tensor *const *tensors, int count, bool xy, bk_tensor **out);
/* The elements on and below (above) the diagonal; 0 elsewhere. */
BK_API bk_tensor *bk_tril(const bk_tensor *t, int64_t diagonal);
BK_API bk_tensor *bk_triu(const bk_tensor *t, int64_t diagonal);
BK_API bk_tensor *bk_tril_indices(int64_t rows, int64_t columns, int64_t offset, bk_dtype dtype);
BK_API bk_tensor *bk_triu_indices(int64_t rows, int64_t columns, int64_t offset, bk_dtype dtype);

/* --- random numbers: those of PyTorch for the same seed ---------------------------------------------------------- */

typedef struct bk_generator bk_generator; /* NULL stands for the default one everywhere */
enum { BK_GENERATOR_STATE_BYTES = 5056 };
BK_API bk_generator *bk_generator_new(void);
BK_API void bk_generator_free(bk_generator *g);
BK_API void bk_generator_manual_seed(bk_generator *g, uint64_t seed);
BK_API uint64_t bk_generator_seed(bk_generator *g); /* a seed that nobody can foresee, which it returns */
BK_API uint64_t bk_generator_initial_seed(bk_generator *g);
BK_API void bk_generator_get_state(bk_generator *g, void *bytes); /* PyTorch's bytes */
BK_API int bk_generator_set_state(bk_generator *g, const void *bytes, int64_t count);
BK_API void bk_manual_seed(uint64_t seed);

BK_API bk_tensor *bk_rand(int ndim, const int64_t *sizes, bk_dtype dtype, bk_generator *g);
BK_API bk_tensor *bk_randn(int ndim, const int64_t *sizes, bk_dtype dtype, bk_generator *g);
BK_API bk_tensor *bk_randint(int64_t lo, int64_t hi, int ndim, const int64_t *sizes, bk_dtype dtype, bk_generator *g);
BK_API bk_tensor *bk_randperm(int64_t n, bk_dtype dtype, bk_generator *g);
/* Either may be NULL: the mean is then 0, the standard deviation 1. */
BK_API bk_tensor *bk_normal(const bk_tensor *mean, const bk_tensor *std, bk_generator *g);
BK_API bk_tensor *bk_bernoulli(const bk_tensor *p, bk_generator *g);
BK_API bk_tensor *bk_poisson(const bk_tensor *rate, bk_generator *g);
BK_API bk_tensor *bk_binomial(const bk_tensor *count, const bk_tensor *p, bk_generator *g); /* of equal sizes */
BK_API bk_tensor *bk_standard_gamma(const bk_tensor *alpha, bk_generator *g);
/* How each x moves with alpha while its place in the distribution stays: the gradient of a draw. */
BK_API bk_tensor *bk_standard_gamma_grad(const bk_tensor *alpha, const bk_tensor *x);
BK_API bk_tensor *bk_multinomial(const bk_tensor *weights, int64_t samples, bool replacement, bk_generator *g);
BK_API int bk_uniform_(bk_tensor *t, double lo, double hi, bk_generator *g);
BK_API int bk_normal_(bk_tensor *t, double mean, double std, bk_generator *g);
BK_API int bk_log_normal_(bk_tensor *t, double mean, double std, bk_generator *g);
BK_API int bk_exponential_(bk_tensor *t, double lambda, bk_generator *g);
BK_API int bk_cauchy_(bk_tensor *t, double median, double sigma, bk_generator *g);
BK_API int bk_geometric_(bk_tensor *t, double p, bk_generator *g);
BK_API int bk_random_(bk_tensor *t, bk_generator *g); /* over the range of the dtype */
BK_API int bk_random_range_(bk_tensor *t, int64_t lo, int64_t hi, bk_generator *g);
BK_API int bk_bernoulli_(bk_tensor *t, double p, bk_generator *g);
BK_API int bk_bernoulli_tensor_(bk_tensor *t, const bk_tensor *p, bk_generator *g);
/* Drops with probability p and scales what is kept: single elements or whole features, to 0 or to SELU's lower limit.
 */
typedef enum bk_dropout_kind { BK_DROPOUT = 0, BK_DROPOUT_FEATURES = 1, BK_DROPOUT_ALPHA = 2 } bk_dropout_kind;
BK_API bk_tensor *bk_dropout(const bk_tensor *x, double p, bool train, bk_dropout_kind kind);
BK_API int bk_dropout_(bk_tensor *x, double p, bool train, bk_dropout_kind kind);

/* --- elementwise: one function per row of the op table ---------------------------------------------------------- */

/* bk_add(x, y), bk_tanh(x), bk_where(x, y, z) ...; bk_add_s(x, 2.0) takes a number as the last operand. */
#define UNARY(name, ...) BK_API bk_tensor *bk_##name(const bk_tensor *x);
#define BINARY(name, ...)                                                                                              \
    BK_API bk_tensor *bk_##name(const bk_tensor *x, const bk_tensor *y);                                               \
    BK_API bk_tensor *bk_##name##_s(const bk_tensor *x, double y);
#define TERNARY(name, ...) BK_API bk_tensor *bk_##name(const bk_tensor *x, const bk_tensor *y, const bk_tensor *z);
#include "brisk/ops.def"
#undef UNARY
#undef BINARY
#undef TERNARY
BK_API bk_tensor *bk_addcmul(const bk_tensor *x, const bk_tensor *a, const bk_tensor *b,
                             double value); /* x + value a b */
BK_API bk_tensor *bk_addcdiv(const bk_tensor *x, const bk_tensor *a, const bk_tensor *b, double value);
BK_API bk_tensor *bk_clamp_s(const bk_tensor *x, double lo, double hi);
BK_API bk_tensor *bk_isclose(const bk_tensor *x, const bk_tensor *y, double rtol, double atol, bool equal_nan);
BK_API int bk_allclose(const bk_tensor *x, const bk_tensor *y, double rtol, double atol, bool equal_nan, bool *out);
BK_API int bk_equal(const bk_tensor *x, const bk_tensor *y, bool *out); /* same sizes, same elements */
BK_API bk_tensor *bk_sinc(const bk_tensor *x);
BK_API bk_tensor *bk_deg2rad(const bk_tensor *x);
BK_API bk_tensor *bk_rad2deg(const bk_tensor *x);
BK_API bk_tensor *bk_polygamma(int64_t n, const bk_tensor *x);
BK_API bk_tensor *bk_to(const bk_tensor *t, bk_dtype dtype);
BK_API bk_tensor *bk_clone(const bk_tensor *t);

/* --- activations that take parameters ----------------------------------------------------------------------------- */

BK_API bk_tensor *bk_hardtanh(const bk_tensor *x, double lo, double hi);
BK_API bk_tensor *bk_threshold(const bk_tensor *x, double threshold, double value);
BK_API bk_tensor *bk_hardshrink(const bk_tensor *x, double lambda);
BK_API bk_tensor *bk_softshrink(const bk_tensor *x, double lambda);
BK_API bk_tensor *bk_tanhshrink(const bk_tensor *x);
BK_API bk_tensor *bk_prelu(const bk_tensor *x, const bk_tensor *weight);
BK_API bk_tensor *bk_glu(const bk_tensor *x, int dim);

/* --- writing in place -------------------------------------------------------------------------------------------- */

BK_API int bk_copy_(bk_tensor *t, const bk_tensor *from);
BK_API int bk_fill_(bk_tensor *t, double value);
BK_API int bk_zero_(bk_tensor *t);
/* out takes the result's elements, and its sizes if they differ, in its memory if that has room: PyTorch's out=. */
BK_API int bk_copy_out(bk_tensor *out, const bk_tensor *result);
/* t becomes a handle on the memory of `from`: PyTorch's t.data = from. */
BK_API int bk_set_data(bk_tensor *t, const bk_tensor *from);

/* --- shapes: views of the same memory where PyTorch gives views --------------------------------------------------- */

BK_API bk_tensor *bk_as_strided(const bk_tensor *t, int ndim, const int64_t *sizes, const int64_t *strides,
                                int64_t offset);
BK_API bk_tensor *bk_select(const bk_tensor *t, int dim, int64_t index);
BK_API bk_tensor *bk_slice(const bk_tensor *t, int dim, int64_t start, int64_t end, int64_t step);
BK_API bk_tensor *bk_transpose(const bk_tensor *t, int dim0, int dim1);
BK_API bk_tensor *bk_permute(const bk_tensor *t, int ndim, const int *dims);
BK_API bk_tensor *bk_expand(const bk_tensor *t, int ndim, const int64_t *sizes);
BK_API bk_tensor *bk_view(const bk_tensor *t, int ndim, const int64_t *sizes);
BK_API bk_tensor *bk_reshape(const bk_tensor *t, int ndim, const int64_t *sizes);
BK_API bk_tensor *bk_squeeze(const bk_tensor *t, int dim);
BK_API bk_tensor *bk_unsqueeze(const bk_tensor *t, int dim);
BK_API bk_tensor *bk_contiguous(const bk_tensor *t);
BK_API bk_tensor *bk_detach(const bk_tensor *t);
BK_API int bk_detach_(bk_tensor *t); /* takes t itself off the tape */
BK_API bk_tensor *bk_cat(bk_tensor *const *tensors, int count, int dim);
BK_API bk_tensor *bk_stack(bk_tensor *const *tensors, int count, int dim);

BK_API bk_tensor *bk_squeeze_dims(const bk_tensor *t, int count, const int *dims);
BK_API bk_tensor *bk_flatten(const bk_tensor *t, int start_dim, int end_dim);
BK_API bk_tensor *bk_unflatten(const bk_tensor *t, int dim, int count, const int64_t *sizes);
BK_API bk_tensor *bk_movedim(const bk_tensor *t, int count, const int *source, const int *destination);
BK_API bk_tensor *bk_t(const bk_tensor *t); /* the transpose of a matrix; fewer dimensions stay as they are */
BK_API bk_tensor *bk_narrow(const bk_tensor *t, int dim, int64_t start, int64_t length);
BK_API bk_tensor *bk_unfold(const bk_tensor *t, int dim, int64_t size, int64_t step);
BK_API bk_tensor *bk_diagonal(const bk_tensor *t, int64_t offset, int dim1, int dim2);
BK_API bk_tensor *bk_view_dtype(const bk_tensor *t, bk_dtype dtype); /* the same bytes */
BK_API int64_t bk_storage_offset(const bk_tensor *t);
/* Views one after the other along dim into out, which has room for as many as there are sizes. */
BK_API int bk_split_sizes(const bk_tensor *t, int count, const int64_t *sizes, int dim, bk_tensor **out);
BK_API int bk_unbind(const bk_tensor *t, int dim, bk_tensor **out);

/* Elements in another order or number: copies. */
BK_API bk_tensor *bk_flip(const bk_tensor *t, int count, const int *dims);
BK_API bk_tensor *bk_roll(const bk_tensor *t, int count, const int64_t *shifts, int dim_count, const int *dims);
BK_API bk_tensor *bk_rot90(const bk_tensor *t, int64_t k, int dim0, int dim1);
BK_API bk_tensor *bk_repeat(const bk_tensor *t, int count, const int64_t *repeats);
BK_API bk_tensor *bk_tile(const bk_tensor *t, int count, const int64_t *repeats);
/* dim == BK_MAX_NDIM: of the flattened tensor. repeats: one number, or one for each slice. */
BK_API bk_tensor *bk_repeat_interleave(const bk_tensor *t, const bk_tensor *repeats, int dim);
BK_API bk_tensor *bk_repeat_interleave_s(const bk_tensor *t, int64_t repeats, int dim);
BK_API bk_tensor *bk_diag(const bk_tensor *t, int64_t offset);
BK_API bk_tensor *bk_diag_embed(const bk_tensor *t, int64_t offset, int dim1, int dim2);
BK_API bk_tensor *bk_block_diag(bk_tensor *const *tensors, int count);

/* --- indexing --------------------------------------------------------------------------------------------------------
 */

typedef enum bk_index_kind {
    BK_INDEX_INT,   /* start */
    BK_INDEX_SLICE, /* start, stop, step */
    BK_INDEX_NONE,  /* a new dimension */
    BK_INDEX_ELLIPSIS,
    BK_INDEX_BOOL,  /* start */
    BK_INDEX_TENSOR /* integers, or a mask */
} bk_index_kind;

typedef struct bk_index {
    bk_index_kind kind;
    int64_t start, stop, step;
    const bk_tensor *tensor;
} bk_index;

/* t[items], t[items] = value: a view where all items are ints, slices, None and the ellipsis. */
BK_API bk_tensor *bk_index_get(const bk_tensor *t, const bk_index *items, int count);
BK_API int bk_index_set(bk_tensor *t, const bk_index *items, int count, const bk_tensor *value);
BK_API int bk_index_set_s(bk_tensor *t, const bk_index *items, int count, double value);
/* indices[k] == NULL: all of dimension k. */
BK_API bk_tensor *bk_index_put(const bk_tensor *t, bk_tensor *const *indices, int count, const bk_tensor *values,
                               bool accumulate);
BK_API int bk_index_put_(bk_tensor *t, bk_tensor *const *indices, int count, const bk_tensor *values, bool accumulate);

BK_API bk_tensor *bk_gather(const bk_tensor *t, int dim, const bk_tensor *index);
BK_API bk_tensor *bk_take_along_dim(const bk_tensor *t, const bk_tensor *index, int dim); /* BK_MAX_NDIM: flattened */
/* reduce: NULL, "add" or "multiply". */
BK_API bk_tensor *bk_scatter(const bk_tensor *t, int dim, const bk_tensor *index, const bk_tensor *src,
                             const char *reduce);
BK_API bk_tensor *bk_scatter_s(const bk_tensor *t, int dim, const bk_tensor *index, double value, const char *reduce);
BK_API int bk_scatter_(bk_tensor *t, int dim, const bk_tensor *index, const bk_tensor *src, const char *reduce);
BK_API int bk_scatter_s_(bk_tensor *t, int dim, const bk_tensor *index, double value, const char *reduce);
BK_API bk_tensor *bk_scatter_add(const bk_tensor *t, int dim, const bk_tensor *index, const bk_tensor *src);
BK_API int bk_scatter_add_(bk_tensor *t, int dim, const bk_tensor *index, const bk_tensor *src);
/* reduce: "sum", "prod", "mean", "amax" or "amin". */
BK_API bk_tensor *bk_scatter_reduce(const bk_tensor *t, int dim, const bk_tensor *index, const bk_tensor *src,
                                    const char *reduce, bool include_self);
BK_API int bk_scatter_reduce_(bk_tensor *t, int dim, const bk_tensor *index, const bk_tensor *src, const char *reduce,
                              bool include_self);
BK_API bk_tensor *bk_index_select(const bk_tensor *t, int dim, const bk_tensor *index);
BK_API bk_tensor *bk_embedding(const bk_tensor *weight, const bk_tensor *index);
BK_API bk_tensor *bk_index_add(const bk_tensor *t, int dim, const bk_tensor *index, const bk_tensor *source,
                               double alpha);
BK_API int bk_index_add_(bk_tensor *t, int dim, const bk_tensor *index, const bk_tensor *source, double alpha);
BK_API bk_tensor *bk_index_copy(const bk_tensor *t, int dim, const bk_tensor *index, const bk_tensor *source);
BK_API int bk_index_copy_(bk_tensor *t, int dim, const bk_tensor *index, const bk_tensor *source);
BK_API bk_tensor *bk_index_fill(const bk_tensor *t, int dim, const bk_tensor *index, double value);
BK_API int bk_index_fill_(bk_tensor *t, int dim, const bk_tensor *index, double value);
/* The value is a tensor without dimensions, which gets its gradient. */
BK_API bk_tensor *bk_index_fill_t(const bk_tensor *t, int dim, const bk_tensor *index, const bk_tensor *value);
BK_API int bk_index_fill_t_(bk_tensor *t, int dim, const bk_tensor *index, const bk_tensor *value);
BK_API bk_tensor *bk_take(const bk_tensor *t, const bk_tensor *index);
BK_API bk_tensor *bk_put(const bk_tensor *t, const bk_tensor *index, const bk_tensor *source, bool accumulate);
BK_API int bk_put_(bk_tensor *t, const bk_tensor *index, const bk_tensor *source, bool accumulate);

BK_API bk_tensor *bk_masked_fill(const bk_tensor *t, const bk_tensor *mask, double value);
BK_API bk_tensor *bk_masked_fill_t(const bk_tensor *t, const bk_tensor *mask, const bk_tensor *value);
BK_API int bk_masked_fill_(bk_tensor *t, const bk_tensor *mask, double value);
BK_API int bk_masked_fill_t_(bk_tensor *t, const bk_tensor *mask, const bk_tensor *value);
BK_API bk_tensor *bk_masked_select(const bk_tensor *t, const bk_tensor *mask);
BK_API bk_tensor *bk_masked_scatter(const bk_tensor *t, const bk_tensor *mask, const bk_tensor *source);
BK_API int bk_masked_scatter_(bk_tensor *t, const bk_tensor *mask, const bk_tensor *source);
/* The coordinates of flat indices: out has room for ndim of them. */
BK_API int bk_unravel_index(const bk_tensor *t, int ndim, const int64_t *sizes, bk_tensor **out);

/* --- reductions
 * --------------------------------------------------------------------------------------------------------- */

/* dims: a bit per dimension; 0 means all. */
BK_API int bk_dims_mask(const bk_tensor *t, int count, const int64_t *dims,
                        uint32_t *mask); /* negative: from the end */
BK_API bk_tensor *bk_sum(const bk_tensor *t, uint32_t dims, bool keepdim);
BK_API bk_tensor *bk_nansum(const bk_tensor *t, uint32_t dims, bool keepdim);
BK_API bk_tensor *bk_mean(const bk_tensor *t, uint32_t dims, bool keepdim);
BK_API bk_tensor *bk_nanmean(const bk_tensor *t, uint32_t dims, bool keepdim);
BK_API bk_tensor *bk_prod(const bk_tensor *t, uint32_t dims, bool keepdim);
BK_API bk_tensor *bk_var(const bk_tensor *t, uint32_t dims, double correction, bool keepdim);
BK_API bk_tensor *bk_std(const bk_tensor *t, uint32_t dims, double correction, bool keepdim);
BK_API bk_tensor *bk_norm(const bk_tensor *t, double p, uint32_t dims, bool keepdim);
BK_API bk_tensor *bk_dist(const bk_tensor *a, const bk_tensor *b, double p);
BK_API bk_tensor *bk_logsumexp(const bk_tensor *t, uint32_t dims, bool keepdim);
BK_API bk_tensor *bk_any(const bk_tensor *t, uint32_t dims, bool keepdim);
BK_API bk_tensor *bk_all(const bk_tensor *t, uint32_t dims, bool keepdim);
BK_API bk_tensor *bk_count_nonzero(const bk_tensor *t, uint32_t dims);
BK_API bk_tensor *bk_max(const bk_tensor *t);
BK_API bk_tensor *bk_min(const bk_tensor *t);
BK_API bk_tensor *bk_amax(const bk_tensor *t, uint32_t dims, bool keepdim);
BK_API bk_tensor *bk_amin(const bk_tensor *t, uint32_t dims, bool keepdim);
BK_API bk_tensor *bk_argmax(const bk_tensor *t, uint32_t dims, bool keepdim); /* one dimension, or all */
BK_API bk_tensor *bk_argmin(const bk_tensor *t, uint32_t dims, bool keepdim);
/* Functions with `indices` return values and set *indices (owned) to their places along dim; NULL: not wanted. */
BK_API bk_tensor *bk_max_dim(const bk_tensor *t, int dim, bool keepdim, bk_tensor **indices);
BK_API bk_tensor *bk_min_dim(const bk_tensor *t, int dim, bool keepdim, bk_tensor **indices);
BK_API bk_tensor *bk_trace(const bk_tensor *t);
BK_API bk_tensor *bk_cov(const bk_tensor *t, double correction);
BK_API bk_tensor *bk_corrcoef(const bk_tensor *t);

/* --- along one dimension
 * ---------------------------------------------------------------------------------------------- */

BK_API bk_tensor *bk_softmax(const bk_tensor *t, int dim);
BK_API bk_tensor *bk_log_softmax(const bk_tensor *t, int dim);
BK_API bk_tensor *bk_cumsum(const bk_tensor *t, int dim);
BK_API bk_tensor *bk_cumprod(const bk_tensor *t, int dim);
BK_API bk_tensor *bk_logcumsumexp(const bk_tensor *t, int dim);
BK_API bk_tensor *bk_cummax(const bk_tensor *t, int dim, bk_tensor **indices);
BK_API bk_tensor *bk_cummin(const bk_tensor *t, int dim, bk_tensor **indices);
BK_API bk_tensor *bk_diff(const bk_tensor *t, int64_t times, int dim);

/* --- orders and counts
 * -------------------------------------------------------------------------------------------------- */

BK_API bk_tensor *bk_sort(const bk_tensor *t, int dim, bool descending, bk_tensor **indices); /* stable */
BK_API bk_tensor *bk_topk(const bk_tensor *t, int64_t k, int dim, bool largest, bool sorted, bk_tensor **indices);
BK_API bk_tensor *bk_kthvalue(const bk_tensor *t, int64_t k, int dim, bool keepdim, bk_tensor **indices);
BK_API bk_tensor *bk_median(const bk_tensor *t);
BK_API bk_tensor *bk_median_dim(const bk_tensor *t, int dim, bool keepdim, bk_tensor **indices);
BK_API bk_tensor *bk_nanmedian(const bk_tensor *t);
BK_API bk_tensor *bk_nanmedian_dim(const bk_tensor *t, int dim, bool keepdim, bk_tensor **indices);
BK_API bk_tensor *bk_mode(const bk_tensor *t, int dim, bool keepdim, bk_tensor **indices);
typedef enum bk_quantile_rule {
    BK_QUANTILE_LINEAR,
    BK_QUANTILE_LOWER,
    BK_QUANTILE_HIGHER,
    BK_QUANTILE_MIDPOINT,
    BK_QUANTILE_NEAREST
} bk_quantile_rule;
/* q: 0-d or 1-d, of t's dtype; dim == BK_MAX_NDIM: over all elements. */
BK_API bk_tensor *bk_quantile(const bk_tensor *t, const bk_tensor *q, int dim, bool keepdim, bk_quantile_rule rule);
BK_API bk_tensor *bk_nanquantile(const bk_tensor *t, const bk_tensor *q, int dim, bool keepdim, bk_quantile_rule rule);
/* The values that occur, ascending, or (consecutive) one of each run. inverse and counts (owned) may be NULL. */
BK_API bk_tensor *bk_unique(const bk_tensor *t, bool consecutive, bk_tensor **inverse, bk_tensor **counts);
/* The same of the slices along dim, in lexicographic order. */
BK_API bk_tensor *bk_unique_dim(const bk_tensor *t, int dim, bool consecutive, bk_tensor **inverse, bk_tensor **counts);
BK_API bk_tensor *bk_bincount(const bk_tensor *t, const bk_tensor *weights,
                              int64_t minlength);                                      /* weights may be NULL */
BK_API bk_tensor *bk_histc(const bk_tensor *t, int64_t bins, double low, double high); /* low == high: of t */
BK_API bk_tensor *bk_searchsorted(const bk_tensor *sorted, const bk_tensor *values, bool right);
BK_API bk_tensor *bk_isin(const bk_tensor *t, const bk_tensor *among, bool invert);
BK_API bk_tensor *bk_nonzero(const bk_tensor *t); /* [count, ndim] */

/* --- products
 * ----------------------------------------------------------------------------------------------------------- */

BK_API bk_tensor *bk_matmul(const bk_tensor *a, const bk_tensor *b);
BK_API bk_tensor *bk_mm(const bk_tensor *a, const bk_tensor *b);
BK_API bk_tensor *bk_bmm(const bk_tensor *a, const bk_tensor *b);
BK_API bk_tensor *bk_mv(const bk_tensor *a, const bk_tensor *b);
BK_API bk_tensor *bk_dot(const bk_tensor *a, const bk_tensor *b);
BK_API bk_tensor *bk_inner(const bk_tensor *a, const bk_tensor *b);
BK_API bk_tensor *bk_outer(const bk_tensor *a, const bk_tensor *b);
/* beta input + alpha a b; with beta == 0 the input is not read. */
BK_API bk_tensor *bk_addmm(const bk_tensor *input, const bk_tensor *a, const bk_tensor *b, double beta, double alpha);
BK_API bk_tensor *bk_addmv(const bk_tensor *input, const bk_tensor *a, const bk_tensor *b, double beta, double alpha);
BK_API bk_tensor *bk_addr(const bk_tensor *input, const bk_tensor *a, const bk_tensor *b, double beta, double alpha);
BK_API bk_tensor *bk_addbmm(const bk_tensor *input, const bk_tensor *a, const bk_tensor *b, double beta, double alpha);
BK_API bk_tensor *bk_baddbmm(const bk_tensor *input, const bk_tensor *a, const bk_tensor *b, double beta, double alpha);
/* x weight^T + bias; bias may be NULL. */
BK_API bk_tensor *bk_linear(const bk_tensor *x, const bk_tensor *weight, const bk_tensor *bias);
BK_API bk_tensor *bk_multi_dot(bk_tensor *const *tensors, int count); /* in the cheapest order */
BK_API bk_tensor *bk_chain_matmul(bk_tensor *const *matrices, int count);
BK_API bk_tensor *bk_matrix_power(const bk_tensor *t, int64_t n);
/* Sums over count pairs of dimensions, dims_a[i] of a with dims_b[i] of b. */
BK_API bk_tensor *bk_tensordot(const bk_tensor *a, const bk_tensor *b, int count, const int *dims_a, const int *dims_b);
/* Distances between the rows of a and those of b. mode: 0 by a product for p == 2 where there are many rows, 1 always,
 * 2 never. */
BK_API bk_tensor *bk_cdist(const bk_tensor *a, const bk_tensor *b, double p, int mode);
BK_API bk_tensor *bk_kron(const bk_tensor *a, const bk_tensor *b);
/* "ij,jk->ik" and the like; letters, repeated letters, "...", spaces. */
BK_API bk_tensor *bk_einsum(const char *equation, bk_tensor *const *tensors, int count);

/* --- linear algebra: matrices in the last two dimensions, batches of them before; float32 and float64 ---------------
 */

/* x with A x = b, or (left == false) x A = b; b may be a vector. check: a singular matrix is an error
 * (BK_LINALG_ERROR), which evaluates; without it the result has infinities or NaN. */
BK_API bk_tensor *bk_solve(const bk_tensor *a, const bk_tensor *b, bool left, bool check);
BK_API bk_tensor *bk_inverse(const bk_tensor *a, bool check);
/* Only one triangle of t is read; unit: its diagonal is taken to be 1. */
BK_API bk_tensor *bk_solve_triangular(const bk_tensor *t, const bk_tensor *b, bool upper, bool left, bool unit);
/* L below the diagonal, U on and above it; *pivots (owned, int32, from 1): which row was exchanged with row k. */
BK_API bk_tensor *bk_lu_factor(const bk_tensor *a, bk_tensor **pivots);
BK_API bk_tensor *bk_lu_solve(const bk_tensor *lu, const bk_tensor *pivots, const bk_tensor *b, bool left,
                              bool transposed);
BK_API bk_tensor *bk_det(const bk_tensor *a);
BK_API bk_tensor *bk_slogdet(const bk_tensor *a, bk_tensor **logabsdet); /* the sign */
/* L L^T = A, or (upper) U^T U = A, of which one triangle is read. check: as above, of a matrix that is not
 * positive-definite; without it the diagonal is NaN from the minor on that is not. */
BK_API bk_tensor *bk_cholesky(const bk_tensor *a, bool upper, bool check);
BK_API bk_tensor *bk_cholesky_solve(const bk_tensor *b, const bk_tensor *l, bool upper);
/* Q, and R in *r (owned). Reduced: Q has as many columns as the shorter side of A; complete: it is square. */
typedef enum bk_qr_mode { BK_QR_REDUCED, BK_QR_COMPLETE, BK_QR_R } bk_qr_mode;
BK_API bk_tensor *bk_qr(const bk_tensor *a, bk_qr_mode mode, bk_tensor **r);

/* --- files -------------------------------------------------------------------------------------------------------- */

/* Tensors by name, in the order in which they were set first. */
typedef struct bk_tensors bk_tensors;
BK_API bk_tensors *bk_tensors_new(void);
BK_API void bk_tensors_free(bk_tensors *m);
BK_API int bk_tensors_set(bk_tensors *m, const char *name, bk_tensor *t); /* keeps a reference */
BK_API bk_tensor *bk_tensors_get(const bk_tensors *m, const char *name);  /* borrowed */
BK_API int64_t bk_tensors_count(const bk_tensors *m);
BK_API const char *bk_tensors_name(const bk_tensors *m, int64_t i);
BK_API bk_tensor *bk_tensors_at(const bk_tensors *m, int64_t i); /* borrowed */

/* Every save is atomic: the file is the old one or the complete new one, whatever happens. No load runs anything that
 * a file says, and the memory it takes is in proportion to the file. */

/* PyTorch's checkpoints: what torch.load reads and torch.save writes. Tensors that share memory share it in the file
 * and after loading. Of nested dicts the names are joined by dots; what is no tensor is left out. */
BK_API int bk_save(const char *path, const bk_tensors *m);
BK_API bk_tensors *bk_load(const char *path);
BK_API int bk_save_safetensors(const char *path, const bk_tensors *m);
BK_API bk_tensors *bk_load_safetensors(const char *path);
/* NumPy's: one array, or several by name. Compressed archives are not read. */
BK_API int bk_save_npy(const char *path, const bk_tensor *t);
BK_API bk_tensor *bk_load_npy(const char *path);
BK_API int bk_save_npz(const char *path, const bk_tensors *m);
BK_API bk_tensors *bk_load_npz(const char *path);

/* --- layers: weights and biases may be NULL ----------------------------------------------------------------------- */

/* Over the last `count` dimensions, which have the given sizes. */
BK_API bk_tensor *bk_layer_norm(const bk_tensor *x, int count, const int64_t *sizes, const bk_tensor *weight,
                                const bk_tensor *bias, double eps);
BK_API bk_tensor *bk_rms_norm(const bk_tensor *x, int count, const int64_t *sizes, const bk_tensor *weight, double eps);
BK_API bk_tensor *bk_group_norm(const bk_tensor *x, int64_t groups, const bk_tensor *weight, const bk_tensor *bias,
                                double eps);
/* By the statistics of the input, which move the running ones (where given), or by the running ones. */
BK_API bk_tensor *bk_batch_norm(const bk_tensor *x, bk_tensor *running_mean, bk_tensor *running_var,
                                const bk_tensor *weight, const bk_tensor *bias, bool training, double momentum,
                                double eps);
BK_API bk_tensor *bk_instance_norm(const bk_tensor *x, bk_tensor *running_mean, bk_tensor *running_var,
                                   const bk_tensor *weight, const bk_tensor *bias, bool use_input_stats,
                                   double momentum, double eps);

/* pads: before and after, the last dimension first; negative ones cut off. */
BK_API bk_tensor *bk_pad(const bk_tensor *x, int pairs, const int64_t *pads, double value);
/* x: (N, C, spatial...) or without N; weight: (O, C / groups, kernel...) with one to three spatial dimensions, for each
 * of which there is a stride, a padding and a dilation. */
BK_API bk_tensor *bk_conv(const bk_tensor *x, const bk_tensor *weight, const bk_tensor *bias, const int64_t *stride,
                          const int64_t *padding, const int64_t *dilation, int64_t groups);
/* weight: (C, O / groups, kernel...) */
BK_API bk_tensor *bk_conv_transpose(const bk_tensor *x, const bk_tensor *weight, const bk_tensor *bias,
                                    const int64_t *stride, const int64_t *padding, const int64_t *output_padding,
                                    int64_t groups, const int64_t *dilation);

typedef enum bk_rnn_kind { BK_RNN_TANH, BK_RNN_RELU, BK_LSTM, BK_GRU } bk_rnn_kind;
typedef struct bk_rnn_weights {
    const bk_tensor *input, *hidden; /* (gates * hidden, features), gates in PyTorch's order */
    const bk_tensor *input_bias, *hidden_bias;
    const bk_tensor *projection; /* an LSTM's, from its cells to its state */
} bk_rnn_weights;
/* The next state of x: (N, features), h: (N, hidden); an LSTM reads c and sets *c_out (owned). */
BK_API bk_tensor *bk_rnn_step(bk_rnn_kind kind, const bk_tensor *x, const bk_tensor *h, const bk_tensor *c,
                              const bk_rnn_weights *w, bk_tensor **c_out);
/* One direction of one layer. x: the rows of all steps, batch_sizes[t] of them at step t, never more than before.
 * Returns the states after each step in the same order, and the last ones in *h_n and (LSTM) *c_n (owned). */
BK_API bk_tensor *bk_rnn_layer(bk_rnn_kind kind, const bk_tensor *x, const int64_t *batch_sizes, int steps,
                               const bk_tensor *h0, const bk_tensor *c0, const bk_rnn_weights *w, bool reverse,
                               bk_tensor **h_n, bk_tensor **c_n);

/* softmax(q k^T scale + mask) v. mask: bool (true: attend) or added; scale NaN: 1 / sqrt of the last size of q. */
BK_API bk_tensor *bk_attention(const bk_tensor *q, const bk_tensor *k, const bk_tensor *v, const bk_tensor *mask,
                               double dropout_p, bool causal, double scale);

/* Initial values of a weight (outputs, inputs, places of a kernel...), whose spread keeps that of what passes through:
 * between inputs and outputs (Xavier), or by one of them (Kaiming). gain: 1 for linear layers, sqrt(2) for ReLU. */
BK_API int bk_xavier_uniform_(bk_tensor *t, double gain, bk_generator *g);
BK_API int bk_xavier_normal_(bk_tensor *t, double gain, bk_generator *g);
BK_API int bk_kaiming_uniform_(bk_tensor *t, double gain, bool fan_out, bk_generator *g);
BK_API int bk_kaiming_normal_(bk_tensor *t, double gain, bool fan_out, bk_generator *g);
/* An orthogonal matrix along the shorter side of t, seen as (first dimension, all others), times gain. */
BK_API int bk_orthogonal_(bk_tensor *t, double gain, bk_generator *g);

/* --- losses ---------------------------------------------------------------------------------------------------------
 */

/* What becomes of the losses of the elements (of the samples, where there are classes). */
typedef enum bk_reduction { BK_REDUCE_NONE, BK_REDUCE_MEAN, BK_REDUCE_SUM } bk_reduction;
BK_API bk_tensor *bk_mse_loss(const bk_tensor *x, const bk_tensor *target, bk_reduction reduction);
BK_API bk_tensor *bk_l1_loss(const bk_tensor *x, const bk_tensor *target, bk_reduction reduction);
/* Quadratic below beta (delta), linear above. */
BK_API bk_tensor *bk_smooth_l1_loss(const bk_tensor *x, const bk_tensor *target, double beta, bk_reduction reduction);
BK_API bk_tensor *bk_huber_loss(const bk_tensor *x, const bk_tensor *target, double delta, bk_reduction reduction);
/* x: (C), (N, C) or (N, C, ...), target: one class fewer dimensions than x; weight: (C) or NULL. A target of
 * ignore_index costs nothing and does not count for the mean. */
BK_API bk_tensor *bk_nll_loss(const bk_tensor *x, const bk_tensor *target, const bk_tensor *weight,
                              int64_t ignore_index, bk_reduction reduction);
/* Of unnormalised scores; a target of x's sizes holds the probabilities of the classes. */
BK_API bk_tensor *bk_cross_entropy(const bk_tensor *x, const bk_tensor *target, const bk_tensor *weight,
                                   int64_t ignore_index, double label_smoothing, bk_reduction reduction);
/* Of probabilities, and of their logits; weight and pos_weight may be NULL. */
BK_API bk_tensor *bk_binary_cross_entropy(const bk_tensor *x, const bk_tensor *target, const bk_tensor *weight,
                                          bk_reduction reduction);
BK_API bk_tensor *bk_binary_cross_entropy_with_logits(const bk_tensor *x, const bk_tensor *target,
                                                      const bk_tensor *weight, const bk_tensor *pos_weight,
                                                      bk_reduction reduction);

/* --- optimisers --------------------------------------------------------------------------------------------------- */

/* A step moves every parameter that has a gradient, and is recorded like any other op. State starts as zeros: a step
 * makes the tensors that it needs (owned by the struct). */
typedef struct bk_sgd_options {
    double lr, momentum, dampening, weight_decay;
    bool nesterov, maximize;
} bk_sgd_options;
BK_API int bk_sgd_step(bk_tensor *const *params, bk_tensor **momentum, int count, const bk_sgd_options *options);

typedef struct bk_adam_options {
    double lr, beta1, beta2, eps, weight_decay;
    bool decoupled; /* the weight decay is AdamW's */
    bool amsgrad, maximize;
} bk_adam_options;
typedef struct bk_adam_state {
    double steps;
    bk_tensor *mean, *square, *largest; /* largest: amsgrad's */
} bk_adam_state;
BK_API int bk_adam_step(bk_tensor *const *params, bk_adam_state *states, int count, const bk_adam_options *options);
BK_API void bk_adam_state_release(bk_adam_state *states, int count);

typedef struct bk_rmsprop_options {
    double lr, alpha, eps, weight_decay, momentum;
    bool centered, maximize;
} bk_rmsprop_options;
typedef struct bk_rmsprop_state {
    bk_tensor *square, *mean, *momentum; /* mean: of a centered one */
} bk_rmsprop_state;
BK_API int bk_rmsprop_step(bk_tensor *const *params, bk_rmsprop_state *states, int count,
                           const bk_rmsprop_options *options);
BK_API void bk_rmsprop_state_release(bk_rmsprop_state *states, int count);

/* --- gradients ------------------------------------------------------------------------------------------------------
 */

BK_API bool bk_requires_grad(const bk_tensor *t);
BK_API int bk_set_requires_grad(bk_tensor *t, bool on);
BK_API bool bk_is_leaf(const bk_tensor *t);
BK_API bool bk_set_grad_enabled(bool on); /* returns what it was */
BK_API bool bk_grad_enabled(void);
BK_API bk_tensor *bk_grad_of(const bk_tensor *t); /* borrowed; NULL when there is none */
BK_API int bk_set_grad(bk_tensor *t, bk_tensor *grad);
/* The gradients of outputs (each weighted by gradients[i]; NULL: ones) by inputs, in results (owned; NULL where an
 * input was not used). No leaf takes any. */
BK_API int bk_grad(bk_tensor *const *outputs, bk_tensor *const *gradients, int output_count, bk_tensor *const *inputs,
                   int input_count, bool retain_graph, bool create_graph, bk_tensor **results);
BK_API int bk_retain_grad(bk_tensor *t); /* t keeps its gradient although it is no leaf */
BK_API bool bk_retains_grad(const bk_tensor *t);
/* Adds the gradients of t to the leaves it was computed from, and evaluates them. gradient == NULL: ones, for a
 * one-element t. */
BK_API int bk_backward(bk_tensor *t, const bk_tensor *gradient, bool retain_graph, bool create_graph);

/* A function of the user's own: its values are computed without a tape, and bk_function_apply puts them on it. backward
 * gets the gradients of the outputs (NULL: zero), sets those of the inputs (owned, of their sizes; NULL: none) and
 * returns 0, or -1 with the error set. It records, and is called once in a pass. `free` is called with data at the end.
 */
typedef struct bk_function {
    const char *name;
    int (*backward)(void *data, bk_tensor *const *output_grads, int outputs, bk_tensor **input_grads, int inputs);
    void (*free)(void *data);
    void *data;
} bk_function;
/* Puts outputs, computed without a tape from inputs, on the tape by fn. An output that is one of the inputs is replaced
 * by a new handle; the references in outputs[] are the caller's before and after. */
BK_API int bk_function_apply(const bk_function *fn, bk_tensor *const *inputs, int input_count, bk_tensor **outputs,
                             int output_count);

#ifdef __cplusplus
}
#endif
#endif
