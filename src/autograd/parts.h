/* parts.h: functions of several results, each of which is a place of its own here: views that were made at once (split,
 * unbind), and the results of a row of composed.def. PyTorch has one function for all of them, and so is who looks at
 * the tape shown one.
 *
 * Which places belong together is found when somebody asks: a place has the number of its call (node.call). A view
 * tells its base, and what the others are. Results of a row are known here from their being marked to their end, so
 * that one leads to the others; so are views that hooks were put at. */
#ifndef BK_AUTOGRAD_PARTS_H
#define BK_AUTOGRAD_PARTS_H
#include "autograd/hooks.h"
#include "autograd/shown.h"

typedef struct parts {
    const node *base; /* what they are views of; NULL: they are results of a row */
    int kind;         /* view_op, or the row */
    uint32_t call;
    int count, number; /* how many results PyTorch's function has, and which of them the place is */
    int dim;           /* of views: along it */
    int64_t each;      /* of views: the size of all but the last, or */
    const int64_t *sizes;
} parts;

/* Whether a place is one of several, and of which. */
bool parts_of(const node *place, parts *out);
static inline bool parts_same(const parts *a, const parts *b)
{
    return a->call == b->call && a->base == b->base && a->kind == b->kind;
}
/* Whether a place is one of these, and, if so, which. */
bool parts_have(const parts *all, const node *place, int *number);

/* A place is known from here on (false: there is no memory, and it stands alone); it is gone. With the lock. */
extern int parts_known;
bool parts_know(node *place);
void parts_forget(const node *place);
/* A known place among these by its number, one reference more; NULL: there is none. */
node *parts_find(const parts *all, int number);

/* A place, which has hooks, gets a list of them. How many known places have some. Whether one of these has, and the
 * lists of those around their function. */
extern int parts_hooked;
void parts_hook(node *place, hook_kind kind, void *list);
bool parts_hooks(const parts *all, hooks *out);

/* The gradients for where the function leads to, as shown_call gives them, which is one of its results' place. */
int parts_call(const parts *all, node *place, bk_tensor *const *gradients, composed_way **ways, bk_tensor ***grads);

#endif
