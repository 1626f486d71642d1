/* elementwise.c: from a row of ops.def and its operands to a recorded node.
 *
 * Order of work, for every op alike: promote dtypes, broadcast sizes, cast the operands, find the result's strides,
 * record. Operands keep their own sizes: the plan repeats them, and their gradients are summed to them. Values of one
 * element that are already there are computed at once: element loops never see the log.
 */
#include "ops/elementwise.h"

#include <string.h>

#include "autograd/function.h"
#include "autograd/replay.h"
#include "core/error.h"
#include "core/lock.h"
#include "core/scope.h"
#include "graph/append.h"
#include "ops/alike.h"
#include "ops/numbers.h"
#include "ops/settings.h"

/* --- dtypes ---------------------------------------------------------------------------------------------------- */

static int dtype_or(int a, bk_dtype b) { return a < 0 ? (int)b : (int)dtype_promote((bk_dtype)a, b); }

/* A lower level (0-d tensors, then numbers) only matters where it is of a higher category. */
static int combine(int higher, int lower)
{
    if (higher < 0 || lower < 0)
        return higher < 0 ? lower : higher;
    if (dtypes[lower].category > dtypes[higher].category)
        return (int)dtype_promote((bk_dtype)higher, (bk_dtype)lower);
    return higher;
}

static bk_dtype number_dtype(operand o)
{
    return o.category == CATEGORY_FLOAT ? default_dtype() : o.category == CATEGORY_INT ? BK_INT64 : BK_BOOL;
}

bk_dtype operands_promote(const operand *in, int count)
{
    int sized = -1, zero = -1, number = -1;
    for (int k = 0; k < count; k++) {
        if (!in[k].value)
            number = dtype_or(number, number_dtype(in[k]));
        else if (in[k].value->layout->ndim)
            sized = dtype_or(sized, (bk_dtype)in[k].value->dtype);
        else
            zero = dtype_or(zero, (bk_dtype)in[k].value->dtype);
    }
    return (bk_dtype)combine(sized, combine(zero, number));
}

static int refuse_dtype(const char *op, bk_dtype d)
{
    return error_int(BK_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", op, dtypes[d].type_name);
}

/* What PyTorch calls the kernel that has no form for a dtype: most are called by the op. */
static int refuse_kernel(int op, bk_dtype d)
{
    static const struct {
        int op;
        const char *kernel;
    } names[] = {
        { EW_pow, "pow" },
        { EW_floor, "floor_vml_cpu" },
        { EW_ceil, "ceil_vml_cpu" },
        { EW_round, "round_vml_cpu" },
        { EW_trunc, "trunc_vml_cpu" },
        { EW_floor_divide, "div_floor_cpu" },
        { EW_bitwise_left_shift, "lshift_cpu" },
        { EW_bitwise_right_shift, "rshift_cpu" },
        { EW_logsigmoid, "log_sigmoid_cpu" },
        { EW_selu, "elu_cpu" },
        { EW_celu, "elu_cpu" },
        { EW_gelu, "GeluKernelImpl" },
        { EW_gelu_tanh, "GeluKernelImpl" },
    };
    if (op == EW_relu)
        return error_int(BK_RUNTIME_ERROR, "Boolean inputs not supported for relu");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].op == op)
            return refuse_dtype(names[i].kernel, d);
    return error_int(BK_NOT_IMPLEMENTED, "\"%s_cpu\" not implemented for '%s'", ew_infos[op].name, dtypes[d].type_name);
}

/* A plain number, or a tensor of no dimension that no gradient flows to. */
static bool is_number(operand o) { return !o.value || (!o.value->layout->ndim && !o.edge); }
static bool is_bool(operand o) { return o.value ? o.value->dtype == BK_BOOL : o.category == CATEGORY_BOOL; }

static int check_bools(int op, const operand *in)
{
    if (op == EW_neg && is_bool(in[0]))
        return error_int(BK_RUNTIME_ERROR,
                         "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to "
                         "invert a mask, use the `~` or `logical_not()` operator instead.");
    if (op != EW_sub || (!is_bool(in[0]) && !is_bool(in[1])))
        return 0;
    if (is_bool(in[0]) && is_bool(in[1]))
        return error_int(BK_RUNTIME_ERROR,
                         "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` "
                         "or `logical_xor()` operator instead.");
    return error_int(BK_RUNTIME_ERROR,
                     "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying "
                     "to invert a mask, use the `~` or `logical_not()` operator instead.");
}

