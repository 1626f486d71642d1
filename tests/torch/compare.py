"""Compares the module under test with PyTorch: what makes two results, or two failures, the same.

A computation is a function of a module. It is run once with PyTorch (REF) and once with the module under test (SUT), on
tensors made from the same NumPy data, and its two outcomes are compared: values, dtype, shape, strides, offset, plain
Python values, printed text; or, when both raise, the exception's type. Every difference names the input it came from.
"""

import functools
import importlib
import math
import os
import zlib

import numpy as np
import torch as REF

SUT = importlib.import_module(os.environ.get("BRISK_TEST_MODULE", "brisk"))

REF.set_num_threads(1)  # small tensors only: a second thread would spend its time waiting
REF.backends.opt_einsum.enabled = False  # where that package happens to be there, errors have its words

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTS = ("int64", "int32", "int16", "int8", "uint8")
DTYPES = FLOATS + INTS + ("bool",)

# Relative tolerance by dtype. One rounding of a 16-bit float is 2^-11 or 2^-8; two roundings may separate two results.
RTOL = {"float32": 1e-5, "float64": 1e-12, "float16": 2e-3, "bfloat16": 1.6e-2}
# Below this magnitude a difference is rounding noise of the intermediate values, which are of the order of one.
ATOL = {"float32": 1e-6, "float64": 1e-13, "float16": 1e-3, "bfloat16": 8e-3}


class Difference(AssertionError):
    """Two outcomes that should agree do not."""


def dtype_name(dtype):
    return str(dtype).rpartition(".")[2]


def is_tensor(x):
    return isinstance(x, (REF.Tensor, SUT.Tensor))


# --- inputs ----------------------------------------------------------------------------------------------------------


def seed_of(*parts):
    """A seed that is the same in every run and differs from input to input."""
    return zlib.crc32(repr(parts).encode())


@functools.cache
def make_data(dtype, shape, domain="any", seed=0):
    """NumPy data whose values every dtype of the category can hold. bfloat16 data is float32 data."""
    rng = np.random.RandomState(seed)
    if domain.startswith("<"):  # indices below a bound
        return np.asarray(rng.randint(0, int(domain[1:]), size=shape)).astype(dtype)
    if dtype == "bool":
        return rng.rand(*shape) > 0.5 if shape else np.bool_(rng.rand() > 0.5)
    if dtype in INTS:
        if domain == "distinct":
            return rng.permutation(int(np.prod(shape, dtype=int))).reshape(shape).astype(dtype)
        low, high = {"any": (-9, 10), "unit": (-1, 2), "positive": (1, 10), "nonzero": (1, 10)}.get(domain, (-9, 10))
        if dtype == "uint8":
            low = max(low, 0)
        return np.asarray(rng.randint(low, high, size=shape)).astype(dtype)
    kind = "float32" if dtype == "bfloat16" else dtype
    if domain.startswith("special"):
        return np.asarray(special_values(kind, shape, domain))
    values = {
        "any": lambda: rng.randn(*shape) * 2,
        "unit": lambda: rng.uniform(-0.99, 0.99, size=shape),
        "positive": lambda: rng.uniform(0.05, 4, size=shape),
        "nonzero": lambda: rng.uniform(0.5, 4, size=shape) * rng.choice([-1, 1], size=shape),
        "distinct": lambda: rng.permutation(int(np.prod(shape, dtype=int))).reshape(shape) * 0.5 - 3,
        "ties": lambda: rng.randint(-3, 4, size=shape) / 2,
    }[domain]()
    return np.asarray(values).astype(kind)


SPECIALS = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, 1e-7, -1e-7, 88.0,
            -88.0, 100.0, -100.0, 6e4, 20.0, -20.0, 0.999, 1e-3)  # fmt: skip


def special_values(kind, shape, domain="special"):
    """All of them, but for what "special without nan" and "special without inf" leave out."""
    values = np.array(SPECIALS).astype(kind)
    if domain == "special without nan":
        values = values[~np.isnan(values)]
    elif domain == "special without inf":
        values = values[~np.isinf(values)]
    size = int(np.prod(shape)) if shape else 1
    return np.resize(values, size).reshape(shape)


class In:
    """One input: data, dtype and the strided layout under which both libraries see it."""

    def __init__(self, shape, dtype="float32", layout="contiguous", domain="any", seed=0, requires_grad=False):
        self.shape, self.dtype, self.layout, self.domain = tuple(shape), dtype, layout, domain
        self.seed = seed_of(self.shape, dtype, domain, seed)
        self.requires_grad = requires_grad

    def __repr__(self):
        return f"{self.dtype}{list(self.shape)} {self.layout} {self.domain}"

    def make(self, m):
        base_shape, view = LAYOUTS[self.layout](self.shape)
        data = make_data(self.dtype, base_shape, self.domain, self.seed)
        t = view(tensor_of(m, data, self.dtype))
        return t.requires_grad_() if self.requires_grad else t


