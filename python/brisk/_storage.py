"""Memory as PyTorch's programs see it: `storage()`, typed, and what `untyped_storage()` can do with bytes.

A typed storage is the memory of a tensor from its first element to its last, as a tensor of one dimension; bytes are
that tensor's `view(torch.uint8)`. So everything written here is seen by every tensor in the memory.
"""

import brisk
from brisk import _C
from brisk._C import Tensor, UntypedStorage
from brisk._memory import _contiguous_strides
from brisk._sharing import is_shared, share_memory_


def _elements(memory):
    """The memory as a tensor of one dimension, in the dtype of the tensors that made it."""
    size = _C._tensor_on_storage(memory, 0, (0,), (1,)).element_size()
    return _C._tensor_on_storage(memory, 0, (memory.nbytes() // size,), (1,))


def _bytes(memory):
    return _elements(memory).view(brisk.uint8)


class TypedStorage:
    """The memory of a tensor as numbers of its dtype."""

    _kind = None  # the dtype of what is made by name: FloatStorage(3)

    def __init__(self, *args, wrap_storage=None, dtype=None, device=None):
        if wrap_storage is not None:
            self._line = _elements(wrap_storage).view(dtype or brisk.get_default_dtype())
            return
        dtype = dtype or self._kind or brisk.get_default_dtype()
        if args and not isinstance(args[0], int):
            self._line = brisk.tensor(list(args[0]), dtype=dtype)
        else:
            self._line = brisk.empty(args[0] if args else 0, dtype=dtype)

    @classmethod
    def _of(cls, tensor):
        made = object.__new__(cls)
        made._line = _elements(tensor.untyped_storage()).detach()
        return made

    dtype = property(lambda self: self._line.dtype)
    device = property(lambda self: self._line.device)
    is_cuda = property(lambda self: False)
    is_sparse = property(lambda self: False)

    def untyped(self):
        return self._line.untyped_storage()

    def size(self):
        return self._line.numel()

    def __len__(self):
        return self._line.numel()

    def nbytes(self):
        return self._line.nbytes

    def element_size(self):
        return self._line.element_size()

    def data_ptr(self):
        return self._line.data_ptr()

    def tolist(self):
        return self._line.tolist()

    def __iter__(self):
        return iter(self.tolist())

    def __getitem__(self, index):
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        if not isinstance(index, int):
            raise TypeError(f"can't index a {type(self).__name__} with {type(index).__name__}")
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} out of range for storage of size {len(self)}")
        return self._line[index].item()

    def __setitem__(self, index, value):
        self._line[index] = value

    def fill_(self, value):
        self._line.fill_(value)
        return self

    def copy_(self, source, non_blocking=None):
        if source.size() != self.size():
            raise RuntimeError(
                f"size does not match, self was {self.nbytes()} bytes but src was {source.nbytes()} bytes"
            )
        self._line.copy_(source._line)
        return self

    def clone(self):
        made = object.__new__(type(self))
        made._line = self._line.clone()
        return made

    def _to(self, dtype):
        made = object.__new__(TypedStorage)
        made._line = self._line.to(dtype, copy=True)
        return made

    def is_pinned(self, device=None):
        return False

    def is_shared(self):
        return False

    def share_memory_(self):
        return self

    def cpu(self):
        return self

    def __eq__(self, other):
        return isinstance(other, TypedStorage) and self.data_ptr() == other.data_ptr()

    __hash__ = object.__hash__

    def __repr__(self):
        lines = "".join(f" {value}\n" for value in self.tolist())
        return f"{lines}[torch.storage.TypedStorage(dtype={self.dtype}, device=cpu) of size {len(self)}]"

    __str__ = __repr__


for _name in ("float", "double", "half", "bfloat16", "long", "int", "short", "char", "byte", "bool"):
    _dtype = getattr(brisk, {"char": "int8", "byte": "uint8"}.get(_name, _name))
    setattr(TypedStorage, _name, lambda self, dtype=_dtype: self._to(dtype))


def _named(name, dtype):
    return type(name, (TypedStorage,), {"__module__": "brisk", "__doc__": f"A storage of {dtype}.", "_kind": dtype})


FloatStorage = _named("FloatStorage", brisk.float32)
DoubleStorage = _named("DoubleStorage", brisk.float64)
HalfStorage = _named("HalfStorage", brisk.float16)
BFloat16Storage = _named("BFloat16Storage", brisk.bfloat16)
LongStorage = _named("LongStorage", brisk.int64)
IntStorage = _named("IntStorage", brisk.int32)
ShortStorage = _named("ShortStorage", brisk.int16)
CharStorage = _named("CharStorage", brisk.int8)
ByteStorage = _named("ByteStorage", brisk.uint8)
BoolStorage = _named("BoolStorage", brisk.bool)


# --- bytes -----------------------------------------------------------------------------------------------------------


def _fill_(self, value):
    _bytes(self).fill_(value)
    return self


def _copy_(self, source, non_blocking=None):
    if source.nbytes() != self.nbytes():
        raise RuntimeError(f"size does not match, self was {self.nbytes()} bytes but src was {source.nbytes()} bytes")
    _bytes(self).copy_(_bytes(source))
    return self


def _get(self, index):
    if isinstance(index, slice):
        return _bytes(self)[index].clone().untyped_storage()
    return _bytes(self)[index].item()


def _put(self, index, value):
    _bytes(self)[index] = value


UntypedStorage.fill_ = _fill_
UntypedStorage.copy_ = _copy_
UntypedStorage.__getitem__ = _get
UntypedStorage.__setitem__ = _put
UntypedStorage.device = property(lambda self: brisk.device("cpu"))
UntypedStorage.element_size = lambda self: 1
UntypedStorage.is_cuda = property(lambda self: False)
UntypedStorage.is_pinned = lambda self, device=None: False
UntypedStorage.is_shared = lambda self: False
UntypedStorage._cdata = property(id)


# --- tensors ---------------------------------------------------------------------------------------------------------


def _storage(self):
    """The memory of the tensor, all of it, as numbers of its dtype."""
    return TypedStorage._of(self)


def _memory_of(self, source):
    """A storage as one dimension of the tensor's dtype."""
    if isinstance(source, TypedStorage):
        if source.dtype is not self.dtype:
            raise RuntimeError(
                f"Expected a Storage of type {self.dtype} or an UntypedStorage, but got type {source.dtype} "
                "for argument 1 'storage'".replace("torch.", "")
            )
        return source._line
    return _elements(source).view(self.dtype)


def _set_(self, source=None, storage_offset=0, size=None, stride=None):
    """Gives the tensor the memory of another, or of a storage, and a place in it; without one, it is empty."""
    taped = _C.is_grad_enabled() and (self.requires_grad or (isinstance(source, Tensor) and source.requires_grad))
    before = _C._stand_in(self) if taped and self.requires_grad else self.detach()
    self = _take_memory(self, source, storage_offset, size, stride)
    inputs = [before, source] if isinstance(source, Tensor) else [before]
    if taped:
        _C._without_derivative("set_", [self], inputs, True)
    return self


def _take_memory(self, source, storage_offset, size, stride):
    if _C.is_grad_enabled() and any(t is not None and t.requires_grad and t.is_leaf for t in (self, self._base)):
        of = "" if self._base is None else "view of a "
        raise RuntimeError(f"a {of}leaf Variable that requires grad is being used in an in-place operation.")
    if source is None:
        self.data = self.new_empty(0)
        return self
    if isinstance(source, Tensor):
        if source.dtype is not self.dtype:
            raise RuntimeError(
                f"Could not set tensor of type {source.dtype} to a tensor of type {self.dtype}".replace("torch.", "")
            )
        memory = source.detach()
        if size is None:
            self.data = memory
            return self
    elif isinstance(source, (TypedStorage, UntypedStorage)):
        memory = _memory_of(self, source)
    else:
        raise TypeError(f"set_(): argument 'source' must be a Tensor or a Storage, not {type(source).__name__}")
    if storage_offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {storage_offset}")
    size = (memory.numel(),) if size is None else tuple(size)
    self.data = memory.as_strided(size, stride if stride else _contiguous_strides(size), storage_offset)
    return self


def _is_set_to(self, tensor):
    """Whether both are the same part of the same memory."""
    return (
        self.untyped_storage() is tensor.untyped_storage()
        and self.storage_offset() == tensor.storage_offset()
        and self.shape == tensor.shape
        and self.stride() == tensor.stride()
    )


Tensor.storage = _storage
Tensor.set_ = _set_
Tensor.is_set_to = _is_set_to
Tensor.is_shared = is_shared
Tensor.share_memory_ = share_memory_
