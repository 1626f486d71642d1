/* bind_layers.c: the layers of nn.functional, in the module brisk._C._nn. */
#include "autograd/composed.h"
#include "autograd/layer_steps.h"
#include "binds.h"
#include "core/lock.h"
#include "core/memory.h"
#include "core/scope.h"
#include "ops/elementwise.h"

#include <math.h>

/* --- norms ---------------------------------------------------------------------------------------------------------
 */

static PyObject *py_layer_norm(const arg *a)
{
    return py_wrap(bk_layer_norm(a[0].tensor, a[1].ints.n, a[1].ints.v, a[2].tensor, a[3].tensor, a[4].d));
}

/* Without eps: the dtype's. */
static PyObject *py_rms_norm(const arg *a)
{
    static const double epsilons[BK_DTYPE_COUNT] = {
        [BK_FLOAT32] = 0x1p-23, [BK_FLOAT64] = 0x1p-52, [BK_FLOAT16] = 0x1p-23, [BK_BFLOAT16] = 0x1p-23
    };
    double eps = a[3].given ? a[3].d : epsilons[tensor_dtype(a[0].tensor)];
    return py_wrap(bk_rms_norm(a[0].tensor, a[1].ints.n, a[1].ints.v, a[2].tensor, eps));
}

static PyObject *py_group_norm(const arg *a)
{
    return py_wrap(bk_group_norm(a[0].tensor, a[1].i, a[2].tensor, a[3].tensor, a[4].d));
}

static PyObject *py_batch_norm(const arg *a)
{
    return py_wrap(
        bk_batch_norm(a[0].tensor, a[1].tensor, a[2].tensor, a[3].tensor, a[4].tensor, a[5].b, a[6].d, a[7].d));
}

static PyObject *py_instance_norm(const arg *a)
{
    return py_wrap(
        bk_instance_norm(a[0].tensor, a[1].tensor, a[2].tensor, a[3].tensor, a[4].tensor, a[5].b, a[6].d, a[7].d));
}

/* --- convolutions --------------------------------------------------------------------------------------------------
 */

/* An argument of one number for each of n dimensions, or of one for all. */
static int64_t *each(const arg *a, int n, int64_t *out)
{
    for (int i = 0; i < n && i < BK_MAX_NDIM; i++)
        out[i] = a->ints.n == 1 ? a->ints.v[0] : i < a->ints.n ? a->ints.v[i] : 0;
    return out;
}

static bool check_kernel(const arg *a, int n)
{
    if (bk_ndim(a[1].tensor) == n + 2)
        return true;
    PyErr_Format(PyExc_RuntimeError, "expected a weight of %d dimensions for %d spatial ones, but got %d", n + 2, n,
                 bk_ndim(a[1].tensor));
    return false;
}

static PyObject *conv(const arg *a, int n)
{
    int64_t stride[BK_MAX_NDIM], padding[BK_MAX_NDIM], dilation[BK_MAX_NDIM];
    if (!check_kernel(a, n))
        return NULL;
    return py_wrap(bk_conv(a[0].tensor, a[1].tensor, a[2].tensor, each(&a[3], n, stride), each(&a[4], n, padding),
                           each(&a[5], n, dilation), a[6].i));
}

