/* rules.c: gradients, written with the same ops that users call.
 *
 * Because a rule records ordinary nodes, gradients fuse like everything else and can be differentiated again. A rule
 * runs inside a scope of the backward pass: what it makes and does not return is released there. */
#include "autograd/rules.h"

#include <string.h>

#include "core/error.h"
#include "core/tensor.h"
#include "ops/create.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/products.h"

/* --- the rows of ops.def -------------------------------------------------------------------------------------------
 */

/* A slope that changes with x at a kink only: its own gradient is 0, but is there for whoever asks, as in PyTorch. */
static const bk_tensor *bent_at(const bk_tensor *x, bk_tensor *slope)
{
    if (!slope || !grad_enabled() || !tensor_tracked(x))
        return slope;
    return bk_where(bk_ones(0, NULL, BK_BOOL), slope, bk_sign(x));
}

/* y x^(y - 1), and 0 where y is 0. Of a number that is known: its power may cost less than pow. The base under a mask
 * is made 1: what is only masked afterwards comes back in the second derivative. */
static const bk_tensor *power_gradient(const bk_tensor *g, const bk_tensor *x, const bk_tensor *y)
{
    const node *number = y->cell->value;
    if (number->flags & NODE_CONSTANT) {
        double p = dtype_load_double((bk_dtype)number->dtype, number->data);
        operand in[MAX_INPUTS] = { [1] = number_float(p - 1) };
        const bk_tensor *lower = p != 0 && tensor_read(x, &in[0]) ? ew_apply_python(EW_pow, in) : NULL;
        return p == 0 ? bk_zeros_like(g) : lower ? bk_mul(g, bk_mul_s(lower, p)) : NULL;
    }
    bk_tensor *none = bk_eq_s(y, 0), *base = bk_where(none, bk_ones_like(g), x);
    return bk_where(none, bk_zeros_like(g), bk_mul(g, bk_mul(y, bk_pow(base, bk_sub_s(y, 1)))));
}

#define NONDIFF NULL
#define UNARY(name, rule, types, f, i, b, lo, hi, gx)                                                                  \
    case EW_##name: return gx;
#define BINARY(name, rule, types, f, i, b, lo, hi, gx, gy)                                                             \
    case EW_##name: return k == 0 ? (gx) : (gy);
#define TERNARY(name, rule, types, f, i, b, lo, hi, gx, gy, gz)                                                        \
    case EW_##name: return k == 0 ? (gx) : k == 1 ? (gy) : (gz);

static const bk_tensor *row_gradient(int op, int k, const bk_tensor *g, const bk_tensor *x, const bk_tensor *y,
                                     const bk_tensor *z, const bk_tensor *out)
{
    switch (op) {
#include "brisk/ops.def"
    }
    return NULL;
}
#undef UNARY
#undef BINARY
#undef TERNARY

/* The saved value of input k as a tensor; NULL when the gradients wanted do not need it. */
static const bk_tensor *saved(node *n, int k, uint8_t needs)
{
    return needs & 1 << k ? tensor_at(n->in[k], n->edge[k]) : NULL;
}

int grad_elementwise(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS])
{
    const op_info *info = op_get(n->op);
    uint8_t needs = 0;
    for (int k = 0; k < n->inputs; k++)
        needs |= n->edge[k] ? info->needs[k] : 0;
    const bk_tensor *in[MAX_INPUTS] = { 0 };
    for (int k = 0; k < n->inputs; k++)
        in[k] = saved(n, k, needs);
    const bk_tensor *out = needs & NEEDS_OUT ? rule_result(n) : NULL;
    for (int k = 0; k < n->inputs; k++) {
        if (!n->edge[k])
            continue;
        grads[k] = (bk_tensor *)row_gradient(n->op, k, g, in[0], in[1], in[2], out);
        if (grads[k])
            grads[k] = rule_sum_to(grads[k], n->edge[k]->layout); /* operands keep their sizes */
        if (!grads[k] && strcmp(ew_infos[n->op].gradient[k], "NONDIFF"))
            return -1;
    }
    return 0;
}

/* --- sizes -----------------------------------------------------------------------------------------------------------
 */

