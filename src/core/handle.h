/* handle.h: what reading (tensor.c) and writing (write.c) through handles share. */
#ifndef BK_CORE_HANDLE_H
#define BK_CORE_HANDLE_H
#include "core/tensor.h"

extern uint64_t next_stamp;

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
void track_move(track *k, node *place); /* to a tape node, or (NULL) off the tape */
void track_cell(track *k, cell *c); /* a leaf knows its memory: who reads its value later can ask what became of it */

void track_whole(bk_tensor *t);     /* t's track is a part of no other tensor from here on */
void tensor_go_under(bk_tensor *t); /* of a part: its track is that of the tensor below from here on */

/* t, a view on the tape, is about to become a view of what it is: another handle is that from here on, at its place.
 * False: out of memory. */
bool tensor_leave_behind(bk_tensor *t);

/* What a handle remembers: the view that it last read, its place on the tape, the track that keeps its gradient. */
void handle_forget(bk_tensor *t);
void handle_forget_edge(bk_tensor *t);
void handle_drop_keeper(bk_tensor *t);
/* Its value is about to change: handles forget what they remember of it. counts: their places on the tape, too. */
void cell_forget(cell *c, bool counts);

#endif
