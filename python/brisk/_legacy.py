"""The tensor types of before dtypes: FloatTensor([1, 2]), isinstance(x, LongTensor), x.type(torch.ByteTensor)."""

from brisk import _C
from brisk._C import Tensor


class _TensorType(type):
    """A class that stands for the tensors of one dtype; calling it makes one."""

    def __call__(cls, *args, device=None):
        return _C._legacy_new(cls.dtype, args)

    def __instancecheck__(cls, x):
        return isinstance(x, Tensor) and x.dtype is cls.dtype

    def __repr__(cls):
        return f"<class 'torch.{cls.__name__}'>"


def _make(name, dtype):
    return _TensorType(name, (), {"dtype": dtype, "__module__": "torch"})


FloatTensor = _make("FloatTensor", _C.float32)
DoubleTensor = _make("DoubleTensor", _C.float64)
HalfTensor = _make("HalfTensor", _C.float16)
BFloat16Tensor = _make("BFloat16Tensor", _C.bfloat16)
LongTensor = _make("LongTensor", _C.int64)
IntTensor = _make("IntTensor", _C.int32)
ShortTensor = _make("ShortTensor", _C.int16)
CharTensor = _make("CharTensor", _C.int8)
ByteTensor = _make("ByteTensor", _C.uint8)
BoolTensor = _make("BoolTensor", _C.bool)

_TYPES = (
    FloatTensor, DoubleTensor, HalfTensor, BFloat16Tensor, LongTensor, IntTensor, ShortTensor, CharTensor, ByteTensor,
    BoolTensor,
)  # fmt: skip


def set_default_tensor_type(t):
    """The dtype of a floating-point tensor type, by class or by name, becomes the default."""
    named = {f"torch.{kind.__name__}": kind for kind in _TYPES}
    kind = named.get(t, t)
    if not isinstance(kind, _TensorType):
        raise TypeError(f"invalid type object: only floating-point types are supported as the default type, got {t!r}")
    _C.set_default_dtype(kind.dtype)


def _new(self, *args, device=None):
    return _C._legacy_new(self.dtype, args)


def _as_subclass(self, cls):
    return _C._make_subclass(cls, self, self.requires_grad)


Tensor.new = _new
Tensor.as_subclass = _as_subclass
Tensor._make_subclass = staticmethod(_C._make_subclass)

__all__ = [kind.__name__ for kind in _TYPES] + ["set_default_tensor_type"]


class Value:
    """A value of TorchScript's graphs, of which there are none: programs import it to name it in annotations."""


_C.Value = Value
