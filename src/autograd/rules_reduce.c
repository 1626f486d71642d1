/* rules_reduce.c: gradients of reductions, scans and selections.
 *
 * Formulas are PyTorch's, with its values at ties, zeros and NaN. Where a quotient is not wanted at some elements, its
 * divisor is made 1 there before: a 0 / 0 that is masked afterwards comes back in the second derivative. */
#include <math.h>

#include "autograd/rules.h"
#include "core/tensor.h"
#include "ops/normalise.h"
#include "ops/reduce.h"
#include "ops/scan.h"

static uint32_t dims_of(const node *n) { return (uint32_t)n->attr.reduce.dims; }
static bk_tensor *input(node *n) { return tensor_at(n->in[0], n->edge[0]); }
static int give(bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]) { return (grads[0] = g) ? 0 : -1; }
/* A number of t's dtype. */
static bk_tensor *number(const bk_tensor *t, double v) { return t ? bk_full(0, NULL, v, tensor_dtype(t)) : NULL; }

/* t, of the result's sizes, with size 1 at the reduced dimensions. */
static bk_tensor *grow(const node *n, bk_tensor *t)
{
    const layout *from = n->attr.reduce.from;
    if (!t || n->layout->ndim == from->ndim)
        return t;
    int64_t sizes[BK_MAX_NDIM];
    for (int d = 0; d < from->ndim; d++)
        sizes[d] = dims_of(n) >> d & 1 ? 1 : from->sizes[d];
    return bk_reshape(t, from->ndim, sizes);
}

static bk_tensor *spread(const node *n, bk_tensor *g)
{
    const layout *from = n->attr.reduce.from;
    return bk_expand(grow(n, g), from->ndim, from->sizes);
}

/* Sums over the dimensions reduced, which stay with size 1; of no dimensions at all, t itself. */
static bk_tensor *kept_sum(const node *n, bk_tensor *t) { return dims_of(n) ? bk_sum(t, dims_of(n), true) : t; }

/* --- sums and moments ------------------------------------------------------------------------------------------------
 */

int grad_sum(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]) { return give(spread(n, g), grads); }

int grad_mean(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS])
{
    double count = (double)reduced_count(n->attr.reduce.from, dims_of(n));
    return give(spread(n, bk_div_s(g, count)), grads);
}

static bk_tensor *var_gradient(node *n, bk_tensor *g)
{
    bk_tensor *x = input(n), *centred = bk_sub(x, dims_of(n) ? bk_mean(x, dims_of(n), true) : x);
    return bk_mul(grow(n, bk_mul_s(g, 2 / n->attr.d[2])), centred);
}

int grad_var(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]) { return give(var_gradient(n, g), grads); }

/* A deviation of 0 takes no gradient. */
int grad_std(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS])
{
    bk_tensor *out = rule_result(n), *none = bk_eq_s(out, 0);
    bk_tensor *safe = bk_where(none, bk_ones_like(out), out);
    g = bk_where(none, number(g, 0), bk_div(g, bk_mul_s(safe, 2)));
    return give(var_gradient(n, g), grads);
}

/* t moved along a dimension by one place, its first or last element lost and `fill` coming in at the other end. */
static bk_tensor *shifted(bk_tensor *t, int dim, int64_t by, double fill)
{
    if (!t)
        return NULL;
    int64_t sizes[BK_MAX_NDIM], size = t->layout->sizes[dim], gap = by < 0 ? -by : by;
    for (int d = 0; d < t->layout->ndim; d++)
        sizes[d] = d == dim ? gap : t->layout->sizes[d];
    bk_tensor *edge = bk_full(t->layout->ndim, sizes, fill, tensor_dtype(t));
    bk_tensor *rest = by > 0 ? bk_slice(t, dim, 0, size - gap, 1) : bk_slice(t, dim, gap, size, 1);
    bk_tensor *const parts[] = { by > 0 ? edge : rest, by > 0 ? rest : edge };
    return edge && rest ? bk_cat(parts, 2, dim) : NULL;
}

/* The products of all elements before each along a dimension. */
static bk_tensor *product_before(bk_tensor *x, int dim) { return bk_cumprod(shifted(x, dim, 1, 1), dim); }

