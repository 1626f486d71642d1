"""Functions over tensors that networks are made of: brisk._C._nn, and what takes Python's own kinds of arguments."""

import math
import warnings

from brisk import _C
from brisk._C import _nn
from brisk._C._nn import *  # noqa: F403  (the rows of the extension)
from brisk._C._nn import leaky_relu
from brisk._composed import looks_like as _looks_like
from brisk._missing import finder
from brisk.autograd.function import Function
from brisk.autograd.grad_mode import no_grad
from brisk.nn import _losses, _sampling, _windows
from brisk.nn._losses import *  # noqa: F403
from brisk.nn._sampling import *  # noqa: F403
from brisk.nn._windows import *  # noqa: F403

__all__ = [
    *_losses.__all__, *_sampling.__all__, *_windows.__all__, "alpha_dropout", "batch_norm", "bilinear",
    "cosine_similarity", "dropout", "dropout1d", "dropout2d", "dropout3d", "embedding", "embedding_bag",
    "feature_alpha_dropout", "gumbel_softmax", "instance_norm", "log_softmax", "normalize", "one_hot",
    "pairwise_distance", "rrelu", "celu_", "conv_tbc", "elu_", "hardtanh_", "leaky_relu_",
    "multi_head_attention_forward", "pdist", "relu_", "rrelu_", "selu_", "threshold_", "scaled_dot_product_attention",
    "softmax", "softmin", *(name for name in vars(_nn) if name[0] != "_"),
]  # fmt: skip


def _row_major(t):
    """t in memory in the order of its dimensions, those of one element too."""
    made = _C.empty(t.shape, dtype=t.dtype)
    return t if t.stride() == made.stride() else made.copy_(t)


def _rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False):
    if not training:
        result = leaky_relu(input, (lower + upper) / 2)
        return input.copy_(result) if inplace else _row_major(result)
    slopes, bent = _C.ones(input.shape, dtype=input.dtype), input.detach() <= 0
    bounds = _C.tensor([lower, upper], dtype=input.dtype).tolist()
    slopes[bent] = _C.empty(int(bent.sum()), dtype=_C.float64).uniform_(*bounds).to(input.dtype)
    result = _row_major(input * slopes)
    return input.copy_(result) if inplace else result


_rrelu_anew, _rrelu_in_place = _looks_like("rrelu")(_rrelu), _looks_like("rrelu_")(_rrelu)


def rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False):
    """leaky_relu with a slope drawn between two bounds; their mean when not training."""
    return (_rrelu_in_place if inplace else _rrelu_anew)(input, lower, upper, training, inplace)


def _check_probability(p):
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def dropout(input, p=0.5, training=True, inplace=False):
    """Zeroes each element with probability p and divides the others by 1 - p."""
    _check_probability(p)
    return (_C.dropout_ if inplace else _C.dropout)(input, p, training)


def alpha_dropout(input, p=0.5, training=False, inplace=False):
    """Dropout that keeps the mean and variance of what a SELU gives."""
    _check_probability(p)
    return (_C.alpha_dropout_ if inplace else _C.alpha_dropout)(input, p, training)


def normalize(input, p=2.0, dim=1, eps=1e-12, out=None):
    """input over its norm along dim, which is taken to be at least eps."""
    norm = input.norm(p, dim, keepdim=True).clamp_min(eps)
    return _C.div(input, norm.expand_as(input), out=out)


def cosine_similarity(x1, x2, dim=1, eps=1e-8):
    """The cosine of the angle between two vectors along dim."""
    if x1.shape != x2.shape:
        shape = (x1 + x2).shape
        x1, x2 = x1.expand(shape), x2.expand(shape)
    return ((x1 / _nn._lengths(x1, dim, eps)) * (x2 / _nn._lengths(x2, dim, eps))).sum(dim)


def pairwise_distance(x1, x2, p=2.0, eps=1e-6, keepdim=False):
    """The norm of x1 - x2 + eps along the last dimension."""
    return _nn._distance(x1, x2, p, eps, keepdim)


def _shorten_rows(weight, indices, max_norm, norm_type):
    """Rows in use that are longer than max_norm become that long, in place."""
    with no_grad():
        used = indices.reshape(-1).unique()
        rows = weight.detach()[used]
        norms = rows.norm(norm_type, -1, keepdim=True)
        weight.detach()[used] = _C.where(norms > max_norm, rows * (max_norm / (norms + 1e-7)), rows)


class _ByFrequency(Function):
    """The rows as they are; their gradients over how often each was used."""

    @staticmethod
    def forward(ctx, rows, counts):
        ctx.counts = counts
        return rows.view_as(rows)

    @staticmethod
    def backward(ctx, grad):
        return grad / ctx.counts, None