/* All of one dtype, but for a weight without dimensions. */
static int check_lerp(const operand *in)
{
    static const char *const names[] = { "self", "end", "weight" };
    bk_dtype d = (bk_dtype)in[0].value->dtype;
    for (int k = 1; k < 3; k++)
        if (in[k].value && in[k].value->dtype != d && (k == 1 || in[k].value->layout->ndim))
            return error_int(BK_RUNTIME_ERROR, "expected dtype %s for `%s` but got dtype %s", dtypes[d].c_name,
                             names[k], dtypes[in[k].value->dtype].c_name);
    return dtype_is_float(d) ? factor_check(in[2], d)
                             : refuse_dtype(in[2].value ? "lerp_kernel_tensor" : "lerp_kernel_scalar", d);
}

/* What PyTorch refuses although there would be an answer. */
static int check_operands(int op, const operand *in)
{
    switch (op) {
    case EW_neg:
    case EW_sub: return check_bools(op, in);
    case EW_lerp: return check_lerp(in);
    case EW_abs:
    case EW_softsign: return is_bool(in[0]) ? refuse_dtype("abs_cpu", BK_BOOL) : 0;
    case EW_heaviside:
        if (in[0].value && in[1].value && in[0].value->dtype != in[1].value->dtype)
            return error_int(BK_RUNTIME_ERROR, "heaviside is not yet implemented for tensors with different dtypes.");
        return 0;
    default: return 0;
    }
}

static bool divides(int op) { return op == EW_floor_divide || op == EW_remainder || op == EW_fmod; }

/* Integers are not divided by zero: the divisor is evaluated, so that the error comes on the line that divides. The
 * dividend x is held meanwhile: a flush drops what only a handle remembers. */
static int check_divisor(operand x, operand y, bk_dtype dtype)
{
    _Alignas(int64_t) char element[8];
    dtype_store_int(dtype, element, y.value ? 1 : y.i); /* 256 is none of the numbers of a byte, and 0 as one */
    int64_t zeros = dtype_load_int(dtype, element) == 0;
    if (y.value) {
        if (x.value)
            node_retain(x.value);
        bk_scope_push();
        bk_tensor *count = bk_sum(bk_eq_s(tensor_at(y.value, NULL), 0), 0, false);
        bool good = count && bk_eval(count) == 0;
        zeros = good ? bk_item_int(count) : 0;
        bk_scope_pop();
        if (x.value)
            node_release(x.value);
        if (!good)
            return -1;
    }
    return zeros ? error_int(BK_RUNTIME_ERROR, "ZeroDivisionError") : 0;
}

/* What the operands become, and what the result is. */
static int resolve_dtypes(int op, const operand *in, bk_dtype want[static MAX_INPUTS], bk_dtype *result)
{
    const ew_info *row = &ew_infos[op];
    if (check_operands(op, in) < 0)
        return -1;
    int first = row->rule == EW_SELECT;
    if (first && in[0].value && in[0].value->dtype != BK_BOOL && in[0].value->dtype != BK_UINT8)
        return error_int(BK_RUNTIME_ERROR,
                         "where expected condition to be a boolean tensor, but got a tensor with dtype %s",
                         dtypes[in[0].value->dtype].type_name);
    bk_dtype common = operands_promote(in + first, row->arity - first);
    if (row->rule == EW_FLOAT && !dtype_is_float(common))
        common = default_dtype();
    if (row->rule == EW_LOGIC)
        common = BK_BOOL;
    if (op == EW_square && common == BK_BOOL) /* PyTorch's is pow(x, 2), and 2 is an integer */
        common = BK_INT64;
    static const uint8_t kernels[] = { [CATEGORY_BOOL] = EW_TYPE_B,
                                       [CATEGORY_INT] = EW_TYPE_I,
                                       [CATEGORY_FLOAT] = EW_TYPE_F };
    if (!(row->types & kernels[dtypes[common].category]))
        return refuse_kernel(op, common);
    for (int k = 0; k < row->arity; k++)
        want[k] = common;
    if (row->arity == 2 && is_number(in[1]) && (in[1].value ? !is_number(in[0]) : in[0].value != NULL))
        want[1] = number_precision(op, common);
    if (op == EW_mul && !in[0].value)
        want[0] = number_precision(op, common);
    for (int k = 1; row->arity == 3 && k < 3; k++)
        if (!in[k].value)
            want[k] = number_precision(op, common);
    if (first)
        want[0] = BK_BOOL;
    *result = ew_gives_bool((ew_op)op) ? BK_BOOL : common;
    return divides(op) && !dtype_is_float(common) ? check_divisor(in[0], in[1], common) : 0;
}

