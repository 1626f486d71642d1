"""torch.testing.assert_close: tensors, numbers, arrays, and sequences or mappings of them, within a tolerance."""

import collections.abc
import numbers
import warnings

import numpy

from . import _C

__all__ = ["assert_allclose", "assert_close"]

# dtype: (rtol, atol); all others must be equal
_TOLERANCES = {
    _C.float16: (1e-3, 1e-5),
    _C.bfloat16: (1.6e-2, 1e-5),
    _C.float32: (1.3e-6, 1e-5),
    _C.float64: (1e-7, 1e-7),
}

_ONCE = {_C.float16: (1e-3, 1e-3), _C.float32: (1e-4, 1e-5), _C.float64: (1e-5, 1e-8)}  # of assert_allclose


class _Rules:
    def __init__(self, rtol, atol, **rules):
        if (rtol is None) != (atol is None):
            given, missing = ("atol", "rtol") if rtol is None else ("rtol", "atol")
            raise ValueError(
                f"Both 'rtol' and 'atol' must be either specified or unspecified, but got no {missing} with {given}."
            )
        self.rtol, self.atol = rtol, atol
        self.__dict__.update(rules)

    def tolerances(self, *dtypes):
        if self.rtol is not None:
            return self.rtol, self.atol
        known = [_TOLERANCES.get(dtype, (0.0, 0.0)) for dtype in dtypes]
        return max(rtol for rtol, _ in known), max(atol for _, atol in known)

    def fail(self, text, place, kind=AssertionError):
        if place:
            text += "\n\nThe failure occurred for item " + "".join(f"[{key!r}]" for key in place)
        if self.msg is not None:
            text = self.msg(text) if callable(self.msg) else self.msg
        raise kind(text) from None


def assert_close(
    actual, expected, *, allow_subclasses=True, rtol=None, atol=None, equal_nan=False, check_device=True,
    check_dtype=True, check_layout=True, check_stride=False, msg=None,
):  # fmt: skip
    """AssertionError unless |actual - expected| <= atol + rtol * |expected| everywhere, shapes and dtypes being equal.

    Without rtol and atol, what the dtype allows."""
    rules = _Rules(
        rtol, atol, allow_subclasses=allow_subclasses, equal_nan=equal_nan, check_dtype=check_dtype,
        check_stride=check_stride, msg=msg,
    )  # fmt: skip
    _compare(actual, expected, rules, ())


def _compare(actual, expected, rules, place):
    if not rules.allow_subclasses and type(actual) is not type(expected):
        rules.fail(
            f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}.",
            place,
            TypeError,
        )
    both = (actual, expected)
    if all(isinstance(x, collections.abc.Mapping) for x in both):
        if set(actual) != set(expected):
            missing, more = sorted(set(expected) - set(actual), key=str), sorted(set(actual) - set(expected), key=str)
            text = "The keys of the mappings do not match:\n"
            text += f"Missing keys in the actual mapping: {missing}\nAdditional keys in the actual mapping: {more}"
            rules.fail(text, place)
        for key in actual:
            _compare(actual[key], expected[key], rules, (*place, key))
    elif all(isinstance(x, collections.abc.Sequence) and not isinstance(x, str) for x in both):
        if len(actual) != len(expected):
            rules.fail(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}", place)
        for i, (a, b) in enumerate(zip(actual, expected)):
            _compare(a, b, rules, (*place, i))
    elif all(x is None for x in both):
        pass
    elif all(isinstance(x, numbers.Number) and not isinstance(x, numpy.generic) for x in both):
        _compare_numbers(actual, expected, rules, place)
    elif all(isinstance(x, (_C.Tensor, numpy.ndarray, numpy.generic)) for x in both):
        _compare_tensors(_C.as_tensor(actual).detach(), _C.as_tensor(expected).detach(), rules, place)
    elif any(x is None for x in both):
        rules.fail(f"None mismatch: {actual} is not {expected}", place)
    else:
        rules.fail(
            f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}.",
            place,
            TypeError,
        )


