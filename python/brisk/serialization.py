"""save and load in PyTorch's format: a zip archive of one pickle and the bytes of each storage.

Loading runs nothing that a file says. The pickle is carried out by a machine of the library's own (src/files/pickle.c),
and a name in it means what the table here says or nothing at all; classes of the user's own are added to it by
add_safe_globals. Saving to a path is atomic: the file is the old one or the whole new one.
"""

import collections
import io
import os
import pickle
import re
import sys
import types

from brisk import _C
from brisk._C import Tensor
from brisk.nn.parameter import Parameter

__all__ = ["add_safe_globals", "clear_safe_globals", "get_safe_globals", "load", "safe_globals", "save"]

DEFAULT_PROTOCOL = 2

# torch.FloatStorage and so on: how a checkpoint names the dtype of a storage.
_STORAGES = {
    "FloatStorage": _C.float32,
    "DoubleStorage": _C.float64,
    "HalfStorage": _C.float16,
    "BFloat16Storage": _C.bfloat16,
    "LongStorage": _C.int64,
    "IntStorage": _C.int32,
    "ShortStorage": _C.int16,
    "CharStorage": _C.int8,
    "ByteStorage": _C.uint8,
    "BoolStorage": _C.bool,
}
_STORAGE_NAMES = {dtype: name for name, dtype in _STORAGES.items()}


class _StorageKind:
    """What a name such as torch.FloatStorage stands for while a checkpoint is read."""

    def __init__(self, dtype):
        self.dtype = dtype


class _Name:
    """What is written into a pickle as a name of PyTorch's, whatever it is called here."""

    def __init__(self, module, name):
        self.module, self.name = module, name

    def __call__(self, *args):
        raise TypeError(f"{self.module}.{self.name} is a name in a file, not a function")


# --- the names that loading knows ------------------------------------------------------------------------------------


def _rebuild_tensor(storage, offset, size, stride, requires_grad=False, hooks=None, metadata=None):
    if not isinstance(storage, _C.UntypedStorage):
        raise pickle.UnpicklingError("the checkpoint is broken: a tensor is rebuilt on what is no storage")
    try:
        t = _C._tensor_on_storage(storage, offset, tuple(size), tuple(stride))
    except TypeError as error:
        raise pickle.UnpicklingError(f"the checkpoint is broken: {error}") from None
    return t.requires_grad_() if requires_grad is True else t


def _rebuild_parameter(data, requires_grad, hooks=None):
    if not isinstance(data, Tensor):
        raise pickle.UnpicklingError("the checkpoint is broken: a parameter is rebuilt of what is no tensor")
    return Parameter(data, requires_grad is True)


def _rebuild_parameter_with_state(data, requires_grad, hooks, state):
    p = _rebuild_parameter(data, requires_grad)
    if isinstance(state, dict):
        p.__dict__.update(state)
    return p


def _encode(text, encoding):
    """How pickles of protocol 2 write bytes."""
    if not isinstance(text, str) or encoding != "latin1":
        raise pickle.UnpicklingError("the pickle is broken: bytes are written in a way that is unknown")
    return text.encode("latin1")


def _new_ordered_dict(*pairs):
    return collections.OrderedDict(*pairs)


def _new_default_dict(factory=None):
    if factory not in (None, dict, list, int, float, set, str, tuple):
        raise pickle.UnpicklingError("the pickle names a default factory that is no plain type")
    return collections.defaultdict(factory)


def _device(kind, index=None):
    return _C.device(kind) if index is None else _C.device(kind, index)


