/* out.c: results that are written into tensors of the caller's: out=.
 *
 * PyTorch's functions differ in what they ask of such a tensor: that the result can be cast to its dtype, that it has
 * the result's very dtype, and in whose name they refuse it. What is not usual for a function is its row here.
 *
 * Invariant: everything is checked, and warned of, before anything is written. */
#include "out.h"

#include <string.h>

#include "binds.h"
#include "core/lock.h"
#include "ops/elementwise.h"

typedef enum out_dtypes {
    CASTS, /* to a dtype of no lesser category */
    SAME,  /* the result's dtype */
    TRUTH, /* bool or uint8 */
    ANY
} out_dtypes;

enum {
    QUIET = 1, /* is resized without a warning */
    APART = 2, /* must not share memory with an argument */
    LOOSE = 4, /* what it computes has no gradient: arguments may require one */
    FREE = 8,  /* so may out itself */
};

typedef struct out_row {
    const char *function; /* ending in a comma where out= takes several tensors */
    const char *taped;    /* what PyTorch's tape calls the function; NULL: the same */
    uint8_t dtypes, flags;
    const char *words; /* of a dtype that does not fit: %R is the result's, %O out's, %r and %o the same in C++; a
                          leading ! makes it a TypeError */
} out_row;

#define CAT_WORDS      "!torch.cat(): input types can't be cast to the desired output type %O"
#define DOT_WORDS      "result dtype %O does not match input dtype %R"
#define SCALAR_WORDS   "expected scalar_type %R but found %O"
#define SAFE_WORDS     ": Expected result to be safely castable from %R dtype, but got result with dtype %O"
#define SAFE_TENSORDOT "tensordot: Expected the output tensor to have dtype %R, but got an output tensor with dtype %O"
#define SEARCH_WORDS                                                                                                   \
    "torch.searchsorted(): output tensor's dtype is wrong, it can only be Int(int32) or Long(int64) depending on "     \
    "whether out_int32 flag is True, but we got output tensor's dtype %O and out_int32 flag is False"
#define MATCH_WORDS                                                                                                    \
    "Expected the dtype for input and out to match, but got %R for input's dtype and %O for out's dtype."
#define HIST_WORDS                                                                                                     \
    "torch.histogram: input tensor and hist tensor should have the same dtype, but got input %r and hist %o"
#define DOTS_WORDS  "multi_dot(): expected out tensor to have dtype %r but got %o"
#define POWER_WORDS "the output given to float_power has dtype %O but the operation's result requires dtype %R"

