/* product_steps.c: a product with a stack of matrices is taken apart as PyTorch does it, when somebody looks at it.
 *
 * PyTorch counts the rows of a stack in one dimension and multiplies by the other factor, a vector or a matrix, once;
 * a stack that is the second factor is turned round for that, and the result turned back. It does so where the other
 * factor wants a gradient, and else where no row has to move for it (never for a matrix times a stack). All others it
 * repeats to equal batches, counts these in one dimension and multiplies pair by pair. Here the product is one record
 * in each case, so which it was is found from what the factors look like. */
#include "autograd/product_steps.h"

#include <stdio.h>
#include <string.h>

#include "core/node.h"

static bool is_kind(const char *kind, const char *word) { return strncmp(kind, word, strlen(word)) == 0; }

/* The record of the product below its last view or cast. */
static const node *product_of(const node *place)
{
    while (place && place->op != OP_matmul)
        place = place->edge[0];
    return place;
}

static bool reaches(const node *place, int k) { return place->reached >> k & 1; }

/* Whether factor k of two stacks is one matrix for all of the other's: PyTorch makes it a matrix if it wants a
 * gradient. */
static bool is_for_all(const node *place, int k)
{
    const node *p = product_of(place);
    const layout *l[2] = { p ? p->attr.product.a : NULL, p ? p->attr.product.b : NULL };
    if (place->layout->ndim != 3 || !reaches(place, k) || !p)
        return false;
    if (p->layout->ndim == 2) /* the second's, whose first has become rows */
        return k == 1;
    return l[k]->sizes[0] == 1 && l[!k]->sizes[0] != 1;
}

/* Whether the rows of all matrices follow each other at one stride. */
static bool rows_in_one(const layout *l)
{
    for (int d = 0; l->numel && d < l->ndim - 2; d++)
        if (l->strides[d] != l->strides[d + 1] * l->sizes[d + 1])
            return false;
    return true;
}

/* --- text ----------------------------------------------------------------------------------------------------------
 */

typedef struct factor {
    char text[160];
} factor;

const char *const *reshape_names(const layout *l, int ndim, const int64_t *sizes)
{
    static const char *const copy[] = { "CloneBackward0", "UnsafeViewBackward0" },
                             *const view[] = { "ViewBackward0", NULL },
                             *const alias[] = { "ReshapeAliasBackward0", NULL };
    int64_t strides[BK_MAX_NDIM];
    return l && !layout_view_strides(l, ndim, sizes, strides) ? copy : l && !l->contiguous ? alias : view;
}

static factor reshaped(const layout *l, int ndim, const int64_t *sizes, const char *of)
{
    const char *const *names = reshape_names(l, ndim, sizes);
    factor f;
    snprintf(f.text, sizeof f.text, "%s%s%s(%s)%s", names[1] ? names[1] : "", names[1] ? "(" : "", names[0], of,
             names[1] ? ")" : "");
    return f;
}

/* The rows of a stack in one dimension. */
static factor as_rows(const layout *l, const char *of)
{
    int64_t inner = l ? l->sizes[l->ndim - 1] : 0;
    return reshaped(l, 2, (int64_t[]){ inner ? l->numel / inner : 0, inner }, of);
}

/* A stack repeated to `batches` sizes, which are counted in one dimension. */
static factor as_batch(const layout *l, const int64_t *sizes, int batches, const char *of)
{
    int64_t to[BK_MAX_NDIM], strides[BK_MAX_NDIM], batch = 1;
    if (!l || l->ndim < 2)
        return reshaped(NULL, 0, NULL, of);
    int missing = batches + 2 - l->ndim;
    for (int d = 0; d < batches + 2; d++) {
        int64_t size = d < missing ? 1 : l->sizes[d - missing];
        bool repeated = d < batches && size != sizes[d];
        to[d] = repeated ? sizes[d] : size;
        strides[d] = repeated || d < missing ? 0 : l->strides[d - missing];
        batch *= d < batches ? to[d] : 1;
    }
    const layout *all = layout_get(batches + 2, to, strides);
    return reshaped(all, 3, (int64_t[]){ batch, to[batches], to[batches + 1] }, of);
}

/* A matrix times a stack: its transpose, from the right, times the stack's. */
static void turned_steps(const node *place, const layout *stack, const char *matrix, char out[static STEPS_ROOM])
{
    bool copied = strcmp(product_name("matrix", place), "CloneBackward0") == 0;
    factor rows = as_rows(stack ? layout_turned(stack) : NULL, "TransposeBackward0(1)");
    snprintf(out, STEPS_ROOM, "%sUnsafeViewBackward0(MmBackward0(%s,TBackward0(%s)))%s",
             copied ? "TransposeBackward0(" : "", rows.text, matrix, copied ? ")" : "");
}

/* --- the two questions -----------------------------------------------------------------------------------------------
 */

/* One row or one column that is turned back needs no copy. */
const char *product_name(const char *kind, const node *place)
{
    const layout *l = place->layout;
    if (is_kind(kind, "attention") && l->ndim == 2)
        return "MmBackward0";
    bool matrix = is_kind(kind, "matrix") ? reaches(place, 0) : is_kind(kind, "stack") && is_for_all(place, 0);
    if (!matrix)
        return "UnsafeViewBackward0";
    bool plain = !l->numel || l->sizes[l->ndim - 1] == 1 || l->sizes[l->ndim - 2] == 1;
    return plain ? "TransposeBackward0" : "CloneBackward0";
}