bk_tensor *rule_missing(const char *what)
{
    return error_null(BK_NOT_IMPLEMENTED, "the derivative for '%s' is not implemented.", what);
}

bk_tensor *rule_refused(const char *function)
{
    return error_null(BK_RUNTIME_ERROR, "derivative for %s is not implemented", function);
}

bk_tensor *rule_sum_to(bk_tensor *g, const layout *to)
{
    if (g->layout->plain == to->plain)
        return g;
    uint32_t dims = 0;
    int lead = g->layout->ndim - to->ndim;
    for (int d = 0; d < g->layout->ndim; d++)
        if (d < lead || (to->sizes[d - lead] == 1 && g->layout->sizes[d] != 1))
            dims |= 1u << d;
    bool gone = lead > 0 && dims == dims_below(lead) && !grad_enabled(); /* a tape would have the view, as PyTorch's */
    bk_tensor *s = dims ? bk_sum(g, dims, !gone) : g;
    return s && lead && !gone ? bk_view(s, to->ndim, to->sizes) : s;
}

int grad_expand(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS])
{
    grads[0] = rule_sum_to(g, n->attr.region.layout);
    return grads[0] ? 0 : -1;
}

int grad_cast(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS])
{
    grads[0] = bk_to(g, (bk_dtype)n->attr.i[0]);
    return grads[0] ? 0 : -1;
}

/* --- views and updates
 * ------------------------------------------------------------------------------------------------ */

/* Memory of the strides `l`, all zero, where l may have gaps. */
bk_tensor *rule_zeros(const layout *l, bk_dtype dtype)
{
    if (l->dense)
        return fill_layout(l, 0, dtype);
    bk_tensor *flat = bk_zeros(1, &l->span, dtype);
    return flat ? tensor_alias(flat, l, 0, true) : NULL;
}

/* g in memory of the strides `l`: what regions of l can be taken from. */
bk_tensor *rule_conform(bk_tensor *g, const layout *l)
{
    if (g->layout == l && tensor_whole(g))
        return g;
    if (l->dense)
        return copy_as(g, l, tensor_dtype(g));
    bk_tensor *z = rule_zeros(l, tensor_dtype(g));
    return z && bk_copy_(z, g) == 0 ? z : NULL;
}

/* Dimensions that repeat one element each are summed first: what is left has an address per element. */
static bk_tensor *fold_repeated(bk_tensor *g, const layout *l, const layout **once)
{
    int64_t sizes[BK_MAX_NDIM] = { 0 };
    uint32_t dims = 0;
    for (int d = 0; d < l->ndim; d++) {
        bool repeated = l->strides[d] == 0 && l->sizes[d] != 1;
        dims |= (uint32_t)repeated << d;
        sizes[d] = repeated ? 1 : l->sizes[d];
    }
    *once = layout_get(l->ndim, sizes, l->strides);
    return !*once ? NULL : dims ? bk_sum(g, dims, true) : g;
}

/* Whether l shows the elements of `whole`, which it begins with, in their order: other sizes, no other order. */
static bool keeps_order(const layout *whole, const layout *l)
{
    int64_t strides[BK_MAX_NDIM];
    if (l->contiguous && whole->contiguous)
        return true;
    if (!layout_view_strides(whole, l->ndim, l->sizes, strides))
        return false;
    for (int d = 0; d < l->ndim; d++)
        if (l->sizes[d] != 1 && l->strides[d] != strides[d])
            return false;
    return true;
}

/* g added up in memory of its own, where a view without repetitions has these strides from `at` on. */
static bk_tensor *add_at(bk_tensor *g, const layout *l, int64_t at, int64_t room)
{
    const layout *once;
    operand in;
    bk_tensor *flat = bk_zeros(1, &room, tensor_dtype(g));
    g = flat ? fold_repeated(g, l, &once) : NULL;
    bk_tensor *region = g ? tensor_alias(flat, once, at, true) : NULL;
    if (!region)
        return NULL;
    if (once->overlapping)
        return overlap_add(region, g) < 0 ? NULL : flat;
    return tensor_read(g, &in) && tensor_write(region, in, false) == 0 ? flat : NULL;
}