def embedding(input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    """The rows of weight that input names; the row padding_idx gets no gradient."""
    if padding_idx is not None and not -weight.shape[0] <= padding_idx < weight.shape[0]:
        raise AssertionError("Padding_idx must be within num_embeddings")
    if max_norm is not None:
        _shorten_rows(weight, input, max_norm, norm_type)
    if padding_idx is None and not scale_grad_by_freq:
        return _C.embedding(weight, input)
    return _embedding(weight, input, padding_idx, scale_grad_by_freq)


_EMBEDDING = _C._composed_row("_embedding")


def _embedding(weight, input, padding_idx, scale_grad_by_freq):
    """Rows whose gradients are not just added up."""
    begun = _C._call_begins((weight,))
    rows = _C.embedding(weight, input)
    if scale_grad_by_freq:
        counts = _C.bincount(input.reshape(-1), minlength=weight.shape[0])[input].unsqueeze(-1).to(weight.dtype)
        rows = _ByFrequency.apply(rows, counts)
        rows = _C._as_own(rows.view_as(rows))  # a record, which can have a name
    if padding_idx is not None:
        rows = _C.where((input == padding_idx % weight.shape[0]).unsqueeze(-1), rows.detach(), rows)
    return _C._looks_like(_EMBEDDING, begun, rows) if _C.is_grad_enabled() else rows


@_looks_like("embedding_bag", first=1)
def embedding_bag(
    input, weight, offsets=None, max_norm=None, norm_type=2, scale_grad_by_freq=False, mode="mean", sparse=False,
    per_sample_weights=None, include_last_offset=False, padding_idx=None,
):  # fmt: skip
    """Sums, means or maxima of the rows that each bag of indices names."""
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if per_sample_weights is not None:
        if mode != "sum":
            raise NotImplementedError(
                "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' "
                f"(got mode='{mode}'). Please open a feature request on GitHub."
            )
        if per_sample_weights.shape != input.shape:
            raise ValueError(
                f"embedding_bag: If per_sample_weights ({per_sample_weights.shape}) is not None, then it must have the "
                f"same shape as the input ({input.shape})"
            )
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length "
                f"sequences. However, found offsets of type {type(offsets)}"
            )
        starts = list(range(0, input.numel(), input.shape[1])) if input.shape[1] else [0] * input.shape[0]
        input = input.reshape(-1)
        per_sample_weights = None if per_sample_weights is None else per_sample_weights.reshape(-1)
    elif input.dim() == 1:
        if offsets is None:
            raise ValueError("offsets has to be a 1D Tensor but got None")
        if offsets.dim() != 1:
            raise ValueError("offsets has to be a 1D Tensor")
        starts = offsets.tolist()
        starts = starts[:-1] if include_last_offset else starts
        if starts and starts[0] != 0:
            raise ValueError(
                "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0."
            )
    else:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}")
    if max_norm is not None:
        _shorten_rows(weight, input, max_norm, norm_type)
    ends = [*starts[1:], input.shape[0]]
    rows = embedding(input, weight, padding_idx, scale_grad_by_freq=scale_grad_by_freq)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    if padding_idx is not None:
        keep = input != padding_idx % weight.shape[0]
    bags = []
    for a, b in zip(starts, ends):
        bag = rows[a:b]
        if padding_idx is not None:
            bag = bag[keep[a:b]]
        if not bag.shape[0]:
            bags.append(_C.zeros(weight.shape[1], dtype=weight.dtype))
        elif mode == "max":
            bags.append(bag.max(0)[0])
        else:
            bags.append(bag.sum(0) if mode == "sum" else bag.mean(0))
    return _C.stack(bags) if bags else _C.zeros((0, weight.shape[1]), dtype=weight.dtype)


def bilinear(input1, input2, weight, bias=None):
    """input1^T weight[k] input2 + bias[k] for every k."""
    if input1.shape[:-1] != input2.shape[:-1]:
        raise RuntimeError(
            f"bilinear(): input batch dimensions do not match: got {list(input1.shape)} and {list(input2.shape)}"
        )
    if input1.shape[-1] != weight.shape[1] or input2.shape[-1] != weight.shape[2]:
        raise RuntimeError(
            f"bilinear(): input sizes do not match weight: got {input1.shape[-1]}, {input2.shape[-1]} but expected "
            f"{weight.shape[1]}, {weight.shape[2]}"
        )
    out = _trilinear(input1, weight, input2)
    return out if bias is None else out + bias


@_looks_like("_trilinear", 3)
def _trilinear(input1, weight, input2):
    left = _nn.linear(input1, weight.permute(0, 2, 1).flatten(0, 1)).unflatten(-1, (weight.shape[0], weight.shape[2]))
    return (left * input2.unsqueeze(-2)).sum(-1)


def _check_enough(shape):
    count = shape[0]
    for n in shape[2:]:
        count *= n
    if count == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {shape}")


def batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    """Normalises each channel over the batch, or by the running statistics when not training."""
    if training:
        _check_enough(input.shape)
    return _nn._batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def instance_norm(
    input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5
):
    """Normalises each channel of each sample."""
    if use_input_stats and math.prod(input.shape[2:]) == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {input.shape}")
    return _nn._instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


