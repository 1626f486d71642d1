/* packed.c: factors that stay packed from one run to the next.
 *
 * A weight that is only read is packed by every run anew: a quarter of the time of a linear layer over 200 rows. So
 * memory whose contents were packed a few times without a write in between keeps the packed form. In training, where
 * every step writes the weights, nothing is kept.
 *
 * Invariant: a kept form is that of what the storage holds now. Whoever writes to a storage drops its forms: a plan
 * that leaves a result in a leaf's memory (run.c), a write of single elements (tensor_open), and whoever gives the
 * memory to others, who may write whenever they like (tensor_export, tensor_pin); of such memory nothing is kept. */
#include "graph/packed.h"

#include "core/memory.h"
#include "cpu/gemm.h"
#include "cpu/gemm_kernels.h"

enum { PACKINGS = 4 };                              /* that show that a factor does not change */
static const int64_t MOST_KEPT = (int64_t)64 << 20; /* bytes */

typedef struct packed_form {
    struct packed_form *next;
    factor_key key;
    const gemm_kernels *kernels; /* the form is theirs */
    size_t bytes;
    void *data;
} packed_form;

static int64_t kept; /* bytes */

static bool is_form_of(const packed_form *f, const factor_key *key, const gemm_kernels *kernels)
{
    return f->key.from == key->from && f->key.dtype == key->dtype && f->key.k == key->k && f->key.n == key->n &&
           f->key.row == key->row && f->key.col == key->col && f->kernels == kernels;
}

static void *make_form(storage *s, const factor_key *key, const gemm_kernels *kernels)
{
    const size_t bytes = gemm_packed_bytes(key->dtype, key->k, key->n);
    if (kept + (int64_t)bytes > MOST_KEPT)
        return NULL;
    packed_form *f = mem_try(sizeof *f);
    void *data = f ? pool_try(bytes) : NULL;
    if (!data) {
        mem_free(f);
        return NULL;
    }
    gemm_pack(key->dtype, key->k, key->n, key->from, key->row, key->col, data);
    *f = (packed_form){ s->packed, *key, kernels, bytes, data };
    s->packed = f;
    kept += (int64_t)bytes;
    return data;
}

void *packed_keep(storage *s, const factor_key *key)
{
    if (!s || s->exports || s->pinned)
        return NULL;
    const gemm_kernels *kernels = gemm_kernels_for(key->dtype);
    for (packed_form *f = s->packed; f; f = f->next)
        if (is_form_of(f, key, kernels))
            return f->data;
    if (s->packings < PACKINGS) {
        s->packings++;
        return NULL;
    }
    return make_form(s, key, kernels);
}

void packed_drop_slow(storage *s)
{
    s->packings = 0;
    while (s->packed) {
        packed_form *f = s->packed;
        s->packed = f->next;
        kept -= (int64_t)f->bytes;
        pool_give(f->data, f->bytes);
        mem_free(f);
    }
}
