/* node.h: one recorded op, and the memory that values live in.
 *
 * A node is immutable as a value: what it stands for never changes. It is pending (in the log, nothing computed) until
 * a flush gives it data, and it may be a place on the tape too: `edge` leads to where the gradients of its inputs go.
 * in[k] is the value of input k, edge[k] its place on the tape; they differ after a write the tape did not see.
 * Inputs of elementwise ops have their own sizes: those that differ from the node's are repeated to it. */
#ifndef BK_CORE_NODE_H
#define BK_CORE_NODE_H
#include "core/error.h"
#include "core/layout.h"
#include "core/memory.h"
#include "cpu/ew.h"

/* --- ops ---------------------------------------------------------------------------------------------------- */

/* Elementwise ops come first, numbered by ops.def (EW_add ...); the others follow, numbered by nodes.def. */
enum op {
    OP_ELEMENTWISE_END = EW_COUNT - 1,
#define NODE(name, ...) OP_##name,
#include "graph/nodes.def"
#undef NODE
    OP_COUNT
};

enum { MAX_INPUTS = 3 };

typedef enum node_kind {
    KIND_ELEMENTWISE,     /* a row of ops.def, or a cast */
    KIND_VIEW,            /* other sizes and strides over the input's memory */
    KIND_UPDATE,          /* the first input with a region replaced by (or increased by) the second */
    KIND_KERNEL,          /* a function over whole tensors */
    KIND_KERNEL_IN_PLACE, /* the same, but the output starts as the first input */
    KIND_EMPTY,           /* memory whose contents do not matter yet */
    KIND_SECOND,          /* the second result of the kernel node before it */
    KIND_SOURCE           /* data, constants, places on the tape: never in the log */
} node_kind;

struct node;
struct bk_tensor;
struct kernel_call;

/* Gradients of one node: g is the gradient of its result; wanted inputs get theirs in grads[] (owned), NULL for zero.
 */
typedef int (*gradient_rule)(struct node *n, struct bk_tensor *g, struct bk_tensor *grads[static MAX_INPUTS]);

typedef struct op_info {
    const char *name;
    const char *grad_name; /* what PyTorch calls the gradient function: "AddBackward0" */
    node_kind kind;
    int (*run)(const struct kernel_call *call);
    gradient_rule gradient;
    uint8_t constants; /* bit k: input k never has a gradient: indices, sizes, parameters */
    uint8_t
        needs[MAX_INPUTS]; /* which values the gradient of input k reads: bit j for in[j], NEEDS_OUT for the result */
} op_info;

enum { NEEDS_OUT = 1 << MAX_INPUTS };

extern op_info op_infos[OP_COUNT]; /* read through op_get */
static inline const op_info *op_get(int op) { return &op_infos[op]; }

/* --- memory --------------------------------------------------------------------------------------------------- */

/* Memory that evaluated nodes point into. */
typedef struct storage {
    int32_t refs;
    int32_t exports;  /* foreign owners that can read or write it behind our back (NumPy arrays, DLPack, the buffer
                         protocol): reads of it are evaluated at once, writes go to this very memory */
    bool pinned;      /* its address was handed out: values of its cell stay here */
    uint8_t packings; /* how often products have packed what it holds since somebody wrote to it, up to a few */
    struct packed_form *packed; /* what is kept of that (graph/packed.h) */
    int32_t dying;              /* scratch of a flush: how many of refs end with it */
    int32_t first_leaf;         /* scratch of a flush: the first leaf that lies in it, good while epoch is the log's */
    uint32_t epoch;
    char *data;
    size_t bytes;
    void (*release)(void *owner);   /* NULL: pool memory */
    bool (*reachable)(void *owner); /* whether others than us hold the owner; NULL: they may */
    void *owner;
} storage;

storage *storage_new(size_t bytes);
storage *storage_adopt(void *data, size_t bytes); /* memory of pool_take(bytes), bytes > 0; given back on failure */
storage *storage_foreign(void *data, size_t bytes, void (*release)(void *), void *owner);
/* Whether a foreign owner can still reach exported memory. Memory of an owner that only we hold is ours from then on.
 */
bool storage_shared(storage *s);
void storage_unexport(storage *s); /* a foreign holder is gone, and with it its reference */
void storage_release(storage *s);

/* --- nodes ---------------------------------------------------------------------------------------------------- */

