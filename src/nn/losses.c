/* losses.c: the common losses over recorded ops, with PyTorch's checks, values and gradients at the kinks.
 *
 * Invariant: targets that are classes are looked at when the loss is recorded (PyTorch raises on that line), so that
 * what is recorded has no index out of range, and the number of samples that count is known. */
#include <math.h>

#include "autograd/composed.h"
#include "core/error.h"
#include "core/lock.h"
#include "core/scope.h"
#include "ops/compose.h"
#include "ops/elementwise.h"
#include "ops/index.h"

/* --- bricks ------------------------------------------------------------------------------------------------------- */

static bk_tensor *times(const bk_tensor *x, double factor) { return ew_with(EW_mul, x, number_float(factor)); }

/* 1 - x */
static bk_tensor *complement(const bk_tensor *x) { return ew_with(EW_add, bk_neg(x), number_int(1)); }

static bk_tensor *reduced(const bk_tensor *loss, bk_reduction reduction)
{
    if (!loss || reduction == BK_REDUCE_NONE)
        return (bk_tensor *)loss;
    return reduction == BK_REDUCE_MEAN ? bk_mean(loss, 0, false) : bk_sum(loss, 0, false);
}

/* What an entry point does around its own work: a scope under the lock, which what is returned leaves. */
static void enter(void)
{
    lock_take();
    bk_scope_push();
}

static bk_tensor *leave(bk_tensor *loss)
{
    bk_tensor *kept = scope_return(loss);
    lock_give();
    return kept;
}