/* A gradient that is to be differentiated again asks for values, as PyTorch's does: without zeros it divides the
 * result, through which second derivatives then go too. An error counts as zeros: the next to evaluate meets it. */
static int has_zeros(bk_tensor *x)
{
    bool was = grad_set_enabled(false);
    bk_tensor *zeros = bk_sum(bk_to(bk_eq_s(x, 0), BK_INT64), 0, false);
    int found = !zeros || bk_item_int(zeros) != 0;
    grad_set_enabled(was);
    return found;
}

/* With zeros, what is to be differentiated again must not divide: with several zeros the quotients are right, their
 * slopes are not. The gradient of an element is the product of those before it and of those after it. */
static bk_tensor *prod_gradient(node *n, bk_tensor *g)
{
    const layout *from = n->attr.reduce.from;
    bk_tensor *x = input(n);
    bool all = dims_of(n) & (dims_of(n) - 1); /* of several dimensions: PyTorch's prod() */
    int dim = all ? 0 : __builtin_ctz(dims_of(n));
    if (all)
        x = bk_reshape(x, 1, &from->numel);
    bk_tensor *after = bk_flip(product_before(bk_flip(x, 1, &dim), dim), 1, &dim);
    bk_tensor *others = bk_mul(product_before(x, dim), after);
    return bk_mul(grow(n, g), all ? bk_reshape(others, from->ndim, from->sizes) : others);
}

/* Without zeros the product over x; with one, the product of the others goes to it alone. */
int grad_prod(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS])
{
    int zeros = grad_enabled() && dims_of(n) && n->attr.reduce.from->numel ? has_zeros(input(n)) : -1;
    if (zeros == 1)
        return give(prod_gradient(n, g), grads);
    if (zeros == 0)
        return give(bk_mul(grow(n, g), bk_div(grow(n, rule_result(n)), input(n))), grads);
    bk_tensor *x = input(n), *zero = bk_eq_s(x, 0), *safe = bk_where(zero, bk_ones_like(x), x);
    bk_tensor *count = kept_sum(n, bk_to(zero, BK_INT64));
    bk_tensor *others = dims_of(n) ? bk_prod(safe, dims_of(n), true) : safe;
    bk_tensor *plain = bk_div(grow(n, rule_result(n)), safe);
    bk_tensor *alone = bk_where(bk_logical_and(zero, bk_eq_s(count, 1)), others, number(x, 0));
    return give(bk_mul(grow(n, g), bk_where(bk_eq_s(count, 0), plain, alone)), grads);
}

/* --- extremes
 * ---------------------------------------------------------------------------------------------------------- */

/* Of all elements: those equal to the result share; if it is a NaN, all NaNs do. */
int grad_evenly(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS])
{
    bk_tensor *x = input(n), *out = rule_result(n);
    bk_tensor *mask = bk_logical_or(bk_eq(x, out), bk_logical_and(bk_isnan(x), bk_isnan(out)));
    return give(bk_where(mask, bk_div(g, bk_sum(mask, 0, false)), number(g, 0)), grads);
}

int grad_shares(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS])
{
    bk_tensor *mask = bk_eq(input(n), grow(n, rule_result(n)));
    bk_tensor *count = kept_sum(n, bk_to(mask, BK_INT64));
    return give(bk_div(bk_mul(grow(n, g), mask), count), grads);
}

int grad_pick(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS])
{
    int dim = __builtin_ctz(dims_of(n));
    return give(record_place(g, tensor_at(n->in[1], NULL), dim, n->attr.reduce.from), grads);
}

int grad_place(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS])
{
    return give(record_pick(OP_pick, g, tensor_at(n->in[1], NULL), __builtin_ctz(dims_of(n))), grads);
}

/* --- norms
 * --------------------------------------------------------------------------------------------------------------- */

/* g over norm^power, 0 where the norm is 0. */
static bk_tensor *over_norm(bk_tensor *g, bk_tensor *norm, double power)
{
    bk_tensor *none = bk_eq_s(norm, 0), *safe = bk_where(none, bk_ones_like(norm), norm);
    return bk_where(none, number(g, 0), bk_div(g, power == 1 ? safe : bk_pow_s(safe, power)));
}

