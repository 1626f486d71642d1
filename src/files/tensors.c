/* tensors.c: the map of named tensors (tensors.h).
 *
 * Invariant: every row has a slot, found from its name's hash by looking at one slot after the other up to an empty
 * one. Rows are never taken away, so the table only grows. */
#include "files/tensors.h"

#include <string.h>

#include "core/error.h"
#include "core/lock.h"
#include "core/memory.h"
#include "core/scope.h"
#include "ops/create.h"

bk_tensors *bk_tensors_new(void) { return mem_alloc_zero(sizeof(bk_tensors)); }

void bk_tensors_free(bk_tensors *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->count; i++) {
        mem_free(m->rows[i].name);
        bk_release(m->rows[i].tensor);
    }
    mem_free(m->rows);
    mem_free(m->slots);
    mem_free(m);
}

static uint64_t hash_of(const char *name)
{
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 0x100000001b3u;
    return h ^ h >> 32;
}

/* The slot of the name, or the empty one where it belongs. There is always an empty one. */
static uint32_t *slot_of(const bk_tensors *m, const char *name)
{
    size_t i = hash_of(name) & (m->slot_count - 1);
    while (m->slots[i] && strcmp(m->rows[m->slots[i] - 1].name, name) != 0)
        i = (i + 1) & (m->slot_count - 1);
    return &m->slots[i];
}

static int grow(bk_tensors *m)
{
    named_tensor *rows = array_grow(m->rows, &m->room, m->count + 1, sizeof *rows);
    if (!rows)
        return -1;
    m->rows = rows;
    if (2 * (m->count + 1) <= m->slot_count)
        return 0;
    size_t slot_count = m->slot_count ? 2 * m->slot_count : 16;
    uint32_t *slots = mem_alloc_zero(slot_count * sizeof *slots);
    if (!slots)
        return -1;
    mem_free(m->slots);
    m->slots = slots;
    m->slot_count = slot_count;
    for (size_t i = 0; i < m->count; i++)
        *slot_of(m, m->rows[i].name) = (uint32_t)i + 1;
    return 0;
}

int tensors_take(bk_tensors *m, const char *name, bk_tensor *t)
{
    uint32_t *slot = m->slot_count ? slot_of(m, name) : NULL;
    if (slot && *slot) {
        bk_release(m->rows[*slot - 1].tensor);
        m->rows[*slot - 1].tensor = t;
        return 0;
    }
    size_t n = strlen(name) + 1;
    char *copy = grow(m) == 0 ? mem_alloc(n) : NULL;
    if (!copy) {
        bk_release(t);
        return -1;
    }
    memcpy(copy, name, n);
    m->rows[m->count] = (named_tensor){ copy, t };
    *slot_of(m, name) = (uint32_t)++m->count;
    return 0;
}

int bk_tensors_set(bk_tensors *m, const char *name, bk_tensor *t)
{
    return m && name && t ? tensors_take(m, name, bk_retain(t)) : -1;
}

bk_tensor *bk_tensors_get(const bk_tensors *m, const char *name)
{
    if (!m)
        return NULL;
    uint32_t row = m->slot_count ? *slot_of(m, name) : 0;
    return row ? m->rows[row - 1].tensor : error_null(BK_INDEX_ERROR, "there is no tensor named %s", name);
}

int64_t bk_tensors_count(const bk_tensors *m) { return m ? (int64_t)m->count : 0; }
const char *bk_tensors_name(const bk_tensors *m, int64_t i) { return m->rows[i].name; }
bk_tensor *bk_tensors_at(const bk_tensors *m, int64_t i) { return m->rows[i].tensor; }

/* --- what formats share ----------------------------------------------------------------------------------------------
 */

bk_tensor *tensor_filled(int ndim, const int64_t *sizes, bk_dtype dtype, fill_fn fill, void *context)
{
    lock_take();
    const layout *l = checked_layout(ndim, sizes);
    storage *s = l ? storage_new((size_t)l->numel * dtype_size(dtype)) : NULL;
    lock_give(); /* nobody else knows the memory yet, and a disk is slow */
    bool filled = s && fill(context, s->data, s->bytes) == 0;
    lock_take();
    if (s && !filled)
        storage_release(s);
    bk_tensor *t = filled ? scope_own(tensor_adopt(s, l, dtype)) : NULL;
    lock_give();
    return t;
}

const void *tensor_row_major(const bk_tensor *t, bk_tensor **hold, uint64_t *bytes)
{
    bool grad = bk_set_grad_enabled(false);
    *hold = scope_own(bk_contiguous(t));
    bk_set_grad_enabled(grad);
    lock_take();
    const void *data = *hold ? tensor_data(*hold) : NULL;
    lock_give();
    if (!data) {
        bk_release(*hold);
        *hold = NULL;
        return NULL;
    }
    *bytes = (uint64_t)bk_numel(t) * bk_dtype_size(bk_dtype_of(t));
    return data;
}

/* A load by path: opened, read, closed. */
bk_tensors *tensors_from_path(const char *path, bk_tensors *(*load)(source in))
{
    source in;
    return source_open(&in, path) < 0 ? NULL : load(in);
}