/* What an op needs to know besides its inputs. All 32 bytes take part in the plan's key: unused ones are zero. */
typedef union attr {
    int64_t i[4];
    double d[4];
    struct {
        const layout *layout; /* VIEW: that of the input; UPDATE: of the region */
        int64_t offset;       /* elements from the first element of the whole */
        int64_t add;          /* UPDATE: increase the region instead of replacing it */
        int64_t tape;         /* for the tape alone, set after recording: REGION_FRESH, and a write_op */
    } region;
    struct {
        int64_t dims; /* a bit for each dimension that is reduced */
        int64_t kind; /* reduce_kind */
        int64_t unused;
        const layout *from; /* that of the input */
    } reduce;
    struct {
        const layout *a, *b; /* those of the factors */
        int64_t turned;      /* bit k: factor k is read transposed */
        int64_t unused;
    } product;
    struct {
        const layout *layout; /* what is read at indices, or the region that is written at them */
        int64_t offset;       /* of the region */
        int64_t mode;         /* scatter_mode; index_put: whether it adds */
        int64_t dims;         /* gather, scatter: the dimension; else index_dims of ops/index.h */
    } index;
    struct {
        uint64_t exchanged; /* a leaf on the tape: the sequence of nodes when it was last given other memory */
    } leaf;
} attr;

/* An update of a region that nobody wrote before; a view that is empty, and whose gradient is a constant. */
enum { REGION_FRESH = 1, REGION_OP_SHIFT = 1 };

/* What an update stands for on the tape, and what PyTorch calls the gradient of that. `part`: nobody has named it, a
 * part is written, with one number if `part_filled`; `slice`: all of a tensor is, but through a view, which is a slice
 * to PyTorch. */
#define WRITE_OPS(X)                                                                                                   \
    X(part, "CopySlices")                                                                                              \
    X(slice, "CopySlices")                                                                                             \
    X(through, "CopySlices") /* an op in place of a view */                                                            \
    X(part_filled, "CopySlices")                                                                                       \
    X(copy, "CopyBackwards")                                                                                           \
    X(clone, "CloneBackward0")                                                                                         \
    X(fill, "FillBackward2")                                                                                           \
    X(fill_tensor, "FillBackward3")                                                                                    \
    X(zero, "ZeroBackward0")                                                                                           \
    X(cat, "CatBackward0")                                                                                             \
    X(stack, "StackBackward0")
typedef enum write_op {
#define WRITE_OP(name, grad_name) WRITE_##name,
    WRITE_OPS(WRITE_OP)
#undef WRITE_OP
} write_op;

enum {
    NODE_PENDING = 1,    /* in the log */
    NODE_CONSTANT = 2,   /* attr holds the value of its one element; broadcasts to any shape */
    NODE_TAPED = 4,      /* at least one edge */
    NODE_FREED = 8,      /* keeps no values for its gradient: a backward has freed them, or they are packed */
    NODE_MARK = 16,      /* scratch for traversals */
    NODE_PACKED = 32,    /* a front end has seen the values its gradient needs, and may keep them in its own way */
    NODE_INFERENCE = 64, /* the value of a tensor made in inference mode: no gradient may read it */
    NODE_WALKED = 128    /* a backward under way holds it, for its place on the tape */
};

/* Three cache lines: what every pass over a log or a tape looks at, what it is connected with, and the rest. */
typedef struct node {
    uint16_t op;
    uint8_t dtype;
    uint8_t flags;
    uint8_t inputs;
    uint8_t reached; /* of `composed`: bit k: a gradient goes to the k-th of its arguments, or LAYER_... of a recurrent
                        layer (autograd/layer_steps.h); of another OP_cast: 1 if an op made it of an operand of another
                        dtype, and nobody asked for it, CAST_OF_RESULT of what it computed in place */
    uint16_t composed; /* the row of autograd/composed.def, from 1, whose result this is; 0: it is nobody's */
    int32_t refs;
    int32_t tape_refs;  /* those of refs that are tracks or edges: they want the place on the tape, not the value */
    int32_t cache_refs; /* those of refs that are handles' caches: they can do without the value */
    int32_t slot;       /* pending: its index in the log; else its number as a leaf of the log of `epoch` */
    uint32_t epoch;
    uint32_t origin; /* the last custom forward under way from whose inputs it was computed (autograd/function.h) */
    const layout *layout;
    void *extra; /* OP_leaf: its track; OP_function: the custom function's closure; else its hooks (autograd/hooks.h) */
    int32_t inner_edges; /* pending: edges of later records that lead to it */
    int32_t alive_edges; /* scratch of a flush: those of records that the tape still reaches */
    int32_t visit;       /* scratch of a backward pass */
    int32_t uses;        /* a leaf of the log of `epoch`: how many inputs of its records it is */

    struct node *in[MAX_INPUTS];
    struct node *edge[MAX_INPUTS];
    storage *memory;
    uint64_t sequence; /* order of recording: the tape is walked from high to low */

    char *data; /* the first element, once evaluated */
    attr attr;
    source_line line;
    uint32_t span; /* of `composed`: how many numbers of sequence before this one are that function's too; of another
                      view: which of several made at once it is */
    uint32_t call : 31;   /* of a view that is one of several made at once, and of one of the results of a composed
                             function: the same for all of them, and other than that of other calls */
    uint32_t in_view : 1; /* a write to what is a view of a result inside of a function in PyTorch */
} node;