static bk_tensor *infinite_norm_gradient(node *n, bk_tensor *g, bk_tensor *x, bk_tensor *norm)
{
    bk_tensor *size = bk_abs(x);
    bk_tensor *mask = bk_logical_or(bk_eq(size, norm), bk_logical_and(bk_isnan(size), bk_isnan(norm)));
    bk_tensor *count = kept_sum(n, bk_to(mask, BK_INT64));
    return bk_mul(bk_sign(x), bk_mul(bk_div(g, count), mask));
}

int grad_norm(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS])
{
    double p = n->attr.d[2];
    bk_tensor *x = input(n), *norm = grow(n, rule_result(n));
    g = grow(n, g);
    if (p == 0)
        return give(bk_zeros_like(x), grads);
    if (p == 1)
        return give(bk_mul(g, bk_sign(x)), grads);
    if (p == 2)
        return give(bk_mul(x, over_norm(g, norm, 1)), grads);
    if (isinf(p))
        return give(infinite_norm_gradient(n, g, x, norm), grads);
    bk_tensor *none = bk_eq_s(x, 0), *size = bk_where(none, bk_ones_like(x), bk_abs(x));
    bk_tensor *scaled = bk_where(none, number(x, 0), bk_mul(bk_sign(x), bk_pow_s(size, p - 1)));
    return give(bk_mul(scaled, p < 1 ? bk_mul(g, bk_pow_s(norm, 1 - p)) : over_norm(g, norm, p - 1)), grads);
}

/* --- exponentials
 * -------------------------------------------------------------------------------------------------------- */

int grad_logsumexp(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS])
{
    return give(bk_mul(grow(n, g), bk_exp(bk_sub(input(n), grow(n, rule_result(n))))), grads);
}

int grad_softmax(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS])
{
    bk_tensor *out = rule_result(n);
    if (is_of_rows(n))
        return give(softmax_gradient(g, out), grads);
    bk_tensor *weighted = bk_mul(g, out);
    bk_tensor *sum = bk_sum(weighted, dims_of(n), true);
    return give(bk_sub(weighted, bk_mul(out, sum)), grads);
}

/* With y the softmax, L = sum(h y (g - sum(g y))): in g it is the same map, which is symmetric. */
int grad_softmax_back(node *n, bk_tensor *h, bk_tensor *grads[static MAX_INPUTS])
{
    bk_tensor *g = tensor_at(n->in[0], n->edge[0]), *y = tensor_at(n->in[1], n->edge[1]);
    uint32_t last = 1u << (n->layout->ndim - 1);
    if (n->edge[0] && !(grads[0] = softmax_gradient(h, y)))
        return -1;
    bk_tensor *less = bk_sub(g, bk_sum(bk_mul(g, y), last, true));
    if (n->edge[1] && !(grads[1] = bk_sub(bk_mul(h, less), bk_mul(g, bk_sum(bk_mul(h, y), last, true)))))
        return -1;
    return 0;
}

int grad_standardise(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS])
{
    return give(standardised_gradient(n, g, input(n)), grads);
}

/* With y = (x - mean) s the standardised rows, s their scale and B(g) the gradient, L = sum(h B(g)). B is symmetric,
 * which is the gradient for g. In x, s moves by -s^2 y / count and mean(g y) by B(g) / count, which makes the gradient
 * -s (y mean(h B(g)) + mean(g y) B(h) + mean(h y) B(g)). */
int grad_standardise_back(node *n, bk_tensor *h, bk_tensor *grads[static MAX_INPUTS])
{
    bk_tensor *g = tensor_at(n->in[0], n->edge[0]), *x = tensor_at(n->in[1], n->edge[1]);
    bk_tensor *of_h = standardised_gradient(n, h, x);
    if (n->edge[0] && !(grads[0] = of_h))
        return -1;
    if (!n->edge[1])
        return 0;
    uint32_t dims = row_dims(n);
    bk_tensor *y = standardised_again(n, x), *of_g = standardised_gradient(n, g, x);
    bk_tensor *turns = bk_mul(y, bk_mean(bk_mul(h, of_g), dims, true));
    bk_tensor *moves =
        bk_add(bk_mul(of_h, bk_mean(bk_mul(g, y), dims, true)), bk_mul(of_g, bk_mean(bk_mul(h, y), dims, true)));
    grads[1] = bk_neg(bk_mul(bk_add(turns, moves), row_scale(n, x)));
    return grads[1] ? 0 : -1;
}

