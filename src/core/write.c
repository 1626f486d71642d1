/* write.c: writing through handles.
 *
 * A write moves the cell of a handle to a new value, and its track to a new place when the tape sees the write. Whoever
 * read before keeps what he read.
 *
 * Invariants: as in tensor.c and track.c. What is written is recorded, or goes straight to memory where nobody else
 * holds the value; memory that somebody outside can see receives the write itself, at once. */
#include "core/handle.h"

#include <string.h>

#include "autograd/shown.h"
#include "core/error.h"
#include "core/lock.h"
#include "core/memory.h"
#include "core/scope.h"
#include "graph/log.h"
#include "graph/packed.h"

int tensor_check_write(const bk_tensor *t)
{
    if (tensor_check_leaf(t) < 0)
        return -1;
    return !t->layout->overlapping
               ? 0
               : error_int(BK_RUNTIME_ERROR,
                           "unsupported operation: more than one element of the written-to tensor refers to a single "
                           "memory location. Please clone() the tensor before performing the operation.");
}

static int refuse_inference(void)
{
    return error_int(BK_RUNTIME_ERROR, "Inplace update to inference tensor outside InferenceMode is not allowed."
                                       "You can make a clone to get a normal tensor before doing inplace update."
                                       "See https://github.com/pytorch/rfcs/pull/17 for more details.");
}

int tensor_check_leaf(const bk_tensor *t)
{
    if (!(grad_enabled() && grad_mode() && tensor_tracked(t) && t->track->requires_grad && !t->track->place))
        return t->flags & TENSOR_INFERENCE && !inference_enabled() ? refuse_inference() : 0;
    if (tensor_rejoin((bk_tensor *)t))
        return tensor_check_leaf(t);
    return error_int(BK_RUNTIME_ERROR, "a %sleaf Variable that requires grad is being used in an in-place operation.",
                     bk_is_leaf(t) && !t->track->part ? "" : "view of a ");
}

/* What was recorded before this has read what was there before. */
static void count_write(const bk_tensor *t)
{
    cell *c = t->cell;
    c->moved = next_sequence;
    if (t->flags & TENSOR_DATA)
        return;
    c->written = c->moved;
    if (c->taped)
        c->expected = c->version;
    c->taped = false;
    c->version++;
}

void tensor_count_write(bk_tensor *t)
{
    lock_take();
    next_sequence++; /* later than all that was recorded */
    count_write(t);
    lock_give();
}

bk_tensor *tensor_finished(bk_tensor *t)
{
    if (!t)
        return NULL;
    lock_take();
    handle_forget_edge(t); /* it was that of the version before */
    t->cell->version = t->made_version = 0;
    lock_give();
    return t;
}

bk_tensor *tensor_written_often(bk_tensor *t, uint32_t times)
{
    if (!t)
        return NULL;
    lock_take();
    if (t->own_edge_version == t->cell->version)
        t->own_edge_version = times;
    t->cell->version = t->made_version = times;
    lock_give();
    return t;
}

void cell_move(cell *c, node *value, bool counts)
{
    cell_forget(c, counts);
    node_release_value(c->value);
    c->value = value;
    c->stamp = next_stamp++;
}

/* Memory that somebody else can see must receive the write itself, now. */
static bool must_stay(const cell *c)
{
    storage *s = c->value->memory;
    return s && (s->pinned || (s->exports && storage_shared(s)));
}

/* The cell's value is n from here on, whose reference it takes over. */
static int take_value(bk_tensor *t, node *n)
{
    if (t->flags & TENSOR_INFERENCE)
        n->flags |= NODE_INFERENCE;
    bool stay = must_stay(t->cell);
    cell_move(t->cell, n, !(t->flags & TENSOR_DATA));
    count_write(t);
    return stay || log_due() ? log_flush() : 0;
}

static node *update_node(const bk_tensor *t, operand value, node *place, bool add)
{
    node *old = t->cell->value;
    node *n = node_new(OP_update, (bk_dtype)old->dtype, old->layout);
    if (!n)
        return NULL;
    n->inputs = 2;
    n->attr.region.layout = t->layout;
    n->attr.region.offset = t->offset;
    n->attr.region.add = add;
    node_input(n, 0, old, place);
    node_input(n, 1, value.value, value.edge);
    if (log_append(n) < 0) {
        node_release(n);
        return NULL;
    }
    return n;
}

