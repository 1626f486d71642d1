/* tensor.h: handles, cells and tracks.
 *
 * A cell is memory: tensors that alias each other share one. It names the node that is its current value, and its stamp
 * counts its writes. A track is a place on the tape, shared by a base and its differentiable views. A handle is what a
 * user holds: a cell, a track, and a layout within the cell.
 *
 * Reading a handle gives an operand: (value node, edge). Writing one moves its cell to a new node, and its track too
 * when the tape sees the write; every alias then reads the new value, while whoever read before keeps the old node. */
#ifndef BK_CORE_TENSOR_H
#define BK_CORE_TENSOR_H
#include "core/node.h"

typedef struct cell {
    int32_t refs;
    node *value;    /* whole: its layout is the cell's for the cell's life */
    uint64_t stamp; /* changes with every write, never reused */
    uint64_t moved; /* the sequence of nodes at the last write; `written`: at the last that counts */
    uint64_t written;
    uint32_t version;        /* counts the writes, but for those through .data: PyTorch's _version */
    uint32_t expected;       /* what the tape read before the last writes was at this version */
    bool taped;              /* the tape has read it since the last write */
    struct bk_tensor *seers; /* the handles that remember a view of the current value */
    void *front;             /* the front end's object for the memory, not owned */
} cell;

typedef struct track {
    int32_t refs;
    bool requires_grad; /* a leaf that wants a gradient */
    bool retain_grad;
    bool tangents; /* a leaf that forward mode made: it stands for a tangent, nobody asked for its gradient */
    bool part;     /* a leaf that was made a view of another tensor, of whose track `under` tells; has no place */
    const layout *layout; /* its extent within the cell: that of the handle it was made for. Gradients have its sizes */
    int64_t offset;
    node *place;             /* the tape node that made the current value (owned); NULL for a leaf */
    node *leaf;              /* a leaf's tape node while one exists (not owned: it owns the track) */
    cell *cell;              /* a part's; a leaf's, once the tape has read it (owned) */
    struct bk_tensor *owner; /* the handle that it was made for, while that lives; not owned */
    struct bk_tensor *grad;
    struct hooks *hooks; /* a leaf's (autograd/hooks.h) */
    union {
        struct track *next_keeper; /* in the list of those that keep the gradient of one place */
        struct track *under;       /* of a part (owned) */
    };
} track;

enum {
    TENSOR_VIEW = 1,      /* made as a differentiable view of another handle: shares its track, is no leaf of it */
    TENSOR_DATA = 2,      /* PyTorch's .data, or a view of it: the tape is not to know of writes through it */
    TENSOR_PART = 4,      /* a view that was made a leaf: it may become a view again (tensor_rejoin) */
    TENSOR_INFERENCE = 8, /* made in inference mode: not to be written outside of it, nor read by a gradient */
    TENSOR_BESIDE = 16,   /* made as a view of `from`, but off the tape: shares no track with it */
    TENSOR_TURNED = 32    /* a place of it has had the turn that made_at stands for */
};

/* What made a view, and what PyTorch calls the gradient of that. */
#define VIEW_OPS(X)                                                                                                    \
    X(view, "ViewBackward0")                                                                                           \
    X(alias, "AliasBackward0")                                                                                         \
    X(as_strided, "AsStridedBackward0")                                                                                \
    X(diagonal, "DiagonalBackward0")                                                                                   \
    X(expand, "ExpandBackward0")                                                                                       \
    X(permute, "PermuteBackward0")                                                                                     \
    X(reshape_alias, "ReshapeAliasBackward0") /* by reshape, of what is not row-major */                               \
    X(select, "SelectBackward0")                                                                                       \
    X(slice, "SliceBackward0")                                                                                         \
    X(split, "SplitBackward0")                                                                                         \
    X(split_sizes, "SplitWithSizesBackward0")                                                                          \
    X(unsafe_split, "UnsafeSplitBackward0")                                                                            \
    X(unsafe_split_sizes, "UnsafeSplitWithSizesBackward0")                                                             \
    X(squeeze, "SqueezeBackward0")                                                                                     \
    X(squeeze_dim, "SqueezeBackward1")                                                                                 \
    X(squeeze_dims, "SqueezeBackward2")                                                                                \
    X(squeeze_own, "SqueezeBackward4")  /* of a result that nobody has seen: in place to PyTorch */                    \
    X(squeeze_all_, "SqueezeBackward3") /* in place */                                                                 \
    X(squeeze_dims_, "SqueezeBackward5")                                                                               \
    X(t, "TBackward0")                                                                                                 \
    X(transpose, "TransposeBackward0")                                                                                 \
    X(unbind, "UnbindBackward0")                                                                                       \
    X(unfold, "UnfoldBackward0")                                                                                       \
    X(unsqueeze, "UnsqueezeBackward0")                                                                                 \
    X(unsafe_view, "UnsafeViewBackward0") /* of a copy that nobody else has */                                         \
    X(unseen, "ViewBackward0")            /* none to PyTorch */
