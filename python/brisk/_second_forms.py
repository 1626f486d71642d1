"""Second forms of what is there: functions that change their first argument, views as copies, plain names of layers.

`fill_(x, 3)` is `x.fill_(3)`; `t_copy(x)` is `x.t().clone()`. They are looked up when they are first named."""

from brisk import _C
from brisk._composed import looks_like

_IN_PLACE = "addmv_ as_strided_ clamp_max_ clamp_min_ fill_ gcd_ lcm_ ldexp_ xlogy_ zero_"
_VIEWS = """
    as_strided diagonal expand permute select slice split split_with_sizes squeeze t transpose unbind unfold
    unsqueeze view
"""
IN_PLACE = frozenset(_IN_PLACE.split())
COPIES = {f"{name}_copy": name for name in _VIEWS.split()}


def _in_place(name):
    def function(input, *args, **kwargs):
        return getattr(input, name)(*args, **kwargs)

    function.__doc__ = f"The method {name}."
    return function


def _slice(input, dim=0, start=None, end=None, step=1):
    return input[(slice(None),) * (dim % input.dim()) + (slice(start, end, step),)]


def _copy_of(name):
    def function(input, *args, **kwargs):
        view = _slice(input, *args, **kwargs) if name == "slice" else getattr(input, name)(*args, **kwargs)
        if isinstance(view, (tuple, list)):
            return tuple(v.clone(memory_format=_C.contiguous_format) for v in view)
        return view.clone(memory_format=_C.contiguous_format)

    function.__doc__ = f"{name}, as a copy."
    return looks_like(_squeezing if name == "squeeze" else f"{name}_copy")(function)


def _squeezing(input, *args, **kwargs):
    """PyTorch has a function for each form."""
    given = (*args, *kwargs.values())
    one = given and isinstance(given[0], int)
    return "_squeeze_copy_dim" if one else "_squeeze_copy_dims" if given else "squeeze_copy"


def detach_copy(input):
    """A copy, which PyTorch has on the tape without a gradient."""
    return _without_derivative("detach_copy", input.detach().clone(), input)


def _without_derivative(function, result, input):
    _C._without_derivative(function, [result], [input])
    return result


@looks_like("alias_copy")
def alias_copy(input):
    """A copy."""
    return input.clone()


def adaptive_max_pool1d(input, output_size):
    """(nn.functional.adaptive_max_pool1d, the places of what it took)"""
    from brisk.nn.functional import adaptive_max_pool1d_with_indices

    return adaptive_max_pool1d_with_indices(input, output_size)


def constant_pad_nd(input, pad, value=0):
    """nn.functional.pad with a constant."""
    from brisk.nn.functional import pad as padded

    return padded(input, list(pad), "constant", value)


@looks_like("_fill_with", 2)
@looks_like("_fill_by_number")
def fill(input, value):
    """A tensor of the same shape that holds value everywhere."""
    return input.clone().fill_(value)


@looks_like("frobenius_norm")
def frobenius_norm(input, dim=(), keepdim=False):
    """The root of the sum of squares, over dimensions or all."""
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    return input.square().sum(dims or tuple(range(input.dim())), keepdim).sqrt()


def i0(input, *, out=None):
    """special.i0."""
    from brisk import special

    return special.i0(input, out=out)


@looks_like("i0_")
def i0_(input):
    """special.i0, in place."""
    return input.copy_(i0(input))


def kaiser_window(window_length, periodic=True, beta=12.0, *, dtype=None, requires_grad=False, **where):
    """Kaiser's window: i0 of a half circle."""
    kind = dtype or _C.get_default_dtype()
    if window_length < 2:
        return _C.ones(window_length, dtype=kind, requires_grad=requires_grad)
    at = _C.arange(window_length, dtype=_C.float64) * (2.0 / (window_length - (not periodic))) - 1
    window = i0(beta * (1 - at.square()).clamp(min=0).sqrt()) / i0(_C.tensor(beta, dtype=_C.float64))
    return _C._as_leaf(window.to(kind), requires_grad)


def index_reduce(input, dim, index, source, reduce, *, include_self=True):
    """index_add with prod, mean, amax or amin."""
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}.")
    shape = [1] * input.dim()
    shape[dim] = -1
    places = index.view(shape).expand_as(source)
    return _index_reduced(input, source, dim, places, reduce, include_self)