/* Whether a place is nobody's yet. */
static bool is_new(const node *place) { return place->op != OP_leaf && !place->tape_refs && !place->cache_refs; }

/* A place for t, which takes a value that was made at `edge`: that one, if the value was made for t and not copied to
 * it
 * (`over`). Another tensor's place is not t's, for they have gradients and hooks of their own. */
static node *place_for(const bk_tensor *t, node *edge, bool over)
{
    bool view = t->flags & TENSOR_VIEW;
    if (is_new(edge) && !view && !over)
        return node_retain(edge);
    node *n = node_new(OP_view, tensor_dtype(t), t->layout->plain);
    if (!n)
        return NULL;
    n->attr.region.layout = t->layout->plain;
    n->attr.region.add = true; /* memory of t's own, unlike a view's */
    n->attr.region.tape = view ? WRITE_slice << REGION_OP_SHIFT : 0;
    node_edge(n, 0, edge);
    return n;
}

/* The write as the tape sees it, where the track is only a part of its cell. */
static node *update_edge(const bk_tensor *t, node *place, node *edge, bool add, bool over)
{
    if (is_extent(t) && !add && edge)
        return place_for(t, edge, over);
    node *n = node_new(OP_update, tensor_dtype(t), t->track->layout);
    if (!n)
        return NULL;
    n->attr.region.layout = t->layout;
    n->attr.region.offset = t->offset - t->track->offset;
    n->attr.region.add = add;
    if (place)
        node_edge(n, 0, place);
    if (edge)
        node_edge(n, 1, edge);
    return n;
}

/* The track that a write to t moves: of one that was a leaf for a while, that of the tensor which it is a view of. */
static track *track_written(bk_tensor *t)
{
    if (t->track && t->track->part)
        tensor_go_under(t);
    return tensor_track(t);
}

/* A write moves the track. */
static void move_written(track *k, node *moved)
{
    const node *old = k->place;
    if (old && (old->in_view || ((old->composed || old->op == OP_view) && shown_is_inner_view(old))))
        moved->in_view = 1;
    track_move(k, moved);
}

int tensor_set_place(bk_tensor *t, node *place)
{
    bool first = !t->track; /* t is all that it will stand for */
    track *k = track_written(t);
    if (first && k && is_new(place) && !(t->flags & TENSOR_VIEW)) {
        k->place = node_retain(place);
        place->tape_refs++;
        return 0;
    }
    node *moved = k ? update_edge(t, k->place, place, false, false) : NULL;
    if (!moved)
        return -1;
    move_written(k, moved);
    node_release(moved);
    return 0;
}

char *tensor_open(bk_tensor *t)
{
    cell *c = t->cell;
    const node *n = c->value;
    if (!n->data || !n->memory || tensor_tracked(t) || t->layout->overlapping || t->flags & TENSOR_INFERENCE)
        return NULL;
    cell_forget(c, !(t->flags & TENSOR_DATA));
    if (n->refs != 1 || n->memory->refs != 1)
        return NULL;
    packed_drop(n->memory);
    c->stamp = next_stamp++;
    count_write(t);
    return n->data;
}

/* One element that is there already goes straight to memory where that is allowed. */
static bool write_now(bk_tensor *t, operand value)
{
    if (t->layout->numel != 1 || !value.value->data || value.edge)
        return false;
    node_retain(value.value); /* what tensor_open forgets may be the last to hold it */
    char *memory = tensor_open(t);
    size_t size = dtype_size(tensor_dtype(t));
    if (memory)
        node_mix(t->cell->value, value.value);
    if (memory)
        memcpy(memory + (size_t)t->offset * size, value.value->data, size);
    node_release(value.value);
    return memory != NULL;
}

/* A value as that of another cell. A view that a handle remembers is its own cell's: who asks whose memory is read
 * (overlap_check) must not find it in two. Owned. */
static node *own_value(node *value)
{
    return value->cache_refs ? node_view(value, NULL, value->layout, 0) : node_retain(value);
}