/* The gradient of an as_strided of a view: PyTorch's. What is outside of the view is lost, and elements of the view
 * that share memory get equal parts. */
static bk_tensor *strided_gradient(const node *n, bk_tensor *g)
{
    const layout *whole = n->attr.region.layout, *l = n->layout;
    int64_t at = n->attr.region.offset, before = at < 0 ? -at : 0, end = at + l->span;
    int64_t room = before + (end > whole->span ? end : whole->span);
    bk_tensor *flat = add_at(g, l, at + before, room);
    if (flat && whole->overlapping) {
        bk_tensor *ones = bk_ones(whole->ndim, whole->sizes, tensor_dtype(g));
        bk_tensor *count = ones ? add_at(ones, whole, before, room) : NULL;
        flat = count ? bk_div(flat, bk_clamp_min_s(count, 1)) : NULL;
    }
    return flat ? bk_clone(tensor_alias(flat, whole, flat->offset + before, true)) : NULL;
}

static bool is_strided(const node *n)
{
    return n->attr.region.tape >> REGION_OP_SHIFT == VIEW_as_strided && !n->attr.region.add;
}

bool view_leaves(const node *n)
{
    const layout *whole = n->attr.region.layout;
    int64_t at = n->attr.region.offset;
    return is_strided(n) && (whole->overlapping || at < 0 || at + n->layout->span > whole->span);
}

/* PyTorch's as_strided, as which it sees a view again whose memory was written to without the tape, gives its gradient
 * the strides of what it is a view of. */
static bk_tensor *strided_as(const node *n, bk_tensor *g)
{
    return g && is_strided(n) && n->attr.region.layout->dense ? rule_conform(g, n->attr.region.layout) : g;
}

bool reorder_gradient(const node *n, bk_tensor *g, bk_tensor **out)
{
    const layout *whole = n->attr.region.layout, *l = n->layout;
    if (view_leaves(n))
        return *out = strided_gradient(n, g), true;
    if (n->attr.region.offset || l->numel != whole->numel || whole->overlapping || l->overlapping)
        return false;
    if (keeps_order(whole, l))
        return *out = strided_as(n, bk_reshape(g, whole->ndim, whole->sizes)), true;
    int dims[BK_MAX_NDIM];
    uint32_t taken = 0;
    if (l->ndim != whole->ndim)
        return false;
    for (int d = 0; d < whole->ndim; d++) {
        int from = 0;
        while (from < l->ndim &&
               (taken >> from & 1 || l->sizes[from] != whole->sizes[d] || l->strides[from] != whole->strides[d]))
            from++;
        if (from == l->ndim)
            return false;
        taken |= 1u << from;
        dims[d] = from;
    }
    *out = strided_as(n, bk_permute(g, whole->ndim, dims));
    return true;
}

bk_tensor *add_view_gradient(const node *n, bk_tensor *g, bk_tensor *into)
{
    const layout *whole = n->attr.region.layout, *once;
    g = fold_repeated(g, n->layout, &once);
    if (!g)
        return NULL;
    bool first = into == NULL;
    if (first)
        into = rule_zeros(whole, tensor_dtype(g));
    bk_tensor *region = into ? tensor_alias(into, once, into->offset + n->attr.region.offset, true) : NULL;
    operand in;
    if (!region)
        return NULL;
    if (once->overlapping)
        return overlap_add(region, g) < 0 ? NULL : into;
    return tensor_read(g, &in) && tensor_write(region, in, !first) == 0 ? into : NULL;
}

int grad_view(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS])
{
    if (!reorder_gradient(n, g, &grads[0]))
        grads[0] = add_view_gradient(n, g, NULL);
    return grads[0] ? 0 : -1;
}

static bk_tensor *region_copy(const bk_tensor *whole, const attr *a)
{
    operand in;
    if (!tensor_read(whole, &in))
        return NULL;
    return bk_clone(tensor_from_node(node_view(in.value, in.edge, a->region.layout, a->region.offset)));
}

/* A part of one dimension and no elements among those of a cat: PyTorch takes its gradient for a constant. */
static bool joins_nothing(const node *n)
{
    const layout *l = n->attr.region.layout;
    return n->attr.region.tape & REGION_FRESH && l->ndim == 1 && l->numel == 0;
}