/* padding="same": as many places as the input has; where the zeros do not split evenly the end gets one more. */
static PyObject *conv_by_name(const arg *a, int n)
{
    int64_t stride[BK_MAX_NDIM], none[BK_MAX_NDIM] = { 0 }, dilation[BK_MAX_NDIM], pads[2 * BK_MAX_NDIM];
    if (!check_kernel(a, n))
        return NULL;
    each(&a[3], n, stride), each(&a[5], n, dilation);
    bool same = !strcmp(a[4].s, "same");
    if (!same && strcmp(a[4].s, "valid"))
        return PyErr_Format(PyExc_RuntimeError, "Invalid padding string: '%s'", a[4].s);
    static const char *const names[] = { "_conv_same", "_conv_same_alone" };
    static int rows[2];
    const uint64_t start = next_sequence;
    bk_scope_push();
    const bk_tensor *x = a[0].tensor;
    bool uneven = false;
    for (int i = 0; i < n && same; i++) {
        int64_t total = dilation[i] * (bk_sizes(a[1].tensor)[2 + i] - 1);
        uneven |= total % 2;
        pads[2 * (n - 1 - i)] = total / 2;
        pads[2 * (n - 1 - i) + 1] = total - total / 2;
        if (stride[i] != 1) {
            bk_scope_pop();
            PyErr_SetString(PyExc_RuntimeError, "padding='same' is not supported for strided convolutions");
            return NULL;
        }
    }
    if (same && bk_ndim(x) > n)
        x = bk_pad(x, n, pads, 0);
    bk_tensor *t = bk_conv(x, a[1].tensor, a[2].tensor, stride, none, dilation, a[6].i);
    const bk_tensor *of[] = { a[1].tensor, a[0].tensor, a[2].tensor };
    const int alone = bk_ndim(a[0].tensor) == n + 1;
    return py_wrap(scope_return(uneven ? composed_as(t, names[alone], &rows[alone], start, of, 3) : t));
}

static PyObject *conv_transpose(const arg *a, int n)
{
    int64_t stride[BK_MAX_NDIM], padding[BK_MAX_NDIM], more[BK_MAX_NDIM], dilation[BK_MAX_NDIM];
    if (!check_kernel(a, n))
        return NULL;
    return py_wrap(bk_conv_transpose(a[0].tensor, a[1].tensor, a[2].tensor, each(&a[3], n, stride),
                                     each(&a[4], n, padding), each(&a[5], n, more), a[6].i, each(&a[7], n, dilation)));
}

#define DIMENSIONS(X) X(1) X(2) X(3)
#define DEFINE(n)                                                                                                      \
    static PyObject *py_conv##n##d(const arg *a) { return conv(a, n); }                                                \
    static PyObject *py_conv##n##d_by_name(const arg *a) { return conv_by_name(a, n); }                                \
    static PyObject *py_conv_transpose##n##d(const arg *a) { return conv_transpose(a, n); }
DIMENSIONS(DEFINE)
#undef DEFINE

static PyObject *py_pad_constant(const arg *a)
{
    int64_t pads[2 * BK_MAX_NDIM];
    Py_ssize_t n = PySequence_Size(a[1].object);
    if (n < 0 || n > 2 * BK_MAX_NDIM || n % 2)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_RuntimeError, "Padding length must be divisible by 2");
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_GetItem(a[1].object, i);
        int status = item ? py_int64_from(item, &pads[i]) : -1;
        Py_XDECREF(item);
        if (status < 0)
            return NULL;
    }
    return py_wrap(bk_pad(a[0].tensor, (int)(n / 2), pads, a[2].d));
}

/* --- recurrence ----------------------------------------------------------------------------------------------------
 */

static bk_rnn_weights weights(const arg *a)
{
    return (bk_rnn_weights){ a[0].tensor, a[1].tensor, a[2].tensor, a[3].tensor, a[4].tensor };
}

/* (h, c), or h alone when there is no c. Steals both. */
static PyObject *state(bk_tensor *h, bk_tensor *c)
{
    PyObject *first = py_wrap(h);
    if (!c || !first) {
        bk_release(c);
        return first;
    }
    PyObject *second = py_wrap(c);
    return second ? Py_BuildValue("(NN)", first, second) : (Py_DECREF(first), NULL);
}

static PyObject *py_rnn_step(const arg *a)
{
    bk_rnn_weights w = weights(a + 4);
    bk_tensor *c = NULL;
    bk_tensor *h = bk_rnn_step((bk_rnn_kind)a[0].i, a[1].tensor, a[2].tensor, a[3].tensor, &w, &c);
    return state(h, c);
}

