/* tensor.c: handles, their tracks, and reading through them. Writing is write.c.
 *
 * Invariants: a cell's value always has the layout the cell was made with. A handle lies within its cell. A track's
 * place is on the tape or NULL; a leaf's tape node owns its track, and the track only points back, so that there is no
 * cycle. A stamp is never reused, so "same stamp" means "not written since". */
#include "core/handle.h"

#include <string.h>

#include "autograd/composed.h"
#include "autograd/function.h"
#include "autograd/hooks.h"
#include "autograd/replay.h"
#include "autograd/rules.h"
#include "core/error.h"
#include "core/lock.h"
#include "core/memory.h"
#include "core/scope.h"
#include "graph/log.h"
#include "graph/packed.h"

static freelist tensors = { 0 }, cells = { 0 }, tracks = { 0 };

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
    freelist_each(&tracks, keep_track);
}
uint64_t next_stamp = 1;
enum { GRAD_OFF = 1, GRAD_FOR_TANGENTS = 2 }; /* the second: off for the user, recorded for forward mode */
static HOT_THREAD_LOCAL uint8_t no_grad;      /* zero is PyTorch's default: gradients on */
static _Thread_local int forward_depth;
static _Thread_local struct {
    node **held; /* the places made for tangents: what reads gives is borrowed */
    int count, capacity;
} forward_places;

static HOT_THREAD_LOCAL uint8_t born; /* the flags of handles on new memory: those of inference mode, or none */

bool grad_enabled(void) { return !((no_grad & GRAD_OFF) | born); }
bool grad_mode(void) { return !no_grad; }
bool inference_enabled(void) { return born; }

bool inference_set_enabled(bool on)
{
    bool was = born;
    born = on ? TENSOR_INFERENCE : 0;
    inference_seen |= on;
    return was;
}

bool grad_set_enabled(bool on)
{
    bool was = !(no_grad & GRAD_OFF);
    no_grad = (uint8_t)((no_grad & GRAD_FOR_TANGENTS) | (on ? 0 : GRAD_OFF));
    return was;
}

bool grad_ask(bool on)
{
    bool was = !no_grad;
    no_grad = on ? 0 : forward_depth ? GRAD_FOR_TANGENTS : GRAD_OFF;
    return was;
}

/* --- tracks --------------------------------------------------------------------------------------------------- */

static inline void track_fill(track *k, const bk_tensor *t)
{
    record_clear(k, sizeof *k);
    k->refs = 1;
    k->layout = t->layout;
    k->offset = t->offset;
    k->owner = (bk_tensor *)t;
}

static track *track_new(const bk_tensor *t)
{
    track *k = freelist_take(&tracks, sizeof *k);
    if (k)
        track_fill(k, t);
    return k;
}

track *tensor_track(bk_tensor *t)
{
    if (!t->track)
        t->track = track_new(t);
    return t->track;
}

void handle_drop_keeper(bk_tensor *t)
{
    if (t->keeps)
        track_release(t->keeps);
    t->keeps = NULL;
}

static void track_drop(bk_tensor *t)
{
    track *k = t->track;
    t->track = NULL;
    if (k->owner == t)
        k->owner = NULL;
    track_release(k);
}

void track_leave(bk_tensor *t)
{
    t->flags &= (uint8_t)~(TENSOR_VIEW | TENSOR_PART);
    handle_drop_keeper(t);
    if (t->track)
        track_drop(t);
}

int track_part(bk_tensor *t)
{
    track *base = t->track->part ? t->track->under : t->track;
    track *own = track_new(t);
    if (!own)
        return -1;
    own->part = true;
    own->under = base;
    base->refs++;
    track_cell(own, t->cell);
    track_leave(t);
    t->track = own;
    t->flags |= TENSOR_PART;
    return 0;
}

static void place_release(track *k)
{
    if (!k->place)
        return;
    if (k->retain_grad)
        hooks_forget(k->place, k);
    k->place->tape_refs--;
    node_release(k->place);
    k->place = NULL;
}

