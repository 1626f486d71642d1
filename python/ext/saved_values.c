/* saved_values.c: grad_fn._saved_...: what a gradient function keeps, by PyTorch's names.
 *
 * A row says what the attributes of a record are, in a letter each, so that nothing is kept for them: values that the
 * gradient reads, and numbers that the record, its layout or that of its input tell. Records without a row have the
 * names of their operands. What is composed of several records has none: its parts are others than PyTorch's. */
#include "binds.h"
#include "saver.h"

#include "autograd/backward.h"
#include "autograd/composed.h"
#include "autograd/function.h"
#include "autograd/hooks.h"
#include "autograd/parts.h"
#include "autograd/view_steps.h"
#include "core/handle.h"
#include "core/lock.h"
#include "ops/elementwise.h"

/* Values: a, b, c of the inputs, r of the result (None where the gradient does not read it). Numbers: A, B, C of an
 * input that is one, or (absent) none; 1, 2, 3; - None; f False; s sizes of the first input, n how many elements that
 * is, t sizes of the second; D dimensions that are reduced, E the same, None for all, d the one; k whether they are
 * kept; i the record's first number, x the dimension of an index, o its third, F those whose bit is set in the first; w
 * sizes of what a view is of; z and y the sizes and strides of the result; v, p, q, u: a view's dimension, start, end
 * and step; P and S: the dimension that parts are along, and their size or sizes. */
typedef struct saved_row {
    const char *name; /* of the gradient function, as in PyTorch; else that of the record's op */
    const char *attributes;
} saved_row;

static const saved_row rows[] = {
    { "square", "exponent=2 self=a" },
    { "cube", "exponent=3 self=a" },
    { "PowBackward0", "exponent=B self=a" },
    { "PowBackward1", "exponent=b result=r self=a" },
    { "PowBackward2", "exponent=b result=r self=A" },
    { "MaskedFillBackward0", "mask=a" },
    { "ClampMinBackward0", "min=B self=a" },
    { "ClampMaxBackward0", "max=B self=a" },
    { "HardtanhBackward0", "max_val=C min_val=B self=a" },
    { "LerpBackward0", "weight=C" },
    { "EluBackward0", "alpha=B input_scale=1 scale=1 self=a" },
    { "SoftplusBackward0", "beta=B self=a threshold=C" },
    { "BmmBackward0", "mat2=b self=a" },
    { "ViewBackward0", "self_sym_sizes=w" },
    { "ExpandBackward0", "self_sym_sizes=w" },
    { "SqueezeBackward0", "self_sym_sizes=w" },
    { "SqueezeBackward1", "self_sym_sizes=w" },
    { "UnfoldBackward0", "self_sym_sizes=w" },
    { "DiagonalBackward0", "self_sym_sizes=w" },
    { "AsStridedBackward0", "size=z stride=y" },
    { "SelectBackward0", "dim=v index=p self_sym_sizes=w" },
    { "SliceBackward0", "dim=v end=q self_sym_sizes=w start=p step=u" },
    { "UnsqueezeBackward0", "dim=v" },
    { "SplitBackward0", "dim=P self_sym_sizes=w split_size=S" },
    { "UnsafeSplitBackward0", "dim=P self_sym_sizes=w split_size=S" },
    { "SplitWithSizesBackward0", "dim=P self_sym_sizes=w split_sizes=S" },
    { "UnsafeSplitWithSizesBackward0", "dim=P self_sym_sizes=w split_sizes=S" },
    { "UnbindBackward0", "dim=P" },
    { "add", "alpha=1" },
    { "sub", "alpha=1" },
    { "add_scaled", "alpha=C" },
    { "sub_scaled", "alpha=C" },
    { "mul", "other=b self=a" },
    { "div", "other=b self=a" },
    { "clamp", "max=C min=B self=a" },
    { "clamp_min", "max=- min=B self=a" },
    { "clamp_max", "max=B min=- self=a" },
    { "leaky_relu", "negative_slope=B self=a" },
    { "where", "condition=a" },
    { "sum", "self_sym_sizes=s" },
    { "sum_dim", "dim=D keepdim=k self_sym_sizes=s" },
    { "mean", "self_sym_numel=n self_sym_sizes=s" },
    { "mean_dim", "dim=D keepdim=k self_sym_numel=n self_sym_sizes=s" },
    { "amax", "dim=D keepdim=k result=r self=a" },
    { "amin", "dim=D keepdim=k result=r self=a" },
    { "pick_max", "dim=d indices=b keepdim=k self_sym_sizes=s" },
    { "pick_min", "dim=d indices=b keepdim=k self_sym_sizes=s" },
    { "pick_sort", "dim=d indices=b self_sym_sizes=s" },
    { "pick_topk", "dim=d indices=b self_sym_sizes=s" },
    { "var", "dim=E keepdim=k self=a" },
    { "std", "dim=E keepdim=k result=r self=a" },
    { "prod_dim", "dim=d keepdim=k result=r self=a" },
    { "norm", "dim=E keepdim=k ord=o result=r self=a" },
    { "logsumexp", "dim=D keepdim=k result=r self=a" },
    { "softmax", "dim=d result=r" },
    { "log_softmax", "dim=d result=r" },
    { "cumsum", "dim=i" },
    { "cumprod", "dim=i result=r self=a" },
    { "flip", "dims=F" },
    { "tril", "diagonal=i" },
    { "triu", "diagonal=i" },
    { "matmul", "mat2=b mat2_sym_sizes=t self=a self_sym_sizes=s" },
    { "gather", "dim=x index=b sparse_grad=f" },
    { "index_select", "index=b self_sym_sizes=s" },
    { "index_get", "self_sym_sizes=s" },
    { "embedding", "indices=b" },
};