/* clang-format off */
static const out_row rows[] = {
    { "", NULL, CASTS, 0, NULL },
    /* elementwise */
    { "square", "pow", CASTS, 0, NULL }, { "multiply", "mul", CASTS, 0, NULL }, { "subtract", "sub", CASTS, 0, NULL },
    { "divide", "div", CASTS, 0, NULL }, { "true_divide", "div", CASTS, 0, NULL }, { "clip", "clamp", CASTS, 0, NULL },
    { "negative", "neg", CASTS, 0, NULL }, { "absolute", "abs", CASTS, 0, NULL }, { "fix", "trunc", CASTS, 0, NULL },
    { "arccos", "acos", CASTS, 0, NULL }, { "arcsin", "asin", CASTS, 0, NULL }, { "arctan", "atan", CASTS, 0, NULL },
    { "arccosh", "acosh", CASTS, 0, NULL }, { "arcsinh", "asinh", CASTS, 0, NULL }, { "arctanh", "atanh", CASTS, 0, NULL },
    { "arctan2", "atan2", CASTS, 0, NULL }, { "float_power", "pow", SAME, 0, POWER_WORDS },
    { "max", "maximum", CASTS, 0, NULL }, { "min", "minimum", CASTS, 0, NULL },
    { "eq", NULL, CASTS, FREE, NULL }, { "ne", NULL, CASTS, FREE, NULL }, { "lt", NULL, CASTS, FREE, NULL },
    { "le", NULL, CASTS, FREE, NULL }, { "gt", NULL, CASTS, FREE, NULL }, { "ge", NULL, CASTS, FREE, NULL },
    { "not_equal", NULL, CASTS, FREE, NULL }, { "less", NULL, CASTS, FREE, NULL }, { "less_equal", NULL, CASTS, FREE, NULL },
    { "greater", NULL, CASTS, FREE, NULL }, { "greater_equal", NULL, CASTS, FREE, NULL },
    { "logical_not", NULL, CASTS, FREE, NULL }, { "logical_and", NULL, CASTS, FREE, NULL },
    { "logical_or", NULL, CASTS, FREE, NULL }, { "logical_xor", NULL, CASTS, FREE, NULL },
    { "isposinf", NULL, SAME, FREE, "isposinf does not support non-boolean outputs." },
    { "isneginf", NULL, SAME, FREE, "isneginf does not support non-boolean outputs." },
    { "signbit", NULL, SAME, FREE, "signbit does not support non-boolean outputs." },
    { "bitwise_not", NULL, CASTS, LOOSE, NULL }, { "bitwise_and", NULL, CASTS, LOOSE, NULL },
    { "bitwise_or", NULL, CASTS, LOOSE, NULL }, { "bitwise_xor", NULL, CASTS, LOOSE, NULL },
    { "bitwise_left_shift", NULL, CASTS, LOOSE, NULL }, { "bitwise_right_shift", NULL, CASTS, LOOSE, NULL },
    { "floor_divide", NULL, CASTS, LOOSE, NULL }, { "gcd", NULL, CASTS, LOOSE, NULL }, { "lcm", NULL, CASTS, LOOSE, NULL },
    { "heaviside", NULL, SAME, LOOSE, "heaviside is not yet implemented for tensors with different dtypes." },
    { "where", NULL, SAME, 0, "Expected out type to be %R but got %O" },
    { "nan_to_num", NULL, SAME, 0, "nan_to_num: dtype of out: %O should be same as input: %R" },
    { "special_ndtr", NULL, CASTS, FREE, NULL },
    { "ldexp", NULL, SAME, 0, "ldexp can't be cast to the desired output type %O" },
    { "renorm", NULL, SAME, 0, NULL }, { "frexp,", "frexp", SAME, 0, NULL }, { "histogram,", NULL, SAME, LOOSE, NULL },
    /* reductions and scans */
    { "sum", NULL, SAME, 0, NULL }, { "nansum", NULL, SAME, 0, NULL }, { "prod", NULL, SAME, 0, NULL },
    { "nanmean", "nansum", CASTS, 0, NULL }, { "norm", "linalg_vector_norm", SAME, 0, NULL },
    { "amax", NULL, SAME, 0, MATCH_WORDS }, { "amin", NULL, SAME, 0, MATCH_WORDS },
    { "argmax", NULL, SAME, FREE, NULL }, { "argmin", NULL, SAME, FREE, NULL },
    { "any", NULL, TRUTH, FREE, "any only supports bool tensor for result, got: %O" },
    { "all", NULL, TRUTH, FREE, "all only supports bool tensor for result, got: %O" },
    { "logsumexp", NULL, CASTS, 0, "logsumexp(): Expected floating point type for result tensor, but got: %O" },
    { "softmax", NULL, SAME, LOOSE, NULL }, { "log_softmax", NULL, SAME, LOOSE, NULL },
    { "cumsum", NULL, SAME, 0, NULL }, { "cumprod", NULL, SAME, 0, NULL },
    { "logcumsumexp", NULL, SAME, 0, SCALAR_WORDS }, { "diff", "sub", CASTS, 0, NULL },
    { "max,", "max", SAME, APART, NULL }, { "min,", "min", SAME, APART, NULL }, { "aminmax,", "aminmax", SAME, APART, NULL },
    { "cummax,", "cummax", SAME, 0, SCALAR_WORDS }, { "cummin,", "cummin", SAME, 0, SCALAR_WORDS },
    /* order */
    { "msort", "sort", SAME, 0, NULL }, { "sort,", "sort", SAME, 0, NULL }, { "topk,", "topk", SAME, APART, NULL },
    { "median,", "median", SAME, APART, NULL }, { "nanmedian,", "nanmedian", SAME, APART, NULL },
    { "kthvalue,", "kthvalue", SAME, APART, NULL }, { "mode,", "mode", SAME, APART, "expected scalar type '%R' but got '%O'" },
    { "quantile", NULL, SAME, FREE, "quantile() out tensor must be same dtype as the input tensor" },
    { "nanquantile", NULL, SAME, FREE, "quantile() out tensor must be same dtype as the input tensor" },
    { "histc", NULL, SAME, FREE, HIST_WORDS },
    { "bucketize", NULL, SAME, FREE, SEARCH_WORDS }, { "searchsorted", NULL, SAME, FREE, SEARCH_WORDS },
    /* shapes and places */
    { "cat", NULL, CASTS, APART, CAT_WORDS }, { "concat", "cat", CASTS, APART, CAT_WORDS },
    { "concatenate", "cat", CASTS, APART, CAT_WORDS }, { "stack", NULL, CASTS, APART, CAT_WORDS },
    { "hstack", "cat", CASTS, APART, CAT_WORDS }, { "vstack", "cat", CASTS, APART, CAT_WORDS },
    { "dstack", "cat", CASTS, APART, CAT_WORDS }, { "column_stack", "cat", CASTS, APART, CAT_WORDS },
    { "row_stack", "cat", CASTS, APART, CAT_WORDS },
    { "tril", NULL, SAME, 0, NULL }, { "triu", NULL, SAME, 0, NULL }, { "diag", "diag_embed", SAME, LOOSE, NULL },
    { "gather", NULL, SAME, APART, NULL }, { "take_along_dim", "gather", SAME, APART, NULL },
    { "index_select", NULL, SAME, APART, "index_select(): self and result must have the same scalar type" },
    { "masked_select", NULL, SAME, APART, "masked_select(): self and result must have the same scalar type" },
    { "take", NULL, SAME, APART,
      "take(): self and out expected to have the same dtype, but got self.dtype = %R and out.dtype = %O" },
    { "scatter", NULL, SAME, 0, NULL }, { "scatter_add", NULL, SAME, 0, NULL }, { "scatter_reduce", NULL, SAME, 0, NULL },
    { "index_add", NULL, SAME, 0, NULL }, { "index_copy", NULL, SAME, 0, NULL },
    { "nonzero", NULL, SAME, FREE, "nonzero: Expected out tensor to have scalar type %R but got scalar type%O" },
    { "isin", NULL, SAME, FREE, NULL },
    /* products */
    { "mm", NULL, SAME, 0, NULL }, { "bmm", NULL, SAME, 0, NULL }, { "matmul", NULL, SAME, 0, NULL },
    { "addmm", NULL, SAME, 0, NULL }, { "addmv", NULL, SAME, 0, NULL }, { "baddbmm", NULL, SAME, 0, NULL },
    { "addbmm", NULL, SAME, QUIET, "self and mat2 must have the same dtype, but got %O and %R" },
    { "mv", NULL, SAME, 0, "addmv input tensors must have the same dtype, but got %O, %R, and %R" },
    { "dot", NULL, SAME, 0, DOT_WORDS }, { "vdot", NULL, SAME, 0, DOT_WORDS },
    { "inner", NULL, SAME, LOOSE, SAFE_TENSORDOT }, { "_tensordot", "tensordot", SAME, LOOSE, SAFE_TENSORDOT },
    { "outer", "mul", CASTS, APART, NULL }, { "ger", "mul", CASTS, APART, NULL }, { "kron", "mul", CASTS, APART, NULL },
    { "_multi_dot", "mm", SAME, 0, DOTS_WORDS }, { "_chain_matmul", "mm", SAME, 0, DOTS_WORDS },
    { "matrix_power", "matmul", SAME, 0, NULL },
    /* matrices */
    { "linalg_cross", NULL, SAME, APART, NULL }, { "cross", "linalg_cross", SAME, APART, NULL },
    { "linalg_norm", NULL, SAME, FREE, "linalg.norm expected out tensor dtype %R but got: %O" },
    { "linalg_matrix_norm", NULL, SAME, FREE, "linalg.matrix_norm expected out tensor dtype %R but got: %O" },
    { "linalg_vector_norm", NULL, SAME, 0, NULL }, { "_linalg_det", "_linalg_det", SAME, 0, NULL }, { "slogdet,", "_linalg_slogdet", SAME, 0, NULL },
    { "linalg_inv", "linalg_inv_ex", SAME, 0, NULL }, { "inverse", "linalg_inv_ex", SAME, 0, NULL },
    { "linalg_inv_ex,", "linalg_inv_ex", SAME, 0, NULL },
    { "linalg_solve", "_linalg_solve_ex", SAME, 0, NULL }, { "_linalg_solve", "_linalg_solve_ex", SAME, 0, NULL },
    { "linalg_solve_ex,", "_linalg_solve_ex", SAME, 0, NULL },
    { "cholesky", NULL, CASTS, 0, "cholesky" SAFE_WORDS },
    { "linalg_cholesky", "linalg_cholesky_ex", SAME, 0, NULL },
    { "linalg_cholesky_ex,", "linalg_cholesky_ex", SAME, 0, NULL },
    { "linalg_svdvals", "_linalg_svd", SAME, 0, NULL }, { "linalg_svd,", "_linalg_svd", SAME, 0, NULL },
    { "svd,", "_linalg_svd", SAME, 0, NULL },
    { "linalg_eigvalsh", "_linalg_eigh", SAME, 0, NULL }, { "linalg_eigh,", "_linalg_eigh", SAME, 0, NULL },
    { "linalg_pinv", NULL, CASTS, 0, "linalg.pinv" SAFE_WORDS }, { "linalg_cond", NULL, CASTS, FREE, "linalg.cond" SAFE_WORDS },
    { "linalg_lu,", "linalg_lu", SAME, 0, NULL }, { "lu_unpack,", "lu_unpack", SAME, 0, NULL },
    { "_linalg_qr,", "linalg_qr", SAME, 0, NULL }, { "qr,", "linalg_qr", SAME, 0, NULL },
    { "_linalg_slogdet,", "_linalg_slogdet", SAME, 0, NULL }, { "_linalg_lu_factor,", "linalg_lu_factor_ex", SAME, 0, NULL },
    { "linalg_lu_factor_ex,", "linalg_lu_factor_ex", SAME, 0, NULL },
    /* what makes tensors computes in the dtype of out */
    { "zeros", NULL, ANY, QUIET | LOOSE, NULL }, { "ones", NULL, ANY, QUIET | LOOSE, NULL },
    { "full", NULL, ANY, QUIET | LOOSE, NULL }, { "empty", NULL, ANY, QUIET | LOOSE, NULL },
    { "eye", NULL, ANY, QUIET | LOOSE, NULL }, { "arange", NULL, ANY, LOOSE, NULL }, { "range", NULL, ANY, LOOSE, NULL },
    { "linspace", NULL, ANY, QUIET | LOOSE, NULL }, { "logspace", NULL, ANY, QUIET | LOOSE, NULL },
    { "rand", NULL, ANY, QUIET | LOOSE, NULL }, { "randn", NULL, ANY, QUIET | LOOSE, NULL },
    { "randint", NULL, ANY, QUIET | LOOSE, NULL }, { "randperm", NULL, ANY, QUIET | LOOSE, NULL },
    { "bernoulli", NULL, ANY, QUIET, NULL },
    { "multinomial", NULL, SAME, QUIET | FREE, "multinomial expects Long tensor out, got: %O" },
};
/* clang-format on */
enum { ROW_COUNT = sizeof rows / sizeof *rows };
_Static_assert(ROW_COUNT <= UINT8_MAX, "arg.out_row is a byte");