typedef enum view_op {
#define VIEW_OP(name, grad_name) VIEW_##name,
    VIEW_OPS(VIEW_OP)
#undef VIEW_OP
} view_op;

/* What an index did to dimensions, the first in the lowest bits; 0 for all that were not told. */
enum { INDEX_KEEP, INDEX_SLICE, INDEX_SELECT, INDEX_NEW, INDEX_BITS = 2 };
__extension__ typedef unsigned __int128 index_changes;

struct bk_tensor {
    int32_t refs;
    uint8_t flags;
    uint8_t made_by; /* view_op, of a view */
    uint32_t part;   /* of one of several views made at once: which (view_lists.h); of an index: INDEX_... of each
                        dimension (the same, of long ones) */
    cell *cell;
    track *track; /* NULL: on no tape and not shared with a differentiable view */
    const layout *layout;
    int64_t offset;   /* elements from the cell's first */
    node *seen;       /* the view node made by the last read, valid while the stamps are equal */
    node *seen_place; /* the track's place at that time */
    uint64_t seen_stamp;
    node *own_edge;            /* a tape node that only this handle keeps: a leaf's, or that of a view of the track */
    node *own_edge_place;      /* the track's place when it was made */
    uint32_t own_edge_version; /* the cell's then: a write that counts gives a view a new place, as in PyTorch */
    uint32_t made_version;     /* the cell's when the view was made */
    uint64_t made_at;          /* the sequence of nodes then, which its first place takes */
    track *keeps;              /* a view that keeps its gradient: a track of its own, which holds it. NULL: none */
    struct bk_tensor *from; /* the tensor off whose tape, or else the view, that this is a view of (owned); NULL: it is
                               a view of what its track stands for, or none */
    const layout *apart;    /* a view of a tensor whose elements share memory: its own among those, numbered; or NULL */
    int64_t apart_offset;
    struct bk_tensor *next_seer, **seer_link; /* in the cell's list while `seen` is set */
    void *front;                              /* the front end's object for this handle, not owned */
};

/* What an op reads: a tensor's value and its place on the tape, or a plain number (value == NULL), which takes part in
 * promotion by its category only. */
typedef struct operand {
    node *value;
    node *edge;              /* NULL: no gradient flows */
    dtype_category category; /* of a number */
    bool beside;             /* a number that PyTorch keeps beside the operands: it takes no part in strides */
    int64_t i;               /* a bool or an integer */
    double d;                /* any number */
} operand;

static inline operand number_float(double d) { return (operand){ .category = CATEGORY_FLOAT, .d = d }; }
static inline operand number_int(int64_t i) { return (operand){ .category = CATEGORY_INT, .i = i, .d = (double)i }; }
static inline operand number_bool(bool b) { return (operand){ .category = CATEGORY_BOOL, .i = b, .d = b }; }

/* The value and edge of a handle; false with the error set. Borrowed: good until the next write to the handle. */
bool tensor_read_slow(const bk_tensor *t, operand *out);
static inline bool tensor_read(const bk_tensor *t, operand *out)
{
    node *whole = t->cell->value;
    if (__builtin_expect(t->track || t->layout != whole->layout || t->offset, 0))
        return tensor_read_slow(t, out);
    out->value = whole; /* what a number would be is left alone: nobody looks at it beside a value */
    out->edge = NULL;
    return true;
}
/* A new handle on a new cell; steals the reference to `value`. Its track starts at value when that is taped. */
bk_tensor *tensor_from_node(node *value);
/* A new handle on a new cell that holds `value`, its place on the tape being `edge` (or none). Both borrowed. */
bk_tensor *tensor_at(node *value, node *edge);
bk_tensor *tensor_own_at(node *value, node *edge); /* the same for the caller alone: no scope has it */
/* t itself as a result: one more reference, owned by the scope if one is open. */
bk_tensor *tensor_same(const bk_tensor *t);
/* What t holds was made at this place: where t is a view, the rest of its base stays where it was made. */
int tensor_set_place(bk_tensor *t, node *place);
/* t has the value of another tensor, and its place on the tape: from here on it has one of its own there, as of a copy
 * that was made so. */