static bool has_sizes(const bk_tensor *t, int64_t rows, int64_t columns)
{
    return bk_ndim(t) == 2 && bk_sizes(t)[0] == rows && bk_sizes(t)[1] == columns;
}

/* A cell's next states where its input is a batch and its states are there and fit, as in a loop over time. None else:
 * the cell then makes what is missing, or says what is wrong. */
static PyObject *py_rnn_cell(const arg *a)
{
    const bk_rnn_kind kind = (bk_rnn_kind)a[0].i;
    const bk_rnn_weights w = weights(a + 3);
    PyObject *input = a[1].object, *states[2] = { a[2].object, NULL };
    if (kind == BK_LSTM) {
        if (!PyTuple_CheckExact(a[2].object) || PyTuple_GET_SIZE(a[2].object) != 2)
            Py_RETURN_NONE;
        for (int i = 0; i < 2; i++)
            states[i] = PyTuple_GET_ITEM(a[2].object, i);
    }
    if (!py_is_tensor(input) || bk_ndim(w.input) != 2 || bk_ndim(w.hidden) != 2)
        Py_RETURN_NONE;
    const bk_tensor *x = ((py_tensor *)input)->t, *from[2] = { NULL, NULL };
    if (bk_ndim(x) != 2 || bk_sizes(x)[1] != bk_sizes(w.input)[1])
        Py_RETURN_NONE;
    for (int i = 0; i < 1 + (kind == BK_LSTM); i++) {
        if (!py_is_tensor(states[i]))
            Py_RETURN_NONE;
        from[i] = ((py_tensor *)states[i])->t;
        if (!has_sizes(from[i], bk_sizes(x)[0], bk_sizes(w.hidden)[1]))
            Py_RETURN_NONE;
    }
    bk_tensor *c = NULL;
    bk_tensor *h = bk_rnn_step(kind, x, from[0], from[1], &w, &c);
    return state(h, c);
}

/* Rows of each step from a Python list, or from the number of steps where all have as many; freed by mem_free. */
static int64_t *counts_from(PyObject *list, int64_t rows, int *n)
{
    const bool plain = PyLong_Check(list);
    *n = plain ? (int)PyLong_AsLong(list) : PyList_Check(list) ? (int)PyList_GET_SIZE(list) : 0;
    int64_t *counts = mem_alloc(sizeof *counts * ((size_t)*n + 1));
    for (int i = 0; counts && plain && i < *n; i++)
        counts[i] = rows / *n;
    if (plain)
        return counts ? counts : (PyErr_NoMemory(), NULL);
    for (int i = 0; counts && i < *n; i++)
        if (py_int64_from(PyList_GET_ITEM(list, i), &counts[i]) < 0) {
            mem_free(counts);
            return NULL;
        }
    return counts ? counts : (PyErr_NoMemory(), NULL);
}

/* Where PyTorch has one function for a layer: an LSTM over a plain batch of float32. */
static bool is_one_layer(uint8_t about, const bk_tensor *x)
{
    return (about & (LAYER_KIND | LAYER_PACKED | LAYER_PROJECTED)) == BK_LSTM && tensor_dtype(x) == BK_FLOAT32;
}

static uint8_t about_layer(const arg *a, const bk_rnn_weights *w)
{
    const bool packed = !PyLong_Check(a[2].object), reversed = a[5].b, gathered = a[6].b;
    return (uint8_t)(a[0].i | (w->input_bias ? LAYER_BIASED : 0) | (packed ? LAYER_PACKED : 0) |
                     (reversed ? LAYER_REVERSED : 0) | (w->projection ? LAYER_PROJECTED : 0) |
                     (gathered ? LAYER_GATHERED : 0));
}