node *number_node(operand o, bk_dtype dtype)
{
    if (o.category == CATEGORY_FLOAT)
        return node_constant_double(dtype, o.d);
    return dtype_is_float(dtype) ? node_constant_double(dtype, o.d) : node_constant_int(dtype, o.i);
}

void owned_release(owned o)
{
    if (o.value)
        node_release(o.value);
    if (o.edge)
        node_release(o.edge);
}

static owned own(operand in) { return (owned){ node_retain(in.value), in.edge ? node_retain(in.edge) : NULL }; }

/* A node that is both the value and its place on the tape. */
static owned own_node(node *n) { return (owned){ n, n && n->flags & NODE_TAPED ? node_retain(n) : NULL }; }

node *record_node(node *n)
{
    if (n && log_append(n) < 0) {
        node_release(n);
        return NULL;
    }
    return n;
}

owned operand_cast(operand in, bk_dtype dtype)
{
    if (!in.value)
        return (owned){ number_node(in, dtype), NULL };
    if (in.value->dtype == dtype)
        return own(in);
    if (in.value->flags & NODE_CONSTANT && !in.edge) {
        bool whole = !dtype_is_float((bk_dtype)in.value->dtype);
        return (owned){ whole
                            ? node_constant_int(dtype, dtype_load_int((bk_dtype)in.value->dtype, in.value->data))
                            : node_constant_double(dtype, dtype_load_double((bk_dtype)in.value->dtype, in.value->data)),
                        NULL };
    }
    const layout *from = in.value->layout;
    const layout *l = from->dense ? from : strides_of_result(&from, 1, from->plain);
    node *n = l ? node_new(OP_cast, dtype, l) : NULL;
    if (!n)
        return (owned){ 0 };
    n->inputs = 1;
    node_input(n, 0, in.value, dtype_is_float(dtype) ? in.edge : NULL);
    n->attr.i[0] = in.value->dtype; /* what its gradient becomes again */
    n->reached = 1;
    return own_node(record_node(n));
}

/* --- sizes ----------------------------------------------------------------------------------------------------- */

const layout *layout_broadcast(const layout *a, const layout *b)
{
    if (a->plain == b->plain)
        return a->plain;
    int ndim = a->ndim > b->ndim ? a->ndim : b->ndim;
    int64_t sizes[BK_MAX_NDIM];
    for (int d = ndim - 1; d >= 0; d--) {
        int da = d - (ndim - a->ndim), db = d - (ndim - b->ndim);
        int64_t sa = da < 0 ? 1 : a->sizes[da], sb = db < 0 ? 1 : b->sizes[db];
        if (sa != sb && sa != 1 && sb != 1)
            return error_null(BK_RUNTIME_ERROR,
                              "The size of tensor a (%lld) must match the size of tensor b (%lld) at non-singleton "
                              "dimension %d",
                              (long long)sa, (long long)sb, d);
        sizes[d] = sa == 1 ? sb : sa;
    }
    return layout_get(ndim, sizes, NULL);
}

const layout *operands_broadcast(const operand *in, int count)
{
    const layout *sizes = NULL;
    for (int k = 0; k < count; k++) {
        if (!in[k].value)
            continue;
        sizes = sizes ? layout_broadcast(sizes, in[k].value->layout) : in[k].value->layout->plain;
        if (!sizes)
            return NULL;
    }
    return sizes ? sizes : layout_get(0, NULL, NULL);
}

static const layout *repeated_layout(const layout *l, const layout *plain)
{
    if (l->plain == plain)
        return l;
    int64_t strides[BK_MAX_NDIM];
    for (int d = 0; d < plain->ndim; d++) {
        int from = d - (plain->ndim - l->ndim);
        strides[d] = from < 0 || (l->sizes[from] == 1 && plain->sizes[d] != 1) ? 0 : l->strides[from];
    }
    return layout_get(plain->ndim, plain->sizes, strides);
}

owned operand_expand(operand in, const layout *plain)
{
    if (in.value->layout->plain == plain || in.value->flags & NODE_CONSTANT)
        return own(in);
    return own_node(node_expand(in.value, in.edge, repeated_layout(in.value->layout, plain)));
}

/* --- strides of the result -------------------------------------------------------------------------------------- */