def _table():
    """(module, name): (what it stands for, what calling it does or None)"""
    rows = {
        ("collections", "OrderedDict"): (collections.OrderedDict, _new_ordered_dict),
        ("collections", "Counter"): (collections.Counter, lambda counts=(): collections.Counter(counts)),
        ("collections", "defaultdict"): (collections.defaultdict, _new_default_dict),
        ("torch", "Size"): (_C.Size, lambda sizes=(): _C.Size(sizes)),
        ("torch", "device"): (_C.device, _device),
        ("torch", "Tensor"): (Tensor, None),
        ("torch.nn.parameter", "Parameter"): (Parameter, _rebuild_parameter),
        ("torch._utils", "_rebuild_tensor"): (_rebuild_tensor, _rebuild_tensor),
        ("torch._utils", "_rebuild_tensor_v2"): (_rebuild_tensor, _rebuild_tensor),
        ("torch._utils", "_rebuild_parameter"): (_rebuild_parameter, _rebuild_parameter),
        ("torch._utils", "_rebuild_parameter_with_state"): (
            _rebuild_parameter_with_state,
            _rebuild_parameter_with_state,
        ),
        ("torch.serialization", "_get_layout"): (_get_layout, _get_layout),
        ("_codecs", "encode"): (_encode, _encode),
        ("builtins", "set"): (set, lambda items=(): set(_hashable(items))),
        ("builtins", "frozenset"): (frozenset, lambda items=(): frozenset(_hashable(items))),
        ("builtins", "bytearray"): (bytearray, _bytearray),
        ("builtins", "complex"): (complex, lambda *parts: complex(*map(float, parts))),
    }
    for kind in (dict, list, tuple, int, float, str, bool, bytes):
        rows["builtins", kind.__name__] = (kind, None)
    for name, dtype in _STORAGES.items():
        kind = _StorageKind(dtype)
        rows["torch", name] = rows["torch.cuda", name] = (kind, None)
        rows["torch", str(dtype).removeprefix("torch.")] = (dtype, None)
    return rows


def _get_layout(name):
    if name != "torch.strided":
        raise pickle.UnpicklingError(f"brisk has no layout {name!r}")
    return _C.strided


def _hashable(items):
    if not isinstance(items, (list, tuple)) or any(isinstance(item, tuple) for item in items):
        raise pickle.UnpicklingError("the pickle is broken: a set is made of what is no list of plain items")
    return items


def _bytearray(data=b"", encoding=None):
    if isinstance(data, str) and encoding == "latin-1":
        return bytearray(data, "latin1")
    if not isinstance(data, (bytes, bytearray)):
        raise pickle.UnpicklingError("the pickle is broken: a bytearray is made of what is no bytes")
    return bytearray(data)


_TABLE = None
_user_globals = {}


def _qualified(item):
    """A class or function, or a pair of it and the name that it has in files, as (name, object)."""
    if isinstance(item, tuple):
        item, name = item
        return name, item
    module = item.__module__
    if module == "brisk" or module.startswith("brisk."):
        module = "torch" + module[len("brisk") :]  # as files name it
    return f"{module}.{item.__qualname__}", item


def add_safe_globals(safe_globals):
    """Classes and functions that load may make and call from now on."""
    for item in safe_globals:
        name, value = _qualified(item)
        _user_globals[name] = value


def get_safe_globals():
    """The classes and functions that were allowed by add_safe_globals."""
    return list(_user_globals.values())


def clear_safe_globals():
    """Allows no more than what is always allowed."""
    _user_globals.clear()


class safe_globals:
    """add_safe_globals for the length of a with statement."""

    def __init__(self, safe_globals):
        self.items = safe_globals

    def __enter__(self):
        self.before = dict(_user_globals)
        add_safe_globals(self.items)

    def __exit__(self, *exception):
        _user_globals.clear()
        _user_globals.update(self.before)


_PYTHON2 = {"__builtin__": "builtins", "copy_reg": "copyreg"}