static bool check_kernel(const bk_tensor *x, const char *kernel)
{
    if (x && dtype_is_float(tensor_dtype(x)))
        return true;
    if (x)
        error_null(BK_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", kernel, dtypes[tensor_dtype(x)].type_name);
    return false;
}

/* A weight that the gradient does not reach. */
static int check_constant(const bk_tensor *weight, const char *function, const char *name)
{
    if (!weight || !grad_enabled() || !tensor_tracked(weight))
        return 0;
    return error_int(BK_RUNTIME_ERROR,
                     "The function '%s' is not differentiable with respect to argument '%s'. This input cannot have "
                     "requires_grad True.",
                     function, name);
}

/* --- distances ---------------------------------------------------------------------------------------------------- */

/* x - target, of which one may be a mask. */
static bk_tensor *difference(const bk_tensor *x, const bk_tensor *target)
{
    const bk_dtype of_x = tensor_dtype(x), of_target = tensor_dtype(target);
    if (of_target == BK_BOOL && of_x != BK_BOOL)
        target = bk_to(target, of_x);
    if (of_x == BK_BOOL && of_target != BK_BOOL)
        x = bk_to(x, of_target);
    return bk_sub(x, target);
}

bk_tensor *bk_mse_loss(const bk_tensor *x, const bk_tensor *target, bk_reduction reduction)
{
    if (!x || !target)
        return NULL;
    enter();
    bk_tensor *d = difference(x, target);
    return leave(check_kernel(d, "mse_cpu") ? reduced(bk_square(d), reduction) : NULL);
}

bk_tensor *bk_l1_loss(const bk_tensor *x, const bk_tensor *target, bk_reduction reduction)
{
    if (!x || !target)
        return NULL;
    enter();
    return leave(reduced(bk_abs(bk_sub(x, target)), reduction));
}

/* c (d - c / 2) with c = d cut at both bounds: half the square of d between them, and its tangent from there on. Said
 * with a cut, an infinite d has the gradient of the tangent. */
static bk_tensor *bent_square(const bk_tensor *x, const bk_tensor *target, double bound, const char *kernel)
{
    bk_tensor *d = difference(x, target);
    operand in;
    if (!check_kernel(d, kernel) || !operand_of(d, &in))
        return NULL;
    bk_tensor *c = ew_apply(EW_cut, (operand[]){ in, number_float(-bound), number_float(bound) });
    return bk_mul(c, bk_sub(d, times(c, 0.5)));
}

bk_tensor *bk_smooth_l1_loss(const bk_tensor *x, const bk_tensor *target, double beta, bk_reduction reduction)
{
    if (!x || !target)
        return NULL;
    if (beta < 0)
        return error_null(BK_RUNTIME_ERROR, "smooth_l1_loss does not support negative values for beta.");
    if (beta == 0)
        return bk_l1_loss(x, target, reduction);
    enter();
    bk_tensor *loss = bent_square(x, target, beta, "smooth_l1_cpu");
    return leave(reduced(beta == 1 ? loss : ew_with(EW_div, loss, number_float(beta)), reduction));
}

bk_tensor *bk_huber_loss(const bk_tensor *x, const bk_tensor *target, double delta, bk_reduction reduction)
{
    if (!x || !target)
        return NULL;
    if (!(delta > 0))
        return error_null(BK_RUNTIME_ERROR, "huber_loss does not support non-positive values for delta.");
    enter();
    bk_tensor *loss = bent_square(x, target, delta, "huber_cpu");
    bool alike = loss && loss->layout->plain == x->layout->plain;
    return leave(reduced(alike ? laid_like(loss, x) : loss, reduction));
}

/* --- classes ------------------------------------------------------------------------------------------------------ */

static int class_dim(const bk_tensor *x) { return x->layout->ndim == 1 ? 0 : 1; }

static int check_weight(const bk_tensor *x, const bk_tensor *weight)
{
    char text[200];
    int64_t classes = x->layout->sizes[class_dim(x)];
    if (!weight)
        return 0;
    if (weight->layout->ndim != 1 || weight->layout->numel != classes)
        return error_int(BK_RUNTIME_ERROR,
                         "weight tensor should be defined either for all %lld classes or no classes but got weight "
                         "tensor of shape: %s",
                         (long long)classes, layout_text(weight->layout, text));
    if (tensor_dtype(weight) != tensor_dtype(x))
        return error_int(BK_RUNTIME_ERROR, "expected scalar type %s but found %s", dtypes[tensor_dtype(x)].type_name,
                         dtypes[tensor_dtype(weight)].type_name);
    return 0;
}

static int check_batch(const layout *x, const layout *target)
{
    if (x->ndim < 1)
        return error_int(BK_VALUE_ERROR, "Expected 1 or more dimensions (got 0)");
    if (x->ndim == 1 && target->ndim == 1 && target->sizes[0] != 1)
        return error_int(BK_VALUE_ERROR, "For 1D input, 1D target must have size 1, but got target size: %lld",
                         (long long)target->sizes[0]);
    if (x->ndim > 1 && !target->ndim)
        return error_int(BK_VALUE_ERROR, "Expected a target for each of %lld samples, got one number",
                         (long long)x->sizes[0]);
    if (x->ndim > 1 && x->sizes[0] != target->sizes[0])
        return error_int(BK_VALUE_ERROR, "Expected input batch_size (%lld) to match target batch_size (%lld).",
                         (long long)x->sizes[0], (long long)target->sizes[0]);
    return 0;
}

/* A class for each sample: x's sizes without its second. */
static int check_classes(const bk_tensor *x, const bk_tensor *target, const bk_tensor *weight)
{
    const layout *l = x->layout, *t = target->layout;
    bk_dtype dtype = tensor_dtype(target);
    if (check_batch(l, t) < 0)
        return -1;
    if (l->ndim <= 2 && t->ndim > 1)
        return error_int(BK_RUNTIME_ERROR, "0D or 1D target tensor expected, multi-target not supported");
    bool same = l->ndim <= 2 || t->ndim == l->ndim - 1;
    for (int d = 2; same && d < l->ndim; d++)
        same = l->sizes[d] == t->sizes[d - 1];
    if (!same) {
        char a[200], b[200];
        return error_int(BK_RUNTIME_ERROR, "size mismatch (got input: %s , target: %s)", layout_text(l, a),
                         layout_text(t, b));
    }
    if (dtype != BK_INT64 && dtype != BK_UINT8)
        return error_int(BK_RUNTIME_ERROR, "expected target dtype to be Long or Byte, but got %s",
                         dtypes[dtype].type_name);
    return check_weight(x, weight) < 0 || check_constant(weight, "nll_loss", "weight") < 0 ? -1 : 0;
}

/* How many targets are not ignored; -1 with the error set for one that is no class. */
static int64_t count_targets(const bk_tensor *target, int64_t classes, int64_t ignore_index)
{
    int64_t low, high, count = 0, n = target->layout->numel;
    if (index_range(target, &low, &high) < 0)
        return -1;
    if (low >= 0 && high < classes && (ignore_index < 0 || ignore_index >= classes))
        return n;
    bk_tensor *line = bk_contiguous(target);
    const int64_t *at = line ? bk_data(line) : NULL;
    if (!at && n)
        return -1;
    for (int64_t k = 0; k < n; k++) {
        if (at[k] == ignore_index)
            continue;
        if (at[k] < 0 || at[k] >= classes)
            return error_int(BK_INDEX_ERROR, "Target %lld is out of bounds.", (long long)at[k]);
        count++;
    }
    return count;
}

/* t where kept, 0 elsewhere; all of t where nothing is left out (kept is NULL). */
static bk_tensor *only(const bk_tensor *kept, bk_tensor *t)
{
    operand in;
    return kept && operand_of(t, &in) ? ew_choose(kept, in, number_float(0)) : t;
}

/* The targets as indices, which of them count, and how many. */
typedef struct classes {
    bk_tensor *index, *kept; /* kept: NULL when all do */
    int64_t count;
} classes;

static bool read_classes(const bk_tensor *x, const bk_tensor *target, int64_t ignore_index, classes *out)
{
    bk_tensor *index = index_long(target);
    if (index && x->layout->ndim == 1)
        index = bk_reshape(index, 0, NULL); /* one sample, however it was said */
    out->count = index ? count_targets(index, x->layout->sizes[class_dim(x)], ignore_index) : -1;
    if (out->count < 0)
        return false;
    operand in;
    out->kept = NULL;
    out->index = index;
    if (out->count == index->layout->numel)
        return true;
    out->kept = ew_with(EW_ne, index, number_int(ignore_index));
    out->index = operand_of(index, &in) ? ew_choose(out->kept, in, number_int(0)) : NULL;
    return out->index;
}

/* x at the class of each sample, in the targets' sizes. */
static bk_tensor *at_classes(const bk_tensor *x, const bk_tensor *index)
{
    int dim = class_dim(x);
    const int64_t one = 1;
    bk_tensor *at = x->layout->ndim == 1 ? bk_reshape(index, 1, &one) : bk_unsqueeze(index, dim);
    return bk_squeeze(gather_read(x, dim, at), dim);
}

static bk_tensor *weight_of(const bk_tensor *weight, const classes *c)
{
    const layout *l = c->index->layout;
    bk_tensor *line = bk_reshape(c->index, 1, &l->numel);
    return only(c->kept, bk_reshape(gather_read(bk_detach(weight), 0, line), l->ndim, l->sizes));
}

/* The sum of the losses over what they weigh. */
static bk_tensor *weighed(const bk_tensor *loss, const bk_tensor *weights, const classes *c, bk_reduction reduction)
{
    if (!loss || reduction == BK_REDUCE_NONE)
        return (bk_tensor *)loss;
    bk_tensor *sum = bk_sum(loss, 0, false);
    if (reduction == BK_REDUCE_SUM)
        return sum;
    return weights ? bk_div(sum, bk_sum(weights, 0, false)) : ew_with(EW_div, sum, number_float((double)c->count));
}

/* PyTorch has one function for samples in a row and one for images, as which it sees all others. */
static bk_tensor *named_nll(bk_tensor *loss, const bk_tensor *x, bk_reduction reduction, uint64_t start)
{
    static const char *const names[] = { "_nll_loss_1d",      "_nll_loss_2d",      "_nll_loss_nd",
                                         "_nll_loss_nd_copy", "_nll_loss_nd_each", "_nll_loss_nd_each_copy" };
    static int rows[sizeof names / sizeof *names];
    int ndim = x->layout->ndim, how = 0;
    if (ndim > 2)
        how = ndim == 4 ? 1 : 2 + !x->layout->contiguous + 2 * (reduction == BK_REDUCE_NONE);
    return composed_as(loss, names[how], &rows[how], start, &x, 1);
}

static bk_tensor *nll(const bk_tensor *x, const classes *c, const bk_tensor *weight, bk_reduction reduction)
{
    uint64_t start = next_sequence;
    bk_tensor *weights = weight ? weight_of(weight, c) : NULL, *loss = bk_neg(at_classes(x, c->index));
    if (weight)
        loss = bk_mul(loss, weights);
    return named_nll(weighed(only(c->kept, loss), weights, c, reduction), x, reduction, start);
}

bk_tensor *bk_nll_loss(const bk_tensor *x, const bk_tensor *target, const bk_tensor *weight, int64_t ignore_index,
                       bk_reduction reduction)
{
    classes c;
    if (!x || !target)
        return NULL;
    enter();
    bool good = check_classes(x, target, weight) == 0 && check_kernel(x, "nll_loss_out_frame") &&
                read_classes(x, target, ignore_index, &c);
    return leave(good ? nll(x, &c, weight, reduction) : NULL);
}

/* weight along the classes of x, 1 where there is none. */
static bk_tensor *times_weight(bk_tensor *x, const bk_tensor *weight)
{
    if (!x || !weight)
        return x;
    int64_t sizes[BK_MAX_NDIM];
    for (int d = 0; d < x->layout->ndim; d++)
        sizes[d] = d == class_dim(x) ? weight->layout->numel : 1;
    return bk_mul(x, bk_reshape(weight, x->layout->ndim, sizes));
}

static bk_tensor *probability_loss(bk_tensor *log_p, const bk_tensor *target, const bk_tensor *weight, double smoothing,
                                   bk_reduction reduction)
{
    double classes = (double)log_p->layout->sizes[class_dim(log_p)];
    const bk_tensor *p = target;
    if (smoothing > 0)
        p = ew_with(EW_add, times(target, 1 - smoothing), number_float(smoothing / classes));
    uint32_t dims = reduction == BK_REDUCE_NONE ? 1u << class_dim(log_p) : 0;
    bk_tensor *loss = bk_neg(bk_sum(times_weight(bk_mul(log_p, p), weight), dims, false));
    if (reduction != BK_REDUCE_MEAN)
        return loss;
    double samples = (double)log_p->layout->numel / classes;
    static int row;
    uint64_t start = next_sequence;
    return composed_as(ew_with(EW_div, loss, number_float(samples)), "_div_number", &row, start,
                       (const bk_tensor *[]){ loss }, 1);
}

/* -x where the sample counts. PyTorch fills in zeros whether or not some do not. */
static bk_tensor *negative_of_kept(const bk_tensor *x, const classes *c)
{
    static int rows[2];
    uint64_t start = next_sequence;
    bk_tensor *minus = bk_neg(x);
    if (!c->kept)
        return composed_as(minus, "_neg_filled", &rows[0], start, &x, 1);
    start = next_sequence;
    return composed_as(only(c->kept, minus), "_fill_number", &rows[1], start, (const bk_tensor *[]){ minus }, 1);
}

static bk_tensor *share(const bk_tensor *loss, double factor)
{
    static int row;
    uint64_t start = next_sequence;
    return composed_as(loss ? times(loss, factor) : NULL, "_mul_number", &row, start, &loss, 1);
}

/* The class takes 1 - smoothing, and all classes share the rest. */
static bk_tensor *smoothed_loss(bk_tensor *log_p, const classes *c, const bk_tensor *weight, double smoothing,
                                bk_reduction reduction)
{
    double classes = (double)log_p->layout->sizes[class_dim(log_p)];
    bk_tensor *even = bk_sum(times_weight(log_p, weight), 1u << class_dim(log_p), false);
    even = weighed(negative_of_kept(even, c), weight ? weight_of(weight, c) : NULL, c, reduction);
    bk_tensor *own = nll(log_p, c, weight, reduction);
    return bk_add(share(own, 1 - smoothing), share(even, smoothing / classes));
}

static bool is_probability(const bk_tensor *x, const bk_tensor *target)
{
    return x->layout->plain == target->layout->plain;
}

static int check_probability(const bk_tensor *x, const bk_tensor *target, const bk_tensor *weight, int64_t ignore)
{
    if (!dtype_is_float(tensor_dtype(target)))
        return error_int(BK_RUNTIME_ERROR, "Expected floating point type for target with class probabilities, got %s",
                         dtypes[tensor_dtype(target)].type_name);
    if (ignore >= 0)
        return error_int(BK_RUNTIME_ERROR, "ignore_index is not supported for floating point target");
    return x->layout->ndim ? check_weight(x, weight) : 0;
}

bk_tensor *bk_cross_entropy(const bk_tensor *x, const bk_tensor *target, const bk_tensor *weight, int64_t ignore_index,
                            double label_smoothing, bk_reduction reduction)
{
    classes c;
    if (!x || !target)
        return NULL;
    if (label_smoothing < 0 || label_smoothing > 1)
        return error_null(BK_RUNTIME_ERROR, "label_smoothing must be between 0.0 and 1.0. Got: %g", label_smoothing);
    enter();
    bool by_probability = is_probability(x, target);
    if (by_probability ? check_probability(x, target, weight, ignore_index) < 0
                       : check_classes(x, target, weight) < 0 || !read_classes(x, target, ignore_index, &c))
        return leave(NULL);
    bk_tensor *log_p = bk_log_softmax(x, class_dim(x));
    if (!log_p)
        return leave(NULL);
    return leave(by_probability        ? probability_loss(log_p, target, weight, label_smoothing, reduction)
                 : label_smoothing > 0 ? smoothed_loss(log_p, &c, weight, label_smoothing, reduction)
                                       : nll(log_p, &c, weight, reduction));
}

/* --- two classes -------------------------------------------------------------------------------------------------- */

static bk_tensor *is_in_unit_range(const bk_tensor *x)
{
    bk_tensor *inside = bk_logical_and(bk_ge_s(x, 0), bk_le_s(x, 1));
    return inside ? bk_all(inside, 0, false) : NULL;
}

/* One evaluation for both. */
static int check_unit_range(const bk_tensor *x, const bk_tensor *target)
{
    bool was = grad_set_enabled(false);
    bk_tensor *input_good = is_in_unit_range(x), *target_good = is_in_unit_range(target);
    grad_set_enabled(was);
    if (!input_good || !target_good || bk_eval(target_good) < 0 || bk_eval(input_good) < 0)
        return -1;
    if (!bk_item_int(input_good))
        return error_int(BK_RUNTIME_ERROR, "all elements of input should be between 0 and 1");
    return bk_item_int(target_good) ? 0
                                    : error_int(BK_RUNTIME_ERROR, "all elements of target should be between 0 and 1");
}

static int check_binary(const bk_tensor *x, const bk_tensor *target)
{
    if (x->layout->plain != target->layout->plain)
        return error_int(BK_VALUE_ERROR, "the target's sizes must be those of the input");
    if (tensor_dtype(x) != tensor_dtype(target))
        return error_int(BK_RUNTIME_ERROR, "Found dtype %s but expected %s", dtypes[tensor_dtype(target)].type_name,
                         dtypes[tensor_dtype(x)].type_name);
    return check_kernel(x, "binary_cross_entropy") ? check_unit_range(x, target) : -1;
}

/* A logarithm that is not below -100: a probability of 0 costs much, not everything. */
static bk_tensor *bounded(const bk_tensor *log) { return ew_with(EW_clamp_min, log, number_float(-100)); }

static bk_tensor *binary_value(const bk_tensor *x, const bk_tensor *target)
{
    bool was = grad_set_enabled(false);
    bk_tensor *no = bounded(bk_log1p(bk_neg(x))), *yes = bounded(bk_log(x));
    bk_tensor *value = bk_sub(bk_mul(bk_sub(target, bk_ones_like(target)), no), bk_mul(target, yes));
    grad_set_enabled(was);
    return value;
}

/* One node on the tape, for the gradient that PyTorch gives at 0 and 1 (autograd/rules_nn.c). */
static bk_tensor *binary_loss(const bk_tensor *x, const bk_tensor *target)
{
    bk_tensor *value = binary_value(x, target);
    operand in[MAX_INPUTS];
    if (!operand_of(x, &in[0]) || !operand_of(value, &in[1]) || !operand_of(target, &in[2]))
        return NULL;
    if (!in[0].edge && !in[2].edge)
        return value;
    node *n = node_new(OP_binary_cross_entropy, tensor_dtype(value), value->layout);
    if (!n)
        return NULL;
    n->inputs = 3;
    for (int k = 0; k < 3; k++)
        node_input(n, k, in[k].value, in[k].edge);
    return tensor_from_node(record_node(n));
}

bk_tensor *bk_binary_cross_entropy(const bk_tensor *x, const bk_tensor *target, const bk_tensor *weight,
                                   bk_reduction reduction)
{
    if (!x || !target)
        return NULL;
    enter();
    if (check_binary(x, target) < 0 || check_constant(weight, "binary_cross_entropy", "weight") < 0)
        return leave(NULL);
    bk_tensor *loss = laid_like(binary_loss(x, target), x);
    return leave(reduced(weight ? bk_mul(loss, weight) : loss, reduction));
}

bk_tensor *bk_binary_cross_entropy_with_logits(const bk_tensor *x, const bk_tensor *target, const bk_tensor *weight,
                                               const bk_tensor *pos_weight, bk_reduction reduction)
{
    if (!x || !target)
        return NULL;
    if (!dtype_is_float(tensor_dtype(target)))
        return error_null(BK_RUNTIME_ERROR, "result type %s can't be cast to the desired output type %s",
                          dtypes[tensor_dtype(x)].type_name, dtypes[tensor_dtype(target)].type_name);
    const char *name = "binary_cross_entropy_with_logits";
    enter();
    if (check_constant(weight, name, "weight") < 0 || check_constant(pos_weight, name, "pos_weight") < 0)
        return leave(NULL);
    bk_tensor *yes = bk_logsigmoid(x);
    if (pos_weight) /* (p - 1) y + 1 */
        yes = bk_mul(yes, ew_with(EW_add, bk_mul(ew_with(EW_sub, pos_weight, number_int(1)), target), number_int(1)));
    bk_tensor *loss = bk_sub(bk_mul(complement(target), x), yes);
    if (loss && loss->layout->plain == target->layout->plain) /* in memory that PyTorch makes like the target */
        loss = laid_like(weight ? bk_mul(loss, weight) : loss, target);
    else if (weight)
        loss = bk_mul(loss, weight);
    return leave(reduced(loss, reduction));
}