int out_row_of(const char *function, bool pair)
{
    size_t length = strlen(function);
    for (int i = 1; i < ROW_COUNT; i++)
        if (!strncmp(rows[i].function, function, length) && !strcmp(rows[i].function + length, pair ? "," : ""))
            return i;
    return 0;
}

/* --- what is refused ------------------------------------------------------------------------------------------------
 */

/* Tensor i of an argument that is one, or a list of them; NULL where there is none, past the end too. */
static const bk_tensor *tensor_in(const arg *a, Py_ssize_t i, bool *more)
{
    PyObject *o = a->given ? a->object : NULL;
    bool list = o && (PyTuple_Check(o) || PyList_Check(o));
    *more = list && i < PySequence_Fast_GET_SIZE(o);
    PyObject *item = *more ? PySequence_Fast_ITEMS(o)[i] : !list && i == 0 ? o : NULL;
    return item && py_is_tensor(item) ? ((py_tensor *)item)->t : NULL;
}

static bool some_tracked(const arg *a)
{
    bool more = true, found = false;
    for (Py_ssize_t i = 0; more && !found; i++) {
        const bk_tensor *t = tensor_in(a, i, &more);
        found = t && tensor_tracked(t);
    }
    return found;
}

static bool meets(const bk_tensor *t, const bk_tensor *out)
{
    return t->cell == out->cell && layout_meets(t->layout, t->offset, t->offset, out->layout, out->offset);
}