/* Which of two dimensions is the faster one, asked of each operand in turn; the rule is PyTorch's TensorIterator's. */
static int compare_dimensions(const layout *const *in, int count, const layout *plain, int d0, int d1)
{
    for (int k = 0; k < count; k++) {
        int64_t s0 = in[k]->strides[d0], s1 = in[k]->strides[d1];
        if (s0 == 0 || s1 == 0)
            continue;
        if (s0 != s1)
            return s0 < s1 ? -1 : 1;
        if (plain->sizes[d0] > plain->sizes[d1])
            return 1;
    }
    return 0;
}

/* perm[0] becomes the fastest dimension: an insertion sort that leaves undecided pairs as they are. */
static void order_dimensions(const layout *const *in, int count, const layout *plain, int perm[static BK_MAX_NDIM])
{
    for (int i = 0; i < plain->ndim; i++)
        perm[i] = plain->ndim - 1 - i;
    for (int i = 1; i < plain->ndim; i++) {
        int at = i;
        for (int j = i - 1; j >= 0; j--) {
            int order = compare_dimensions(in, count, plain, perm[j], perm[at]);
            if (order > 0) {
                int swapped = perm[j];
                perm[j] = perm[at];
                perm[at] = swapped;
                at = j;
            } else if (order < 0) {
                break;
            }
        }
    }
}

const layout *strides_of_result(const layout *const *in, int count, const layout *plain)
{
    int perm[BK_MAX_NDIM];
    order_dimensions(in, count, plain, perm);
    int64_t strides[BK_MAX_NDIM], step = 1;
    bool turned = false;
    for (int i = 0; i < plain->ndim; i++) {
        turned |= perm[i] != plain->ndim - 1 - i;
        strides[perm[i]] = step;
        step *= plain->sizes[perm[i]];
    }
    return turned ? layout_get(plain->ndim, plain->sizes, strides) : plain;
}

/* Whether PyTorch keeps a number beside the operands of this op, not among them. */
static bool keeps_number(int op)
{
    switch (op) {
    case EW_pow:
    case EW_leaky_relu:
    case EW_elu:
    case EW_celu:
    case EW_softplus:
    case EW_lerp:
    case EW_add_scaled:
    case EW_sub_scaled:
    case EW_clamp:
    case EW_cut:
    case EW_clamp_min:
    case EW_clamp_max: return true;
    default: return false;
    }
}

/* The strides of a result whose operands all have its sizes, where no look at single dimensions is needed; NULL where
 * it is. */
static const layout *strides_alike(const layout *const *in, int count, const layout *plain)
{
    bool contiguous = true, channels_last = true, same = true;
    for (int k = 0; k < count; k++) {
        contiguous &= in[k]->contiguous;
        channels_last &= layout_is_channels_last(in[k]);
        same &= in[k] == in[0];
    }
    if (contiguous)
        return plain;
    return channels_last ? layout_channels_last(plain) : same && in[0]->dense ? in[0] : NULL;
}

const layout *strides_of_equals(const layout *const *in, int count, const layout *plain)
{
    const layout *quick = strides_alike(in, count, plain);
    return quick ? quick : strides_of_result(in, count, plain);
}

/* PyTorch's TensorIterator again: operands of other sizes, numbers among them, take the long way. */
static const layout *result_layout(int op, const operand *in, const operand *given, int count, const layout *plain)
{
    const layout *sized[MAX_INPUTS], *quick = NULL;
    int n = 0;
    bool alike = true;
    for (int k = 0; k < count; k++) {
        if (!in[k].value || in[k].value->flags & NODE_CONSTANT) {
            alike &= (!given[k].value && given[k].beside) || keeps_number(op);
            continue;
        }
        sized[n] = repeated_layout(in[k].value->layout, plain);
        if (!sized[n])
            return NULL;
        alike &= in[k].value->layout->plain == plain;
        n++;
    }
    if (!n)
        return plain;
    if (sized[0]->plain == plain && sized[0]->decides)
        return sized[0]->falling ? plain : sized[0];
    quick = alike ? strides_alike(sized, n, plain) : NULL;
    return quick ? quick : strides_of_result(sized, n, plain);
}

const layout *strides_of_loop(const operand *in, int count, const layout *plain)
{
    return result_layout(EW_where, in, in, count, plain);
}

/* --- recording --------------------------------------------------------------------------------------------------- */

