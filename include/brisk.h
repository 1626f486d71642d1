/* brisk.h: tensors and autograd in C that are fast as written.
 *
 * Conventions, the same for every function:
 *   - Arguments are borrowed, results are owned: release each with bk_release, or open a scope
 *     (bk_scope_push ... bk_scope_pop) and let it release everything made inside.
 *   - A constructor that fails returns NULL and leaves a message in bk_error(). A NULL argument makes the
 *     result NULL and keeps the first message, so a chain of calls is checked once, at its end.
 *   - Functions that return int return 0, or -1 on failure.
 *   - Nothing is computed when it is recorded: bk_item, bk_data, bk_eval and friends evaluate.
 *   - Names follow PyTorch; a trailing underscore writes in place and returns its (borrowed) argument.
 */
#ifndef BRISK_H
#define BRISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BK_VERSION "0.1.0"
#define BK_MAX_NDIM 8 /* dimensions a tensor may have */

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
    BK_CALLBACK_ERROR /* a callback failed and keeps its own error (a Python exception, say) */
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
BK_API void bk_manual_seed(uint64_t seed);

/* --- evaluation -------------------------------------------------------------------------------------------- */

BK_API int bk_sync(void);                /* evaluates everything recorded so far */
BK_API int bk_eval(const bk_tensor *t);  /* evaluates what t needs, and what else is recorded */
/* The address of the first element, evaluated; the memory stays at that address for the tensor's life. */
BK_API void *bk_data(bk_tensor *t);
BK_API double bk_item(const bk_tensor *t);
BK_API int64_t bk_item_int(const bk_tensor *t);
/* PyTorch's printed form; the caller frees it with bk_free. */
BK_API char *bk_to_string(const bk_tensor *t);
BK_API void bk_free(void *p);

#ifdef __cplusplus
}
#endif
#endif