enum { RESULT = MAX_INPUTS };

/* --- finding -------------------------------------------------------------------------------------------------------
 */

/* Whether a place is a record that is all of its function. */
static bool is_one_record(const node *n)
{
    for (int k = 0; n->composed && k < MAX_INPUTS; k++)
        if (n->edge[k] && n->edge[k]->op != OP_leaf && n->edge[k]->sequence >= n->sequence - n->span)
            return false;
    return n->op != OP_function && n->op != OP_leaf && n->op != OP_output;
}

static bool has_name(const saved_row *row, const char *name) { return name && strcmp(row->name, name) == 0; }

/* The first row that fits either name; NULL: none. */
static const char *row_of(const char *shown, const char *op)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (has_name(&rows[i], shown) || has_name(&rows[i], op))
            return rows[i].attributes;
    return NULL;
}

/* The names of operands; what the gradient does not read is not there. */
static const char BY_OPERANDS[] = "other=b result=r self=a value=c";

/* Of a function that is a step of an index. */
static const char *attributes_of_step(const node *n, int step)
{
    view_op ops[MAX_VIEW_STEPS];
    const char *row = !n->composed && step < view_steps(n, ops) ? row_of(view_grad_name(ops[step]), NULL) : NULL;
    return row ? row : "";
}

/* A function that is called otherwise than its record, which is no elementwise one, and has no row shows nothing. */
static const char *attributes_of(const node *n, int step)
{
    if (!is_one_record(n) || n->in_view || place_is_copy(n))
        return "";
    if (step)
        return attributes_of_step(n, step);
    const bool renamed = n->composed && composed_name(n) && n->op >= EW_COUNT;
    const char *row = row_of(place_grad_name(n), renamed ? NULL : op_get(n->op)->name);
    return row ? row : renamed ? "" : BY_OPERANDS;
}

/* --- numbers -------------------------------------------------------------------------------------------------------
 */