static bool some_meet(const arg *a, const arg *out)
{
    bool more = true, found = false;
    for (Py_ssize_t i = 0; more && !found; i++) {
        bool others = true;
        const bk_tensor *t = tensor_in(a, i, &more);
        for (Py_ssize_t k = 0; t && others && !found; k++) {
            const bk_tensor *o = tensor_in(out, k, &others);
            found = o && meets(t, o);
        }
    }
    return found;
}

static bool refuse_taped(const out_row *row, const char *function)
{
    PyErr_Format(PyExc_RuntimeError,
                 "%s%s(): functions with out=... arguments don't support automatic differentiation, but one of the "
                 "arguments requires grad.",
                 row->flags & LOOSE ? "aten::" : "", row->taped ? row->taped : function);
    return false;
}

bool out_goes_with(const char *function, const arg *args, int n, const arg *out)
{
    const out_row *row = &rows[out->out_row];
    bool taped = grad_enabled() && !(row->flags & FREE) && some_tracked(out);
    for (int i = 0; i < n && !taped; i++)
        taped = grad_enabled() && !(row->flags & (FREE | LOOSE)) && some_tracked(&args[i]);
    if (taped)
        return refuse_taped(row, function);
    if (!(row->flags & APART))
        return true;
    bool met = false;
    for (int i = 0; i < n && !met; i++)
        met = &args[i] != out && some_meet(&args[i], out);
    if (met)
        PyErr_SetString(PyExc_RuntimeError,
                        "unsupported operation: some elements of the input tensor and the written-to tensor refer to a "
                        "single memory location. Please clone() the tensor before performing the operation.");
    return !met;
}