/* Pair by pair, of equal batches. One column, which was a vector, is dropped again. */
static void batch_steps(const node *place, const layout *const *of, const layout *larger, bool column,
                        char out[static STEPS_ROOM])
{
    int batches = larger ? larger->ndim - 2 : 0;
    factor a = as_batch(of[0], place->layout->sizes, batches, "ExpandBackward0(0)");
    factor b = as_batch(of[1], place->layout->sizes, batches, "ExpandBackward0(1)");
    snprintf(out, STEPS_ROOM, "%sBmmBackward0(%s,%s)%s", column ? "SqueezeBackward1(" : "", a.text, b.text,
             column ? ")" : "");
}

static void vector_steps(const node *place, const layout *const *of, char out[static STEPS_ROOM])
{
    const layout *stack = of[1] ? layout_turned(of[1]) : NULL;
    if (reaches(place, 0) || (stack && rows_in_one(stack)))
        snprintf(out, STEPS_ROOM, "MvBackward0(%s,0)", as_rows(stack, "TransposeBackward0(1)").text);
    else
        batch_steps(place, of, of[1], false, out);
}

static void matrix_steps(const node *place, const layout *const *of, char out[static STEPS_ROOM])
{
    if (reaches(place, 0))
        turned_steps(place, of[1], "0", out);
    else
        batch_steps(place, of, of[1], false, out);
}

static void stack_steps(const node *place, const layout *const *of, char out[static STEPS_ROOM])
{
    if (is_for_all(place, 0))
        turned_steps(place, of[1], "SqueezeBackward1(0)", out);
    else if (is_for_all(place, 1))
        snprintf(out, STEPS_ROOM, "MmBackward0(%s,SqueezeBackward1(1))", as_rows(of[0], "0").text);
    else
        batch_steps(place, of, place->layout, false, out);
}

static void rows_steps(const node *place, const layout *const *of, char out[static STEPS_ROOM])
{
    bool by_vector = of[0] && place->layout->ndim < of[0]->ndim;
    if (of[0] && rows_in_one(of[0]))
        snprintf(out, STEPS_ROOM, "%s(%s,-)", by_vector ? "MvBackward0" : "MmBackward0", as_rows(of[0], "0").text);
    else
        batch_steps(place, of, of[0], by_vector, out);
}

void product_by_weight(const layout *stack, bool wanted, char *out, size_t room)
{
    if (wanted || !stack || rows_in_one(stack))
        snprintf(out, room, "MmBackward0(%s,TBackward0(1))", as_rows(stack, "0").text);
    else
        snprintf(out, room, "BmmBackward0(%s,-)", as_batch(stack, stack->sizes, 1, "ExpandBackward0(0)").text);
}

/* Queries and keys are scaled by a number each, and so are row-major or as dense as before. */
static void attention_steps(const char *kind, const node *place, const layout *const *of, char out[static STEPS_ROOM])
{
    const int64_t *sizes = place->layout->sizes;
    int batches = place->layout->ndim - 2;
    const char *mask = strstr(kind, "+mask"), *dropout = strstr(kind, "+dropout");
    factor q = { "MulBackward1(0)" }, k = { "MulBackward1(TransposeBackward0(1))" }, v = { "2" };
    if (batches) {
        const layout *keys = of[1] ? layout_turned(of[1]) : NULL;
        q = as_batch(of[0] ? layout_packed(of[0]) : NULL, sizes, batches, "ExpandBackward0(MulBackward1(0))");
        k = as_batch(keys ? layout_packed(keys) : NULL, sizes, batches,
                     "ExpandBackward0(MulBackward1(TransposeBackward0(1)))");
        v = as_batch(of[2], sizes, batches, "ExpandBackward0(2)");
    }
    const char *const parts[] = {
        batches ? "BmmBackward0(ViewBackward0(ExpandBackward0(" : "",
        dropout ? "MulBackward0(" : "",
        "SafeSoftmaxBackward0(",
        mask ? "AddBackward0(" : "",
        batches ? "UnsafeViewBackward0(BmmBackward0(" : "MmBackward0(",
        q.text,
        ",",
        k.text,
        batches ? "))" : ")",
        mask ? ",3))" : ")",
        dropout ? ",-)" : "",
        batches ? "))," : ",",
        v.text,
        batches ? ")" : "",
    };
    for (size_t i = 0, end = 0; i < sizeof parts / sizeof *parts; i++, end = strlen(out))
        snprintf(out + end, STEPS_ROOM - end, "%s", parts[i]);
}

void product_steps(const char *kind, const node *place, const layout *const *of, char out[static STEPS_ROOM])
{
    static const struct {
        const char *kind;
        void (*write)(const node *, const layout *const *, char *);
    } kinds[] = {
        { "vector", vector_steps }, { "matrix", matrix_steps }, { "stack", stack_steps }, { "rows", rows_steps }
    };
    *out = 0;
    if (is_kind(kind, "attention"))
        attention_steps(kind, place, of, out);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (is_kind(kind, kinds[k].kind))
            kinds[k].write(place, of, out);
}
