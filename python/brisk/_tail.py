"""The long tail of functions and methods: what is rare enough to be composed in Python.

Each is a function of the package; those that are methods too take the tensor first and are set on Tensor at the end."""

import importlib
import math

from brisk import _C
from brisk._C import Tensor
from brisk._composed import looks_like
from brisk._missing import Absent
from brisk._out import fill as _fill
from brisk.autograd import Function
from brisk.linalg import _named

__all__ = [
    "angle", "are_deterministic_algorithms_enabled", "as_strided_scatter", "bartlett_window", "conj_physical",
    "cumulative_trapezoid", "diagonal_scatter", "dsplit", "e", "frexp", "gcd", "get_deterministic_debug_mode",
    "get_device", "get_float32_matmul_precision", "get_num_interop_threads", "gradient", "histogram", "hsplit",
    "imag", "inf", "is_deterministic_algorithms_warn_only_enabled", "is_nonzero", "is_storage",
    "is_warn_always_enabled", "isreal", "lcm", "ldexp", "mvlgamma", "nan", "narrow_copy", "newaxis", "pi", "real",
    "renorm", "resize_as_", "select_scatter", "set_deterministic_debug_mode", "set_float32_matmul_precision",
    "set_flush_denormal", "set_num_interop_threads", "set_warn_always", "slice_scatter", "trapezoid", "trapz",
    "typename", "unsafe_chunk", "unsafe_split", "use_deterministic_algorithms", "vsplit",
]  # fmt: skip

pi, e, inf, nan, newaxis = math.pi, math.e, math.inf, math.nan, None

# --- settings that change nothing here: results are the same in every run, and at any number of threads --------------

_deterministic, _precision, _warn_always = [False], ["highest"], [False]


def use_deterministic_algorithms(mode, *, warn_only=False):
    """Remembered; all algorithms are deterministic."""
    _deterministic[0] = bool(mode)


def are_deterministic_algorithms_enabled():
    """What use_deterministic_algorithms was told."""
    return _deterministic[0]


def is_deterministic_algorithms_warn_only_enabled():
    """False: nothing is there to warn of."""
    return False


def set_deterministic_debug_mode(debug_mode):
    """Remembered; all algorithms are deterministic."""
    _deterministic[0] = debug_mode not in (0, "default")


def get_deterministic_debug_mode():
    """0, or 2 where deterministic algorithms were asked for."""
    return 2 if _deterministic[0] else 0


def set_float32_matmul_precision(precision):
    """Remembered; products of float32 are computed in float32."""
    _precision[0] = precision


def get_float32_matmul_precision():
    """What set_float32_matmul_precision was told."""
    return _precision[0]


def set_flush_denormal(mode):
    """Not possible: numbers below the smallest normal one are kept."""
    return False


def set_num_interop_threads(threads):
    """Nothing: there is one pool of threads."""


def get_num_interop_threads():
    """1: there is one pool of threads."""
    return 1


def set_warn_always(on):
    """Remembered."""
    _warn_always[0] = bool(on)


def is_warn_always_enabled():
    """What set_warn_always was told."""
    return _warn_always[0]


# --- questions --------------------------------------------------------------------------------------------------------


def typename(obj):
    """The name of a type or of an object's type; a tensor's is its legacy one."""
    if isinstance(obj, Tensor):
        return obj.type()
    kind = obj if isinstance(obj, type) or callable(obj) and hasattr(obj, "__qualname__") else type(obj)
    module = "" if kind.__module__ in (None, "builtins") else kind.__module__ + "."
    return module + kind.__qualname__


def is_nonzero(input):
    """Whether the one element of input is not 0."""
    if input.numel() != 1:
        raise RuntimeError(
            "Boolean value of Tensor with no values is ambiguous" if input.numel() == 0
            else "Boolean value of Tensor with more than one value is ambiguous"
        )  # fmt: skip
    return bool(input)


def is_storage(obj):
    """Whether obj is the memory of tensors."""
    return type(obj).__name__ in ("UntypedStorage", "TypedStorage")


