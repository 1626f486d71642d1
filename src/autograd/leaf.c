/* leaf.c: what a tensor says about its place on the tape. */
#include "core/error.h"
#include "core/lock.h"
#include "core/tensor.h"
#include "ops/numbers.h"

bool bk_requires_grad(const bk_tensor *t)
{
    const track *k = t->track;
    if (!k)
        return false;
    if (k->place || k->requires_grad)
        return true;
    return tensor_rejoin((bk_tensor *)t);
}

/* Whether t is only a view of what its track stands for. */
static bool is_view(const bk_tensor *t)
{
    return t->flags & TENSOR_VIEW || t->track->layout != t->layout || t->track->offset != t->offset;
}

/* Of a track without a place. */
static __attribute__((noinline)) bool view_is_leaf(const bk_tensor *t)
{
    bool rejoined = t->flags & TENSOR_PART && tensor_rejoin((bk_tensor *)t);
    return !rejoined && (t->flags & TENSOR_PART || !t->track->requires_grad);
}

bool bk_is_leaf(const bk_tensor *t)
{
    const track *k = t->track;
    if (!k || k->place)
        return !k;
    if (t->flags & (TENSOR_VIEW | TENSOR_PART))
        return view_is_leaf(t);
    return !k->requires_grad || (k->layout == t->layout && k->offset == t->offset);
}

int bk_set_requires_grad(bk_tensor *t, bool on)
{
    if (!t)
        return -1;
    lock_take();
    int status = 0;
    if (!bk_is_leaf(t))
        status = on ? 0
                    : error_int(BK_RUNTIME_ERROR,
                                "you can only change requires_grad flags of leaf variables. If you want "
                                "to use a computed variable in a subgraph that doesn't require differentiation use "
                                "var_no_grad = var.detach().");
    else if (on && !dtype_is_float(tensor_dtype(t)))
        status = error_int(BK_RUNTIME_ERROR, "only Tensors of floating point dtype can require gradients");
    else if (on && t->flags & TENSOR_INFERENCE && !inference_enabled())
        status = error_int(BK_RUNTIME_ERROR,
                           "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.");
    else if (on && t->track && is_view(t))
        status = track_part(t); /* a view of a tensor without gradients becomes a leaf of its own */
    if (status == 0 && bk_is_leaf(t) && (on || t->track)) {
        status = tensor_track(t) ? 0 : -1;
        if (status == 0)
            t->track->requires_grad = on;
    }
    lock_give();
    return status;
}

/* A view shares its place with the whole, which stays on the tape. */
int bk_detach_(bk_tensor *t)
{
    if (!t)
        return -1;
    lock_take();
    int status = 0;
    if (t->track && (is_view(t) || t->track->part))
        status = error_int(
            BK_RUNTIME_ERROR,
            "Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel (DDP) for "
            "training, and gradient_as_bucket_view is set as True, gradients are views of DDP buckets, and hence "
            "detach_() cannot be called on these gradients. To fix this error, please refer to the "
            "Optimizer.zero_grad() function in torch/optim/optimizer.py as the solution.");
    else if (bk_is_leaf(t) && t->track)
        t->track->requires_grad = false;
    else
        track_leave(t);
    lock_give();
    return status;
}

bool bk_set_grad_enabled(bool on) { return grad_set_enabled(on); }
bool bk_grad_enabled(void) { return grad_enabled(); }

bk_tensor *bk_grad_of(const bk_tensor *t)
{
    if (!t || !t->track)
        return NULL;
    if (bk_is_leaf(t) || !is_view(t))
        return t->track->grad;
    return t->keeps ? t->keeps->grad : NULL;
}

int bk_set_grad(bk_tensor *t, bk_tensor *grad)
{
    char a[200], b[200];
    if (!t)
        return -1;
    if (grad && grad->layout->plain != t->layout->plain)
        return error_int(
            BK_RUNTIME_ERROR,
            "attempting to assign a gradient of size '%s' to a tensor of size '%s'. Please ensure that the "
            "gradient and the tensor are the same size",
            layout_text(grad->layout, a), layout_text(t->layout, b));
    if (grad == t)
        return error_int(BK_RUNTIME_ERROR, "can't assign Variable as its own grad");
    if (grad && tensor_dtype(grad) != tensor_dtype(t))
        return error_int(
            BK_RUNTIME_ERROR,
            "attempting to assign a gradient with dtype '%s' to a tensor with grad_dtype '%s'. The gradient "
            "must match the tensor's grad_dtype (defaults to the tensor's dtype). You can set the tensor's grad_dtype "
            "attribute with a specific dtype, or None to allow any dtype. Set grad_dtype with caution. Diverging the "
            "dtypes of a tensor and its gradient may break downstream systems that assume they match.",
            c_type_names[tensor_dtype(grad)], dtypes[tensor_dtype(t)].type_name);
    lock_take();
    int status = 0;
    bool view = t->track && !bk_is_leaf(t) && is_view(t);
    track *k = view ? t->keeps : t->track;
    if (grad && !k && !(k = view ? tensor_keeper(t) : tensor_track(t)))
        status = -1;
    if (k) {
        bk_tensor *old = k->grad;
        k->grad = bk_retain(grad);
        bk_release(old);
    }
    lock_give();
    return status;
}