def tensor_of(m, data, dtype=None):
    """A tensor of m with this data, copied."""
    data = np.asarray(data)
    dtype = dtype or str(data.dtype)
    if not data.size:  # NumPy's strides are zero then, and PyTorch's torch.tensor takes them over
        return m.zeros(data.shape, dtype=getattr(m, dtype))
    t = m.tensor(data)
    return t if dtype_name(t.dtype) == dtype else t.to(getattr(m, dtype))


def _transposed(shape):
    return (shape[:-2] + (shape[-1], shape[-2])), lambda t: t.transpose(-1, -2)


def _reversed_dims(shape):
    return shape[::-1], lambda t: t.permute(*range(t.dim() - 1, -1, -1))


def _stepped(shape):
    return tuple(2 * n for n in shape), lambda t: t[tuple(slice(None, None, 2) for _ in shape)]


def _offset(shape):
    return (shape[0] + 2,) + shape[1:], lambda t: t[1:-1]


def _inner_slice(shape):
    return shape[:-1] + (shape[-1] + 3,), lambda t: t[..., 2:-1]


def _expanded(shape):
    return (1,) + shape[1:], lambda t: t.expand(*shape)


def _expanded_last(shape):
    return shape[:-1] + (1,), lambda t: t.expand(*shape)


def _as_strided(shape):
    """Rows that overlap: what only as_strided can make."""
    span = sum(n - 1 for n in shape) + 1 if all(shape) else 1
    return (span + 1,), lambda t: t.as_strided(shape, (1,) * len(shape), 1 if all(shape) else 0)


LAYOUTS = {
    "contiguous": lambda shape: (shape, lambda t: t),
    "transposed": _transposed,
    "reversed_dims": _reversed_dims,
    "stepped": _stepped,
    "offset": _offset,
    "inner_slice": _inner_slice,
    "expanded": _expanded,
    "expanded_last": _expanded_last,
    "as_strided": _as_strided,
}
NEEDS_DIMS = {"contiguous": 0, "transposed": 2, "reversed_dims": 3}


def layouts_of(shape, overlapping=True):
    """The layouts that a tensor of this shape can have."""
    for name in LAYOUTS:
        if len(shape) < NEEDS_DIMS.get(name, 1):
            continue
        if not overlapping and name in ("expanded", "expanded_last", "as_strided"):
            continue
        if name == "expanded" and not shape[0] or name == "expanded_last" and not shape[-1]:
            continue
        yield name


# --- outcomes --------------------------------------------------------------------------------------------------------


class Raised:
    """The outcome of a computation that raised."""

    def __init__(self, error):
        self.error = error

    def __repr__(self):
        return f"raised {type(self.error).__name__}: {str(self.error).splitlines()[0] if str(self.error) else ''}"


def outcome(fn, *args):
    try:
        return fn(*args)
    except Exception as error:  # every exception is an outcome: its type is compared
        return Raised(error)


def same_exception(ours, theirs):
    """An except clause that catches PyTorch's exception catches ours."""
    return any(base.__name__ == type(theirs).__name__ for base in type(ours).__mro__)


def to_numpy(t):
    t = t.detach()
    if dtype_name(t.dtype) == "bfloat16":
        t = t.float()
    return np.array(t.resolve_neg().numpy() if hasattr(t, "resolve_neg") else t.numpy())


def effective_strides(t):
    """Strides where they mean something: not along dimensions of one element, and not in an empty tensor."""
    if t.numel() == 0:
        return None
    return tuple(st for n, st in zip(t.shape, t.stride()) if n > 1)


def check_tensor(
    ours, theirs, where, values=True, strides="effective", rtol=None, atol=None, offset=False, signed_zeros=False
):
    """Raises Difference unless ours is what PyTorch's is."""

    def same(what, a, b):
        if a != b:
            raise Difference(f"{where}: {what} is {a}, PyTorch's is {b}")

    same("dtype", dtype_name(ours.dtype), dtype_name(theirs.dtype))
    same("shape", tuple(ours.shape), tuple(theirs.shape))
    same("requires_grad", ours.requires_grad, theirs.requires_grad)
    if strides == "exact":
        same("stride()", tuple(ours.stride()), tuple(theirs.stride()))
    elif strides:
        same("stride()", effective_strides(ours), effective_strides(theirs))
    if strides:
        same("is_contiguous()", ours.is_contiguous(), theirs.is_contiguous())
    if offset:
        same("storage_offset()", ours.storage_offset(), theirs.storage_offset())
    if values:
        check_values(to_numpy(ours), to_numpy(theirs), dtype_name(theirs.dtype), where, rtol, atol, signed_zeros)


def check_values(ours, theirs, dtype, where, rtol=None, atol=None, signed_zeros=False):
    if dtype not in RTOL:
        agree = ours == theirs
    else:
        if atol is None:
            atol = ATOL[dtype]
        elif rtol is None:  # given for float32, and meant in proportion for the other dtypes
            atol *= ATOL[dtype] / ATOL["float32"]
        rtol = RTOL[dtype] if rtol is None else rtol
        with np.errstate(all="ignore"):
            a, b = ours.astype("float64"), theirs.astype("float64")
            agree = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= atol + rtol * np.abs(b))
            if signed_zeros:
                agree &= ~((a == 0) & (b == 0)) | (np.signbit(a) == np.signbit(b))
    if not np.all(agree):
        index = tuple(int(i) for i in np.argwhere(~np.atleast_1d(agree))[0]) if np.ndim(agree) else ()
        count = int(np.sum(~agree))
        raise Difference(
            f"{where}: {count} of {np.size(agree)} values differ, the first at {index}: {ours[index]!r}, "
            f"PyTorch's is {theirs[index]!r}"
        )


