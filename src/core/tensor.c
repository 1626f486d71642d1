/* tensor.c: handles and cells. Their places on the tape, and reading through them, are track.c; writing is write.c.
 *
 * Invariants: a cell's value always has the layout the cell was made with. A handle lies within its cell. A stamp is
 * never reused, so "same stamp" means "not written since". */
#include "core/handle.h"

#include "autograd/replay.h"
#include "core/error.h"
#include "core/scope.h"
#include "graph/log.h"

static freelist tensors = { 0 }, cells = { 0 };

static void keep_handle(const void *record)
{
    const bk_tensor *t = record;
    layout_keep(t->layout);
    layout_keep(t->apart);
}
static void keep_track(const void *record) { layout_keep(((const track *)record)->layout); }

void tensors_keep_layouts(void)
{
    freelist_each(&tensors, keep_handle);
    freelist_each(&track_records, keep_track);
}

uint64_t next_stamp = 1;

/* --- handles -------------------------------------------------------------------------------------------------- */

static inline void handle_fill(bk_tensor *t, uint8_t flags, cell *c, track *k, const layout *l, int64_t offset)
{
    t->refs = 1;
    t->flags = flags;
    t->made_by = 0;
    t->part = 0;
    t->cell = c;
    t->track = k;
    t->layout = l;
    t->offset = offset;
    t->seen = NULL; /* what else is remembered counts only while these are set */
    t->own_edge = NULL;
    t->keeps = NULL;
    t->from = NULL;
    t->apart = NULL;
    t->front = NULL;
}

/* Whoever makes a handle passes it to the scope last: what fails before that releases it, and nobody else has it. */
static bk_tensor *handle_new(cell *c, track *k, const layout *l, int64_t offset)
{
    bk_tensor *t = freelist_take(&tensors, sizeof *t);
    if (t)
        handle_fill(t, born, c, k, l, offset);
    return t;
}

static inline void cell_fill(cell *c, node *value) { *c = (cell){ .refs = 1, .value = value, .stamp = next_stamp++ }; }

/* A handle on a new cell, not in a scope yet; steals the reference to value. */
static __attribute__((noinline)) bk_tensor *handle_on(node *value)
{
    cell *c = freelist_take(&cells, sizeof *c);
    if (!c) {
        node_release(value);
        return NULL;
    }
    cell_fill(c, value);
    if (born && !(value->flags & NODE_CONSTANT)) /* which others share */
        value->flags |= NODE_INFERENCE;
    bk_tensor *t = handle_new(c, NULL, value->layout, 0);
    if (!t) {
        node_release(value);
        freelist_give(&cells, c);
        return NULL;
    }
    if (value->flags & NODE_TAPED) {
        if (!track_of(t)) {
            bk_release(t);
            return NULL;
        }
        track_move(t->track, value);
    }
    if (log_due() && log_flush() < 0) {
        bk_release(t);
        return NULL;
    }
    return t;
}

/* Where nothing is out of the ordinary no function is called: every op comes by here. */
bk_tensor *tensor_from_node(node *value)
{
    bool taped = value && value->flags & NODE_TAPED;
    if (__builtin_expect(!value || !cells.free || !tensors.free || (taped && !track_records.free) || born || log_due(),
                         0)) {
        bk_tensor *t = value ? handle_on(value) : NULL;
        return t ? scope_add(t) : NULL;
    }
    cell *c = freelist_take_free(&cells);
    bk_tensor *t = freelist_take_free(&tensors);
    cell_fill(c, value);
    handle_fill(t, 0, c, NULL, value->layout, 0);
    if (taped) {
        t->track = freelist_take_free(&track_records);
        track_fill(t->track, t);
        t->track->place = node_retain(value);
        value->tape_refs++;
    }
    return scope_add(t);
}