def _feature_dropout(dims, name):
    def function(input, p=0.5, training=True, inplace=False):
        _check_probability(p)
        alone = input.dim() != dims + 2  # no batch: channels come first
        if input.dim() not in (dims + 1, dims + 2) and dims == 1:
            raise RuntimeError(f"{name}: Expected 2D or 3D input, but received a {input.dim()}D input.")
        if alone and dims != 2:
            input = input.unsqueeze_(0) if inplace else input.unsqueeze(0)
        result = (_C.feature_dropout_ if inplace else _C.feature_dropout)(input, p, training)
        if alone and dims != 2:
            result = result.squeeze_(0) if inplace else result.squeeze(0)
        return result

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "Zeroes whole channels with probability p and divides the others by 1 - p."
    return function


dropout1d = _feature_dropout(1, "dropout1d")
dropout2d = _feature_dropout(2, "dropout2d")
dropout3d = _feature_dropout(3, "dropout3d")


def feature_alpha_dropout(input, p=0.5, training=False, inplace=False):
    """alpha_dropout of whole channels."""
    _check_probability(p)
    return (_C.feature_alpha_dropout_ if inplace else _C.feature_alpha_dropout)(input, p, training)


def gumbel_softmax(logits, tau=1, hard=False, eps=1e-10, dim=-1):
    """A sample of a categorical distribution that gradients can pass; hard: one-hot, with the soft one's gradient."""
    noise = -_C.empty_like(logits).exponential_().log()
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    index = soft.max(dim, keepdim=True)[1]
    return _C.zeros_like(logits).scatter_(dim, index, 1.0) - soft.detach() + soft


def scaled_dot_product_attention(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False
):
    """softmax(query key^T scale + mask) value"""
    times = query.shape[-3] // key.shape[-3] if enable_gqa else 1
    return _nn._attention(query, key, value, attn_mask, dropout_p, is_causal, scale, times)


def multi_head_attention_forward(*args, **kwargs):
    """What nn.MultiheadAttention computes, with its weights as arguments."""
    from brisk.nn.modules.attention import _forward

    return _forward(*args, **kwargs)


def _in_place(name, function):
    def in_place(input, *args, **kwargs):
        return function(input, *args, **kwargs, inplace=True)

    in_place.__name__ = in_place.__qualname__ = name
    in_place.__doc__ = f"{name[:-1]}, in place."
    return _looks_like(name)(in_place)


relu_, elu_, selu_ = _in_place("relu_", _nn.relu), _in_place("elu_", _nn.elu), _in_place("selu_", _nn.selu)
celu_, hardtanh_ = _in_place("celu_", _nn.celu), _in_place("hardtanh_", _nn.hardtanh)
leaky_relu_, threshold_ = _in_place("leaky_relu_", leaky_relu), _in_place("threshold_", _nn.threshold)
rrelu_ = _in_place("rrelu_", rrelu)


def pdist(input, p=2.0):
    """The distances between each two rows: those of the upper triangle of cdist(input, input), in a row."""
    if input.dim() != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.dim()}D")
    return _pdist(input.contiguous(), p)


@_looks_like("pdist")
def _pdist(input, p):
    first, second = _C.triu_indices(len(input), len(input), 1)
    return (input[first] - input[second]).norm(p, -1)


def conv_tbc(input, weight, bias, pad=0):
    """conv1d over (time, batch, channels), its weight (width, in, out)."""
    return _nn.conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad).permute(2, 0, 1)


def one_hot(tensor, num_classes=-1):
    """int64 rows that are 1 at the given class and 0 elsewhere."""
    if tensor.dtype != _C.int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if tensor.numel() == 0:
        if num_classes <= 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        return _C.zeros((*tensor.shape, num_classes), dtype=_C.int64)
    if tensor.min().item() < 0:
        raise RuntimeError("Class values must be non-negative.")
    highest = tensor.max().item()
    if num_classes == -1:
        num_classes = highest + 1
    elif num_classes < 1:
        raise RuntimeError("num_classes should be positive")
    elif highest >= num_classes:
        raise RuntimeError("Class values must be smaller than num_classes.")
    rows = _row_major((tensor.unsqueeze(-1) == _C.arange(num_classes)).long())
    return _C._written_often(rows, 2)  # zeros, then ones


def _softmax_dim(name, ndim, stacklevel):
    """The dimension that was meant before it had to be named."""
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        stacklevel=stacklevel,
    )
    return 0 if ndim in (0, 1, 3) else 1


def softmax(input, dim=None, _stacklevel=3, dtype=None):
    """Exponentials over their sum along dim."""
    if dim is None:
        dim = _softmax_dim("softmax", input.dim(), _stacklevel)
    return _C.softmax(input, dim, dtype=dtype)


def softmin(input, dim=None, _stacklevel=3, dtype=None):
    """softmax of -input."""
    if dim is None:
        dim = _softmax_dim("softmin", input.dim(), _stacklevel)
    return _C.softmax(-input, dim, dtype=dtype)


def log_softmax(input, dim=None, _stacklevel=3, dtype=None):
    """The logarithm of softmax, computed without its rounding."""
    if dim is None:
        dim = _softmax_dim("log_softmax", input.dim(), _stacklevel)
    return _C.log_softmax(input, dim, dtype=dtype)


__getattr__ = finder(__name__)