def index_reduce_(input, dim, index, source, reduce, *, include_self=True):
    """index_reduce, in place."""
    return _index_reduced_(input, source, dim, index, reduce, include_self)


@looks_like("_index_reduce_", 2)
def _index_reduced_(input, source, dim, index, reduce, include_self):
    return input.copy_(index_reduce(input, dim, index, source, reduce, include_self=include_self))


@looks_like("_index_reduce", 2)
def _index_reduced(input, source, dim, places, reduce, include_self):
    return input.scatter_reduce(dim, places, source, reduce, include_self=include_self)


def unsafe_split_with_sizes(input, split_sizes, dim=0):
    """split_with_sizes; views may be written to here in any case."""
    return _C._unsafe_split(input, list(split_sizes), dim)


def nonzero_static(input, *, size, fill_value=-1):
    """The first `size` places that are not zero, and fill_value for those that are missing."""
    places = input.nonzero()[:size]
    rest = _C.full((size - places.shape[0], places.shape[1]), fill_value, dtype=_C.int64)
    return _C.cat([places, rest])


@looks_like("frobenius_norm")
def _norms(rows, pow, dim):
    return rows.norm(pow, dim)


def norm_except_dim(v, pow=2, dim=0):
    """The norm over all dimensions but one, which the result keeps."""
    if dim == -1:
        return v.norm(pow)
    if dim == 0:
        return _norms(v.contiguous().view(v.shape[0], -1), pow, 1).view(-1, *(1,) * (v.dim() - 1))
    if dim == v.dim() - 1:
        return _norms(v.contiguous().view(-1, v.shape[-1]), pow, 0).view(*(1,) * (v.dim() - 1), -1)
    return norm_except_dim(v.transpose(0, dim), pow, 0).transpose(0, dim)


def empty_permuted(size, physical_layout, *, dtype=None, requires_grad=False, **where):
    """A tensor whose dimensions lie in memory in the order of physical_layout."""
    made = _C.empty([size[d] for d in physical_layout], dtype=dtype or _C.get_default_dtype())
    order = [list(physical_layout).index(d) for d in range(len(size))]
    return _C._as_leaf(made.permute(order), requires_grad)


def cond(pred, true_fn, false_fn, operands=()):
    """true_fn(*operands) or false_fn(*operands)."""
    return (true_fn if bool(pred) else false_fn)(*operands)


# --- the functions behind layers -------------------------------------------------------------------------------------


def _cell(kind, input, h, c, *weights):
    from brisk._C import _nn

    return _nn._rnn_step(kind, input, h, c, *weights)


def rnn_tanh_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step of an RNN with tanh."""
    return _cell(0, input, hx, None, w_ih, w_hh, b_ih, b_hh)


def rnn_relu_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step of an RNN with relu."""
    return _cell(1, input, hx, None, w_ih, w_hh, b_ih, b_hh)


def lstm_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step of an LSTM: (h, c)."""
    return _cell(2, input, *hx, w_ih, w_hh, b_ih, b_hh)


def gru_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step of a GRU."""
    return _cell(3, input, hx, None, w_ih, w_hh, b_ih, b_hh)


def convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    """A convolution of one, two or three dimensions, or its transpose."""
    from brisk.nn import functional

    name = f"conv{'_transpose' if transposed else ''}{weight.dim() - 2}d"
    if transposed:
        return getattr(functional, name)(input, weight, bias, stride, padding, output_padding, groups, dilation)
    return getattr(functional, name)(input, weight, bias, stride, padding, dilation, groups)


def grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners):
    """nn.functional.grid_sample, with the modes as numbers."""
    from brisk.nn import functional

    modes, paddings = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")
    return functional.grid_sample(input, grid, modes[interpolation_mode], paddings[padding_mode], align_corners)


grid_sampler_2d = grid_sampler_3d = grid_sampler


def affine_grid_generator(theta, size, align_corners):
    """nn.functional.affine_grid."""
    from brisk.nn import functional

    return functional.affine_grid(theta, size, align_corners)


def native_channel_shuffle(input, groups):
    """nn.functional.channel_shuffle."""
    from brisk.nn import functional

    return _without_derivative("native_channel_shuffle", functional.channel_shuffle(input.detach(), groups), input)


