/* handle.h: what handles (tensor.c), tracks and reading through them (track.c) and writing (write.c) share. What every
 * op comes by is inline: a record costs tens of nanoseconds. */
#ifndef BK_CORE_HANDLE_H
#define BK_CORE_HANDLE_H
#include "autograd/hooks.h"
#include "core/lock.h"
#include "core/memory.h"
#include "core/tensor.h"

extern uint64_t next_stamp;
extern freelist track_records;
extern HOT_THREAD_LOCAL uint8_t born; /* the flags of handles on new memory: those of inference mode, or none */

static inline void track_fill(track *k, const bk_tensor *t)
{
    record_clear(k, sizeof *k);
    k->refs = 1;
    k->layout = t->layout;
    k->offset = t->offset;
    k->owner = (bk_tensor *)t;
}

static inline track *track_new(const bk_tensor *t)
{
    track *k = freelist_take(&track_records, sizeof *k);
    if (k)
        track_fill(k, t);
    return k;
}

static inline track *track_of(bk_tensor *t) /* tensor_track */
{
    if (!t->track)
        t->track = track_new(t);
    return t->track;
}

void track_free(track *k);
static inline void track_release(track *k)
{
    if (--k->refs == 0)
        track_free(k);
}

static inline void track_drop(bk_tensor *t)
{
    track *k = t->track;
    t->track = NULL;
    if (k->owner == t)
        k->owner = NULL;
    track_release(k);
}

static inline void place_release(track *k)
{
    if (!k->place)
        return;
    if (k->retain_grad)
        hooks_forget(k->place, k);
    k->place->tape_refs--;
    node_release(k->place);
    k->place = NULL;
}

/* To a tape node, or (NULL) off the tape. */
static inline void track_move(track *k, node *place)
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

/* Whether t is all that its track stands for. */
static inline bool is_extent(const bk_tensor *t)
{
    return t->layout == t->track->layout && t->offset == t->track->offset;
}
/* Whether the track covers its whole cell: then a view of the value is a view on the tape too. */
static inline bool covers_cell(const bk_tensor *t)
{
    return t->track->layout == t->cell->value->layout && t->track->offset == 0;
}

/* Whether a place is that of a tensor that took another's value. */
static inline bool place_is_copy(const node *n) { return n->op == OP_view && n->attr.region.add; }

/* `value` is the place of what is about to be written to t, and may have been computed from t. The gradient of that
 * goes to the base as PyTorch's CopySlices sends it, also where that of t is taken for a constant, or is lost because t
 * reaches beyond the view that it was made of: past t's place, at the number behind it, which is left free for this. */
static inline bool may_go_straight(const bk_tensor *t)
{
    return t->layout->numel == 0 || t->made_by == VIEW_as_strided;
}
int edge_straight(bk_tensor *t, node *value);
void track_cell(track *k, cell *c); /* a leaf knows its memory: who reads its value later can ask what became of it */

void track_whole(bk_tensor *t);     /* t's track is a part of no other tensor from here on */
void tensor_go_under(bk_tensor *t); /* of a part: its track is that of the tensor below from here on */

/* t, a view on the tape, is about to become a view of what it is: another handle is that from here on, at its place.
 * False: out of memory. */
bool tensor_leave_behind(bk_tensor *t);

/* What a handle remembers: the view that it last read, its place on the tape, the track that keeps its gradient. */
static inline void handle_forget(bk_tensor *t)
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

static inline void handle_forget_edge(bk_tensor *t)
{
    node *n = t->own_edge;
    t->own_edge = NULL;
    if (!n)
        return;
    n->tape_refs--;
    node_release(n);
}

static inline void handle_drop_keeper(bk_tensor *t)
{
    if (t->keeps)
        track_release(t->keeps);
    t->keeps = NULL;
}

/* Its value is about to change: handles forget what they remember of it. counts: their places on the tape, too. */
void cell_forget(cell *c, bool counts);

#endif