/* out, h and c are its results; what c was cloned from comes last of its records, and stands for it. */
static void name_layer(bk_tensor *out, bk_tensor *h, bk_tensor *c, const bk_tensor *const of[7], uint64_t start)
{
    static int layer, rows[3];
    uint8_t reached = 0;
    for (int i = 0; i < 7; i++)
        reached |= (uint8_t)((of[i] && tensor_tracked(of[i])) << i);
    layer = layer ? layer : composed_find("_lstm_layer") + 1;
    composed_mark_below(c, layer - 1, start, reached);
    composed_as(c, "_lstm_last_c", &rows[2], start, NULL, 0);
    composed_as(h, "_lstm_last_h", &rows[1], start, NULL, 0);
    composed_as(out, "_lstm_output", &rows[0], start, NULL, 0);
}

/* (output, h_n, c_n or None) */
static PyObject *py_rnn_layer(const arg *a)
{
    bk_rnn_weights w = weights(a + 7);
    int steps;
    int64_t *counts = counts_from(a[2].object, bk_sizes(a[1].tensor)[0], &steps);
    if (!counts)
        return NULL;
    bk_tensor *h = NULL, *c = NULL;
    const uint64_t start = next_sequence;
    const uint8_t about = about_layer(a, &w);
    bk_tensor *out =
        bk_rnn_layer((bk_rnn_kind)a[0].i, a[1].tensor, counts, steps, a[3].tensor, a[4].tensor, &w, a[5].b, &h, &c);
    mem_free(counts);
    if (!out)
        return py_raise();
    if (grad_enabled() && is_one_layer(about, a[1].tensor)) /* in the order in which a walk comes to them */
        name_layer(out, h, c,
                   (const bk_tensor *[]){ a[1].tensor, w.input, w.input_bias, w.hidden_bias, a[3].tensor, w.hidden,
                                          a[4].tensor },
                   start);
    else if (grad_enabled())
        layer_mark(out, h, c, about, start);
    PyObject *results[] = { py_wrap(out), py_wrap(h), c ? py_wrap(c) : Py_NewRef(Py_None) };
    return Py_BuildValue("(NNN)", results[0], results[1], results[2]);
}

/* (steps, batch, features) as packed rows, which PyTorch reads as they are, or a copy. */
static PyObject *py_rows(const arg *a)
{
    const int64_t *from = bk_sizes(a[0].tensor), sizes[] = { from[0] * from[1], from[2] };
    int64_t strides[BK_MAX_NDIM];
    bk_scope_push();
    bool viewed = layout_view_strides(a[0].tensor->layout, 2, sizes, strides);
    bk_tensor *dense = viewed ? (bk_tensor *)a[0].tensor : bk_contiguous(a[0].tensor);
    return py_wrap(scope_return(made_by(dense ? bk_view(dense, 2, sizes) : NULL, VIEW_unseen)));
}

/* Packed rows as (steps, batch, features). whole: PyTorch has one function for the layer. */
static PyObject *py_steps(const arg *a)
{
    const bool whole = a[3].b;
    const int64_t sizes[] = { a[1].i, a[2].i, bk_sizes(a[0].tensor)[1] };
    bk_scope_push();
    bk_tensor *v = bk_view(a[0].tensor, 3, sizes);
    if (whole)
        v = made_by(v, VIEW_unseen);
    else if (grad_enabled())
        layer_mark_steps(v, a[0].tensor);
    return py_wrap(scope_return(tensor_as_own_taped(v)));
}

/* (steps, batch, features) as (batch, steps, features), which PyTorch makes of them in place. */
static PyObject *py_turned(const arg *a)
{
    static int row;
    const uint64_t start = next_sequence;
    const bk_tensor *x = a[0].tensor;
    bk_scope_push();
    bk_tensor *t = composed_as(bk_transpose(x, 0, 1), "transpose_", &row, start, &x, 1);
    return py_wrap(scope_return(tensor_as_own_taped(t)));
}

/* --- attention and initial values ------------------------------------------------------------------------------------
 */

/* (T, N, E) as (N, heads, T, E / heads), where E is one `part` of several that were computed together, or all. apart:
 * PyTorch has each head of each sequence for itself. */
