/* track.c: tracks, places on the tape, and reading through them.
 *
 * A track tells where the gradient of a tensor goes: to the tape node that made its value, or to a leaf. A view has a
 * place of its own below its track's, or below that of the view it was made of; the place is made when it is read, has
 * its turn in a backward where the view was made, and has the name that PyTorch gives to what made it.
 *
 * Invariants: a track's place is on the tape or NULL; a leaf's tape node owns its track, and the track only points
 * back, so that there is no cycle. No two tensors have one place, and no two nodes one number. A view's place changes
 * only with the writes that its cell's version counts. */
#include "core/handle.h"

#include <string.h>

#include "autograd/composed.h"
#include "autograd/function.h"
#include "autograd/replay.h"
#include "autograd/rules.h"
#include "core/lock.h"
#include "core/scope.h"
#include "graph/log.h"
#include "ops/view_lists.h"

freelist track_records = { 0 };
HOT_THREAD_LOCAL uint8_t born;
enum { GRAD_OFF = 1, GRAD_FOR_TANGENTS = 2 }; /* the second: off for the user, recorded for forward mode */
static HOT_THREAD_LOCAL uint8_t no_grad;      /* zero is PyTorch's default: gradients on */
static _Thread_local int forward_depth;
static _Thread_local struct {
    node **held; /* the places made for tangents: what reads gives is borrowed */
    int count, capacity;
} forward_places;

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

track *tensor_track(bk_tensor *t) { return track_of(t); }

void track_leave(bk_tensor *t)
{
    t->flags &= (uint8_t)~(TENSOR_VIEW | TENSOR_PART | TENSOR_BESIDE);
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

int tangent_leaves;

int tensor_for_tangents(bk_tensor *t)
{
    if (!tensor_edge(t)) /* a leaf that the tape has read knows its cell */
        return -1;
    tangent_leaves += !t->track->tangents;
    t->track->tangents = true;
    return 0;
}

void track_free(track *k)
{
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
    freelist_give(&track_records, k);
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
    if (then && !(t->flags & TENSOR_TURNED) && t->made_at > n->edge[0]->sequence)
        n->sequence = t->made_at;
    t->flags |= TENSOR_TURNED;
}

/* How many numbers of the sequence the parts before this one took: tensor_alias gives one to each, but two to one of no
 * elements. */
static uint32_t taken_before(const bk_tensor *t)
{
    const layout *l = t->layout;
    bool listed = t->made_by == VIEW_split_sizes || t->made_by == VIEW_unsafe_split_sizes;
    view_list list = listed ? view_list_at(t->part) : (view_list){ .number = t->part };
    if (!list.v)
        return (uint32_t)list.number * (1 + (l->numel == 0));
    int empty = 0;
    for (int d = 0; d < l->ndim && l->numel == 0; d++)
        empty += l->sizes[d] == 0;
    const bool all = empty > (list.v[list.number] == 0); /* in another dimension */
    uint32_t taken = 0;
    for (int k = 0; k < list.number; k++)
        taken += 1 + (all || list.v[k] == 0);
    return taken;
}

/* Which of several views t is, if it is one of several. */
static void name_part(const bk_tensor *t, node *n)
{
    n->span = t->part;
    n->call = (t->made_at - taken_before(t) * (1 + !!t->apart)) & CALL_MASK;
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
        name_part(t, n);
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
    name_part(t, n);
    next_sequence += may_go_straight(t);
    take_turn(t, n);
    edge_keep(t, n, place);
    return n;
}

/* The view that t was made of. One whose memory was written to since counts as an as_strided of the base: NULL. */
static bk_tensor *one_above(const bk_tensor *t)
{
    bk_tensor *up = t->made_version != t->cell->version ? NULL : t->from;
    return up && up->flags & TENSOR_VIEW ? up : NULL;
}

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
    if (t->apart && !one_above(t) && t->made_version == t->cell->version) /* of a leaf */
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
    was->flags |= t->flags & TENSOR_TURNED;
    was->apart = t->apart;
    was->apart_offset = t->apart_offset;
    edge_keep(was, node_retain(edge), place);
    t->from = bk_retain(was);
    t->made_version = t->cell->version;
    t->made_at = next_sequence++;
    t->flags &= (uint8_t)~TENSOR_TURNED;
    return true;
}

bk_tensor *tensor_as_own(bk_tensor *view)
{
    operand in;
    if (!view || !(view->flags & (TENSOR_VIEW | TENSOR_BESIDE)))
        return view;
    lock_take();
    if (!tensor_tracked(view)) {
        track_leave(view);
        lock_give();
        return view;
    }
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

/* --- names ----------------------------------------------------------------------------------------------------- */

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
    if (place_behind_cast((node *)n) != n)
        return place_grad_name(place_behind_cast((node *)n));
    if (n->op == OP_view && !copy)
        return view_names[n->attr.region.tape >> REGION_OP_SHIFT];
    if (!copy && n->op != OP_update)
        return n->op == OP_cast && n->attr.i[0] == n->dtype ? "CloneBackward0" : op_get(n->op)->grad_name;
    write_op op = (write_op)(n->attr.region.tape >> REGION_OP_SHIFT);
    return copy && op == WRITE_part ? place_grad_name(n->edge[0]) : write_names[op];
}

const char *place_shown_name(const node *n) { return n->in_view ? view_names[VIEW_as_strided] : place_grad_name(n); }

const char *tensor_grad_name(const bk_tensor *t)
{
    if (bk_is_leaf(t))
        return NULL;
    bool view = t->flags & TENSOR_VIEW || !is_extent(t);
    const node *place = view ? tensor_edge(t) : t->track->place;
    return place ? place_shown_name(place) : view_names[view_maker(t)];
}