class _Hooks:
    """What the pickle machine asks: the only place that decides what a name in a file means."""

    def __init__(self, storage_of, weights_only):
        global _TABLE
        _TABLE = _TABLE or _table()
        self.persistent = storage_of
        self.weights_only = weights_only
        self.makers = {id(value): make for value, make in _TABLE.values() if make is not None}
        self.users = {id(value) for value in _user_globals.values()}

    def find(self, module, name):
        module = _PYTHON2.get(module, module)
        full = f"{module}.{name}"
        if full in _user_globals:
            return _user_globals[full]
        found = _TABLE.get((module, name))
        if found is not None:
            return found[0]
        why = (
            "Weights only load failed. "
            if self.weights_only
            else "brisk never runs code from a file, also not with weights_only=False, and to make this object would "
            "be to run its class. "
        )
        raise pickle.UnpicklingError(
            f"{why}Unsupported global: GLOBAL {full} was not an allowed global by default. Save a state_dict instead, "
            f"or, if you trust the file, allow it: torch.serialization.add_safe_globals([{full.rpartition('.')[2]}])"
        )

    def call(self, callee, args, keywords):
        make = self.makers.get(id(callee))
        if make is None and id(callee) in self.users:
            make = callee
        if make is None:
            raise pickle.UnpicklingError(f"the pickle calls {callee!r:.80}, which is not allowed")
        try:
            return make(*args)
        except (TypeError, ValueError, IndexError, OverflowError, UnicodeError) as error:
            if id(callee) in self.users:
                raise
            raise pickle.UnpicklingError(f"the pickle is broken: {error}") from None

    def new(self, kind, args, keywords):
        if id(kind) in self.makers:
            return self.call(kind, args, None)
        if id(kind) not in self.users:
            raise pickle.UnpicklingError(f"the pickle makes {kind!r:.80}, which is not allowed")
        return kind.__new__(kind, *args, **(keywords or {}))

    def build(self, target, state):
        kind = type(target)
        if kind in (collections.OrderedDict, collections.Counter) and isinstance(state, dict):
            target.__dict__.update(state)
        elif isinstance(target, Tensor):
            raise pickle.UnpicklingError("tensors with a state of their own are not read")
        elif id(kind) not in self.users:
            raise pickle.UnpicklingError(f"the pickle sets the state of a {kind.__name__}, which is not allowed")
        elif hasattr(target, "__setstate__"):
            target.__setstate__(state)
        else:
            plain, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
            target.__dict__.update(plain or {})
            for name, value in (slots or {}).items():
                setattr(target, name, value)


# --- loading -------------------------------------------------------------------------------------------------------


def load(f, map_location=None, pickle_module=None, *, weights_only=None, mmap=None, **pickle_load_args):
    """The object in a checkpoint: a path, or a file object that can seek.

    Everything is loaded to the CPU; map_location may be anything that says so. No code from the file is run, whatever
    weights_only says.
    """
    _check_location(map_location)
    weights_only = weights_only is not False
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            return _load_from(file.fileno(), file, weights_only)
    if not (hasattr(f, "read") and hasattr(f, "seek")):
        raise AttributeError(
            f"'{type(f).__name__}' object has no attribute 'seek'. You can only torch.load from a file that is "
            "seekable. Please pre-load the data into a buffer like io.BytesIO and try to load from it instead."
        )
    data = f.read()
    return _load_from(data, io.BytesIO(data), weights_only)


def _check_location(map_location):
    if map_location is None or callable(map_location):
        return
    places = map_location.values() if isinstance(map_location, dict) else [map_location]
    for place in places:
        if _C.device(place).type != "cpu":
            raise RuntimeError(f"cannot load to {place}: brisk computes on the CPU; pass map_location='cpu'")


def _load_from(source, file, weights_only):
    start = file.read(8)
    if not start:
        raise EOFError("Ran out of input")
    if start.startswith(b"PK\x03\x04"):
        return _load_zip(_C._zip_open(source), weights_only)
    if start.startswith(b"\x93NUMPY"):
        raise pickle.UnpicklingError("this is a file of NumPy's: read it with numpy.load and torch.from_numpy")
    if start[2:3] == b"\x8a" or start.startswith(b"\x80"):
        file.seek(0)
        return _load_legacy(file.read(), weights_only)
    if start[7:8] == b"\0" and len(start) == 8:
        raise pickle.UnpicklingError("this is no checkpoint; a safetensors file is read by brisk.safetensors.load_file")
    raise pickle.UnpicklingError(
        "this is no checkpoint of PyTorch's: it begins with neither a zip archive nor a pickle"
    )