static PyObject *py_heads(const arg *a)
{
    static const char *const names[] = { "_heads_together", "_heads_apart", "_heads_of_part", "_heads_of_part_apart" };
    static int rows[sizeof names / sizeof *names];
    const bk_tensor *x = a[0].tensor;
    const int64_t part = a[2].i, parts = a[3].i, width = bk_sizes(x)[2] / parts;
    const int how = a[4].b + 2 * (parts > 1);
    const uint64_t start = next_sequence;
    lock_take();
    const int64_t *sizes = bk_sizes(x), *strides = x->layout->strides, size = width / a[1].i;
    const layout *l = layout_get(4, (int64_t[]){ sizes[1], a[1].i, sizes[0], size },
                                 (int64_t[]){ strides[1], size * strides[2], strides[0], strides[2] });
    bk_tensor *t = l ? made_by(tensor_view_of(x, l, x->offset + part * width * strides[2]), VIEW_permute) : NULL;
    lock_give();
    return py_wrap(composed_as(t, names[how], &rows[how], start, &x, 1));
}

/* a @ b + mask, of heads that PyTorch has for themselves. */
static PyObject *py_scores(const arg *a)
{
    static int rows[2];
    const bool masked = a[2].tensor;
    const bk_tensor *of[] = { a[0].tensor, a[1].tensor, a[2].tensor };
    const uint64_t start = next_sequence;
    bk_scope_push();
    bk_tensor *t = bk_matmul(a[0].tensor, a[1].tensor);
    if (masked)
        t = t ? bk_add(t, a[2].tensor) : NULL;
    return py_wrap(scope_return(composed_as(t, masked ? "baddbmm" : "bmm", &rows[masked], start, of, masked ? 3 : 2)));
}

/* (N, heads, T, E / heads) as rows (T N, E). whole: attention was one function, whose result lies as the rows do. */
static PyObject *py_rows_of_heads(const arg *a)
{
    static const char *const names[] = { "_merged_heads", "_merged_heads_apart", "_merged_heads_in_order" };
    static int rows[sizeof names / sizeof *names];
    const bk_tensor *x = a[0].tensor;
    const int64_t *from = bk_sizes(x), sizes[] = { from[2] * from[0], from[1] * from[3] };
    const int how = a[1].b ? 1 : a[2].b ? 2 : 0;
    const uint64_t start = next_sequence;
    bk_scope_push();
    bk_tensor *t = bk_permute(x, 4, (int[]){ 2, 0, 1, 3 });
    t = t ? bk_reshape(t, 2, sizes) : NULL;
    return py_wrap(scope_return(composed_as(t, names[how], &rows[how], start, &x, 1)));
}

/* The lengths of x's vectors along a dimension, at least eps each. PyTorch's gradients do not know of that. */
static PyObject *py_lengths(const arg *a)
{
    uint32_t mask;
    if (bk_dims_mask(a[0].tensor, 1, (int64_t[]){ a[1].i }, &mask) < 0)
        return py_raise();
    bk_scope_push();
    bk_tensor *lengths = bk_clone(bk_norm(a[0].tensor, 2, mask, true));
    bool was = grad_set_enabled(false);
    bk_tensor *clipped = lengths ? bk_clamp_min_s(lengths, a[2].d) : NULL;
    bool good = clipped && bk_copy_(lengths, clipped) == 0;
    grad_set_enabled(was);
    return py_wrap(scope_return(good ? lengths : NULL));
}

/* The norm of x1 - x2 + eps along the last dimension. */
static PyObject *py_distance(const arg *a)
{
    static int row;
    const bk_tensor *of[] = { a[0].tensor, a[1].tensor };
    const uint64_t start = next_sequence;
    bk_scope_push();
    bk_tensor *t = bk_sub(of[0], of[1]);
    uint32_t mask = 0;
    t = t ? bk_add_s(t, a[3].d) : NULL;
    t = t && bk_dims_mask(t, 1, (int64_t[]){ -1 }, &mask) == 0 ? bk_norm(t, a[2].d, mask, a[4].b) : NULL;
    return py_wrap(scope_return(composed_as(t, "_pairwise_distance", &row, start, of, 2)));
}