int tensor_place_copy(bk_tensor *t, write_op op);
/* Another handle on t's cell: differentiable (same track) or not. */
bk_tensor *tensor_alias(const bk_tensor *t, const layout *l, int64_t offset, bool differentiable);
/* A view as users make one: differentiable, or (without gradients) beside the tape. */
bk_tensor *tensor_view_of(const bk_tensor *t, const layout *l, int64_t offset);
bk_tensor *tensor_beside(const bk_tensor *t, const layout *l, int64_t offset);
/* Whether t is a view to its users. Of a copy that nobody else has, a view is none to PyTorch. */
static inline bool tensor_is_view(const bk_tensor *t)
{
    return t->flags & (TENSOR_VIEW | TENSOR_PART | TENSOR_BESIDE) && t->made_by != VIEW_unsafe_view &&
           t->made_by != VIEW_squeeze_own;
}
/* The same view, its maker named. */
static inline bk_tensor *made_by(bk_tensor *v, view_op op)
{
    if (v)
        v->made_by = (uint8_t)op;
    return v;
}
static inline bk_tensor *made_as_part(bk_tensor *v, view_op op, int64_t part)
{
    if (v)
        v->part = (uint32_t)part;
    return made_by(v, op);
}
/* Elements of t share memory, yet each has a gradient of its own, which strides cannot tell apart. So a view of t also
 * knows where it would lie if t's elements had memory of their own: whoever makes a view does it once more, to a
 * stand-in for t. `v && tensor_shares(t) ? apart_close(v, bk_select(apart_open(t), dim, index)) : v` */
static inline bool tensor_shares(const bk_tensor *t);
bk_tensor *apart_open(const bk_tensor *t);
bk_tensor *apart_close(bk_tensor *v, const bk_tensor *again);
/* t itself turns into a view of it (t_, squeeze_). */
int tensor_become(bk_tensor *t, const bk_tensor *view);
/* What PyTorch calls the gradient function of t: "AddBackward0"; NULL for a leaf and for what needs no gradient. */
const char *tensor_grad_name(const bk_tensor *t);
const char *place_grad_name(const node *n);
/* What an op has cast, or copied, for itself, operands and results, is no function of PyTorch's. */
static inline bool place_is_cast_for_op(const node *n) { return n->op == OP_cast && n->reached && !n->composed; }
/* The op whose result was cast so, for a write in place. */
enum { CAST_OF_RESULT = 2 };
static inline node *place_behind_cast(node *n)
{
    return place_is_cast_for_op(n) && n->reached == CAST_OF_RESULT ? n->edge[0] : n;
}
/* The same of a place that is looked at from above: what was written to in PyTorch's view of a result is an as_strided
 * of what that has become. */
const char *place_shown_name(const node *n);
/* What PyTorch calls the gradient of a view that was made so. */
const char *view_grad_name(view_op op);
/* One reference less. */
void cell_release(cell *c);
/* A new handle on a cell, on no tape. */
bk_tensor *cell_tensor(cell *c, const layout *l, int64_t offset);
/* The same from numbers that nobody has checked; NULL with the error set where they leave the cell. */
bk_tensor *cell_tensor_checked(cell *c, int ndim, const int64_t *sizes, const int64_t *strides, int64_t offset);
/* The cell's value becomes another node, whose reference it takes over: by a write that counts, or by one that the tape
 * is not to know of, after which views are where they were on it. */
void cell_move(cell *c, node *value, bool counts);
/* The write: the elements of t become those of value (same sizes and dtype; both value and edge borrowed). */
int tensor_write(bk_tensor *t, operand value, bool add);
/* The same, of a value that has nothing to do with the old one, which gets zeros on the tape: PyTorch's copy_. */
int tensor_overwrite(bk_tensor *t, operand value);
/* out takes the elements of a result, cast, and its sizes if they differ. */
int tensor_take_result(bk_tensor *out, const bk_tensor *result);
/* What the write that t has just taken is called on the tape, where it was one to all of a tensor. */
void tensor_written_by(const bk_tensor *t, write_op op);
/* The write of a kernel that works on the whole cell: t's cell moves to n (stolen), recorded over the cell's value, and
 * t's place on the tape with it when n is taped. */
int tensor_move(bk_tensor *t, node *n);
/* Whether t's track covers its whole cell, so that such a node can be its place on the tape. Makes the track; false
 * also when memory is out. */