def isreal(input):
    """True everywhere: there are no complex numbers."""
    return _C.ones_like(input, dtype=_C.bool)


def real(input):
    """The tensor itself: there are no complex numbers."""
    return input


def imag(input):
    """An error: there are no complex numbers."""
    raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")


@looks_like("angle")
def angle(input, *, out=None):
    """pi below zero, else 0; nan stays."""
    x = input if input.is_floating_point() else input.to(_C.get_default_dtype())
    half_turns = _C.where(x < 0, math.pi, 0.0).to(x.dtype).masked_fill(x.isnan(), math.nan)
    return _fill("angle", out, half_turns + _C.zeros_like(x) * x.sign())


def conj_physical(input):
    """The tensor itself: there are no complex numbers."""
    return input


def _to_dense(self, dtype=None, *, masked_grad=None):
    """The tensor itself: all are dense."""
    return self if dtype is None else self.to(dtype)


def get_device(input):
    """-1: the CPU."""
    return -1


# --- parts -----------------------------------------------------------------------------------------------------------


def _split_at(input, where, dim):
    return input.tensor_split(where, dim)


def _parts_of(name, indices_or_sections, indices, sections):
    """The one of the three that was given: PyTorch has two forms, and names for both."""
    given = [v for v in (indices_or_sections, indices, sections) if v is not None]
    if len(given) != 1:
        raise TypeError(f"{name}() takes indices or sections, and one of them")
    return given[0]


def hsplit(input, indices_or_sections=None, *, indices=None, sections=None):
    """Parts along the second dimension, of a 1-d tensor the first."""
    if input.dim() < 1:
        raise RuntimeError(
            "torch.hsplit requires a tensor with at least 1 dimension, but got a tensor with 0 dimensions!"
        )
    parts = _parts_of("hsplit", indices_or_sections, indices, sections)
    return _split_at(input, parts, 0 if input.dim() == 1 else 1)


def vsplit(input, indices_or_sections=None, *, indices=None, sections=None):
    """Parts along the first dimension."""
    if input.dim() < 2:
        raise RuntimeError("torch.vsplit requires a tensor with at least 2 dimensions")
    return _split_at(input, _parts_of("vsplit", indices_or_sections, indices, sections), 0)


def dsplit(input, indices_or_sections=None, *, indices=None, sections=None):
    """Parts along the third dimension."""
    if input.dim() < 3:
        raise RuntimeError("torch.dsplit requires a tensor with at least 3 dimensions")
    return _split_at(input, _parts_of("dsplit", indices_or_sections, indices, sections), 2)


def unsafe_split(input, split_size, dim=0):
    """split."""
    return _C._unsafe_split(input, split_size, dim)


def unsafe_chunk(input, chunks, dim=0):
    """chunk."""
    return _C._unsafe_chunk(input, chunks, dim)


@looks_like("narrow_copy")
def narrow_copy(input, dim, start, length):
    """narrow, in memory of its own."""
    return input.narrow(dim, start, length).clone()


def _scattered(input, view_of, src):
    result = input.clone()
    view_of(result).copy_(src)
    return _C._finished(result)


@looks_like("select_scatter", 2)
def select_scatter(input, src, dim, index):
    """input with one slice replaced by src."""
    return _scattered(input, lambda x: x.select(dim, index), src)


@looks_like("slice_scatter", 2)
def slice_scatter(input, src, dim=0, start=None, end=None, step=1):
    """input with input[start:end:step] along dim replaced by src."""
    where = [slice(None)] * input.dim()
    where[dim] = slice(start, end, step)
    return _scattered(input, lambda x: x[tuple(where)], src)


@looks_like("diagonal_scatter", 2)
def diagonal_scatter(input, src, offset=0, dim1=0, dim2=1):
    """input with a diagonal replaced by src."""
    return _scattered(input, lambda x: x.diagonal(offset, dim1, dim2), src)


