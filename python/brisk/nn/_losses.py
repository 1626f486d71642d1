"""The losses of nn.functional, with PyTorch's arguments and errors.

Those in common use are functions of the library (brisk._C._nn); the others are said here in terms of recorded ops.
"""

import math
import warnings

from brisk import _C
from brisk._arrange import broadcast_tensors
from brisk._C import Tensor, _nn
from brisk._composed import looks_like
from brisk.autograd.grad_mode import no_grad

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "cross_entropy", "ctc_loss",
    "gaussian_nll_loss", "hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss", "margin_ranking_loss", "mse_loss",
    "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss", "nll_loss", "poisson_nll_loss",
    "smooth_l1_loss", "soft_margin_loss", "triplet_margin_loss", "triplet_margin_with_distance_loss",
]  # fmt: skip

_CODES = {"none": 0, "mean": 1, "sum": 2}  # those of bk_reduction


def legacy_reduction(size_average, reduce, emit_warning=True):
    """The reduction that two older arguments stand for."""
    size_average = True if size_average is None else size_average
    reduce = True if reduce is None else reduce
    reduction = "none" if not reduce else "mean" if size_average else "sum"
    if emit_warning:
        warnings.warn(
            f"size_average and reduce args will be deprecated, please use reduction='{reduction}' instead.",
            stacklevel=4,
        )
    return reduction


def _code(reduction, size_average=None, reduce=None):
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce)
    code = _CODES.get(reduction)
    if code is not None:
        return code
    if reduction == "elementwise_mean":
        warnings.warn("reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.", stacklevel=3)
        return 1
    raise ValueError(f"{reduction} is not a valid value for reduction")


def _reduced(loss, code):
    return loss if code == 0 else loss.mean() if code == 1 else loss.sum()


# --- distances -------------------------------------------------------------------------------------------------------


def _of_one_size(input, target):
    """Both, repeated; that their sizes differ is told."""
    warnings.warn(
        f"Using a target size ({target.size()}) that is different to the input size ({input.size()}). This will "
        "likely lead to incorrect results due to broadcasting. Please ensure they have the same size.",
        stacklevel=3,
    )
    return broadcast_tensors(input, target)


def _weighted(loss, input, weight, code):
    """The losses times their weights; a mean is one of the weights too."""
    if weight.size() != input.size():
        raise ValueError("Weights and input must have the same size.")
    loss = loss * weight
    return loss if code == 0 else loss.sum() if code == 2 else loss.sum() / weight.sum()


def mse_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """The square of the difference."""
    code = _code(reduction, size_average, reduce)
    if target.shape != input.shape:
        input, target = _of_one_size(input, target)
    if weight is not None:
        return _weighted((input - target) ** 2, input, weight, code)
    return _nn._mse_loss(input, target, code)


def l1_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """The size of the difference."""
    code = _code(reduction, size_average, reduce)
    if target.shape != input.shape:
        input, target = _of_one_size(input, target)
    if weight is not None:
        return _weighted(_nn._l1_loss(input, target, 0), input, weight, code)
    return _nn._l1_loss(input, target, code)


def smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    """The size of the difference, rounded off below beta."""
    code = _code(reduction, size_average, reduce)
    if target.shape != input.shape:
        input, target = _of_one_size(input, target)
    return _nn._smooth_l1_loss(input, target, beta, code) if beta != 0 else _nn._l1_loss(input, target, code)


def huber_loss(input, target, reduction="mean", delta=1.0, weight=None):
    """Half the square of the difference up to delta, its tangent beyond."""
    code = _code(reduction)
    if target.shape != input.shape:
        input, target = _of_one_size(input, target)
    if weight is not None:
        if weight.size() != input.size():
            raise ValueError("Weights and input must have the same size.")
        return _reduced(_nn._huber_loss(input, target, delta, 0) * weight, code)
    return _nn._huber_loss(input, target, delta, code)


# --- classes ---------------------------------------------------------------------------------------------------------


def nll_loss(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
    """Minus the log-probability of the target class."""
    return _nn._nll_loss(input, target, weight, ignore_index, _code(reduction, size_average, reduce))


def cross_entropy(
    input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean",
    label_smoothing=0.0,
):  # fmt: skip
    """Minus the log-probability of the target class, or of target probabilities, under the scores' softmax."""
    code = _code(reduction, size_average, reduce)
    return _nn._cross_entropy(input, target, weight, ignore_index, label_smoothing, code)


def binary_cross_entropy(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    """Minus the log-likelihood of the target under probabilities."""
    code = _code(reduction, size_average, reduce)
    if target.size() != input.size():
        raise ValueError(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}) is "
            "deprecated. Please ensure they have the same size."
        )
    return _nn._binary_cross_entropy(input, target, weight, code)