node *elementwise_now(int op, bk_dtype dtype, node *const *in, const layout *plain)
{
    const ew_info *row = &ew_infos[op];
    if (plain->numel != 1)
        return NULL;
    int compute = dtypes[in[row->arity - 1]->dtype].compute;
    for (int k = row->rule == EW_SELECT; k < row->arity; k++)
        if (dtypes[in[k]->dtype].size != compute_size[compute])
            return NULL;
    for (int k = 0; k < row->arity; k++)
        if (!node_evaluated(in[k]))
            return NULL;
    node *n = node_new(OP_data, dtype, plain);
    if (!n)
        return NULL;
    const void *x[MAX_INPUTS] = { in[0]->data, in[0]->data, in[0]->data };
    for (int k = 1; k < row->arity; k++)
        x[k] = in[k]->data;
    n->data = (char *)&n->attr;
    ew_kernels()->op[op][compute](1, n->data, x[0], x[1], x[2]);
    if (forwards_under_way)
        forward_carry(n, op, in, row->arity);
    replay_made(n, op, row->arity, in);
    return n;
}

static node *record_elementwise(int op, bk_dtype dtype, const owned *in, const operand *given, const layout *plain)
{
    int arity = ew_infos[op].arity;
    node *values[MAX_INPUTS];
    bool taped = false;
    for (int k = 0; k < arity; k++) {
        values[k] = in[k].value;
        taped |= in[k].edge != NULL;
    }
    if (!taped) {
        node *now = elementwise_now(op, dtype, values, plain);
        if (now)
            return now;
    }
    operand ready[MAX_INPUTS];
    for (int k = 0; k < arity; k++)
        ready[k] = owned_operand(in[k]);
    /* PyTorch casts operands before it looks at their strides, except for logic, which reads any dtype. */
    const layout *l = result_layout(op, ew_infos[op].rule == EW_LOGIC ? given : ready, given, arity, plain);
    node *n = l ? node_new(op, dtype, l) : NULL;
    if (!n)
        return NULL;
    n->inputs = (uint8_t)arity;
    bool differentiable = op_get(op)->gradient != NULL;
    for (int k = 0; k < arity; k++)
        node_input(n, k, values[k], differentiable ? in[k].edge : NULL);
    return record_node(n);
}

/* --- the short way (alike.h) ----------------------------------------------------------------------------------------
 */

uint8_t plain_result[EW_COUNT][BK_DTYPE_COUNT];

__attribute__((constructor)) static void fill_plain_results(void)
{
    static const uint8_t kernels[] = { [CATEGORY_BOOL] = EW_TYPE_B,
                                       [CATEGORY_INT] = EW_TYPE_I,
                                       [CATEGORY_FLOAT] = EW_TYPE_F };
    for (int op = 0; op < EW_COUNT; op++) {
        uint8_t rule = ew_infos[op].rule;
        for (int d = 0; d < BK_DTYPE_COUNT; d++) {
            bool plain = rule == EW_ARITH || rule == EW_COMPARE || rule == EW_BITS || rule == EW_TEST ||
                         (rule == EW_FLOAT && dtype_is_float((bk_dtype)d));
            bool has =
                ew_infos[op].types & kernels[dtypes[d].category] && (dtype_is_float((bk_dtype)d) || !divides(op));
            plain_result[op][d] = plain && has ? (ew_gives_bool((ew_op)op) ? BK_BOOL : (uint8_t)d) : NO_RESULT;
        }
    }
}

bool fits_under(const layout *l, const layout *first)
{
    int lead = first->ndim - l->ndim;
    for (int d = 0; d < l->ndim; d++)
        if (lead < 0 || (l->sizes[d] != 1 && l->sizes[d] != first->sizes[d + lead]))
            return false;
    return first->decides;
}

/* Never inlined, as its tables would take record_alike the registers that its loops are unrolled into. */
static __attribute__((noinline)) node *apply_any(int op, const operand *in)
{
    bk_dtype want[MAX_INPUTS], result = BK_FLOAT32;
    int arity = ew_infos[op].arity;
    if (resolve_dtypes(op, in, want, &result) < 0)
        return NULL;
    const layout *plain = operands_broadcast(in, arity);
    if (!plain)
        return NULL;
    owned ready[MAX_INPUTS] = { { 0 } };
    node *n = NULL;
    bool good = true;
    for (int k = 0; good && k < arity; k++) {
        ready[k] = operand_cast(in[k], want[k]);
        good = ready[k].value != NULL;
    }
    if (good)
        n = record_elementwise(op, result, ready, in, plain);
    for (int k = 0; k < arity; k++)
        owned_release(ready[k]);
    return n;
}