def as_strided_scatter(input, src, size, stride, storage_offset=None):
    """input with the elements of as_strided replaced by src."""
    return _scattered(input, lambda x: x.as_strided(size, stride, storage_offset or 0), src)


def resize_as_(input, the_template, *, memory_format=None):
    """input with the sizes of another tensor."""
    return input.resize_(the_template.shape)


# --- numbers ---------------------------------------------------------------------------------------------------------


def _by_numpy(function, *tensors):
    import numpy as np

    results = function(*[t.detach().numpy() for t in tensors])
    if isinstance(results, tuple):
        return [_C.from_numpy(np.ascontiguousarray(r)) for r in results]
    return _C.from_numpy(np.asarray(results))


def _of_integers(name, input, other):
    """A function of NumPy's of two tensors of integers, by PyTorch's rules of types."""
    import numpy as np

    for position, (word, t) in enumerate([("input", input), ("other", other)], 1):
        if not isinstance(t, _C.Tensor):
            raise TypeError(f"{name}(): argument '{word}' (position {position}) must be Tensor, not {type(t).__name__}")
    dtype = _C.result_type(input, other)
    if dtype.is_floating_point or dtype == _C.bool:
        kind = _C.empty(0, dtype=dtype).type().removeprefix("torch.").removesuffix("Tensor")
        raise NotImplementedError(f"\"{name}_cpu\" not implemented for '{kind}'")
    return _by_numpy(getattr(np, name), input.to(dtype), other.to(dtype))


def gcd(input, other, *, out=None):
    """The greatest common divisors of integers."""
    return _fill("gcd", out, _of_integers("gcd", input, other))


def lcm(input, other, *, out=None):
    """The least common multiples of integers."""
    return _fill("lcm", out, _of_integers("lcm", input, other))


def frexp(input, *, out=None):
    """The mantissa and the exponent of each number."""
    return _fill("frexp", out, _Frexp(*_FrexpBackward0.apply(input)))


class _FrexpBackward0(Function):
    @staticmethod
    def forward(ctx, input):
        import numpy as np

        mantissa, exponent = _by_numpy(np.frexp, input)
        ctx.exponent = exponent.to(_C.int32)
        ctx.mark_non_differentiable(ctx.exponent)
        return mantissa, ctx.exponent

    @staticmethod
    def backward(ctx, g, _):
        return ldexp(g, -ctx.exponent)


def ldexp(input, other, *, out=None):
    """input * 2 ** other"""
    return _fill("ldexp", out, _ldexp(input, other if isinstance(other, Tensor) else _C.tensor(other)))


@looks_like("ldexp", 2)
def _ldexp(input, other):
    if input.is_floating_point() and not other.is_floating_point():
        if other.dtype == _C.bool:
            raise NotImplementedError("\"ldexp_cpu\" not implemented for 'Bool'")
        result = (input.double() * _C.pow(2.0, other.double())).to(input.dtype)  # which holds powers float32 does not
    else:
        result = input * _C.pow(2.0, other)
    like = _C.empty_like(input, dtype=result.dtype)  # PyTorch makes room for the result first
    alike = like.shape != result.shape or like.stride() == result.stride()
    return result if alike else like.copy_(result)


@looks_like("mvlgamma")
def mvlgamma(input, p, *, out=None):
    """The logarithm of the multivariate gamma function."""
    steps = _C.arange(p, dtype=input.dtype) / 2
    result = (input.unsqueeze(-1) - steps).lgamma().sum(-1) + p * (p - 1) / 4 * math.log(math.pi)
    return _fill("mvlgamma", out, result)


@looks_like("renorm")
def renorm(input, p, dim, maxnorm, *, out=None):
    """Slices along dim whose norm is more than maxnorm, made that long."""
    norms = input.transpose(0, dim).flatten(1).norm(p, 1) if input.dim() > 1 else input.abs()
    scale = _C.where(norms > maxnorm, maxnorm / (norms + 1e-7), _C.ones_like(norms))
    shape = [1] * input.dim()
    shape[dim] = -1
    result = input * scale.view(shape)
    made = _C.empty(result.shape, dtype=result.dtype)  # row-major, as PyTorch's is
    return _fill("renorm", out, result if result.stride() == made.stride() else made.copy_(result))


