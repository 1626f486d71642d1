"""Second forms of what is there: functions that change their first argument, views as copies, plain names of layers.

`fill_(x, 3)` is `x.fill_(3)`; `t_copy(x)` is `x.t().clone()`. They are looked up when they are first named."""

from brisk import _C

_IN_PLACE = "addmv_ as_strided_ clamp_max_ clamp_min_ fill_ gcd_ lcm_ ldexp_ xlogy_ zero_"
_VIEWS = """
    as_strided detach diagonal expand permute select slice split split_with_sizes squeeze t transpose unbind unfold
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
        return tuple(v.clone() for v in view) if isinstance(view, (tuple, list)) else view.clone()

    function.__doc__ = f"{name}, as a copy."
    return function


def alias_copy(input):
    """A copy."""
    return input.clone()


def constant_pad_nd(input, pad, value=0):
    """nn.functional.pad with a constant."""
    from brisk.nn.functional import pad as padded

    return padded(input, list(pad), "constant", value)


def fill(input, value):
    """A tensor of the same shape that holds value everywhere."""
    if isinstance(value, _C.Tensor):
        return value.to(input.dtype).expand(input.shape).clone()
    return _C.full_like(input, value)


def frobenius_norm(input, dim=(), keepdim=False):
    """The root of the sum of squares, over dimensions or all."""
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    return input.square().sum(dims or tuple(range(input.dim())), keepdim).sqrt()


def i0(input, *, out=None):
    """special.i0."""
    from brisk import special

    return special.i0(input, out=out)


def kl_div(input, target, reduction=1, *, log_target=False):
    """nn.functional.kl_div, with the reduction as a number: 0 for none, 1 for the mean, 2 for the sum."""
    from brisk.nn import functional

    return functional.kl_div(input, target, reduction=("none", "mean", "sum")[reduction], log_target=log_target)


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