@looks_like("native_dropout")
def native_dropout(input, p, train):
    """(what dropout leaves, the mask of what it has left)"""
    if not train:
        return input.clone(), _C.ones_like(input, dtype=_C.bool)
    mask = _C.empty_like(input).bernoulli_(1 - p)
    return input * mask * (1 / (1 - p) if p < 1 else 0.0), mask.bool()


def native_layer_norm(input, normalized_shape, weight, bias, eps):
    """(layer_norm, the means, the reciprocals of the deviations)"""
    from brisk.nn import functional

    dims = tuple(range(input.dim() - len(normalized_shape), input.dim()))
    variance, mean = _C.var_mean(input, dims, correction=0, keepdim=True)
    return functional.layer_norm(input, normalized_shape, weight, bias, eps), mean, (variance + eps).rsqrt()


def native_group_norm(input, weight, bias, N, C, HxW, group, eps):  # noqa: N803  (PyTorch's names)
    """(group_norm, the means, the reciprocals of the deviations)"""
    from brisk.nn import functional

    variance, mean = _C.var_mean(input.reshape(N, group, -1), 2, correction=0)
    return functional.group_norm(input, group, weight, bias, eps), mean, (variance + eps).rsqrt()


def native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps):
    """(batch_norm, the means, the reciprocals of the deviations)"""
    from brisk.nn import functional

    dims = (0, *range(2, input.dim()))
    variance, mean = _C.var_mean(input.detach(), dims, correction=0)
    result = functional.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    none = input.new_empty(0)
    return (result, mean, (variance + eps).rsqrt()) if training else (result, none, none)


# Losses as in nn.functional, with the reduction as a number: 1 for the mean, 2 for the sum, others for none. Who gives
# none gets none in PyTorch, too, although its signatures say that it is the mean.


def _loss(name, reduction, *args, **kwargs):
    from brisk.nn import functional

    if not isinstance(reduction, int):
        raise TypeError(f"{name}(): argument 'reduction' must be int, not {type(reduction).__name__}")
    word = {1: "mean", 2: "sum"}.get(reduction, "none")
    return getattr(functional, name)(*args, reduction=word, **kwargs)


def binary_cross_entropy_with_logits(input, target, weight=None, pos_weight=None, reduction=0):
    """nn.functional.binary_cross_entropy_with_logits."""
    return _loss("binary_cross_entropy_with_logits", reduction, input, target, weight=weight, pos_weight=pos_weight)


def cosine_embedding_loss(input1, input2, target, margin=0.0, reduction=0):
    """nn.functional.cosine_embedding_loss."""
    return _loss("cosine_embedding_loss", reduction, input1, input2, target, margin)


def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction=0, zero_infinity=False):
    """nn.functional.ctc_loss."""
    lengths = input_lengths, target_lengths
    return _loss("ctc_loss", reduction, log_probs, targets, *lengths, blank=blank, zero_infinity=zero_infinity)


def hinge_embedding_loss(input, target, margin=1.0, reduction=0):
    """nn.functional.hinge_embedding_loss."""
    return _loss("hinge_embedding_loss", reduction, input, target, margin)


def kl_div(input, target, reduction=0, *, log_target=False):
    """nn.functional.kl_div."""
    return _loss("kl_div", reduction, input, target, log_target=log_target)


def margin_ranking_loss(input1, input2, target, margin=0.0, reduction=0):
    """nn.functional.margin_ranking_loss."""
    return _loss("margin_ranking_loss", reduction, input1, input2, target, margin)


def poisson_nll_loss(input, target, log_input, full, eps, reduction):
    """nn.functional.poisson_nll_loss."""
    return _loss("poisson_nll_loss", reduction, input, target, log_input, full, eps=eps)


def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False, reduction=0):
    """nn.functional.triplet_margin_loss."""
    return _loss("triplet_margin_loss", reduction, anchor, positive, negative, margin, p, eps, swap)


def nuclear_norm(input, dim=None, keepdim=False):
    """The sum of the singular values."""
    from brisk import linalg

    return linalg.matrix_norm(input, "nuc", dim=(-2, -1) if dim is None else tuple(dim), keepdim=keepdim)


def __getattr__(name):
    if name in IN_PLACE:
        function = _in_place(name)
    elif name in COPIES:
        function = _copy_of(COPIES[name])
    else:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    function.__name__ = function.__qualname__ = name
    globals()[name] = function
    return function