def _gaps(y, x, dim):
    if x.dim() == 1:
        shape = [1] * y.dim()
        shape[dim] = -1
        x = x.view(shape)
    elif x.dim() < y.dim():
        x = x.view(*[1] * (y.dim() - x.dim()), *x.shape)
    return x.diff(dim=dim)


def _neighbours(y, dim):
    size = y.shape[dim]
    return y.narrow(dim, 1, size - 1) + y.narrow(dim, 0, size - 1)


@looks_like("_mul_number")
def _scaled(t, number):
    return t * number


@looks_like("_div_number")
def _divided(t, number):
    return t / number


def trapezoid(y, x=None, *, dx=None, dim=-1):
    """The area under y by the trapezoidal rule."""
    if x is not None:
        return _divided((_neighbours(y, dim) * _gaps(y, x, dim)).sum(dim), 2)
    ends = y.select(dim, 0) + y.select(dim, -1) if y.shape[dim] else 0
    return _scaled(y.sum(dim) - _scaled(ends, 0.5), 1 if dx is None else dx)


trapz = trapezoid


def cumulative_trapezoid(y, x=None, *, dx=None, dim=-1):
    """The areas up to each place by the trapezoidal rule."""
    if x is not None:
        return _divided((_neighbours(y, dim) * _gaps(y, x, dim)).cumsum(dim), 2)
    return _scaled(_neighbours(y, dim), (1 if dx is None else dx) / 2).cumsum(dim)


def _steps_of(input, spacing, dims, dim_given):
    """The distance, or the coordinates, of each dimension."""
    if isinstance(spacing, Tensor) and spacing.dim() == 0:
        spacing = spacing.item()
    if isinstance(spacing, (int, float)):
        return [spacing] * len(dims)
    given = list(spacing)
    if not dim_given and len(given) != input.dim():
        raise RuntimeError(
            "torch.gradient expected spacing to be unspecified, a scalar, or a list of length equal to 'self.dim() = "
            f"{input.dim()}', since dim argument was not given, but got a list of length {len(given)}"
        )
    if len(given) != len(dims):
        raise RuntimeError(
            "torch.gradient expected spacing to be unspecified, a scalar or it's spacing and dim arguments to have "
            f"the same length, but got a spacing argument of length {len(given)} and a dim argument of length "
            f"{len(dims)}."
        )
    return given


def _parts_at(input, dim, *places):
    """What stands at places along a dimension, with the dimension; those below 0 count from its end."""
    return [input.narrow(dim, p % input.shape[dim], 1) for p in places]


def _even_gradient(input, d, step, edge_order):
    n = input.shape[d]
    inside = _divided(_divided(input.narrow(d, 2, n - 2) - input.narrow(d, 0, n - 2), step), 2)
    if edge_order == 1:
        a, b, y, z = _parts_at(input, d, 0, 1, -2, -1)
        return _C.cat([_divided(b - a, step), inside, _divided(z - y, step)], d)
    a, b, c, x, y, z = _parts_at(input, d, 0, 1, 2, -3, -2, -1)
    first = _scaled(a, -1.5) + _scaled(b, 2) - _scaled(c, 0.5)
    last = _scaled(x, 0.5) - _scaled(y, 2) + _scaled(z, 1.5)
    return _C.cat([_divided(first, step), inside, _divided(last, step)], d)


def _three(weights, parts):
    (a, b, c), (x, y, z) = weights, parts
    return a * x + b * y + c * z


