/* tensors.h: named tensors, in the order in which they were set; what every format reads and writes. */
#ifndef BK_FILES_TENSORS_H
#define BK_FILES_TENSORS_H
#include "core/tensor.h"
#include "files/io.h"

typedef struct named_tensor {
    char *name;
    bk_tensor *tensor;
} named_tensor;

struct bk_tensors {
    named_tensor *rows;
    size_t count, room;
    uint32_t *slots; /* a hash table of row numbers + 1, twice as large as there are rows */
    size_t slot_count;
};

/* A new row-major tensor for `fill` to read its memory into; an owned reference, whatever scope is open. NULL with the
 * error set; nothing is left over then. */
typedef int (*fill_fn)(void *context, void *memory, uint64_t bytes);
bk_tensor *tensor_filled(int ndim, const int64_t *sizes, bk_dtype dtype, fill_fn fill, void *context);

/* The bytes of t's elements in row-major order. The reference in *hold keeps them alive: released by the caller. NULL
 * with the error set. */
const void *tensor_row_major(const bk_tensor *t, bk_tensor **hold, uint64_t *bytes);

/* Steals t. */
int tensors_take(bk_tensors *m, const char *name, bk_tensor *t);

bk_tensors *tensors_from_path(const char *path, bk_tensors *(*load)(source in));

/* By source and sink, which are closed in any case. */
bk_tensors *torch_load(source in);
int torch_save(const bk_tensors *m, sink out);
bk_tensors *safetensors_load(source in);
/* metadata: key, value, key, value, ..., NULL; or NULL */
int safetensors_save(const bk_tensors *m, const char *const *metadata, sink out);
bk_tensor *npy_load(source in);
bk_tensors *npz_load(source in);

#endif