bk_tensor *tensor_own_at(node *value, node *edge)
{
    bk_tensor *t = handle_on(node_retain(value));
    if (!t)
        return NULL;
    if (t->track || edge) {
        if (!track_of(t)) {
            bk_release(t);
            return NULL;
        }
        track_move(t->track, edge);
    }
    return t;
}

bk_tensor *tensor_at(node *value, node *edge)
{
    bk_tensor *t = tensor_own_at(value, edge);
    return t ? scope_add(t) : NULL;
}

bk_tensor *tensor_same(const bk_tensor *t) { return t ? scope_add(bk_retain((bk_tensor *)t)) : NULL; }

bk_tensor *tensor_alias(const bk_tensor *t, const layout *l, int64_t offset, bool differentiable)
{
    if (!l)
        return NULL;
    track *k = differentiable ? track_of((bk_tensor *)t) : NULL;
    if (differentiable && !k)
        return NULL;
    bk_tensor *v = handle_new(t->cell, k, l, offset);
    if (!v)
        return NULL;
    t->cell->refs++;
    if (k)
        k->refs++;
    v->made_version = t->cell->version;
    v->made_at = next_sequence;
    next_sequence += 1 + (l->numel == 0); /* edge_straight */
    v->flags = (uint8_t)((differentiable ? TENSOR_VIEW : 0) | (t->flags & (TENSOR_DATA | TENSOR_INFERENCE)));
    if (k && (t->flags & TENSOR_BESIDE || (t->flags & TENSOR_VIEW && tensor_tracked(t))))
        v->from = bk_retain((bk_tensor *)t);
    return scope_add(v);
}

/* A view of a view beside the tape is one of what that is a view of, so that none keeps a row of others alive. */
bk_tensor *tensor_beside(const bk_tensor *t, const layout *l, int64_t offset)
{
    bk_tensor *v = tensor_alias(t, l, offset, false);
    if (!v || t->flags & TENSOR_INFERENCE) /* of which PyTorch keeps no account */
        return v;
    v->flags |= TENSOR_BESIDE;
    v->from = bk_retain(t->flags & TENSOR_BESIDE ? t->from : (bk_tensor *)t);
    return v;
}

bk_tensor *tensor_view_of(const bk_tensor *t, const layout *l, int64_t offset)
{
    return grad_enabled() ? tensor_alias(t, l, offset, true) : tensor_beside(t, l, offset);
}

bk_tensor *apart_open(const bk_tensor *t)
{
    bk_scope_push();
    lock_take();
    bk_tensor *in_order = cell_tensor(t->cell, t->layout->plain, 0); /* nobody reads it */
    lock_give();
    return in_order;
}

bk_tensor *apart_close(bk_tensor *v, const bk_tensor *again)
{
    if (again && v->track) { /* else no gradient goes this way */
        v->apart = again->layout;
        v->apart_offset = again->offset;
    }
    bk_scope_pop();
    if (again)
        return v;
    scope_drop(v);
    return NULL;
}

/* The handle that a track was made for, or another one on its cell when that is gone. */
static bk_tensor *owner_of(track *k, cell *c)
{
    if (k->owner)
        return scope_add(bk_retain(k->owner));
    bk_tensor *t = handle_new(c, k, k->layout, k->offset);
    if (!t)
        return NULL;
    t->flags |= k->part ? TENSOR_PART : 0;
    t->made_version = c->version;
    c->refs++;
    k->refs++;
    k->owner = t;
    return scope_add(t);
}

bk_tensor *track_tensor(track *k) { return owner_of(k, k->cell); }

bk_tensor *tensor_base(const bk_tensor *t)
{
    bk_tensor *base = NULL;
    do {
        while (t->flags & TENSOR_VIEW && t->from && t->from->track == t->track)
            t = t->from;
        base = t->flags & TENSOR_BESIDE ? tensor_same(t->from)
                                        : owner_of(t->track->part ? t->track->under : t->track, t->cell);
        t = base;
    } while (t && tensor_is_view(t));
    return base;
}