def _storage_parts(id):
    """dtype, key and number of elements of ("storage", kind, key, location, count)."""
    if (
        not isinstance(id, tuple)
        or len(id) < 5
        or id[0] != "storage"
        or not isinstance(id[1], _StorageKind)
        or not isinstance(id[2], str)
        or not isinstance(id[4], int)
        or id[4] < 0
    ):
        raise pickle.UnpicklingError("the checkpoint is broken: a storage is named in a way that is unknown")
    return id[1].dtype, id[2], id[4]


def _load_zip(zip, weights_only):
    names = _C._zip_names(zip)
    prefix = names[0].partition("/")[0] + "/" if names else ""
    if prefix + "data.pkl" not in names:
        raise RuntimeError("the zip archive holds no data.pkl: it is not a checkpoint of PyTorch's")
    if prefix + "constants.pkl" in names:
        raise RuntimeError("this is an archive of TorchScript, which brisk does not run")
    if prefix + "byteorder" in names and _C._zip_read(zip, prefix + "byteorder") != b"little":
        raise RuntimeError("the checkpoint was written on a big-endian machine, which brisk does not read")
    storages = {}

    def storage_of(id):
        dtype, key, count = _storage_parts(id)
        if (key, dtype) not in storages:
            if any(key == other for other, _ in storages):
                raise pickle.UnpicklingError("the checkpoint is broken: a storage is named with two dtypes")
            t = _C._zip_tensor(zip, f"{prefix}data/{key}", dtype)
            storages[key, dtype] = t.untyped_storage()
            if t.numel() != count:
                raise pickle.UnpicklingError(
                    "the checkpoint is broken: a storage has not the size that the pickle says"
                )
        return storages[key, dtype]

    return _C._unpickle(_C._zip_read(zip, prefix + "data.pkl"), 0, _Hooks(storage_of, weights_only))[0]


_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C


def _load_legacy(data, weights_only):
    """The format of before PyTorch 1.6: five pickles, then for each storage its length and its bytes."""
    bases = {}
    room = len(data)

    def storage_of(id):
        nonlocal room
        dtype, key, count = _storage_parts(id)
        if len(id) > 5 and id[5] is not None:
            raise pickle.UnpicklingError("views of storages in files of before PyTorch 1.6 are not read")
        if key not in bases:
            room -= count * dtype.itemsize
            if room < 0:
                raise pickle.UnpicklingError("the checkpoint is broken: its storages are larger than the file")
            bases[key] = _C.zeros(count, dtype=dtype)
        if bases[key].dtype is not dtype:
            raise pickle.UnpicklingError("the checkpoint is broken: a storage is named with two dtypes")
        return bases[key].untyped_storage()

    hooks = _Hooks(storage_of, weights_only)
    values, at = [], 0
    for _ in range(5):  # magic number, protocol, facts about the machine, the object, the keys of the storages
        value, at = _C._unpickle(data, at, hooks)
        if not values and value != _LEGACY_MAGIC:
            raise pickle.UnpicklingError("this is a pickle, but not a checkpoint of PyTorch's")
        values.append(value)
    if not isinstance(values[2], dict) or values[2].get("little_endian") is not True:
        raise pickle.UnpicklingError("the checkpoint was written on a big-endian machine, which brisk does not read")
    for key in values[4] if isinstance(values[4], list) else ():
        if not isinstance(key, str) or key not in bases:
            raise pickle.UnpicklingError("the checkpoint is broken: a storage is listed that nothing uses")
        base = bases[key]
        count = int.from_bytes(data[at : at + 8], "little")
        end = at + 8 + base.numel() * base.dtype.itemsize
        if count != base.numel() or end > len(data):
            raise pickle.UnpicklingError("the checkpoint is broken: a storage is truncated")
        if count:
            base.copy_(_C.frombuffer(bytearray(data[at + 8 : end]), dtype=base.dtype))
        at = end
    return values[3]


# --- saving --------------------------------------------------------------------------------------------------------