int grad_log_softmax(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS])
{
    return give(bk_sub(g, bk_mul(bk_exp(rule_result(n)), bk_sum(g, dims_of(n), true))), grads);
}

/* --- scans
 * ----------------------------------------------------------------------------------------------------------------- */

int grad_cumsum(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS])
{
    return give(scan_record(g, SCAN_SUM, (int)n->attr.i[0], !n->attr.i[2]), grads);
}

/* The same without division, to be differentiated again. r[k], the sum over j >= k of g[j] x[k+1] ... x[j], obeys
 * r[k] = g[k] + x[k+1] r[k+1]: the steps are composed pairwise, each round twice as far. */
static bk_tensor *cumprod_gradient(node *n, bk_tensor *g)
{
    int dim = (int)n->attr.i[0];
    bk_tensor *x = input(n), *slope = shifted(x, dim, -1, 0), *r = g;
    for (int64_t far = 1; x && far < x->layout->sizes[dim]; far *= 2) {
        r = bk_add(r, bk_mul(slope, shifted(r, dim, -far, 0)));
        slope = bk_mul(slope, shifted(slope, dim, -far, 0));
    }
    return bk_mul(r, product_before(x, dim));
}

/* Before the first zero of a lane: the later products over x. At it: the same with the zero left out. After it: 0. */
int grad_cumprod(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS])
{
    int dim = (int)n->attr.i[0];
    int zeros = grad_enabled() && n->layout->ndim && n->layout->numel ? has_zeros(input(n)) : -1;
    if (zeros == 1)
        return give(cumprod_gradient(n, g), grads);
    if (zeros == 0)
        return give(bk_div(scan_record(bk_mul(g, rule_result(n)), SCAN_SUM, dim, true), input(n)), grads);
    bk_tensor *x = input(n), *zero = bk_eq_s(x, 0), *safe = bk_where(zero, bk_ones_like(x), x);
    bk_tensor *zeros_so_far = bk_cumsum(zero, dim), *before = bk_eq_s(zeros_so_far, 0);
    bk_tensor *first = bk_logical_and(zero, bk_eq_s(zeros_so_far, 1));
    bk_tensor *without = bk_cumprod(bk_where(first, bk_ones_like(x), x), dim);
    bk_tensor *early = bk_div(scan_record(bk_mul(g, rule_result(n)), SCAN_SUM, dim, true), safe);
    bk_tensor *at = scan_record(bk_mul(g, without), SCAN_SUM, dim, true);
    return give(bk_where(before, early, bk_where(first, at, number(x, 0))), grads);
}

/* The sum of g exp(x - out) over later places, by logarithms: of positive and of negative g apart. What is left out
 * counts as exp(-huge): the logarithm of 0 would come back as inf - inf in the second derivative. */
static bk_tensor *log_half(bk_tensor *g, bk_tensor *x, bk_tensor *out, const attr *a, bool positive)
{
    double huge = dtype_size(tensor_dtype(g)) == 2 ? 3e4 : 3e38;
    bk_tensor *mask = positive ? bk_gt_s(g, 0) : bk_lt_s(g, 0);
    bk_tensor *size = bk_log(bk_where(mask, bk_abs(g), number(g, 1)));
    bk_tensor *logs = bk_where(mask, size, number(g, -huge));
    return bk_exp(bk_add(scan_record(bk_sub(logs, out), SCAN_LOGSUMEXP, (int)a->i[0], !a->i[2]), x));
}

int grad_logcumsumexp(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS])
{
    bk_tensor *x = input(n), *out = rule_result(n);
    return give(bk_sub(log_half(g, x, out, &n->attr, true), log_half(g, x, out, &n->attr, false)), grads);
}