bk_tensor *cell_tensor(cell *c, const layout *l, int64_t offset)
{
    bk_tensor *t = l ? handle_new(c, NULL, l, offset) : NULL;
    if (!t)
        return NULL;
    c->refs++;
    return scope_add(t);
}

bk_tensor *cell_tensor_checked(cell *c, int ndim, const int64_t *sizes, const int64_t *strides, int64_t offset)
{
    int64_t room = c->value->layout->span, last = offset, step;
    bool empty = false, wrong = ndim < 0 || ndim > BK_MAX_NDIM || offset < 0 || offset > room;
    for (int d = 0; !wrong && d < ndim; d++) {
        wrong = sizes[d] < 0 || strides[d] < 0;
        empty |= sizes[d] == 0;
    }
    for (int d = 0; !wrong && !empty && d < ndim; d++)
        wrong = __builtin_mul_overflow(sizes[d] - 1, strides[d], &step) || __builtin_add_overflow(last, step, &last);
    if (wrong || (!empty && last >= room))
        return error_null(BK_RUNTIME_ERROR, "sizes and strides are out of bounds for the storage");
    return cell_tensor(c, layout_get(ndim, sizes, strides), offset);
}

bk_tensor *bk_retain(bk_tensor *t)
{
    if (!t)
        return NULL;
    lock_take();
    t->refs++;
    lock_give();
    return t;
}

inline void cell_release(cell *c)
{
    if (--c->refs)
        return;
    node_release_value(c->value);
    freelist_give(&cells, c);
}

static inline void handle_free(bk_tensor *t)
{
    if ((uintptr_t)t->seen | (uintptr_t)t->own_edge | (uintptr_t)t->keeps) {
        handle_forget(t);
        handle_forget_edge(t);
        if (t->keeps)
            handle_drop_keeper(t);
    }
    cell_release(t->cell);
    if (t->track)
        track_drop(t);
    freelist_give(&tensors, t);
}

/* Of a handle that has lost its last reference. */
static __attribute__((noinline)) void handle_gone(bk_tensor *t)
{
    do { /* a view of a view of a view */
        bk_tensor *from = t->from;
        handle_free(t);
        t = from;
    } while (t && --t->refs == 0);
}

/* Whether only t holds its cell, somebody else the value, and t has nothing else to let go of. */
static inline bool is_bare(const bk_tensor *t)
{
    const node *value = t->cell->value;
    return !((uintptr_t)t->seen | (uintptr_t)t->own_edge | (uintptr_t)t->keeps | (uintptr_t)t->track |
             (uintptr_t)t->from) &&
           t->cell->refs == 1 && value->refs > 1 && !value->memory;
}

void bk_release(bk_tensor *t)
{
    if (!t)
        return;
    lock_take();
    if (--t->refs == 0) {
        if (is_bare(t)) { /* as nearly all results are whose readers are recorded */
            t->cell->value->refs--;
            freelist_give(&cells, t->cell);
            freelist_give(&tensors, t);
        } else {
            handle_gone(t);
        }
    }
    lock_give();
}

/* --- what a tensor is ------------------------------------------------------------------------------------------ */

char *tensor_data(const bk_tensor *t)
{
    node *whole = t->cell->value;
    replay_reads_data();
    if (!node_evaluated(whole) && log_evaluate(whole) < 0)
        return NULL;
    return whole->data + t->offset * (int64_t)dtype_size((bk_dtype)whole->dtype);
}

int bk_ndim(const bk_tensor *t) { return t->layout->ndim; }
const int64_t *bk_sizes(const bk_tensor *t) { return t->layout->sizes; }
const int64_t *bk_strides(const bk_tensor *t) { return t->layout->strides; }
int64_t bk_numel(const bk_tensor *t) { return t->layout->numel; }
bk_dtype bk_dtype_of(const bk_tensor *t) { return tensor_dtype(t); }
bool bk_is_contiguous(const bk_tensor *t) { return t->layout->contiguous; }