/* Elements of one dtype that computes as itself, and numbers, none on the tape: the op is one kernel call. NULL where
 * it is not so simple. */
static node *apply_elements(int op, int arity, const operand *in)
{
    const ew_info *row = &ew_infos[op];
    const node *first = in[0].value ? in[0].value : arity > 1 ? in[1].value : NULL;
    if (!first || first->layout->ndim || row->rule == EW_SELECT || row->rule == EW_LOGIC)
        return NULL;
    bk_dtype d = (bk_dtype)first->dtype;
    bool whole = d == BK_INT64 && row->rule != EW_FLOAT;
    if (d != BK_FLOAT32 && d != BK_FLOAT64 && !whole)
        return NULL;
    if (!(row->types & (whole ? EW_TYPE_I : EW_TYPE_F)))
        return NULL;
    union {
        double d;
        float f;
        int64_t i;
    } number[2];
    const void *x[2];
    for (int k = 0; k < arity; k++) {
        const node *v = in[k].value;
        if (v ? v->layout->ndim || v->dtype != d || !v->data || in[k].edge
              : (whole && in[k].category == CATEGORY_FLOAT) || (in[k].category == CATEGORY_BOOL && op == EW_sub))
            return NULL;
        if (!v && whole)
            number[k].i = in[k].i;
        else if (!v && d == BK_FLOAT64)
            number[k].d = in[k].d;
        else if (!v)
            number[k].f = (float)in[k].d;
        x[k] = v ? v->data : (const void *)&number[k];
    }
    node *n = node_new(OP_data, ew_gives_bool((ew_op)op) ? BK_BOOL : d, first->layout);
    if (!n)
        return NULL;
    n->data = (char *)&n->attr;
    ew_kernels()->op[op][dtypes[d].compute](1, n->data, x[0], x[arity - 1], x[0]);
    if (forwards_under_way)
        forward_carry(n, op, (node *[]){ in[0].value, arity > 1 ? in[1].value : NULL }, arity);
    return n;
}

static node *apply(int op, const operand *in)
{
    bool failed = false;
    int arity = ew_infos[op].arity;
    bool sized = in[0].value && in[0].value->layout->ndim;
    node *now = sized || arity == 3 || replay_learning ? NULL : apply_elements(op, arity, in);
    if (now)
        return now;
    node *n = arity == 2   ? record_alike(op, 2, in, &failed)
              : arity == 1 ? record_alike(op, 1, in, &failed)
                           : record_alike(op, 3, in, &failed);
    return n || failed ? n : apply_any(op, in);
}

bk_tensor *ew_apply(int op, const operand *in) { return tensor_from_node(apply(op, in)); }

/* The result may not be of a higher category than the tensor, nor of other sizes. */
static int check_result(const bk_tensor *t, const node *n)
{
    char a[200], b[200];
    if (n->layout->plain != t->layout->plain)
        return error_int(BK_RUNTIME_ERROR, "output with shape %s doesn't match the broadcast shape %s",
                         layout_text(t->layout, a), layout_text(n->layout, b));
    if (dtypes[n->dtype].category > dtypes[tensor_dtype(t)].category)
        return error_int(BK_RUNTIME_ERROR, "result type %s can't be cast to the desired output type %s",
                         dtypes[n->dtype].type_name, dtypes[tensor_dtype(t)].type_name);
    return 0;
}

/* Where in t's cell a value lies: a handle on the cell remembers every view of it that was read since the last write.
 */
static const bk_tensor *find_reader(const cell *c, const node *value)
{
    const bk_tensor *h = c->seers;
    while (h && h->seen != value)
        h = h->next_seer;
    return h;
}

/* Whether two layouts reach the same addresses in the same order: dimensions of one element aside. */
static bool same_walk(const layout *a, const layout *b)
{
    int j = 0;
    for (int i = 0; i < a->ndim; i++) {
        if (a->sizes[i] == 1)
            continue;
        while (j < b->ndim && b->sizes[j] == 1)
            j++;
        if (j == b->ndim || a->sizes[i] != b->sizes[j] || a->strides[i] != b->strides[j])
            return false;
        j++;
    }
    return a->numel == b->numel;
}

/* PyTorch's rule: dense regions must be apart or the same; others are not looked at, and here a write never changes
 * what was read before it. */