def _uneven_gradient(input, d, places, edge_order):
    """The slopes of parabolas through three neighbours."""
    if places.dim() != 1:
        raise RuntimeError(
            "torch.gradient expected each element of spacing to have one dimension, but got an element with "
            f"{places.dim()} dimensions!"
        )
    n, shape = input.shape[d], [1] * input.dim()
    shape[d] = -1
    gaps = places.diff()
    left, right = gaps[:-1], gaps[1:]
    weights = -right / (left * (left + right)), (right - left) / (left * right), left / (right * (left + right))
    inside = _three([w.reshape(shape) for w in weights], [input.narrow(d, k, n - 2) for k in range(3)])
    if edge_order == 1:
        a, b, y, z = _parts_at(input, d, 0, 1, -2, -1)
        return _C.cat([(b - a) / gaps[0], inside, (z - y) / gaps[-1]], d)
    g, h = gaps[0], gaps[1]
    weights = -(2 * g + h) / (g * (g + h)), (g + h) / (g * h), -g / (h * (g + h))
    first = _three(weights, _parts_at(input, d, 0, 1, 2))
    g, h = gaps[-1], gaps[-2]
    weights = g / (h * (g + h)), -(g + h) / (g * h), (2 * g + h) / (g * (g + h))
    last = _three(weights, _parts_at(input, d, -3, -2, -1))
    return _C.cat([first, inside, last], d)


def gradient(input, *, spacing=1, dim=None, edge_order=1):
    """Differences of neighbours over their distance: central ones inside, one-sided ones at the ends.

    spacing: the distance, one for each dimension, or coordinates as tensors of one dimension each."""
    if input.dtype == _C.uint8:
        raise RuntimeError("torch.gradient does not support uint8 input.")
    dims = range(input.dim()) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    steps = _steps_of(input, spacing, dims, dim is not None)
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    wrapped = [d % max(input.dim(), 1) for d in dims]
    for d in wrapped:
        if wrapped.count(d) > 1:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
    if any(input.size(d) < edge_order + 1 for d in dims):
        raise RuntimeError("torch.gradient expected each dimension size to be at least edge_order+1")
    along = [_uneven_gradient if isinstance(step, Tensor) else _even_gradient for step in steps]
    return tuple(f(input, d, step, edge_order) for f, d, step in zip(along, dims, steps))


def histogram(input, bins=100, *, range=None, weight=None, density=False, out=None):
    """Counts and edges of bins."""
    import numpy as np

    given = [t for t in (input, bins, weight) if isinstance(t, Tensor)]
    edges = bins.detach().numpy() if isinstance(bins, Tensor) else bins
    weights = None if weight is None else weight.detach().numpy()
    counts, at = np.histogram(input.detach().numpy(), edges, range, weights=weights, density=density)
    result = _Histogram(_C.from_numpy(counts).to(input.dtype), _C.from_numpy(at).to(input.dtype))
    _C._without_derivative("histogram", list(result), given)
    return _fill("histogram", out, result)


def bartlett_window(window_length, periodic=True, *, dtype=None, requires_grad=False, **where):
    """A window that rises and falls in straight lines."""
    if window_length < 2:
        return _C.ones(window_length, dtype=dtype, requires_grad=requires_grad, **where)
    n = window_length + 1 if periodic else window_length
    w = 1 - (2 * _C.arange(n, dtype=dtype or _C.get_default_dtype()) / (n - 1) - 1).abs()
    w = w[:-1].clone() if periodic else w
    return _C._as_leaf(w) if requires_grad else w


# --- methods ---------------------------------------------------------------------------------------------------------


def _fill_diagonal_(self, fill_value, wrap=False):
    """Writes a number along the main diagonal, in place; wrap: again below a tall matrix."""
    if self.dim() < 2:
        raise RuntimeError("dimensions must larger than 1")
    if self.dim() > 2 and len(set(self.shape)) > 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    rows, columns = self.shape[0], self.shape[1]
    stride = sum(self.stride())
    if self.dim() == 2 and wrap and rows > columns:
        count = (self.numel() + columns) // (columns + 1)
    else:
        count = min(self.shape)
    self.as_strided((count,), (stride,), self.storage_offset()).fill_(fill_value)
    return self