bool tensor_covers_cell(bk_tensor *t);
/* The memory of t's cell if a write may go straight to it: evaluated, on no tape, and nobody but the cell holds the
 * value. What handles remember of it is forgotten. NULL: record the write. */
char *tensor_open(bk_tensor *t);
/* Whether gradients flow through t, or would to it. */
static inline bool tensor_tracked(const bk_tensor *t)
{
    return t->track && (t->track->place || t->track->requires_grad);
}
static inline bool tensor_shares(const bk_tensor *t) { return t->layout->overlapping && tensor_tracked(t); }
/* Whether writing to t in place is allowed: to each of its elements its own value, or (tensor_check_leaf) to all of
 * them the same one, which may be done where elements share memory. */
int tensor_check_write(const bk_tensor *t);
int tensor_check_leaf(const bk_tensor *t);
/* A write that nobody recorded: what was read before is no longer there. */
void tensor_count_write(bk_tensor *t);
/* t, which a function has made by writing to it: those who get it have a new tensor, at version 0. NULL gives NULL. */
bk_tensor *tensor_finished(bk_tensor *t);
/* t, which a function has made and PyTorch's by so many writes, which those who get it can count: no fewer than there
 * were. NULL gives NULL. */
bk_tensor *tensor_written_often(bk_tensor *t, uint32_t times);
/* The tape node where t's gradient goes, NULL when t needs none. Borrowed. */
node *tensor_edge(const bk_tensor *t);
static inline bool tensor_whole(const bk_tensor *t) { return t->layout == t->cell->value->layout && t->offset == 0; }
/* The address of t's first element, evaluated; NULL with the error set. */
char *tensor_data(const bk_tensor *t);
static inline bk_dtype tensor_dtype(const bk_tensor *t) { return (bk_dtype)t->cell->value->dtype; }

/* The track that keeps the gradient of t, a view and no leaf; made when it has none. */
track *tensor_keeper(bk_tensor *t);
/* The tensor of a leaf that the tape has read, or another one for it when that is gone; NULL: out of memory. */
bk_tensor *track_tensor(track *k);
/* t is a leaf that forward mode made. How many of these there are, in all threads. */
int tensor_for_tangents(bk_tensor *t);
extern int tangent_leaves;
/* A result behind a view of it that nobody else sees, as a tensor of its own: what is written to it in place goes to
 * its own place on the tape, not to that of a base. NULL stays NULL. */
bk_tensor *tensor_as_own(bk_tensor *view);
/* The same of what is a view of something inside in PyTorch, too: off the tape, where nobody can tell but by asking. */
static inline bk_tensor *tensor_as_own_taped(bk_tensor *view)
{
    return view && tensor_tracked(view) ? tensor_as_own(view) : view;
}
/* What t, a view, is a view of, or another handle for it when that is gone. */
bk_tensor *tensor_base(const bk_tensor *t);
/* The track of t, made when it has none. */
track *tensor_track(bk_tensor *t);
void track_leave(bk_tensor *t); /* t is on no tape from here on */
/* t, a view of a tensor without gradients, is about to become a leaf. PyTorch does not forget what it was: when that
 * tensor comes onto the tape by a write, so does t. Until then views of t that were made before a write lead nowhere.
 */
int track_part(bk_tensor *t);
/* A leaf that was a view, or a view of one, is a view of the tensor below where PyTorch takes it for that. Whether. */
bool tensor_rejoin(bk_tensor *t);
void node_extra_release(node *n);
void tensors_keep_layouts(void); /* the roots of a layout_sweep that are handles and tracks */

bool grad_enabled(void);
bool grad_set_enabled(bool on); /* returns what it was */
/* Inference mode: nothing is put on the tape, whatever the grad mode says, and what is made belongs to it. */
bool inference_enabled(void);
bool inference_set_enabled(bool on); /* returns what it was */
bool grad_mode(void);                /* what the user has asked for */
bool grad_ask(bool on);              /* the user asks; returns what it was */
/* Forward mode has tangents also where gradients are off. Between open and close (calls may be nested) what is done
 * without gradients is recorded all the same, behind places that only a pass for tangents goes through. */
void forward_open(void);
void forward_close(void);
bool forward_is_open(void);

/* Value nodes of views: aliases evaluated memory, records otherwise. Owned.
 * node_view: a region of a cell's whole value, in the cell's own strides. node_expand: sizes of 1 repeated. */
node *node_view(node *base, node *edge, const layout *l, int64_t offset);
node *node_expand(node *base, node *edge, const layout *l);

#endif