static bool fits(const out_row *row, bk_dtype from, bk_dtype to)
{
    switch (row->dtypes) {
    case CASTS: return dtypes[from].category <= dtypes[to].category;
    case SAME: return from == to;
    case TRUTH: return to == BK_BOOL || to == BK_UINT8;
    default: return true;
    }
}

static bool refuse_dtype(const out_row *row, bk_dtype from, bk_dtype to)
{
    const char *words = row->words            ? row->words
                        : row->dtypes == SAME ? "Expected out tensor to have dtype %r, but got %o instead"
                                              : "result type %R can't be cast to the desired output type %O";
    PyObject *type = *words == '!' ? PyExc_TypeError : PyExc_RuntimeError;
    char text[400];
    size_t n = 0;
    for (const char *c = words + (*words == '!'); *c && n < sizeof text - 1; c++) {
        if (*c != '%') {
            text[n++] = *c;
            continue;
        }
        const dtype_info *d = &dtypes[*++c == 'R' || *c == 'r' ? from : to];
        for (const char *name = *c < 'a' ? d->type_name : d->c_name; *name && n < sizeof text - 1; name++)
            text[n++] = *name;
    }
    text[n] = 0;
    PyErr_SetString(type, text);
    return false;
}

static bool warn_of_resize(const bk_tensor *out, const bk_tensor *result)
{
    char a[200], b[200];
    return PyErr_WarnFormat(PyExc_UserWarning, 1,
                            "An output with one or more elements was resized since it had shape %s, which does not "
                            "match the required output shape %s. This behavior is deprecated, and in a future PyTorch "
                            "release outputs will not be resized unless they have zero elements. You can explicitly "
                            "reuse an out tensor t by resizing it, inplace, to zero elements with t.resize_(0).",
                            layout_text(out->layout, a), layout_text(result->layout, b)) == 0;
}

static bool check(const out_row *row, const bk_tensor *out, const bk_tensor *result)
{
    bk_dtype from = tensor_dtype(result), to = tensor_dtype(out);
    if (!fits(row, from, to))
        return refuse_dtype(row, from, to);
    bool resized = out->layout->plain != result->layout->plain && out->layout->numel != 0;
    return !resized || row->flags & QUIET || warn_of_resize(out, result);
}

/* --- what is written ------------------------------------------------------------------------------------------------
 */

static bool put(const out_row *row, bk_tensor *out, const bk_tensor *result)
{
    lock_take();
    bool asked = row->flags & FREE ? grad_set_enabled(false) : grad_enabled();
    int status = tensor_take_result(out, result);
    grad_set_enabled(asked);
    lock_give();
    if (status < 0)
        py_raise();
    return status == 0;
}

PyObject *py_out(bk_tensor *result, const arg *out)
{
    if (!out->given || !result)
        return py_wrap(result);
    const out_row *row = &rows[out->out_row];
    bool good = check(row, out->tensor, result) && put(row, out->tensor, result);
    bk_release(result);
    return good ? Py_NewRef(out->object) : NULL;
}