int overlap_check(const bk_tensor *t, const node *read)
{
    const cell *c = t->cell;
    bool whole = read == c->value;
    const bk_tensor *reader = whole ? NULL : find_reader(c, read);
    if (!whole && !reader)
        return 0;
    const layout *a = t->layout, *b = whole ? read->layout : reader->layout;
    int64_t from = whole ? 0 : reader->offset;
    if (!a->numel || !b->numel || !a->dense || !b->dense || (t->offset == from && same_walk(a, b)))
        return 0;
    if (t->offset + a->span <= from || from + b->span <= t->offset)
        return 0;
    return error_int(BK_RUNTIME_ERROR,
                     "unsupported operation: some elements of the input tensor and the written-to tensor "
                     "refer to a single memory location. Please clone() the tensor before performing the operation.");
}

/* What an op in place has computed, in the dtype of what it is written to. */
static owned cast_of_result(operand result, bk_dtype dtype)
{
    owned cast = operand_cast(result, dtype);
    if (cast.value && cast.value != result.value && result.edge && cast.value->edge[0])
        cast.value->reached = CAST_OF_RESULT;
    return cast;
}

int ew_apply_in_place(int op, bk_tensor *t, const operand *in)
{
    if (tensor_check_write(t) < 0)
        return -1;
    for (int k = 1; k < ew_infos[op].arity; k++)
        if (in[k].value && overlap_check(t, in[k].value) < 0)
            return -1;
    node *n = apply(op, in);
    if (!n)
        return -1;
    int status = check_result(t, n);
    if (status == 0) {
        operand result = { .value = n, .edge = n->flags & NODE_TAPED ? n : NULL };
        owned cast = cast_of_result(result, tensor_dtype(t));
        status = cast.value ? tensor_write(t, owned_operand(cast), false) : -1;
        owned_release(cast);
    }
    node_release(n);
    return status;
}

int write_result(bk_tensor *t, const bk_tensor *result)
{
    if (!result || tensor_check_write(t) < 0)
        return -1;
    operand in;
    if (!tensor_read(result, &in) || check_result(t, in.value) < 0)
        return -1;
    owned cast = cast_of_result(in, tensor_dtype(t));
    int status = cast.value ? tensor_write(t, owned_operand(cast), false) : -1;
    owned_release(cast);
    return status;
}

/* x ** 2 is x * x: the powers that PyTorch computes without pow. */
static int cheaper_power(const operand *in)
{
    if (in[0].value && in[0].value->dtype == BK_BOOL && !in[1].value && in[1].category == CATEGORY_BOOL)
        return EW_ge; /* False ** True is the one that is false */
    if (in[1].value || !in[0].value || !dtype_is_float((bk_dtype)in[0].value->dtype))
        return EW_pow;
    double p = in[1].d;
    bool roots = in[0].value->dtype != BK_FLOAT16; /* where -inf ** 0.5 stays inf, as pow has it */
    bool full = in[0].value->dtype == BK_FLOAT32 || in[0].value->dtype == BK_FLOAT64;
    return p == 2               ? EW_square
           : p == 3 && full     ? EW_cube
           : p == -1            ? EW_reciprocal
           : p == 0.5 && roots  ? EW_sqrt
           : p == -0.5 && roots ? EW_rsqrt
                                : EW_pow;
}

/* An exponent is a number of the result's dtype; only float32 and float64 take any. */
static int check_power(int op, const operand *in)
{
    if (op != EW_pow || in[1].value || !in[0].value || in[0].value->dtype == BK_FLOAT32 ||
        in[0].value->dtype == BK_FLOAT64)
        return 0;
    bk_dtype d = operands_promote(in, 2);
    if (!dtype_is_float(d) && in[1].i < 0)
        return error_int(BK_RUNTIME_ERROR, "Integers to negative integer powers are not allowed.");
    return d == BK_FLOAT32 || d == BK_FLOAT64 ? 0 : number_check(in[1], d);
}

/* The condition is a mask. A number among the choices must be one of the result's dtype, but for 16-bit floats, where
 * it becomes infinite. */
static int check_choices(const operand *in)
{
    if (in[0].value && in[0].value->dtype != BK_BOOL && in[0].value->dtype != BK_UINT8)
        return error_int(BK_RUNTIME_ERROR,
                         "where expected condition to be a boolean tensor, but got a tensor with dtype %s",
                         dtypes[in[0].value->dtype].type_name);
    bk_dtype d = operands_promote(in + 1, 2);
    bool narrow = d == BK_FLOAT16 || d == BK_BFLOAT16;
    return narrow || (number_check(in[1], d) == 0 && number_check(in[2], d) == 0) ? 0 : -1;
}

