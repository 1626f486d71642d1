/* packed.h: factors that stay packed from one run to the next. */
#ifndef BK_GRAPH_PACKED_H
#define BK_GRAPH_PACKED_H
#include "core/node.h"

/* How a product reads its second factor: k x n elements from `from` on, rows and columns so many elements apart. */
typedef struct factor_key {
    const char *from;
    bk_dtype dtype;
    int64_t k, n, row, col;
} factor_key;

/* The factor, which lies in s, as gemm_pack packs it, if it is worth keeping; NULL: whoever needs it packs it. Good
 * until somebody writes to s. */
void *packed_keep(storage *s, const factor_key *key);
/* The contents of s are others from here on. */
void packed_drop_slow(storage *s);
static inline void packed_drop(storage *s)
{
    if (s->packings)
        packed_drop_slow(s);
}

#endif