static PyObject *numbers(const int64_t *v, int count)
{
    PyObject *tuple = PyTuple_New(count);
    for (int d = 0; tuple && d < count; d++) {
        PyObject *number = PyLong_FromLongLong(v[d]);
        if (number)
            PyTuple_SET_ITEM(tuple, d, number);
        else
            Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *sizes_of(const layout *l) { return numbers(l->sizes, l->ndim); }

static PyObject *set_bits(int64_t bits)
{
    int64_t dims[BK_MAX_NDIM];
    int count = 0;
    for (int d = 0; d < BK_MAX_NDIM; d++)
        if (bits >> d & 1)
            dims[count++] = d;
    return numbers(dims, count);
}

/* A number that was rounded to `dtype` as it was written, in the fewest digits. */
static PyObject *number_of(double value, bk_dtype dtype)
{
    char text[40];
    if (value > -1e15 && value < 1e15 && value == (double)(int64_t)value)
        return PyLong_FromLongLong((int64_t)value);
    for (int digits = 1; dtype == BK_FLOAT32 && digits < 10; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if ((float)strtod(text, NULL) == (float)value)
            return PyFloat_FromDouble(strtod(text, NULL));
    }
    return PyFloat_FromDouble(value);
}

static PyObject *constant_of(const node *value)
{
    return number_of(dtype_load_double((bk_dtype)value->dtype, value->data), (bk_dtype)value->dtype);
}

static const layout *input_layout(const node *n, int k)
{
    const node *edge = n->edge[k];
    if (edge)
        return edge->op == OP_leaf ? ((const track *)edge->extra)->layout : edge->layout;
    return n->in[k] ? n->in[k]->layout : NULL;
}

static bool keeps_dims(const node *n) { return n->layout->ndim == n->attr.reduce.from->ndim && n->attr.reduce.dims; }

static bool reduces_all(const node *n)
{
    const layout *from = n->attr.reduce.from;
    return n->attr.reduce.dims == ((int64_t)1 << from->ndim) - 1 && !keeps_dims(n);
}

static PyObject *view_number(const node *n, int step, char letter)
{
    int64_t v[4];
    view_step_numbers(n, step, v);
    return PyLong_FromLongLong(v[letter == 'v' ? 0 : letter == 'p' ? 1 : letter == 'q' ? 2 : 3]);
}

static PyObject *view_sizes(const node *n, int step)
{
    int64_t sizes[MAX_VIEW_STEPS];
    int ndim = view_step_sizes(n, step, sizes);
    return numbers(sizes, ndim);
}

static PyObject *number_of_parts(const node *n, char letter)
{
    parts all;
    if (!parts_of(n, &all))
        Py_RETURN_NONE;
    return letter == 'P' ? PyLong_FromLong(all.dim)
           : all.sizes   ? numbers(all.sizes, all.count)
                         : PyLong_FromLongLong(all.each);
}

static PyObject *number_at(const node *n, int step, char letter)
{
    const layout *l = letter == 't' ? input_layout(n, 1) : input_layout(n, 0);
    switch (letter) {
    case 's':
    case 't': return l ? sizes_of(l) : Py_NewRef(Py_None);
    case 'n': return PyLong_FromLongLong(l ? l->numel : 0);
    case 'w': return view_sizes(n, step);
    case 'P':
    case 'S': return number_of_parts(n, letter);
    case 'z': return sizes_of(n->layout);
    case 'y': return numbers(n->layout->strides, n->layout->ndim);
    case 'E':
        if (reduces_all(n))
            Py_RETURN_NONE;
        return set_bits(n->attr.reduce.dims);
    case 'D': return set_bits(n->attr.reduce.dims);
    case 'd': return PyLong_FromLong(n->attr.reduce.dims ? __builtin_ctzll((uint64_t)n->attr.reduce.dims) : 0);
    case 'F': return set_bits(n->attr.i[0]);
    case 'i': return PyLong_FromLongLong(n->attr.i[0]);
    case 'x': return PyLong_FromLongLong(n->attr.index.dims);
    case 'o': return number_of(n->attr.d[2], BK_FLOAT64);
    case 'k': return PyBool_FromLong(keeps_dims(n));
    case 'f': return PyBool_FromLong(false);
    case '-': return Py_NewRef(Py_None);
    case '1':
    case '2':
    case '3': return PyLong_FromLong(letter - '0');
    default: return view_number(n, step, letter);
    }
}

/* --- values --------------------------------------------------------------------------------------------------------
 */

static PyObject *packed_value(const hooks *h, const node *n, int k)
{
    bk_tensor *slots[MAX_INPUTS + 1] = { 0 };
    operand in;
    PyObject *value = NULL;
    if (py_unpack_slots(h->lists[HOOK_PACKED], slots) == 0) {
        lock_take();
        bool good = tensor_read(slots[k], &in);
        lock_give();
        value = good ? py_tensor_at(in.value, k == RESULT ? (node *)n : n->edge[k]) : py_raise();
    }
    for (int i = 0; i <= RESULT; i++)
        bk_release(slots[i]);
    return value;
}

static PyObject *saved_value(const node *n, int k)
{
    const hooks *h = n->extra;
    const bool number = k < RESULT && n->in[k] && n->in[k]->flags & NODE_CONSTANT; /* which no hook was given */
    if (h && h->lists[HOOK_PACKED] && !number)
        return packed_value(h, n, k);
    if (n->flags & NODE_FREED || (k < RESULT && !n->in[k]))
        return py_refuse_freed();
    return k == RESULT ? py_tensor_at((node *)n, (node *)n) : py_tensor_at(n->in[k], n->edge[k]);
}

/* Whether a letter stands for something at n. */
static bool is_there(const node *n, char letter, bool by_operands)
{
    const char *values = "abcr", *value = strchr(values, letter), *numbers = "ABC", *number = strchr(numbers, letter);
    if (number) /* a number of its own, which may have been freed since */
        return (int)(number - numbers) < n->inputs && !n->edge[number - numbers] &&
               (!n->in[number - numbers] || n->in[number - numbers]->flags & NODE_CONSTANT);
    return !value || !by_operands || place_values_read(n) >> (value - values) & 1;
}

/* Input k, a number; NULL: it was freed. */
static const node *number_kept(const node *n, int k)
{
    const hooks *h = n->extra;
    bool held = !n->in[k] && h && h->lists[HOOK_PACKED] && is_held(h->lists[HOOK_PACKED]);
    return held ? held_constant(h->lists[HOOK_PACKED], k) : n->in[k];
}

static PyObject *attribute(const node *n, int step, char letter)
{
    const char *values = "abcr", *value = strchr(values, letter), *numbers = "ABC", *number = strchr(numbers, letter);
    if (number) {
        const node *kept = number_kept(n, (int)(number - numbers));
        return kept ? constant_of(kept) : py_refuse_freed();
    }
    if (!value)
        return number_at(n, step, letter);
    int k = (int)(value - values);
    if (!(place_values_read(n) >> k & 1))
        Py_RETURN_NONE;
    return saved_value(n, k);
}

/* --- attributes ----------------------------------------------------------------------------------------------------
 */

static const char PREFIX[] = "_saved_";

PyObject *py_saved_attribute(const node *n, int step, const char *name)
{
    const char *row = strncmp(name, PREFIX, strlen(PREFIX)) == 0 ? attributes_of(n, step) : "";
    for (const char *at = row, *end; *at; at = *end ? end + 1 : end) {
        size_t length = strcspn(at, "=");
        end = at + length + 2;
        if (strlen(name + strlen(PREFIX)) == length && strncmp(name + strlen(PREFIX), at, length) == 0 &&
            is_there(n, at[length + 1], row == BY_OPERANDS))
            return attribute(n, step, at[length + 1]);
    }
    return NULL;
}

int py_saved_names(const node *n, int step, PyObject *list)
{
    int status = 0;
    const char *row = attributes_of(n, step);
    for (const char *at = row, *end; status == 0 && *at; at = *end ? end + 1 : end) {
        size_t length = strcspn(at, "=");
        end = at + length + 2;
        if (!is_there(n, at[length + 1], row == BY_OPERANDS))
            continue;
        PyObject *part = PyUnicode_FromStringAndSize(at, (Py_ssize_t)length);
        PyObject *name = part ? PyUnicode_FromFormat("%s%U", PREFIX, part) : NULL;
        status = name ? PyList_Append(list, name) : -1;
        Py_XDECREF(part);
        Py_XDECREF(name);
    }
    return status;
}
