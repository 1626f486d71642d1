/* rewrite_parts.c: what is large and only read part by part is computed part by part.
 *
 * The gradient of a loss over all outputs of a loop is made at once, and each step of the backward pass reads its part
 * of it, much later: it goes to memory and comes back, mostly from another core. Elementwise records of this kind are
 * left out. A view of one is the same operation over views of its operands, and melts into the group that reads it.
 *
 * Invariant: nothing is computed twice (the parts together are no larger than the whole), and elements have the same
 * bits. */
#include "graph/rewriter.h"

enum { MOST_DEEP = 4 }; /* operations in a row */

int64_t parts_least_bytes = 1 << 20;

/* View i is a stretch of memory that only elementwise records read. */
static bool is_part(const rewriter *w, int32_t i)
{
    const mark *m = &w->marks[i];
    const record_key *key = &w->key->record[i];
    return key->op == OP_view && key->in[0] >= 0 && key->attr.region.layout == w->layouts[key->in[0]] &&
           !is_kept(w, i) && m->uses == m->elementwise_uses && w->layouts[i] == w->layouts[i]->plain &&
           w->layouts[i]->numel > 0;
}

static bool is_repeated(const layout *l)
{
    bool repeated = true;
    for (int d = 0; d < l->ndim; d++)
        repeated &= l->strides[d] == 0 || l->sizes[d] == 1;
    return repeated;
}

/* y * y sends y its gradient twice: two products, which are found to be equal when all is written anew. */
bool computes_same(const rewriter *w, int32_t v, int32_t u)
{
    if (v == u || v >= w->key->records || u >= w->key->records)
        return v == u;
    const record_key *a = &w->key->record[v], *b = &w->key->record[u];
    bool same = same_operation(a, b);
    for (int k = 0; same && k < a->inputs; k++)
        same = value_of(w, v, k) == value_of(w, u, k);
    return same;
}

/* One operand has its elements where the result has them, the others are one number each: what is read in the place of
 * the result is no more memory than that. */
static bool has_parts(const rewriter *w, int32_t i)
{
    int32_t part = -1;
    for (int k = 0; k < w->key->record[i].inputs; k++) {
        const int32_t v = value_of(w, i, k);
        const layout *l = layout_of(w, v);
        if (l != w->layouts[i] && !is_repeated(l))
            return false;
        if (l == w->layouts[i] && part >= 0 && !computes_same(w, part, v))
            return false;
        part = l == w->layouts[i] ? v : part;
    }
    return part >= 0;
}

static bool is_spread(const rewriter *w, int32_t i)
{
    const mark *m = &w->marks[i];
    const layout *l = w->layouts[i];
    return m->part_uses && m->part_uses == m->uses && m->shown <= l->numel && m->deep < MOST_DEEP && !m->rows &&
           m->role == ROLE_NONE && !m->completes && !is_kept(w, i) && l == l->plain &&
           op_get(w->key->record[i].op)->kind == KIND_ELEMENTWISE &&
           l->numel * (int64_t)dtype_size((bk_dtype)w->key->record[i].dtype) >= parts_least_bytes && has_parts(w, i);
}

/* Record i reads parts of what it reads, so many elements in all. */
static void count_parts(rewriter *w, int32_t i, int64_t shown, int deep)
{
    for (int k = 0; k < w->key->record[i].inputs; k++) {
        const int32_t v = value_of(w, i, k);
        if (v >= w->key->records || (deep && layout_of(w, v) != w->layouts[i]))
            continue;
        mark *m = &w->marks[v];
        m->part_uses++;
        m->shown += shown;
        m->deep = (uint8_t)deep > m->deep ? (uint8_t)deep : m->deep;
    }
}

/* From the last record to the first: who reads a record stands after it. */
bool find_parts(rewriter *w)
{
    enum { LARGEST_SIZE = 16 };
    bool any = false;
    if (w->largest * LARGEST_SIZE < parts_least_bytes)
        return false;
    for (int r = 0; r < w->run_count; r++) /* which reads it as a whole */
        if (w->runs[r].root < w->key->records)
            w->marks[w->runs[r].root].rows = true;
    for (int32_t i = w->key->records - 1; i >= 0; i--) {
        if (!is_needed(w, i))
            continue;
        mark *m = &w->marks[i];
        if (is_part(w, i)) {
            count_parts(w, i, w->layouts[i]->numel, 0);
        } else if (is_spread(w, i)) {
            m->spread = any = true;
            count_parts(w, i, m->shown, m->deep + 1);
            note_of(w, FACT_PARTS, i);
        }
    }
    return any;
}