class _Pickler(pickle._Pickler):
    """Writes what is brisk's under PyTorch's names. Only the pickler in Python writes names that nobody can import."""

    def __init__(self, file, protocol):
        super().__init__(file, protocol)
        self.storages = {}  # object: key

    def reducer_override(self, obj):
        if isinstance(obj, Tensor):
            return _reduce_tensor(obj)
        if isinstance(obj, _C.Size):
            return _Name("torch", "Size"), (tuple(obj),)
        if isinstance(obj, _C.device):
            return _Name("torch", "device"), (obj.type,) if obj.index is None else (obj.type, obj.index)
        return NotImplemented

    def persistent_id(self, obj):
        if not isinstance(obj, _Stored):
            return None
        key = self.storages.setdefault(obj.storage, str(len(self.storages)))
        count = obj.storage.nbytes() // obj.dtype.itemsize
        return "storage", _Name("torch", _STORAGE_NAMES[obj.dtype]), key, "cpu", count

    def save(self, obj, save_persistent_id=True):
        if type(obj) is _Name:
            self.write_name(obj.module, obj.name)
        elif type(obj) is _C.dtype:
            self.write_name("torch", str(obj).removeprefix("torch."))
        else:
            super().save(obj, save_persistent_id)

    def save_global(self, obj, name=None):
        module = getattr(obj, "__module__", None) or ""
        if module == "brisk" or module.startswith("brisk."):
            self.write_name("torch" + module[len("brisk") :], name or obj.__qualname__)
        elif "<locals>" in (name or getattr(obj, "__qualname__", "")):
            raise AttributeError(f"Can't pickle local object {obj.__qualname__!r}")
        else:
            super().save_global(obj, name)

    def write_name(self, module, name):
        if (known := self.memo.get((module, name))) is not None:
            self.write(self.get(known[0]))
            return
        if self.proto >= 4:
            self.save(module)
            self.save(name)
            self.write(pickle.STACK_GLOBAL)
        else:
            self.write(pickle.GLOBAL + f"{module}\n{name}\n".encode())
        index = len(self.memo)
        self.write(self.put(index))
        self.memo[module, name] = index, None


_Pickler.dispatch = {**pickle._Pickler.dispatch, types.FunctionType: _Pickler.save_global}


class _Stored:
    """A storage on its way into a pickle, with the dtype that names it."""

    def __init__(self, storage, dtype):
        self.storage, self.dtype = storage, dtype


def _reduce_tensor(t):
    if isinstance(t, Parameter):
        return _Name("torch._utils", "_rebuild_parameter"), (t.data, t.requires_grad, collections.OrderedDict())
    if t.dtype not in _STORAGE_NAMES:
        raise TypeError(f"tensors of {t.dtype} cannot be saved")
    stored = _Stored(t.untyped_storage(), t.dtype)
    parts = stored, t.storage_offset(), tuple(t.shape), t.stride(), t.requires_grad, collections.OrderedDict()
    return _Name("torch._utils", "_rebuild_tensor_v2"), parts


def save(obj, f, pickle_module=None, pickle_protocol=DEFAULT_PROTOCOL, _use_new_zipfile_serialization=True):
    """Writes the object to a path or a file object. To a path it is atomic: a crash leaves the old file."""
    if isinstance(f, (str, os.PathLike)):
        target = os.fspath(f)
        target = os.fsdecode(target)
        parent = os.path.dirname(target)
        if parent and not os.path.isdir(parent):
            raise RuntimeError(f"Parent directory {parent} does not exist.")
        top = re.sub(r"[\\/\0]", "_", os.path.splitext(os.path.basename(target))[0]).lstrip(".") or "archive"
    elif hasattr(f, "write"):
        target, top = f.write, "archive"
    else:
        raise AttributeError("expected 'f' to be string, path, or a file-like object with a 'write' attribute")
    file = io.BytesIO()
    pickler = _Pickler(file, pickle_protocol)
    pickler.dump(obj)
    zip = _C._zip_create(target)
    try:
        _C._zip_add(zip, f"{top}/data.pkl", file.getbuffer())
        _C._zip_add(zip, f"{top}/byteorder", sys.byteorder.encode())
        for storage, key in pickler.storages.items():
            _C._zip_add(zip, f"{top}/data/{key}", storage)
        _C._zip_add(zip, f"{top}/version", b"3\n")
    except BaseException:
        _C._zip_finish(zip, False)
        raise
    _C._zip_finish(zip, True)