/* PyTorch's number / tensor is the tensor's reciprocal times the number: rounded twice, and with a place on the tape
 * between the two. Of a plain 1 off the tape none of it can be seen. */
static bk_tensor *divide_number(const operand *in)
{
    operand part[2] = { { 0 }, in[0] };
    if (in[0].d == 1 && !in[1].edge && in[1].value->layout->settled)
        return ew_apply(EW_div, in);
    bk_scope_push();
    bk_tensor *inverse = ew_apply(EW_reciprocal, &in[1]);
    return scope_return(inverse && tensor_read(inverse, &part[0]) ? ew_apply(EW_mul, part) : NULL);
}

bk_tensor *ew_apply_python(int op, const operand *in)
{
    if (op == EW_div && !in[0].value)
        return divide_number(in);
    if (op == EW_where && check_choices(in) < 0)
        return NULL;
    if (op == EW_lerp && check_lerp(in) < 0)
        return NULL;
    if (op == EW_mul && !in[0].value) /* torch.mul(number, x): unlike number * x, a product of two tensors to PyTorch */
        return ew_apply(op, (const operand[]){ number_narrowed(in[0], (bk_dtype)in[1].value->dtype), in[1] });
    if (op != EW_pow)
        return ew_apply(op, in);
    if (check_power(op, in) < 0)
        return NULL;
    if (in[0].value)
        return ew_apply(cheaper_power(in), in);
    bk_scope_push();
    return scope_return(bk_contiguous(ew_apply(op, in))); /* PyTorch lays out powers of a number row-major */
}

int ew_apply_python_in_place(int op, bk_tensor *t, const operand *in)
{
    if (op == EW_lerp && check_lerp(in) < 0)
        return -1;
    return check_power(op, in) < 0 ? -1 : ew_apply_in_place(op == EW_pow ? cheaper_power(in) : op, t, in);
}

/* --- the public functions, one per row ---------------------------------------------------------------------------- */

static bk_tensor *apply_one(int op, const bk_tensor *x)
{
    if (!x)
        return NULL;
    operand in[1];
    lock_take();
    bk_tensor *t = tensor_read(x, &in[0]) ? ew_apply(op, in) : NULL;
    lock_give();
    return t;
}

static bk_tensor *apply_two(int op, const bk_tensor *x, const bk_tensor *y)
{
    if (!x || !y)
        return NULL;
    operand in[2];
    lock_take();
    bk_tensor *t = tensor_read(x, &in[0]) && tensor_read(y, &in[1]) ? ew_apply(op, in) : NULL;
    lock_give();
    return t;
}

static bk_tensor *apply_three(int op, const bk_tensor *x, const bk_tensor *y, const bk_tensor *z)
{
    if (!x || !y || !z)
        return NULL;
    operand in[3];
    lock_take();
    bool good = tensor_read(x, &in[0]) && tensor_read(y, &in[1]) && tensor_read(z, &in[2]);
    bk_tensor *t = good ? ew_apply(op, in) : NULL;
    lock_give();
    return t;
}

static bk_tensor *apply_number(int op, const bk_tensor *x, double y)
{
    if (!x)
        return NULL;
    lock_take();
    operand in[MAX_INPUTS] = { { 0 }, number_of(y) };
    bk_tensor *t = tensor_read(x, &in[0]) ? ew_apply(op, in) : NULL;
    lock_give();
    return t;
}

#define UNARY(name, ...)                                                                                               \
    bk_tensor *bk_##name(const bk_tensor *x) { return apply_one(EW_##name, x); }
#define BINARY(name, ...)                                                                                              \
    bk_tensor *bk_##name(const bk_tensor *x, const bk_tensor *y) { return apply_two(EW_##name, x, y); }                \
    bk_tensor *bk_##name##_s(const bk_tensor *x, double y) { return apply_number(EW_##name, x, y); }
#define TERNARY(name, ...)                                                                                             \
    bk_tensor *bk_##name(const bk_tensor *x, const bk_tensor *y, const bk_tensor *z)                                   \
    {                                                                                                                  \
        return apply_three(EW_##name, x, y, z);                                                                        \
    }
#include "brisk/ops.def"
#undef UNARY
#undef BINARY
#undef TERNARY