/* Both gradients are tensors of their own where the old value gets 0 in the region: the region is copied before it is
 * cleared, so that it can be cleared in place, and T writes cost T regions. */
int grad_update(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS])
{
    const attr *a = &n->attr;
    bk_tensor *whole = rule_conform(g, n->layout);
    if (!whole)
        return -1;
    bool below = update_clears(n); /* what is under the region gets no gradient */
    if (n->edge[1]) {
        grads[1] = joins_nothing(n) ? rule_zeros(a->region.layout, tensor_dtype(g))
                   : n->edge[0] && below
                       ? region_copy(whole, a)
                       : tensor_alias(whole, a->region.layout, whole->offset + a->region.offset, true);
        if (!grads[1])
            return -1;
    }
    write_op op = (write_op)(a->region.tape >> REGION_OP_SHIFT);
    bool part = op == WRITE_part || op == WRITE_through ||
                op == WRITE_part_filled; /* through a view: its zeros are no constant */
    if (n->edge[0] && below && a->region.layout == n->layout && !(part && grad_enabled())) {
        grads[0] = rule_zeros(n->layout, tensor_dtype(g)); /* nothing of the old value is left */
        return grads[0] ? 0 : -1;
    }
    if (n->edge[0]) {
        operand in;
        if (!tensor_read(whole, &in))
            return -1;
        grads[0] = below ? tensor_at(in.value, in.edge) : whole;
        if (below && grads[0]) {
            bk_tensor *region = tensor_alias(grads[0], a->region.layout, a->region.offset, true);
            if (!region || bk_zero_(region) < 0)
                return -1;
        }
        if (!grads[0])
            return -1;
    }
    return 0;
}

/* --- products
 * ---------------------------------------------------------------------------------------------------------- */

static bool column_major(const layout *l)
{
    return l->strides[l->ndim - 2] == 1 && l->sizes[l->ndim - 2] != 1 && l->strides[l->ndim - 1] != 1;
}

/* a b summed to what the factor was, in memory of the order that the factor has: the gradient of a transposed weight
 * is then the transpose of a plain one. */
static bk_tensor *factor_gradient(const bk_tensor *a, bool turn_a, const bk_tensor *b, bool turn_b, const layout *to)
{
    if (!a || !b)
        return NULL;
    bk_tensor *c = column_major(to)
                       ? bk_transpose(product_turned(b, a, (turn_b ? 0 : TURNED_A) | (turn_a ? 0 : TURNED_B)), -1, -2)
                       : product_turned(a, b, (turn_a ? TURNED_A : 0) | (turn_b ? TURNED_B : 0));
    return c ? rule_sum_to(c, to) : NULL;
}

/* The gradient of a factor that was read as it is has g on the side that the result had; of one that was read
 * transposed, the other way round. */
int grad_matmul(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS])
{
    bool turned_a = n->attr.product.turned & TURNED_A, turned_b = n->attr.product.turned & TURNED_B;
    const layout *la = n->attr.product.a, *lb = n->attr.product.b;
    if (n->edge[0]) {
        const bk_tensor *b = tensor_at(n->in[1], n->edge[1]);
        grads[0] = turned_a ? factor_gradient(b, turned_b, g, true, la) : factor_gradient(g, false, b, !turned_b, la);
        if (!grads[0])
            return -1;
    }
    if (n->edge[1]) {
        const bk_tensor *a = tensor_at(n->in[0], n->edge[0]);
        grads[1] = turned_b ? factor_gradient(g, true, a, turned_a, lb) : factor_gradient(a, !turned_a, g, false, lb);
        if (!grads[1])
            return -1;
    }
    return 0;
}

/* --- triangles
 * --------------------------------------------------------------------------------------------------------- */

int grad_tril(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS])
{
    grads[0] = bk_tril(g, n->attr.i[0]);
    return grads[0] ? 0 : -1;
}

int grad_triu(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS])
{
    grads[0] = bk_triu(g, n->attr.i[0]);
    return grads[0] ? 0 : -1;
}