/* t + number, t - number and number - t as PyTorch's kernels have them, which are written in C++: the number is no
 * operand there, or a tensor of its own. */
static PyObject *with_number(const arg *a, bk_tensor *t, const char *name, int *row, uint64_t start)
{
    return py_wrap(composed_as(t, name, row, start, (const bk_tensor *[]){ a[0].tensor }, 1));
}

static PyObject *py_add_number(const arg *a)
{
    static int row;
    const uint64_t start = next_sequence;
    return with_number(a, bk_add_s(a[0].tensor, a[1].d), "_add_number", &row, start);
}

static PyObject *py_sub_number(const arg *a)
{
    static int row;
    const uint64_t start = next_sequence;
    return with_number(a, bk_sub_s(a[0].tensor, a[1].d), "_sub_number", &row, start);
}

static PyObject *py_number_sub(const arg *a)
{
    static int row;
    const uint64_t start = next_sequence;
    operand in[2] = { number_float(a[1].d), { 0 } };
    lock_take();
    bk_tensor *t = tensor_read(a[0].tensor, &in[1]) ? ew_apply(EW_sub, in) : NULL;
    lock_give();
    return with_number(a, t, "_ones_minus", &row, start);
}

/* Whether PyTorch has one function for it. */
static bool is_one_function(const arg *a)
{
    const layout *q = a[0].tensor->layout, *k = a[1].tensor->layout, *v = a[2].tensor->layout;
    if (q->ndim != 4 || k->ndim != 4 || v->ndim != 4 || a[4].d > 0 || (a[3].tensor && bk_requires_grad(a[3].tensor)))
        return false;
    return q->sizes[3] == k->sizes[3] && q->sizes[3] == v->sizes[3] && q->sizes[2] && k->sizes[2];
}

/* a: query, key, value, attn_mask, dropout_p, is_causal, scale, times: how many heads share a key and a value */
static PyObject *py_attention(const arg *a)
{
    static const char *const names[] = { "_attention_plain", "_attention_masked", "_attention_dropped",
                                         "_attention_masked_dropped", "_flash_attention" };
    static int rows[sizeof names / sizeof *names];
    const bk_tensor *of[] = { a[0].tensor, a[1].tensor, a[3].tensor, a[2].tensor }, *k = of[1], *v = of[3];
    bool one = is_one_function(a);
    uint64_t start = next_sequence;
    bk_scope_push();
    for (int i = 1; a[7].i > 1 && i < 4; i += 2)
        of[i] = bk_repeat_interleave_s(of[i], a[7].i, -3);
    if (!one)
        start = next_sequence;
    bk_tensor *r = bk_attention(of[0], of[1], of[3], of[2], a[4].d, a[5].b, a[6].given ? a[6].d : (double)NAN);
    int how = one ? 4 : (a[3].tensor || a[5].b) + 2 * (a[4].d > 0);
    if (one)
        of[1] = k, of[2] = v;
    return py_wrap(scope_return(composed_as(r, names[how], &rows[how], start, of, one ? 3 : 4)));
}

static PyObject *py_orthogonal(const arg *a)
{
    return py_in_place(&a[0], bk_orthogonal_(a[0].tensor, a[1].d, py_generator_of(&a[2])));
}

#define NORMED   "Tensor input, int[] normalized_shape, Tensor? weight=None"
#define CHANNELS "Tensor? weight=None, Tensor? bias=None"
#define SHARES   "Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None, Tensor? w_hr=None"
#define CONV(n, padding)                                                                                               \
    "conv" #n "d(Tensor input, Tensor weight, Tensor? bias=None, int[" #n "] stride=1, " padding ", int[" #n           \
    "] dilation=1, int groups=1)"