def _compare_numbers(actual, expected, rules, place):
    if isinstance(actual, bool) and isinstance(expected, bool):
        if actual is not expected:
            rules.fail(f"Booleans mismatch: {actual} is not {expected}", place)
        return
    if rules.check_dtype and type(actual) is not type(expected):
        rules.fail(f"The (d)types do not match: {type(actual)} != {type(expected)}.", place)
    kinds = [_C.float64 if isinstance(x, float) else _C.int64 for x in (actual, expected)]
    rtol, atol = rules.tolerances(*kinds)
    distance = abs(actual - expected)
    if actual == expected or distance <= atol + rtol * abs(expected) < float("inf"):
        return
    if rules.equal_nan and actual != actual and expected != expected:
        return
    rules.fail(_far(actual, expected, rtol, atol), place)


def _far(actual, expected, rtol, atol):
    """What PyTorch says of two numbers that differ."""
    close = "close" if rtol or atol else "equal"
    distance = abs(actual - expected)
    relative = distance / abs(expected) if expected else float("inf")
    text = f"Scalars are not {close}!\n\nExpected {expected} but got {actual}.\n"
    text += f"Absolute difference: {distance}{_allowed(atol, close)}\n"
    return text + f"Relative difference: {relative}{_allowed(rtol, close)}"


def _compare_tensors(actual, expected, rules, place):
    if actual.shape != expected.shape:
        text = f"The values for attribute 'shape' do not match: {actual.shape} != {expected.shape}."
        rules.fail(text, place)
    for name, checked in (("dtype", rules.check_dtype), ("stride()", rules.check_stride)):
        a, b = (x.dtype if name == "dtype" else x.stride() for x in (actual, expected))
        if checked and a != b:
            rules.fail(f"The values for attribute '{name}' do not match: {a} != {b}.", place)
    rtol, atol = rules.tolerances(actual.dtype, expected.dtype)
    if actual.dtype != expected.dtype:
        common = _C.promote_types(actual.dtype, expected.dtype)
        actual, expected = actual.to(common), expected.to(common)
    far = ~_C.isclose(actual, expected, rtol=rtol, atol=atol, equal_nan=rules.equal_nan)
    count = int(far.sum())
    if count and not actual.dim():
        rules.fail(_far(actual.item(), expected.item(), rtol, atol), place)
    elif count:
        rules.fail(_mismatch(actual, expected, far, count, rtol, atol), place)


def _mismatch(actual, expected, far, count, rtol, atol):
    """What PyTorch says of tensors that differ."""
    close = "close" if rtol or atol else "equal"
    if not actual.is_floating_point():
        actual, expected = actual.to(_C.int64), expected.to(_C.int64)
    distance = (actual - expected).abs()
    relative = distance / expected.abs()
    lines = [
        f"Tensor-likes are not {close}!",
        "",
        f"Mismatched elements: {count} / {far.numel()} ({count / far.numel():.1%})",
    ]
    for name, values, allowed in (("absolute", distance, atol), ("relative", relative, rtol)):
        values = values.where(far, _C.zeros((), dtype=values.dtype)).flatten()
        at = int(values.argmax())
        index = tuple(int(i) for i in numpy.unravel_index(at, tuple(far.shape)))
        lines.append(f"Greatest {name} difference: {values[at].item()} at index {index}{_allowed(allowed, close)}")
    return "\n".join(lines)


def _allowed(tolerance, close):
    return f" (up to {tolerance} allowed)" if close == "close" else ""


def assert_allclose(actual, expected, rtol=None, atol=None, equal_nan=True, msg=""):
    """The older name: wider tolerances, whatever the dtypes."""
    warnings.warn("assert_allclose is deprecated: please use assert_close", FutureWarning, stacklevel=2)
    if not isinstance(actual, _C.Tensor):
        actual = _C.tensor(actual)
    if not isinstance(expected, _C.Tensor):
        expected = _C.tensor(expected, dtype=actual.dtype)
    if rtol is None and atol is None:
        known = [_ONCE.get(x.dtype, (0.0, 0.0)) for x in (actual, expected)]
        rtol, atol = (max(pair) for pair in zip(*known))
    assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False, msg=msg or None)