void track_move(track *k, node *place)
{
    if (place) {
        node_retain(place);
        place->tape_refs++;
    }
    place_release(k);
    k->place = place;
    if (place && k->retain_grad && hooks_keep(place, k) < 0)
        k->retain_grad = false;
}

int tangent_leaves;

int tensor_for_tangents(bk_tensor *t)
{
    if (!tensor_edge(t)) /* a leaf that the tape has read knows its cell */
        return -1;
    tangent_leaves += !t->track->tangents;
    t->track->tangents = true;
    return 0;
}

void track_release(track *k)
{
    if (--k->refs)
        return;
    place_release(k);
    if (k->grad)
        bk_release(k->grad);
    if (k->hooks)
        hooks_free(k->hooks);
    if (k->cell) {   /* a leaf's, and every part and every leaf of forward mode has one */
        if (k->part) /* what is under it is none */
            track_release(k->under);
        tangent_leaves -= k->tangents;
        cell_release(k->cell);
    }
    freelist_give(&tracks, k);
}

void node_extra_release(node *n)
{
    if (n->op == OP_leaf) {
        track *k = n->extra;
        k->leaf = NULL;
        track_release(k);
    } else if (n->op == OP_function) {
        function_free(n);
    } else {
        hooks_free(n->extra);
    }
}

void track_cell(track *k, cell *c)
{
    c->refs++;
    if (k->cell)
        cell_release(k->cell);
    k->cell = c;
}

/* A leaf's tape node; it lives as long as something on the tape leads to it. */
static node *leaf_new(track *k, bk_dtype dtype)
{
    node *n = node_new(OP_leaf, dtype, k->layout);
    if (!n)
        return NULL;
    n->flags = NODE_TAPED;
    n->sequence = 0; /* below everything that leads to it, whenever it was made */
    n->extra = k;
    k->refs++;
    k->leaf = n;
    return n;
}

void handle_forget_edge(bk_tensor *t)
{
    node *n = t->own_edge;
    t->own_edge = NULL;
    if (!n)
        return;
    n->tape_refs--;
    node_release(n);
}

/* Takes over the reference to n, t's place on the tape while its track is at `place`. */
static void edge_keep(bk_tensor *t, node *n, node *place)
{
    n->tape_refs++;
    handle_forget_edge(t);
    t->own_edge = n;
    t->own_edge_place = place;
    t->own_edge_version = t->cell->version;
}

static bool edge_kept(const bk_tensor *t, const node *place)
{
    return t->own_edge && t->own_edge_place == place && t->own_edge_version == t->cell->version;
}

void track_whole(bk_tensor *t)
{
    track *k = t->track;
    t->flags &= (uint8_t)~TENSOR_PART;
    if (k->part)
        track_release(k->under);
    k->part = false;
    k->under = NULL;
}

void tensor_go_under(bk_tensor *t)
{
    track *k = t->track, *base = k->under;
    base->refs++;
    if (t->flags & TENSOR_PART && k->grad && (t->keeps = track_new(t))) /* no leaf any more, it has its gradient */
        t->keeps->grad = bk_retain(k->grad);
    t->flags = (uint8_t)((t->flags & ~TENSOR_PART) | TENSOR_VIEW);
    handle_forget_edge(t);
    track_drop(t);
    t->track = base;
}

bool tensor_rejoin(bk_tensor *t)
{
    const track *k = t->track;
    if (!k || !k->part || t->made_version == t->cell->version || !(k->under->place || k->under->requires_grad))
        return false;
    lock_take();
    tensor_go_under(t);
    lock_give();
    return true;
}

/* Where gradients of t's track go. A leaf node that nobody has yet is kept by the handle. */
static node *track_place(bk_tensor *t)
{
    track *k = t->track;
    if (!k || k->place || !k->requires_grad)
        return k ? k->place : NULL;
    t->cell->taped = true;
    if (k->leaf)
        return k->leaf;
    node *leaf = leaf_new(k, tensor_dtype(t));
    if (!leaf)
        return NULL;
    track_cell(k, t->cell);
    edge_keep(t, leaf, NULL);
    return leaf;
}

/* --- handles -------------------------------------------------------------------------------------------------- */