def check_same(ours, theirs, where, **how):
    """Compares two outcomes of any structure."""
    if isinstance(theirs, Raised) or isinstance(ours, Raised):
        if not isinstance(ours, Raised):
            raise Difference(f"{where}: PyTorch {theirs!r}; we answered {describe(ours)}")
        if not isinstance(theirs, Raised):
            raise Difference(f"{where}: we {ours!r}; PyTorch answered {describe(theirs)}")
        if not same_exception(ours.error, theirs.error):
            raise Difference(f"{where}: we {ours!r}; PyTorch {theirs!r}")
    elif is_tensor(theirs):
        if not is_tensor(ours):
            raise Difference(f"{where}: {type(ours).__name__} instead of a tensor")
        check_tensor(ours, theirs, where, **how)
    elif isinstance(theirs, np.ndarray):
        if not isinstance(ours, np.ndarray) or ours.dtype != theirs.dtype or ours.shape != theirs.shape:
            raise Difference(f"{where}: {describe(ours)}, PyTorch's is {describe(theirs)}")
        check_values(ours, theirs, str(theirs.dtype), where, how.get("rtol"), how.get("atol"))
    elif isinstance(theirs, (tuple, list)):
        if len(ours) != len(theirs) or isinstance(ours, tuple) != isinstance(theirs, tuple):
            raise Difference(f"{where}: {describe(ours)}, PyTorch's is {describe(theirs)}")
        if getattr(type(theirs), "_fields", None) or type(theirs).__module__ == "torch.return_types":
            fields = [f for f in ("values", "indices", "eigenvalues") if hasattr(theirs, f)]
            if any(not hasattr(ours, f) for f in fields):
                raise Difference(f"{where}: a result without the fields {fields}")
        for i, (a, b) in enumerate(zip(ours, theirs)):
            check_same(a, b, f"{where}[{i}]", **how)
    elif isinstance(theirs, dict):
        check_same(list(ours.items()), list(theirs.items()), where, **how)
    elif isinstance(theirs, REF.dtype):
        if dtype_name(ours) != dtype_name(theirs):
            raise Difference(f"{where}: {ours}, PyTorch's is {theirs}")
    elif isinstance(theirs, (float, complex)) and not isinstance(theirs, bool):
        if type(ours) is not type(theirs):
            raise Difference(f"{where}: {ours!r}, PyTorch's is {theirs!r}")
        check_values(np.asarray(ours), np.asarray(theirs), "float32", where, how.get("rtol"), how.get("atol"))
    elif type(ours).__name__ != type(theirs).__name__ or ours != theirs:
        raise Difference(f"{where}: {ours!r}, PyTorch's is {theirs!r}")


def describe(x):
    if is_tensor(x):
        return f"{dtype_name(x.dtype)}{list(x.shape)}"
    text = repr(x)
    return text if len(text) < 80 else text[:77] + "..."


# What PyTorch raises for half precision where its own kernels cannot be built for the machine.
PRIMITIVE = "could not create a primitive"


class Report:
    """Collects the differences of one test, so that one run shows them all: the first of each kind in words."""

    def __init__(self):
        self.failures, self.count = {}, 0  # what was computed -> its differences

    def check(self, fn, what, inputs=(), unless=None, **how):
        """Runs fn(m, *inputs) in both modules and notes how the outcomes differ.

        `unless`: words of an error of PyTorch's that is a limit of its own; where it comes there is nothing to compare.
        """
        self.count += 1
        theirs = outcome(fn, REF, *[i.make(REF) for i in inputs])
        if isinstance(theirs, Raised) and (PRIMITIVE in str(theirs.error) or unless and unless in str(theirs.error)):
            return
        ours = outcome(lambda: fn(SUT, *[i.make(SUT) for i in inputs]))
        where = f"{what}({', '.join(map(repr, inputs))})" if inputs else what
        try:
            check_same(ours, theirs, where, **how)
        except Difference as difference:
            self.note(what, str(difference))
        except Exception as error:
            self.note(what, f"{where}: comparing raised {type(error).__name__}: {error}")

    def note(self, what, message):
        self.failures.setdefault(what, []).append(message)

    def finish(self):
        assert self.count, "a test that compares nothing"
        if self.failures:
            total = sum(len(found) for found in self.failures.values())
            shown = [f"{found[0]}  [{len(found)} like it]" for found in self.failures.values()]
            if len(shown) == 1:
                shown = next(iter(self.failures.values()))
            text = "\n  ".join(shown[:16])
            raise Difference(f"{total} of {self.count} comparisons differ:\n  {text}")