bool py_out_two(const bk_tensor *first, const bk_tensor *second, const arg *out)
{
    const out_row *row = &rows[out->out_row];
    if (out->tensors.n != 2)
        return PyErr_Format(PyExc_TypeError, "expected tuple of 2 elements but got %d", out->tensors.n), false;
    bk_tensor *const *v = out->tensors.v;
    return check(row, v[0], first) && check(row, v[1], second) && put(row, v[0], first) && put(row, v[1], second);
}

static bool check_elementwise_out(const bk_tensor *result, const arg *operands, int n, const arg *out, bool same_dtype)
{
    bk_dtype from = tensor_dtype(result), to = tensor_dtype(out->tensor);
    if (same_dtype && from != to)
        return PyErr_Format(PyExc_RuntimeError, "Found dtype %s but expected %s", dtypes[to].type_name,
                            dtypes[from].type_name),
               false;
    char a[200], b[200];
    for (int k = 0; k < n; k++)
        if (operands[k].object == out->object && result->layout->plain != out->tensor->layout->plain)
            return PyErr_Format(PyExc_RuntimeError, "output with shape %s doesn't match the broadcast shape %s",
                                layout_text(out->tensor->layout, a), layout_text(result->layout, b)),
                   false;
    return py_reads_apart(out->tensor, operands, n);
}

PyObject *py_elementwise_out(bk_tensor *result, const arg *operands, int n, const arg *out, bool same_dtype)
{
    if (!result || !out->given || check_elementwise_out(result, operands, n, out, same_dtype))
        return py_out(result, out);
    bk_release(result);
    return NULL;
}

/* PyTorch casts neither in nor out of its functions of one operand, but for those that make floats; square is a power.
 */
PyObject *py_row_out(int op, bk_tensor *result, const arg *a)
{
    const ew_info *row = &ew_infos[op];
    bool same_dtype = row->arity == 1 && (row->rule == EW_ARITH || row->rule == EW_BITS) && op != EW_square;
    return py_elementwise_out(result, a, row->arity, &a[row->arity], same_dtype);
}

/* --- for functions that are written in Python -----------------------------------------------------------------------
 */

enum { MOST_RESULTS = 8 };

/* The tensors of a tensor or a tuple; -1 with an exception set. */
static int tensors_of(PyObject *o, bk_tensor *out[static MOST_RESULTS])
{
    bool one = py_is_tensor(o);
    Py_ssize_t n = one ? 1 : PySequence_Fast_GET_SIZE(o);
    if (n > MOST_RESULTS)
        return PyErr_Format(PyExc_TypeError, "more than %d tensors", MOST_RESULTS), -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = one ? o : PySequence_Fast_ITEMS(o)[i];
        if (!py_is_tensor(item))
            return PyErr_Format(PyExc_TypeError, "expected Tensor as element %zd in argument 0, but got %s", i,
                                py_type_name(item)),
                   -1;
        out[i] = ((py_tensor *)item)->t;
    }
    return (int)n;
}

PyObject *py_fill_out(const arg *a)
{
    bk_tensor *from[MOST_RESULTS], *to[MOST_RESULTS];
    PyObject *result = a[1].object, *out = a[2].object;
    bool pair = !py_is_tensor(result);
    if (pair ? !PyTuple_Check(out) && !PyList_Check(out) : !py_is_tensor(out))
        return PyErr_Format(PyExc_TypeError, "%s(): argument 'out' must be %s, not %s", a[0].s,
                            pair ? "tuple of Tensors" : "Tensor", py_type_name(out));
    int n = tensors_of(result, from), given = n < 0 ? -1 : tensors_of(out, to);
    if (given < 0)
        return NULL;
    if (n != given)
        return PyErr_Format(PyExc_TypeError, "expected tuple of %d elements but got %d", n, given);
    arg args[2] = { a[1], a[2] };
    args[1].out_row = (uint8_t)out_row_of(a[0].s, pair);
    const out_row *row = &rows[args[1].out_row];
    if (!out_goes_with(a[0].s, args, 2, &args[1]))
        return NULL;
    bool good = true;
    for (int i = 0; good && i < n; i++)
        good = check(row, to[i], from[i]);
    for (int i = 0; good && i < n; i++)
        good = put(row, to[i], from[i]);
    return good ? Py_NewRef(out) : NULL;
}