enum { CALL_MASK = INT32_MAX }; /* of node.call */

/* For passes over many nodes, which are in no order that a processor could guess: asks for those to come. */
enum { NODES_AHEAD = 24 };
static inline void node_expect(const node *n)
{
    __builtin_prefetch(n);
    __builtin_prefetch((const void *)((uintptr_t)n + offsetof(node, in))); /* n may be NULL */
    __builtin_prefetch((const void *)((uintptr_t)n + offsetof(node, data)));
}

static inline node *node_retain(node *n)
{
    n->refs++;
    return n;
}
static inline void node_edge(node *n, int k, node *edge)
{
    n->edge[k] = node_retain(edge);
    edge->tape_refs++;
    n->flags |= NODE_TAPED;
}
/* Sets input k and where its gradient goes; both references are the node's own. */
static inline void node_input(node *n, int k, node *value, node *edge)
{
    n->in[k] = node_retain(value);
    if (edge)
        node_edge(n, k, edge);
}
void node_free(node *n); /* iterative: a chain of a million nodes is freed without recursion */
static inline void node_release(node *n)
{
    if (--n->refs == 0)
        node_free(n);
}
/* One holder of the value less. A value that only the tape still holds, and whose own gradient does not read it, goes:
 * the place on the tape stays. */
void node_forget_value(node *n);
static inline void node_release_value(node *n)
{
    if (--n->refs == 0)
        node_free(n);
    else if (n->refs == n->tape_refs && n->memory)
        node_forget_value(n);
}
static inline void node_drop_input(node *n, int k)
{
    node *in = n->in[k];
    n->in[k] = NULL;
    if (in)
        node_release_value(in);
}

/* A node outside the log: with memory (steals the reference to s) or a constant. */
node *node_data(bk_dtype dtype, const layout *l, storage *s, char *data);
/* Constants are shared: the same bits give the same node while it is warm. */
node *node_constant_bits(bk_dtype dtype, uint64_t bits);
node *node_constant_double(bk_dtype dtype, double value);
node *node_constant_int(bk_dtype dtype, int64_t value);
/* An empty node with inputs and edges unset; refs == 1. */
node *node_new(int op, bk_dtype dtype, const layout *l);

/* What front ends set so that records know the line that asked for them. */
extern void (*line_hook)(source_line *line);

/* node_new, for callers where the call itself counts; node_blank: its line is unset. */
extern freelist nodes;
extern uint64_t next_sequence;
static inline __attribute__((always_inline)) node *node_blank(int op, bk_dtype dtype, const layout *l)
{
    node *n = freelist_take(&nodes, sizeof *n);
    if (!n)
        return NULL;
    for (size_t at = 0; at < sizeof *n; at += 64) /* the next one is not in L1: a log is larger than that */
        __builtin_prefetch((char *)nodes.free + at, 1);
    record_clear(n, sizeof *n);
    n->op = (uint16_t)op;
    n->dtype = (uint8_t)dtype;
    n->refs = 1;
    n->layout = l;
    n->sequence = next_sequence++;
    return n;
}
static inline __attribute__((always_inline)) node *node_new_here(int op, bk_dtype dtype, const layout *l)
{
    node *n = node_blank(op, dtype, l);
    if (n && line_hook)
        line_hook(&n->line);
    return n;
}

/* An element of n's memory becomes one of `from`. */
static inline void node_mix(node *n, const node *from)
{
    n->origin = from->origin > n->origin ? from->origin : n->origin;
}

static inline bool node_evaluated(const node *n) { return n->data != NULL; }

/* Most nodes go when a flush has settled them: nothing is left for them to let go of. */
static inline bool node_bare(const node *n)
{
    return n->op < EW_COUNT && !(n->flags & NODE_TAPED) &&
           !((uintptr_t)n->in[0] | (uintptr_t)n->in[1] | (uintptr_t)n->in[2] | (uintptr_t)n->memory |
             (uintptr_t)n->extra);
}
/* Work lists are linked through `sequence`, which nobody can ask for any more. */
static inline void node_link(node *n, node **aside)
{
    n->sequence = (uint64_t)(uintptr_t)*aside;
    *aside = n;
}
void nodes_free(node *aside);
/* node_free in two parts: a node that has lost its last reference is put aside, and all of those are freed where what
 * they hold may be let go of. */
static inline void node_put_aside(node *n, node **aside)
{
    if (node_bare(n))
        freelist_give(&nodes, n);
    else
        node_link(n, aside);
}

int64_t nodes_live(void);
void nodes_keep_layouts(void); /* the roots of a layout_sweep that are nodes */

#endif