def binary_cross_entropy_with_logits(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None
):
    """binary_cross_entropy of the sigmoid of the input, without its rounding."""
    code = _code(reduction, size_average, reduce)
    if target.size() != input.size():
        raise ValueError(f"Target size ({target.size()}) must be the same as input size ({input.size()})")
    return _nn._binary_cross_entropy_with_logits(input, target, weight, pos_weight, code)


@looks_like("multi_margin_loss")
def multi_margin_loss(
    input, target, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction="mean"
):  # fmt: skip
    """How far the scores of other classes come within a margin of that of the target class."""
    code = _code(reduction, size_average, reduce)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    single = input.dim() < 2
    x = input.reshape(1, -1) if single else input
    target = target.reshape(-1)
    if target.numel() != x.shape[0]:
        raise RuntimeError(
            "multi_margin_loss: target tensor should be 1-D with size equal to the number of input samples (batch "
            f"size). Expected target size [{x.shape[0]}], but got {list(target.shape)}. Input has shape "
            f"{list(input.shape)}."
        )
    classes = x.shape[1]
    if weight is not None and weight.numel() != classes:
        raise RuntimeError(f"inconsistent weight size, expected {classes} but got {list(weight.shape)}")
    if target.numel() and not (target.min().item() >= 0 and target.max().item() < classes):
        raise RuntimeError("target out of range")
    at = target.unsqueeze(1)
    short = (margin - x.gather(1, at) + x).clamp_min(0) ** p
    if weight is not None:
        short = short * weight[target].unsqueeze(1)
    own = _C.arange(classes) == at
    loss = _C.where(own, 0.0, short).sum(1) / classes
    return _reduced(loss.squeeze(0) if single else loss, code)


@looks_like("multilabel_margin_loss")
def multilabel_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """How far other classes come within a margin of 1 of each target class; a target ends at its first -1."""
    code = _code(reduction, size_average, reduce)
    if input.shape != target.shape:
        raise RuntimeError(f"inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}")
    x = input if input.dim() > 1 else input.reshape(1, -1)
    target = target.reshape(x.shape).long()
    classes = x.shape[1]
    if target.numel() and (target.min().item() < -1 or target.max().item() >= classes):
        raise RuntimeError("argument #2 'target' is out of range")
    valid = (target >= 0).long().cumprod(1).bool()
    index = _C.where(valid, target, 0)
    chosen = _C.zeros(x.shape, dtype=_C.int64).scatter_add_(1, index, valid.long()) > 0
    short = (1 - x.gather(1, index).unsqueeze(2) + x.unsqueeze(1)).clamp_min(0)
    counts = valid.unsqueeze(2) & ~chosen.unsqueeze(1)
    loss = _C.where(counts, short, 0.0).sum((1, 2)) / classes
    return _reduced(loss if input.dim() > 1 else loss.squeeze(0), code)


def multilabel_soft_margin_loss(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    """The mean over classes of binary_cross_entropy_with_logits."""
    code = _code(reduction, size_average, reduce)
    loss = -(target * _nn.logsigmoid(input) + (1 - target) * _nn.logsigmoid(-input))
    if weight is not None:
        loss = loss * weight
    return _reduced(loss.sum(-1) / input.size(-1), code)


@looks_like("soft_margin_loss")
def soft_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """log(1 + exp(-target input)), for targets of 1 and -1."""
    code = _code(reduction, size_average, reduce)
    if target.requires_grad and _C.is_grad_enabled():
        raise RuntimeError(
            "The function 'soft_margin_loss' is not differentiable with respect to argument 'target'. This input "
            "cannot have requires_grad True."
        )
    return _reduced((-target * input).exp().log1p(), code)


# --- likelihoods -----------------------------------------------------------------------------------------------------


def kl_div(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    """The divergence of a distribution from one whose logarithms are the input."""
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce)
    if reduction == "mean":
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size.'batchmean' divides "
            "only by the batch size, and aligns with the KL div math definition.'mean' will be changed to behave the "
            "same as 'batchmean' in the next major release.",
            stacklevel=2,
        )
    code = 2 if reduction == "batchmean" else _code(reduction)
    if not input.is_floating_point() or not target.is_floating_point():
        raise RuntimeError("kl_div: Integral inputs not supported.")
    loss = target.exp() * (target - input) if log_target else _C.xlogy(target, target) - target * input
    loss = _reduced(loss, code)
    return loss / input.size(0) if reduction == "batchmean" and input.dim() else loss


