/* bind_losses.c: the losses that the library has, in brisk._C._nn. `reduction` is a bk_reduction: nn/_losses.py has
 * PyTorch's signatures. */
#include "binds.h"

static bk_reduction by(const arg *a) { return (bk_reduction)a->i; }

static PyObject *py_mse_loss(const arg *a) { return py_wrap(bk_mse_loss(a[0].tensor, a[1].tensor, by(&a[2]))); }
static PyObject *py_l1_loss(const arg *a) { return py_wrap(bk_l1_loss(a[0].tensor, a[1].tensor, by(&a[2]))); }

static PyObject *py_smooth_l1_loss(const arg *a)
{
    return py_wrap(bk_smooth_l1_loss(a[0].tensor, a[1].tensor, a[2].d, by(&a[3])));
}

static PyObject *py_huber_loss(const arg *a)
{
    return py_wrap(bk_huber_loss(a[0].tensor, a[1].tensor, a[2].d, by(&a[3])));
}

static PyObject *py_nll_loss(const arg *a)
{
    return py_wrap(bk_nll_loss(a[0].tensor, a[1].tensor, a[2].tensor, a[3].i, by(&a[4])));
}

static PyObject *py_cross_entropy(const arg *a)
{
    return py_wrap(bk_cross_entropy(a[0].tensor, a[1].tensor, a[2].tensor, a[3].i, a[4].d, by(&a[5])));
}

static PyObject *py_bce(const arg *a)
{
    return py_wrap(bk_binary_cross_entropy(a[0].tensor, a[1].tensor, a[2].tensor, by(&a[3])));
}

static PyObject *py_bce_with_logits(const arg *a)
{
    return py_wrap(bk_binary_cross_entropy_with_logits(a[0].tensor, a[1].tensor, a[2].tensor, a[3].tensor, by(&a[4])));
}

const binding losses_rows[] = {
    { AS_FUNCTION, "_mse_loss(Tensor input, Tensor target, int reduction)", py_mse_loss, NULL },
    { AS_FUNCTION, "_l1_loss(Tensor input, Tensor target, int reduction)", py_l1_loss, NULL },
    { AS_FUNCTION, "_smooth_l1_loss(Tensor input, Tensor target, float beta, int reduction)", py_smooth_l1_loss, NULL },
    { AS_FUNCTION, "_huber_loss(Tensor input, Tensor target, float delta, int reduction)", py_huber_loss, NULL },
    { AS_FUNCTION, "_nll_loss(Tensor input, Tensor target, Tensor? weight, int ignore_index, int reduction)",
      py_nll_loss, NULL },
    { AS_FUNCTION,
      "_cross_entropy(Tensor input, Tensor target, Tensor? weight, int ignore_index, float label_smoothing, int "
      "reduction)",
      py_cross_entropy, NULL },
    { AS_FUNCTION, "_binary_cross_entropy(Tensor input, Tensor target, Tensor? weight, int reduction)", py_bce, NULL },
    { AS_FUNCTION,
      "_binary_cross_entropy_with_logits(Tensor input, Tensor target, Tensor? weight, Tensor? pos_weight, int "
      "reduction)",
      py_bce_with_logits, NULL },
};
const size_t losses_row_count = sizeof losses_rows / sizeof *losses_rows;