#define CONV_ROWS(n)                                                                                                   \
    { AS_FUNCTION, CONV(n, "int[" #n "] padding=0"), py_conv##n##d, NULL },                                            \
        { AS_FUNCTION, CONV(n, "str padding"), py_conv##n##d_by_name, NULL },                                          \
        { AS_FUNCTION,                                                                                                 \
          "conv_transpose" #n "d(Tensor input, Tensor weight, Tensor? bias=None, int[" #n "] stride=1, int[" #n        \
          "] padding=0, int[" #n "] output_padding=0, int groups=1, int[" #n "] dilation=1)",                          \
          py_conv_transpose##n##d, NULL },

const binding layers_rows[] = {
    { AS_FUNCTION, "layer_norm(" NORMED ", Tensor? bias=None, float eps=1e-05)", py_layer_norm, NULL },
    { AS_FUNCTION, "rms_norm(" NORMED ", float? eps=None)", py_rms_norm, NULL },
    { AS_FUNCTION, "group_norm(Tensor input, int num_groups, " CHANNELS ", float eps=1e-05)", py_group_norm, NULL },
    { AS_FUNCTION,
      "_batch_norm(Tensor input, Tensor? running_mean, Tensor? running_var, Tensor? weight, Tensor? bias, bool "
      "training, float momentum, float eps)",
      py_batch_norm, NULL },
    { AS_FUNCTION,
      "_instance_norm(Tensor input, Tensor? running_mean, Tensor? running_var, Tensor? weight, Tensor? bias, bool "
      "use_input_stats, float momentum, float eps)",
      py_instance_norm, NULL },
    DIMENSIONS(CONV_ROWS){ AS_FUNCTION, "_pad_constant(Tensor input, Object pad, float value)", py_pad_constant, NULL },
    { AS_FUNCTION, "_rnn_step(int kind, Tensor input, Tensor h, Tensor? c, " SHARES ")", py_rnn_step, NULL },
    { AS_FUNCTION, "_rnn_cell(int kind, Object input, Object states, " SHARES ")", py_rnn_cell, NULL },
    { AS_FUNCTION,
      "_rnn_layer(int kind, Tensor input, Object batch_sizes, Tensor h, Tensor? c, bool reverse, bool gathered, " SHARES
      ")",
      py_rnn_layer, NULL },
    { AS_FUNCTION, "_rows(Tensor steps)", py_rows, NULL },
    { AS_FUNCTION, "_steps(Tensor rows, int steps, int batch, bool whole)", py_steps, NULL },
    { AS_FUNCTION, "_turned(Tensor steps)", py_turned, NULL },
    { AS_FUNCTION, "_lengths(Tensor x, int dim, float eps)", py_lengths, NULL },
    { AS_FUNCTION, "_distance(Tensor x1, Tensor x2, float p, float eps, bool keepdim)", py_distance, NULL },
    { AS_FUNCTION, "_plus(Tensor self, float number)", py_add_number, NULL },
    { AS_FUNCTION, "_minus(Tensor self, float number)", py_sub_number, NULL },
    { AS_FUNCTION, "_from_number(Tensor self, float number)", py_number_sub, NULL },
    { AS_FUNCTION, "_heads(Tensor x, int heads, int part, int parts, bool apart)", py_heads, NULL },
    { AS_FUNCTION, "_scores(Tensor a, Tensor b, Tensor? mask)", py_scores, NULL },
    { AS_FUNCTION, "_rows_of_heads(Tensor x, bool apart, bool whole)", py_rows_of_heads, NULL },
    { AS_FUNCTION,
      "_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask, float dropout_p, bool is_causal, float? "
      "scale, int times)",
      py_attention, NULL },
    { AS_FUNCTION, "_orthogonal_(Tensor tensor, float gain, Generator? generator=None)", py_orthogonal, NULL },
};
const size_t layers_row_count = sizeof layers_rows / sizeof *layers_rows;