bool tensor_whole(const bk_tensor *t) { return t->layout == t->cell->value->layout && t->offset == 0; }

static inline void handle_fill(bk_tensor *t, uint8_t flags, cell *c, track *k, const layout *l, int64_t offset)
{
    t->refs = 1;
    t->flags = flags;
    t->made_by = 0;
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
        if (!tensor_track(t)) {
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
    if (__builtin_expect(!value || !cells.free || !tensors.free || (taped && !tracks.free) || born || log_due(), 0)) {
        bk_tensor *t = value ? handle_on(value) : NULL;
        return t ? scope_add(t) : NULL;
    }
    cell *c = freelist_take_free(&cells);
    bk_tensor *t = freelist_take_free(&tensors);
    cell_fill(c, value);
    handle_fill(t, 0, c, NULL, value->layout, 0);
    if (taped) {
        t->track = freelist_take_free(&tracks);
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
        if (!tensor_track(t)) {
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
    track *k = differentiable ? tensor_track((bk_tensor *)t) : NULL;
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
    if (k && t->flags & TENSOR_VIEW && tensor_tracked(t))
        v->from = bk_retain((bk_tensor *)t);
    return scope_add(v);
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
bk_tensor *tensor_base(const bk_tensor *t) { return owner_of(t->track->part ? t->track->under : t->track, t->cell); }

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

/* A remembered view must not keep a value alive, nor keep an update from writing in place: a write makes every handle
 * on the cell forget. */
static void remember(bk_tensor *t, node *n, node *place, uint64_t stamp)
{
    n->cache_refs++;
    t->seen = n;
    t->seen_place = place;
    t->seen_stamp = stamp;
    t->next_seer = t->cell->seers;
    t->seer_link = &t->cell->seers;
    if (t->next_seer)
        t->next_seer->seer_link = &t->next_seer;
    t->cell->seers = t;
}

void handle_forget(bk_tensor *t)
{
    if (!t->seen)
        return;
    *t->seer_link = t->next_seer;
    if (t->next_seer)
        t->next_seer->seer_link = t->seer_link;
    t->seen->cache_refs--;
    node_release(t->seen);
    t->seen = NULL;
}

/* The same, of a value alone: where the node is t's place on the tape, it stays that. */
static void forget_value(bk_tensor *t)
{
    const node *now = t->track ? t->track->place ? t->track->place : t->track->leaf : NULL;
    if (t->seen && now && t->seen_place == now && t->seen->flags & NODE_TAPED)
        edge_keep(t, node_retain(t->seen), t->seen_place);
    handle_forget(t);
}

/* What handles remember of the cell's value is no longer there; counts: nor are they where they were on the tape. A
 * place alone keeps no value. */
void cell_forget(cell *c, bool counts)
{
    while (c->seers) {
        node *n = node_retain(c->seers->seen);
        (counts ? handle_forget : forget_value)(c->seers);
        node_release_value(n);
    }
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

/* --- reading --------------------------------------------------------------------------------------------------- */

/* A view of evaluated memory is memory; it holds the storage, or its base when the element lives in the base itself. */
static void show_memory(node *n, node *base, int64_t offset)
{
    n->origin = base->origin;
    n->data = base->data + offset * (int64_t)dtype_size((bk_dtype)base->dtype);
    if (base->memory) {
        n->memory = base->memory;
        n->memory->refs++;
    } else {
        n->in[0] = node_retain(base);
    }
}

/* `whole` is the layout that the gradient will have. */
static node *make_view(int op, node *base, node *edge, const layout *whole, const layout *l, int64_t offset)
{
    bool pending = !node_evaluated(base);
    node *n = node_new(pending || edge ? op : OP_data, (bk_dtype)base->dtype, l);
    if (!n)
        return NULL;
    n->inputs = 1;
    n->flags = base->flags & NODE_INFERENCE;
    if (pending)
        n->in[0] = node_retain(base);
    else
        show_memory(n, base, offset);
    if (pending || edge) {
        n->attr.region.layout = whole;
        n->attr.region.offset = offset;
    }
    if (edge)
        node_edge(n, 0, edge);
    if (pending && log_append(n) < 0) {
        node_release(n);
        return NULL;
    }
    if (!pending)
        replay_made(n, op, 1, &base);
    return n;
}

node *node_view(node *base, node *edge, const layout *l, int64_t offset)
{
    return l ? make_view(OP_view, base, edge, base->layout, l, offset) : NULL;
}

node *node_expand(node *base, node *edge, const layout *l)
{
    return l ? make_view(OP_expand, base, edge, base->layout, l, 0) : NULL;
}

/* PyTorch takes the gradient of an empty as_strided for a constant, and any view whose memory was written to since for
 * an as_strided. */
static bool is_constant(const bk_tensor *t)
{
    return t->layout->numel == 0 && (t->made_by == VIEW_as_strided || t->made_version != t->cell->version);
}

/* What made t a view: one whose memory was written to since counts as an as_strided. */
static view_op view_maker(const bk_tensor *t)
{
    return t->made_version == t->cell->version || !(t->flags & TENSOR_VIEW) ? (view_op)t->made_by : VIEW_as_strided;
}

/* What the tape knows of a view besides its region. */
static int64_t view_tape(const bk_tensor *t)
{
    return (is_constant(t) ? REGION_FRESH : 0) | (int64_t)view_maker(t) << REGION_OP_SHIFT;
}

/* A view's place on the tape is made when it is asked for, but has its turn in a backward where the view was made, as
 * in PyTorch: gradients are added up, and hooks run, in that order. Not so after a write, which gives a new place, nor
 * below a place that came later. No two nodes have one number. */
static void take_turn(bk_tensor *t, node *n)
{
    bool then = t->flags & TENSOR_VIEW && t->made_version == t->cell->version;
    if (then && t->made_at > n->edge[0]->sequence)
        n->sequence = t->made_at;
    t->made_at = 0;
}

/* The view's node, made anew when the cell or the place on the tape has moved since the last read, or a flush has taken
 * it off the tape since nothing there led to it. A read without the tape takes what there is: the view's place on the
 * tape stays the one that its hooks are at. */
static node *see(bk_tensor *t, node *place)
{
    if (log_look() < 0)
        return NULL;
    bool good = t->seen && t->seen_stamp == t->cell->stamp &&
                (!place || (t->seen_place == place && t->seen->flags & NODE_TAPED)) &&
                (node_evaluated(t->seen) || t->seen->flags & NODE_PENDING);
    if (good)
        return t->seen;
    node *n = node_view(t->cell->value, place, t->layout, t->offset);
    if (!n)
        return NULL;
    if (place) {
        n->attr.region.tape = view_tape(t);
        next_sequence += may_go_straight(t);
        take_turn(t, n);
    }
    (place ? handle_forget : forget_value)(t);
    remember(t, n, place, t->cell->stamp);
    return n;
}

static node *place_view(bk_dtype dtype, node *place, const layout *whole, const layout *l, int64_t at, int64_t tape)
{
    node *n = node_new(OP_view, dtype, l);
    if (!n)
        return NULL;
    n->attr.region.layout = whole;
    n->attr.region.offset = at;
    n->attr.region.tape = tape;
    node_edge(n, 0, place);
    return n;
}

/* Whether t is a view of a leaf that is itself a view, and was written to since: a view of what is below the leaf. */
static bool is_lost(const bk_tensor *t)
{
    return t->track->part && t->flags & TENSOR_VIEW && t->made_version != t->cell->version;
}

/* A tape node for t without a value: a view of the gradient that `place` has, which lies as `whole`: `l` from `at` on.
 */
static node *view_edge(bk_tensor *t, node *place, const layout *whole, const layout *l, int64_t at)
{
    if (edge_kept(t, place))
        return t->own_edge;
    node *lost = is_lost(t) ? node_new(OP_nowhere, tensor_dtype(t), whole) : NULL;
    if (is_lost(t) && !lost)
        return NULL;
    node *to = lost ? lost : place; /* own_edge may be what keeps it */
    node *n = place_view(tensor_dtype(t), to, whole, l, at, view_tape(t));
    if (lost)
        node_release(lost);
    if (!n)
        return NULL;
    next_sequence += may_go_straight(t);
    take_turn(t, n);
    edge_keep(t, n, place);
    return n;
}

/* The view that t was made of. One whose memory was written to since counts as an as_strided of the base: NULL. */
static bk_tensor *one_above(const bk_tensor *t) { return t->made_version != t->cell->version ? NULL : t->from; }

/* The view that t is a part of, whose gradient gets t's: NULL where t is one of what its track stands for. One whose
 * elements share memory is passed by where t does not know its part of those apart. */
static bk_tensor *view_above(const bk_tensor *t)
{
    bk_tensor *up = one_above(t);
    if (t->apart || t->made_by == VIEW_as_strided) /* which has a rule for elements that share memory, or are outside */
        return up && up->track == t->track ? up : NULL;
    while (up && (up->layout->overlapping || up->track != t->track))
        up = one_above(up);
    return up;
}

track *tensor_keeper(bk_tensor *t)
{
    node *place = tensor_edge(t);
    if (!t->keeps && place)
        t->keeps = track_new(t);
    if (t->keeps && place)
        track_move(t->keeps, place);
    return place ? t->keeps : NULL;
}

/* A flush may do without the value of a view that was read. Its place on the tape stays what it was. */
static void keep_place(bk_tensor *t, node *place)
{
    node *n = t->seen;
    if (!n || t->seen_stamp != t->cell->stamp || t->seen_place != place || node_evaluated(n) ||
        n->flags & NODE_PENDING || !(n->flags & NODE_TAPED))
        return;
    edge_keep(t, node_retain(n), place);
    handle_forget(t);
}

/* The place of t on the tape, given that of its track and of the view above it, where it is no node with a value. */
static node *edge_apart(bk_tensor *t, node *place, const bk_tensor *above, node *through)
{
    if (above && t->apart)
        return view_edge(t, through, above->layout->plain, t->apart, t->apart_offset);
    if (above)
        return view_edge(t, through, above->layout, t->layout, t->offset - above->offset);
    if (t->apart && !t->from && t->made_version == t->cell->version) /* of a leaf */
        return view_edge(t, place, t->track->layout->plain, t->apart, t->apart_offset);
    return view_edge(t, place, t->track->layout, t->layout, t->offset - t->track->offset);
}

/* The place of t's track, and the view above t; false with the error set. */
static bool look_up(bk_tensor *t, node **place, bk_tensor **above)
{
    tensor_rejoin(t);
    *place = track_place(t);
    *above = *place ? view_above(t) : NULL;
    return *place || !t->track || !t->track->requires_grad;
}

/* Reads t, given the place of its track, the view above it and that view's place. */
static bool read_below(bk_tensor *t, node *place, const bk_tensor *above, node *through, operand *out)
{
    *out = (operand){ .edge = place };
    bool apart = place && (above || !is_extent(t) || t->flags & TENSOR_VIEW); /* a view has a place of its own */
    if (apart)
        keep_place(t, place);
    bool kept = edge_kept(t, place);
    bool together = apart && !above && !kept && !is_extent(t) && covers_cell(t) && !is_lost(t); /* one node for both */
    out->value = tensor_whole(t) ? t->cell->value : see(t, together ? place : NULL);
    if (!out->value)
        return false;
    if (together)
        out->edge = out->value->flags & NODE_TAPED ? out->value : NULL;
    else if (apart)
        out->edge = edge_apart(t, place, above, through);
    if (t->keeps && out->edge && t->keeps->place != out->edge)
        track_move(t->keeps, out->edge); /* follows the view through writes to its base */
    return !place || together || out->edge;
}

/* The place of a view of a view of ..., however many: from the uppermost down. */
static node *edge_through(bk_tensor *t)
{
    enum { FEW = 8 };
    bk_tensor *few[FEW], **views = few, *above;
    node *place, *through = NULL;
    int count = 0, capacity = FEW;
    bool good = true;
    for (bk_tensor *v = t; v && good; v = above) {
        if (count == capacity) {
            bk_tensor **more = mem_alloc((size_t)capacity * 2 * sizeof *more);
            if (!(good = more != NULL))
                break;
            memcpy(more, views, (size_t)count * sizeof *more);
            if (views != few)
                mem_free(views);
            views = more;
            capacity *= 2;
        }
        good = look_up(v, &place, &above);
        views[count++] = v;
    }
    for (int k = count - 1; k >= 0 && good; k--) {
        operand o;
        good = read_below(views[k], track_place(views[k]), k + 1 < count ? views[k + 1] : NULL, through, &o);
        through = o.edge;
    }
    if (views != few)
        mem_free(views);
    return good ? through : NULL;
}

static bool read_with(bk_tensor *t, bool with_edge, operand *out)
{
    node *place = NULL, *through = NULL;
    bk_tensor *above = NULL;
    if (log_look() < 0)
        return false;
    if (!with_edge)
        tensor_rejoin(t);
    else if (!look_up(t, &place, &above) || (above && !(through = edge_through(above))))
        return false;
    return read_below(t, place, above, through, out);
}

/* --- forward mode --- */

/* Its gradient, or rather tangent, passes only where a pass asks for tangents. A leaf has none: duals are no leaves. */
static bool tangents_only(operand *in)
{
    node *to = in->edge;
    in->edge = NULL;
    if (!to || to->op == OP_leaf)
        return true;
    if (forward_places.count == forward_places.capacity) {
        int capacity = forward_places.capacity ? 2 * forward_places.capacity : 64;
        node **held = mem_resize(forward_places.held, (size_t)capacity * sizeof *held);
        if (!held)
            return false;
        forward_places.held = held;
        forward_places.capacity = capacity;
    }
    node *n = node_new(OP_forward, (bk_dtype)in->value->dtype, in->value->layout);
    if (!n)
        return false;
    node_edge(n, 0, to);
    forward_places.held[forward_places.count++] = n;
    in->edge = n;
    return true;
}

void forward_open(void)
{
    if (!forward_depth++ && no_grad & GRAD_OFF)
        no_grad = GRAD_FOR_TANGENTS;
}

bool forward_is_open(void) { return forward_depth > 0; }

void forward_close(void)
{
    if (--forward_depth)
        return;
    if (no_grad & GRAD_FOR_TANGENTS)
        no_grad = GRAD_OFF;
    lock_take();
    for (int i = 0; i < forward_places.count; i++)
        node_release(forward_places.held[i]);
    lock_give();
    mem_free(forward_places.held);
    memset(&forward_places, 0, sizeof forward_places);
}

static __attribute__((noinline)) bool read_any(bk_tensor *t, operand *out)
{
    bool good = read_with(t, grad_enabled(), out);
    return good && no_grad == GRAD_FOR_TANGENTS ? tangents_only(out) : good;
}

bool tensor_read_slow(const bk_tensor *t, operand *out)
{
    const track *k = t->track;
    if (!k || t->keeps || t->flags & (TENSOR_VIEW | TENSOR_PART) || no_grad == GRAD_FOR_TANGENTS || !tensor_whole(t) ||
        !is_extent(t))
        return read_any((bk_tensor *)t, out);
    out->value = t->cell->value; /* a result, or a leaf */
    out->edge = NULL;
    if (no_grad | born)
        return true;
    if (k->place || !k->requires_grad) {
        out->edge = k->place;
        return true;
    }
    if (!k->leaf)
        return read_any((bk_tensor *)t, out);
    t->cell->taped = true;
    out->edge = k->leaf;
    return true;
}

node *tensor_edge(const bk_tensor *t)
{
    operand o;
    const track *k = t->track;
    if (k && k->place && !t->keeps && !(t->flags & TENSOR_VIEW) && tensor_whole(t) && is_extent(t))
        return k->place; /* a result */
    return k && read_with((bk_tensor *)t, true, &o) ? o.edge : NULL;
}

bool tensor_leave_behind(bk_tensor *t)
{
    node *edge = tensor_edge(t);
    node *place = edge && t->own_edge == edge ? t->own_edge_place : edge ? track_place(t) : NULL;
    bk_tensor *was = place ? tensor_alias(t, t->layout, t->offset, true) : NULL;
    if (!was)
        return false;
    bk_release(was->from); /* t itself, or NULL */
    was->from = t->from;
    was->made_by = t->made_by;
    was->made_version = t->made_version;
    was->made_at = t->made_at;
    was->apart = t->apart;
    was->apart_offset = t->apart_offset;
    edge_keep(was, node_retain(edge), place);
    t->from = bk_retain(was);
    t->made_version = t->cell->version;
    t->made_at = next_sequence++;
    return true;
}

bk_tensor *tensor_as_own(bk_tensor *view)
{
    operand in;
    if (!view || !(view->flags & TENSOR_VIEW) || !tensor_tracked(view))
        return view;
    lock_take();
    bk_tensor *own = tensor_read(view, &in) ? tensor_at(in.value, in.edge) : NULL;
    lock_give();
    return own;
}

/* Whether something is lost on the way from a view to its base. */
static bool loses(const node *from, const node *to)
{
    for (; from != to && from->op == OP_view; from = from->edge[0])
        if (from->attr.region.tape & REGION_FRESH || view_leaves(from))
            return true;
    return false;
}

int edge_straight(bk_tensor *t, node *value)
{
    enum { STEPS = 4 }; /* as many records as a write is made of */
    track *k = t->track;
    node *own = tensor_edge(t), *reader = value;
    if (!own || !loses(own, k->place))
        return 0;
    for (int i = 0; reader && reader->edge[0] != own; i++)
        reader = i < STEPS ? reader->edge[0] : NULL;
    if (!reader)
        return 0;
    node *n = place_view(tensor_dtype(t), k->place, k->layout, t->layout, t->offset - k->offset,
                         (int64_t)VIEW_as_strided << REGION_OP_SHIFT);
    if (!n)
        return -1;
    n->sequence = own->sequence + 1;
    if (own->flags & reader->flags & NODE_PENDING)
        own->inner_edges--;
    node_edge(reader, 0, n);
    node_release(n);
    own->tape_refs--;
    node_release(own);
    return 0;
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

static const char *const view_names[] = {
#define VIEW_OP(name, grad_name) [VIEW_##name] = grad_name,
    VIEW_OPS(VIEW_OP)
#undef VIEW_OP
};

const char *view_grad_name(view_op op) { return view_names[op]; }

const char *place_grad_name(const node *n)
{
    static const char *const write_names[] = {
#define WRITE_OP(name, grad_name) [WRITE_##name] = grad_name,
        WRITE_OPS(WRITE_OP)
#undef WRITE_OP
    };
    bool copy = place_is_copy(n);
    if (n->composed && composed_name(n))
        return composed_name(n);
    if (n->op == OP_view && !copy)
        return view_names[n->attr.region.tape >> REGION_OP_SHIFT];
    if (!copy && n->op != OP_update)
        return n->op == OP_cast && n->attr.i[0] == n->dtype ? "CloneBackward0" : op_get(n->op)->grad_name;
    write_op op = (write_op)(n->attr.region.tape >> REGION_OP_SHIFT);
    return copy && op == WRITE_part ? place_grad_name(n->edge[0]) : write_names[op];
}

const char *tensor_grad_name(const bk_tensor *t)
{
    if (bk_is_leaf(t))
        return NULL;
    bool view = t->flags & TENSOR_VIEW || !is_extent(t);
    const node *place = view ? tensor_edge(t) : t->track->place;
    return place ? place_grad_name(place) : view_names[view_maker(t)];
}

int bk_ndim(const bk_tensor *t) { return t->layout->ndim; }
const int64_t *bk_sizes(const bk_tensor *t) { return t->layout->sizes; }
const int64_t *bk_strides(const bk_tensor *t) { return t->layout->strides; }
int64_t bk_numel(const bk_tensor *t) { return t->layout->numel; }
bk_dtype bk_dtype_of(const bk_tensor *t) { return tensor_dtype(t); }
bool bk_is_contiguous(const bk_tensor *t) { return t->layout->contiguous; }