static int write(bk_tensor *t, operand value, bool add, bool over)
{
    if (!add && write_now(t, value))
        return 0;
    bool taped = grad_enabled();
    if (taped && t->track && t->track->part && (value.edge || t->track->under->place))
        tensor_go_under(t);
    node *place = taped && t->track ? t->track->place : NULL;
    node *edge = taped ? value.edge : NULL;
    if ((place || edge) && !tensor_track(t))
        return -1;
    if (place && edge && may_go_straight(t) && edge_straight(t, edge) < 0)
        return -1;
    bool together = (place || edge) && covers_cell(t);
    value.edge = together ? edge : NULL;
    bool replaces = tensor_whole(t) && !add && value.value->layout == t->layout && !(place && (over || !edge)) &&
                    !must_stay(t->cell);
    node *n = replaces ? own_value(value.value) : update_node(t, value, together ? place : NULL, add);
    if (!n)
        return -1;
    if (place || edge) {
        node *moved = !together  ? update_edge(t, place, edge, add, over)
                      : replaces ? place_for(t, edge, over)
                                 : node_retain(n);
        if (!moved) {
            node_release(n);
            return -1;
        }
        if (!over && t->flags & TENSOR_VIEW && (moved->op == OP_update || place_is_copy(moved)))
            moved->attr.region.tape = WRITE_through << REGION_OP_SHIFT;
        move_written(t->track, moved);
        node_release(moved);
    }
    return take_value(t, n);
}

int tensor_place_copy(bk_tensor *t, write_op op)
{
    node *own = place_for(t, t->track->place, true);
    if (!own)
        return -1;
    own->attr.region.tape = (int64_t)op << REGION_OP_SHIFT;
    track_move(t->track, own);
    node_release(own);
    return 0;
}

int tensor_write(bk_tensor *t, operand value, bool add) { return write(t, value, add, false); }
int tensor_overwrite(bk_tensor *t, operand value) { return write(t, value, false, true); }

void tensor_written_by(const bk_tensor *t, write_op op)
{
    node *place = t->track && grad_enabled() ? t->track->place : NULL;
    if (!place || (place->op != OP_update && !place_is_copy(place)))
        return;
    if (t->flags & TENSOR_VIEW)
        op = (op == WRITE_fill || op == WRITE_zero) && place->op == OP_update ? WRITE_part_filled : WRITE_part;
    if (!(t->flags & TENSOR_VIEW) || op == WRITE_part_filled)
        place->attr.region.tape = (place->attr.region.tape & REGION_FRESH) | (int64_t)op << REGION_OP_SHIFT;
}

/* What t has become is all that its track stands for, where it was that before and has no views but the one that showed
 * it what to become: writes to t then have names of their own. */
static void become_own(bk_tensor *t, const bk_tensor *view)
{
    track *k = t->track;
    bool alone = k && k->place && k->refs == 1 + (view->track == k) && !(t->flags & TENSOR_VIEW);
    node *place = alone ? tensor_edge(t) : NULL;
    if (!place)
        return;
    track_move(k, place);
    k->layout = t->layout;
    k->offset = t->offset;
}

/* The gradients of a leaf look like what its tensor has become from here on. */
static void leaf_stands_for(const bk_tensor *t)
{
    t->track->layout = t->layout;
    t->track->offset = t->offset;
    if (t->track->leaf)
        t->track->leaf->layout = t->layout;
}

/* A view in place that changes nothing is a function on the tape all the same. */
static int become_same(bk_tensor *t, const bk_tensor *view)
{
    node *place = tensor_edge(view);
    return place ? tensor_set_place(t, place) : -1;
}

