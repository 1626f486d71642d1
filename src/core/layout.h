/* layout.h: sizes and strides, interned.
 *
 * Two layouts with the same sizes and strides are the same object, so a comparison is one of pointers and a plan's key
 * holds a number, which is never given again. `plain` is the row-major layout of the same sizes: equal shapes have
 * equal `plain`.
 *
 * A program whose shapes never repeat makes ever more of them, so those that nobody uses are swept away from time to
 * time (layout_sweep). Who may hold a layout: nodes, handles and tracks; a function, from layout_get until it returns;
 * anybody else by layout_hold. */
#ifndef BK_CORE_LAYOUT_H
#define BK_CORE_LAYOUT_H
#include "brisk.h"

typedef struct layout {
    uint32_t id;
    uint32_t asked;  /* the sweep before which layout_get last gave it */
    int32_t holders; /* layout_hold */
    uint8_t ndim;
    bool contiguous;  /* row-major, strides of size-1 dimensions aside */
    bool dense;       /* a permutation of row-major: every address in [0, numel) exactly once */
    bool overlapping; /* two elements may share an address (an expanded view) */
    bool settled;     /* plain, or dense with no size below 2: what an elementwise op makes of it has its strides */
    bool falling; /* each stride is below the one before it, none is 0: what an elementwise op makes of it is plain */
    bool decides; /* as the first operand of one, it leaves nothing about the result's strides to the others */
    int64_t numel;
    int64_t span; /* elements from the first to one past the last address reached; 0 when empty */
    const struct layout *plain;
    const struct layout *rest;   /* without its first dimension, once somebody asked: layout_rest */
    const struct layout *turned; /* the same for layout_turned */
    int64_t sizes[BK_MAX_NDIM];
    int64_t strides[BK_MAX_NDIM];
} layout;

/* Sets of dimensions are bits of a word: those below `count`. */
static inline uint32_t dims_below(int count) { return (uint32_t)(((uint64_t)1 << count) - 1); }

/* NULL with the error set when memory is out or the sizes overflow. strides == NULL: row-major. */
const layout *layout_get(int ndim, const int64_t *sizes, const int64_t *strides);
/* For pointers kept elsewhere than in nodes, handles and tracks. */
static inline const layout *layout_hold(const layout *l)
{
    if (l)
        ((layout *)(uintptr_t)l)->holders++;
    return l;
}
static inline void layout_drop(const layout *l)
{
    if (l)
        ((layout *)(uintptr_t)l)->holders--;
}

/* Frees the layouts that are in none of the words that `roots` shows to layout_keep (any words: those that are no
 * layouts are passed over), that nobody holds, and that were not asked for since the sweep before. */
bool layouts_crowded(void); /* many were made since the last sweep */
void layout_sweep(void (*roots)(void));
void layout_keep(const void *word);
uint32_t layouts_live(void);

/* The last two dimensions of l exchanged; NULL with the error set when memory is out. */
const layout *layout_turned_new(const layout *l);
static inline const layout *layout_turned(const layout *l) { return l->turned ? l->turned : layout_turned_new(l); }

/* The layout of x[i]: element access must not pay for a lookup. l has a dimension. */
const layout *layout_rest_new(const layout *l);
static inline const layout *layout_rest(const layout *l) { return l->rest ? l->rest : layout_rest_new(l); }

/* Dimension d counted from the end when negative; -1 with PyTorch's IndexError when out of range. A 0-d tensor takes
 * -1 and 0. */
int layout_dim(const layout *l, int64_t d);

/* The dense layout of the same sizes that keeps the order of l's strides: l itself when it is dense. What PyTorch gives
 * a clone, and the order in which it fills l. */
const layout *layout_packed(const layout *l);

/* Strides for other sizes over the same elements in the same order, where they exist: runs of dimensions that lie
 * densely in each other are split and merged at will, nothing else is. */
bool layout_view_strides(const layout *l, int ndim, const int64_t *sizes, int64_t strides[static BK_MAX_NDIM]);

/* PyTorch's other memory formats: channels before the inner dimensions, of images (4 dimensions) and of volumes (5).
 * A layout is one of images, strides of single elements aside; or only looks like one of either, by the order of its
 * strides: then what is joined of such takes the format. */
bool layout_is_channels_last(const layout *l);
bool layout_looks_channels_last(const layout *l);
const layout *layout_channels_last(const layout *plain);

/* Whether the addresses of a at any offset in [a_low, a_high] can meet those of b at offset `b_at`. May say true for
 * regions that do not meet, never false for ones that do. */
bool layout_meets(const layout *a, int64_t a_low, int64_t a_high, const layout *b, int64_t b_at);

/* "[2, 3]" into text, for messages; what finds no room is left out. */
const char *layout_text(const layout *l, char text[static 200]);
const char *sizes_text(int ndim, const int64_t *sizes, char text[static 200]);

#endif