def poisson_nll_loss(
    input, target, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None, reduction="mean"
):
    """Minus the log-likelihood of counts under the rate (or its logarithm) that is the input."""
    code = _code(reduction, size_average, reduce)
    loss = input.exp() - target * input if log_input else input - target * _nn._plus(input, eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        loss = loss + stirling.masked_fill(target <= 1, 0)
    return _reduced(loss, code)


def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    """Minus the log-likelihood of targets under normal distributions of the given means and variances."""
    if isinstance(var, float):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = var * _C.ones_like(input)
    elif (var < 0).any().item():
        raise ValueError("var has negative entry/entries")
    if var.size() != input.size():
        if input.size()[:-1] == var.size():
            var = var.unsqueeze(-1)
        elif not (input.size()[:-1] == var.size()[:-1] and var.size(-1) == 1) and not _spreads(var, input):
            raise ValueError("var is of incorrect size")
    if reduction not in _CODES:
        raise ValueError(reduction + " is not valid")
    var = var.clone()
    with no_grad():
        var.clamp_(min=eps)
    loss = (var.log() + (input - target) ** 2 / var) * 0.5
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return _reduced(loss, _CODES[reduction])


def _spreads(var, input):
    """Whether var has a size of 1 wherever it differs from the input in one dimension."""
    return var.dim() == input.dim() and sum(a != b for a, b in zip(var.shape, input.shape)) == 1 and 1 in var.shape


# --- pairs and triples -----------------------------------------------------------------------------------------------


def hinge_embedding_loss(input, target, margin=1.0, size_average=None, reduce=None, reduction="mean"):
    """The distance where the target is 1, and how far it is below the margin where it is -1."""
    code = _code(reduction, size_average, reduce)
    apart = _C.where(target != 1, _nn._from_number(input, margin).clamp_min(0), 0.0)
    return _reduced(apart + _C.where(target != -1, input, 0.0), code)


def cosine_embedding_loss(
    input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"
):  # fmt: skip
    """1 - the cosine where the target is 1, and what the cosine exceeds the margin by where it is -1."""
    code = _code(reduction, size_average, reduce)
    if target.dim() not in (0, 1):
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if input1.dim() != target.dim() + 1 or input2.dim() != target.dim() + 1:
        raise RuntimeError(
            f"{target.dim()}D target tensor expects {target.dim() + 1}D input tensors, but found inputs with sizes "
            f"{list(input1.shape)} and {list(input2.shape)}."
        )
    dim = target.dim()
    product = (input1 * input2).sum(dim)
    lengths = _nn._plus((input1 * input1).sum(dim), 1e-12) * _nn._plus((input2 * input2).sum(dim), 1e-12)
    cosine = product / lengths.sqrt()
    far = _nn._minus(cosine, margin).clamp_min(0)
    loss = _C.where(target == 1, _nn._from_number(cosine, 1), 0.0) + _C.where(target == -1, far, 0.0)
    return _reduced(loss, code)


def margin_ranking_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    """How far two scores are from standing in the order that the target says, with a margin."""
    code = _code(reduction, size_average, reduce)
    if input1.dim() != input2.dim() or input1.dim() != target.dim():
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: "
            f"{input1.size()}, input2: {input2.size()}, target: {target.size()} "
        )
    return _reduced(_nn._plus(-target * (input1 - input2), margin).clamp_min(0), code)


def _triplet(anchor, positive, negative, distance, add, margin, swap, code):
    if not anchor.dim() == positive.dim() == negative.dim():
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
            f"anchor {anchor.dim()}D, positive {positive.dim()}D, and negative {negative.dim()}D inputs"
        )
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = _C.minimum(far, distance(positive, negative))
    return _reduced((add(near, margin) - far).clamp_min(0), code)


def triplet_margin_loss(
    anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False, size_average=None, reduce=None,
    reduction="mean",
):  # fmt: skip
    """How much closer than the positive one the negative example is, with a margin."""
    code = _code(reduction, size_average, reduce)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    distance = lambda a, b: _nn._distance(a, b, p, eps, False)  # noqa: E731
    return _triplet(anchor, positive, negative, distance, _nn._plus, margin, swap, code)