int tensor_become(bk_tensor *t, const bk_tensor *view)
{
    if (!view)
        return -1;
    if (tensor_check_leaf(t) < 0)
        return -1;
    lock_take();
    const bool owns = !(t->flags & TENSOR_VIEW) && is_extent(t);
    if (owns && view->layout == t->layout && grad_enabled() && tensor_tracked(t) && t->track->place) {
        int status = become_same(t, view);
        lock_give();
        return status;
    }
    bool leaf = t->track && t->track->requires_grad && !t->track->place && is_extent(t) && !(t->flags & TENSOR_VIEW);
    bool on_tape = t->flags & TENSOR_VIEW && grad_enabled() && tensor_tracked(t);
    if (on_tape && !tensor_leave_behind(t)) {
        lock_give();
        return -1;
    }
    handle_forget(t);
    handle_forget_edge(t);
    handle_drop_keeper(t);
    t->layout = view->layout;
    t->offset = view->offset;
    t->made_by = view->made_by;
    t->apart = on_tape ? view->apart : NULL;
    t->apart_offset = view->apart_offset;
    if (leaf)
        leaf_stands_for(t);
    else
        become_own(t, view);
    lock_give();
    return 0;
}

static void take_memory(bk_tensor *t, const bk_tensor *from)
{
    cell *old = t->cell;
    handle_forget(t);
    from->cell->refs++;
    t->cell = from->cell;
    t->layout = from->layout;
    t->offset = from->offset;
    cell_release(old);
}

int bk_set_data(bk_tensor *t, const bk_tensor *from)
{
    if (!t || !from)
        return -1;
    if (bk_requires_grad(t) && !dtype_is_float(tensor_dtype(from)))
        return error_int(BK_RUNTIME_ERROR,
                         "data set to a tensor that requires gradients must be floating point or complex dtype");
    lock_take();
    if (t->track && (t->flags & TENSOR_VIEW || !is_extent(t)))
        track_leave(t);
    if (t->track)
        track_whole(t);
    take_memory(t, from);
    if (t->track) {
        leaf_stands_for(t);
        if (t->track->cell)
            track_cell(t->track, t->cell);
        if (t->track->cell && t->track->leaf) { /* the tape has read other memory, as before a write through .data */
            t->cell->moved = next_sequence;
            t->track->leaf->attr.leaf.exchanged = next_sequence;
        }
    }
    lock_give();
    return 0;
}

/* out in the sizes of a result: in its own memory where that has room, else in new memory. */
static int take_resized(bk_tensor *out, const bk_tensor *result)
{
    const layout *l = layout_packed(result->layout); /* with the result's strides, as PyTorch resizes it */
    if (!l || tensor_check_leaf(out) < 0)
        return -1;
    const storage *s = out->cell->value->memory;
    bool fits = out->offset + l->span <= out->cell->value->layout->span;
    if (!fits && s && (s->exports || s->release)) /* others see this memory */
        return error_int(BK_RUNTIME_ERROR, "Trying to resize storage that is not resizable");
    bk_scope_push();
    bk_tensor *own = fits ? tensor_alias(out, l, out->offset, false) : bk_to(result, tensor_dtype(out));
    if (own == result)
        own = bk_clone(own);
    int status = !own || (fits && bk_copy_(own, result) < 0) ? -1 : bk_set_data(out, own);
    bk_scope_pop();
    return status;
}

int tensor_take_result(bk_tensor *out, const bk_tensor *result)
{
    return out->layout->plain == result->layout->plain ? bk_copy_(out, result) : take_resized(out, result);
}

int bk_copy_out(bk_tensor *out, const bk_tensor *result)
{
    if (!out || !result)
        return -1;
    lock_take();
    int status = 0;
    bk_dtype to = tensor_dtype(out), from = tensor_dtype(result);
    if (grad_enabled() && (tensor_tracked(out) || tensor_tracked(result)))
        status =
            error_int(BK_RUNTIME_ERROR, "functions with out=... arguments don't support automatic differentiation, but "
                                        "one of the arguments requires grad.");
    else if (dtypes[from].category > dtypes[to].category)
        status = error_int(BK_RUNTIME_ERROR, "result type %s can't be cast to the desired output type %s",
                           dtypes[from].type_name, dtypes[to].type_name);
    else
        status = tensor_take_result(out, result);
    lock_give();
    return status;
}

bool tensor_covers_cell(bk_tensor *t) { return track_written(t) && covers_cell(t); }

int tensor_move(bk_tensor *t, node *n)
{
    if (n->flags & NODE_TAPED) {
        if (!track_written(t)) {
            node_release(n);
            return -1;
        }
        move_written(t->track, n);
    }
    return take_value(t, n);
}