def _apply_(self, callable):
    """Replaces each element by callable of it, in place. Slow: a call of Python for each."""
    if self.requires_grad:
        raise RuntimeError("Can't call apply_() on Variable that requires grad. Use var.detach().apply_() instead.")
    values = [callable(v) for v in self.reshape(-1).tolist()]
    return self.copy_(_C.tensor(values, dtype=self.dtype).reshape(self.shape))


def _map_(self, tensor, callable):
    """Replaces each element by callable of it and of another tensor's, in place."""
    pairs = zip(self.reshape(-1).tolist(), tensor.expand_as(self).reshape(-1).tolist())
    return self.copy_(_C.tensor([callable(a, b) for a, b in pairs], dtype=self.dtype).reshape(self.shape))


def _sum_to_size(self, *sizes, size=None):
    """Summed over the dimensions that broadcasting would repeat."""
    size = sizes if size is None else (size,)
    size = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
    lead = self.dim() - len(size)
    dims = [*range(lead), *(d for d in range(lead, self.dim()) if size[d - lead] == 1 and self.shape[d] != 1)]
    if dims and not size:
        return self.sum()
    result = self.sum(dims, keepdim=True) if dims else self
    return result if result.shape == size else result.reshape(size)


def _new_empty_strided(self, size, stride, dtype=None, **options):
    """Memory of the given sizes and strides, and of this tensor's dtype."""
    return _C.empty_strided(size, stride, dtype=dtype or self.dtype, **options)


def _set(name, function):
    if not hasattr(Tensor, name):
        setattr(Tensor, name, function)


def _in_place(function, arguments=1):
    def in_place(self, *args, **kwargs):
        return self.copy_(function(self, *args, **kwargs))

    in_place.__doc__ = f"{function.__doc__} In place."
    return looks_like(function.__name__ + "_", arguments)(in_place)


for _function in (
    angle, as_strided_scatter, conj_physical, diagonal_scatter, dsplit, frexp, gcd, histogram, hsplit, isreal, lcm,
    ldexp, mvlgamma, narrow_copy, renorm, select_scatter, slice_scatter, unsafe_chunk, unsafe_split, vsplit,
):  # fmt: skip
    _set(_function.__name__, _function)
for _function in (gcd, lcm, mvlgamma, renorm):
    _set(_function.__name__ + "_", _in_place(_function))
_set("ldexp_", _in_place(ldexp, 2))
for _function in (_to_dense, _fill_diagonal_, _apply_, _map_, _sum_to_size, _new_empty_strided):
    _set(_function.__name__[1:], _function)


def _found_in(module, name):
    """A method that is a function of a module, which is imported when it is called."""

    def method(self, *args, **kwargs):
        return getattr(importlib.import_module(module), name)(self, *args, **kwargs)

    method.__name__ = method.__qualname__ = name
    return method


@looks_like("polygamma_")
def _polygamma_(self, n):
    """polygamma, in place."""
    return self.copy_(self.polygamma(n))


for _name in ("hardshrink", "prelu"):
    _set(_name, _found_in("brisk.nn.functional", _name))
for _name in ("i0", "index_reduce", "nonzero_static", "unsafe_split_with_sizes"):
    _set(_name, _found_in("brisk._second_forms", _name))
_set("i0_", _in_place(Tensor.i0))
_set("index_reduce_", _found_in("brisk._second_forms", "index_reduce_"))
_set("polygamma_", _polygamma_)

_Frexp = _named("frexp", "mantissa exponent")
_Histogram = _named("histogram", "hist bin_edges")

Tensor.real, Tensor.imag = property(real), property(imag)
for _name in (
    "to_sparse", "to_sparse_coo", "to_sparse_csr", "to_sparse_csc", "coalesce", "is_coalesced", "indices", "values",
    "sparse_mask", "sparse_dim", "dense_dim", "crow_indices", "col_indices", "dequantize", "int_repr", "stft", "istft",
):  # fmt: skip
    if not hasattr(Tensor, _name):
        setattr(Tensor, _name, _absent := Absent())
        _absent.name = _name
