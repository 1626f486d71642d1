/* packing.c: which products read their second factor in packed form, and who packs it.
 *
 * Invariant: a packed factor is made by the first product of the plan that reads it, and is read by products of the
 * same value only. One that is loose is packed when the plan runs, and only if it does not begin where cache lines do:
 * memory that came from elsewhere (NumPy's, mostly) may lie anywhere, and a vector times a matrix of which every load
 * spans two lines takes 1.7 times as long. Plans do not know addresses. */
#include "graph/builder.h"

#include "cpu/gemm.h"
#include "graph/desk.h"
#include "graph/kernels.h"

enum { LEAST_PACKED = 256, MOST_PACKED = 1 << 23 }; /* elements */

enum want { UNPACKED, PACKED, LOOSE };

/* Whether a product would rather read its second factor packed: rows of it are far apart, or many rows read it. */
static enum want wants_packed(const planner *p, const draft *d)
{
    enum { MANY_ROWS = 24, FEW_ROWS = 3 };
    if (d->kind != DO_KERNEL || op_get(p->key->record[d->record].op)->run != run_matmul || d->out.layout->ndim != 2)
        return UNPACKED;
    const layout *b = d->in[1].layout;
    if (b->numel < LEAST_PACKED || b->numel > MOST_PACKED || b->sizes[1] < 2)
        return UNPACKED;
    const int64_t rows = d->out.layout->sizes[0];
    return b->strides[1] != 1 || rows > MANY_ROWS ? PACKED : rows <= FEW_ROWS ? LOOSE : UNPACKED;
}

/* A factor that several products read is packed by the first of them. */
bool share_packed(planner *p)
{
    size_t values = (size_t)(p->key->records + p->key->leaves);
    int32_t *last = desk_take_zero(values * sizeof *last); /* per value: 1 + the latest product that reads it */
    if (!last)
        return false;
    bool good = true;
    for (int32_t i = 0; good && i < p->draft_count; i++) {
        draft *d = &p->drafts[i];
        const enum want want = wants_packed(p, d);
        if (want == UNPACKED)
            continue;
        d->loose = want == LOOSE;
        int32_t *slot = &last[input_of(p, d->record, 1)];
        draft *before = *slot ? &p->drafts[*slot - 1] : NULL;
        if (before && (before->in[1].layout != d->in[1].layout || /* the same factor, transposed */
                       before->loose != d->loose))
            before = NULL;
        if (before && before->packed < 0) {
            const layout *b = d->in[1].layout;
            before->packed =
                buffer_new(p, BUFFER_TEMPORARY, (int64_t)gemm_packed_bytes(d->in[1].dtype, b->sizes[0], b->sizes[1]));
            before->packs = true;
            good = before->packed >= 0;
            if (good)
                buffer_touch(p, before->packed, *slot - 1);
        }
        if (before && good) {
            d->packed = before->packed;
            buffer_touch(p, d->packed, i);
            note(p, FACT_PACKED, d->record);
        }
        *slot = i + 1;
    }
    return good;
}

/* A draft whose second factor is a leaf as it is. */
static bool reads_leaf(const planner *p, const draft *d)
{
    const int32_t v = input_of(p, d->record, 1);
    return v >= p->key->records && p->buffers[p->values[v].buffer].kind == BUFFER_LEAF;
}

/* Leaves that not too many rows read may be kept packed: of many rows it would save nothing. A product that packs a
 * factor for itself alone, as it goes, has a place for it only if it is kept: regions and teams (of at most four rows),
 * which need it packed, do not count on that. */
bool keep_packed(planner *p)
{
    enum { MOST_ROWS = 1024, FEWEST_ALONE = 5 };
    int64_t *rows = desk_take_zero((size_t)p->buffer_count * sizeof *rows); /* that read a packed factor */
    if (!rows)
        return false;
    for (int32_t i = 0; i < p->draft_count; i++)
        if (p->drafts[i].kind == DO_KERNEL && p->drafts[i].packed >= 0)
            rows[p->drafts[i].packed] += p->drafts[i].out.layout->sizes[0];
    const plan_region *region = p->regions, *last = region + p->region_count;
    bool good = true;
    for (int32_t i = 0; good && i < p->draft_count; i++) {
        draft *d = &p->drafts[i];
        while (region < last && region->end <= i)
            region++;
        if (wants_packed(p, d) != PACKED || !reads_leaf(p, d))
            continue;
        const bool inside = region < last && region->first <= i;
        const int64_t own = d->out.layout->sizes[0];
        const bool alone = d->packed < 0 && !inside && own >= FEWEST_ALONE && own <= MOST_ROWS;
        if (!alone && !(d->packs && rows[d->packed] <= MOST_ROWS))
            continue;
        d->keeps = true;
        if (alone)
            d->packed = buffer_new(p, BUFFER_KEPT, 0);
        good = d->packed >= 0;
    }
    return good;
}
