/* dtype.h: what each element type is called, how large it is and how types combine.
 *
 * Kernels exist for four compute types; every dtype is loaded into one of them and stored back from it, rounded
 * (float16, bfloat16) or wrapped (the narrow integers) after each op, as if the op had been done in the dtype itself.
 */
#ifndef BK_CORE_DTYPE_H
#define BK_CORE_DTYPE_H
#include "brisk.h"

typedef enum compute_type { COMPUTE_F32, COMPUTE_F64, COMPUTE_I64, COMPUTE_BOOL, COMPUTE_COUNT } compute_type;

typedef enum dtype_category { CATEGORY_BOOL, CATEGORY_INT, CATEGORY_FLOAT } dtype_category;

typedef struct dtype_info {
    const char *name;      /* "float32" */
    const char *type_name; /* as PyTorch's error texts call it: "Float" */
    const char *c_name;    /* or as C++ does: "float" */
    uint8_t size;
    uint8_t compute;  /* compute_type */
    uint8_t category; /* dtype_category */
} dtype_info;

extern const dtype_info dtypes[BK_DTYPE_COUNT];
extern const uint8_t compute_size[COMPUTE_COUNT];

static inline size_t dtype_size(bk_dtype d) { return dtypes[d].size; }
static inline bool dtype_is_float(bk_dtype d) { return dtypes[d].category == CATEGORY_FLOAT; }
/* The dtype that a compute type is without conversion. */
bk_dtype compute_dtype(compute_type c);
/* PyTorch's promoteTypes. */
bk_dtype dtype_promote(bk_dtype a, bk_dtype b);

/* One element, converted as PyTorch's casts convert it. */
double dtype_load_double(bk_dtype d, const void *p);
int64_t dtype_load_int(bk_dtype d, const void *p);
void dtype_store_double(bk_dtype d, void *p, double v);
void dtype_store_int(bk_dtype d, void *p, int64_t v);

uint16_t half_from_float(float f);
float half_to_float(uint16_t h);
uint16_t bfloat_from_float(float f);
static inline float bfloat_to_float(uint16_t h)
{
    union {
        uint32_t u;
        float f;
    } bits = { .u = (uint32_t)h << 16 };
    return bits.f;
}

#endif