def triplet_margin_with_distance_loss(
    anchor, positive, negative, *, distance_function=None, margin=1.0, swap=False, reduction="mean"
):
    """triplet_margin_loss with a distance of the caller's own."""
    code = _code(reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    distance = distance_function or (lambda a, b: _nn._distance(a, b, 2, 1e-6, False))
    return _triplet(anchor, positive, negative, distance, _C.add, margin, swap, code)


# --- sequences -------------------------------------------------------------------------------------------------------

_IMPOSSIBLE = -1e30  # a log-probability of paths that are not there: finite, so that differences of two are no NaN


def _lengths(values, batch, name):
    lengths = [int(n) for n in (values.reshape(-1).tolist() if isinstance(values, Tensor) else values)]
    if len(lengths) != batch:
        raise RuntimeError(f"{name} must be of size batch_size")
    return lengths


def _ctc_rows(targets, lengths, batch):
    """The targets as rows of one length, padded with 0."""
    longest = max(lengths, default=0)
    if targets.dim() == 1:
        if targets.numel() < sum(lengths):
            raise RuntimeError(
                f"Expected tensor to have size at least {sum(lengths)} at dimension 0, but got size "
                f"{targets.numel()} for argument #2 'targets' (while checking arguments for ctc_loss_allocate_outputs)"
            )
        flat, rows = targets.tolist(), []
        for n in lengths:
            rows.append(flat[:n] + [0] * (longest - n))
            flat = flat[n:]
        return _C.tensor(rows, dtype=_C.int64).reshape(batch, longest)
    if targets.shape[1] < longest:
        raise RuntimeError(
            f"Expected tensor to have size at least {longest} at dimension 1, but got size {targets.shape[1]} for "
            "argument #2 'targets' (while checking arguments for ctc_loss_allocate_outputs)"
        )
    return targets[:, :longest].long()


def _shifted(alpha, by):
    """alpha moved `by` states to the right."""
    lost = alpha.new_full((alpha.shape[0], by), _IMPOSSIBLE)
    return _C.cat([lost, alpha[:, : max(alpha.shape[1] - by, 0)]], 1)[:, : alpha.shape[1]]


def _ctc_paths(log_probs, rows, input_lengths, target_lengths, blank):
    """Minus the log-probability of all paths that spell each row: the forward recursion, over (batch, states)."""
    steps, batch = log_probs.shape[:2]
    states = 2 * rows.shape[1] + 1
    labels = _C.full((batch, states), blank, dtype=_C.int64)
    labels[:, 1::2] = rows
    skip = labels != blank  # a label may follow another one directly if it differs from it
    skip[:, 2:] = skip[:, 2:] & (labels[:, 2:] != labels[:, :-2])
    skip[:, :2] = False
    state = _C.arange(states)
    emitted = log_probs.gather(2, labels.unsqueeze(0).expand(steps, batch, states))
    alpha = _C.where(state < 2, emitted[0], _IMPOSSIBLE)
    for t in range(1, steps):
        ways = [alpha, _shifted(alpha, 1), _C.where(skip, _shifted(alpha, 2), _IMPOSSIBLE)]
        moved = _C.stack(ways).logsumexp(0) + emitted[t]
        alpha = _C.where((input_lengths > t).unsqueeze(1), moved, alpha)
    last = 2 * target_lengths
    ends = (state == last.unsqueeze(1)) | (state == (last - 1).unsqueeze(1))
    return -_C.where(ends, alpha, _IMPOSSIBLE).logsumexp(1)


@looks_like("_ctc_loss")
def _ctc_each(log_probs, rows, inputs, outputs, blank):
    loss = _ctc_paths(log_probs, rows, inputs, outputs, blank)
    loss = _C.where(loss > -_IMPOSSIBLE / 2, math.inf, loss)
    # PyTorch's gradient is that of scores before log_softmax: it has the probabilities themselves in it.
    used = _C.arange(len(log_probs)).unsqueeze(1) < inputs
    own = log_probs.exp()
    return loss + _C.where(used.unsqueeze(2), own - own.detach(), 0.0).sum((0, 2))


def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    """Minus the log-probability of all ways to spell the targets, with repetitions and blanks, in the inputs' steps."""
    code = _code(reduction)
    single = log_probs.dim() == 2
    if single:
        log_probs = log_probs.unsqueeze(1)
    steps, batch, classes = log_probs.shape
    if log_probs.dtype not in (_C.float32, _C.float64):
        name = log_probs.type().rpartition(".")[2].replace("Tensor", "")
        raise NotImplementedError(f"\"ctc_loss_cpu\" not implemented for '{name}'")
    if not 0 <= blank < classes:
        raise RuntimeError("blank must be in label range")
    in_lengths, out_lengths = (
        _lengths(input_lengths, batch, "input_lengths"), _lengths(target_lengths, batch, "target_lengths")
    )  # fmt: skip
    for n in in_lengths:
        if n > steps:
            raise RuntimeError(
                f"Expected input_lengths to have value at most {steps}, but got value {n} (while checking arguments "
                "for ctc_loss_allocate_outputs)"
            )
    rows = _ctc_rows(targets.unsqueeze(0) if single and targets.dim() == 1 else targets, out_lengths, batch)
    inputs, outputs = _C.tensor(in_lengths), _C.tensor(out_lengths)
    loss = _ctc_each(log_probs, rows, inputs, outputs, blank)
    if zero_infinity:
        loss = _C.where(loss == math.inf, 0.0, loss)
    if code == 1:
        return (loss / outputs.clamp_min(1)).mean()
    return loss.sum() if code == 2 else loss.squeeze(0) if single else loss
