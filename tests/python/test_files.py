"""Files of our own: safetensors, atomic saves, and files that somebody has broken, by accident or on purpose."""

import collections
import io
import os
import pickle
import random
import struct
import subprocess
import sys
import zipfile

import numpy as np
import pytest


def archive(pickled, *, storage=b"\0" * 16, name="archive/data/0"):
    """A checkpoint around a pickle, with checksums that are right."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as z:
        z.writestr("archive/data.pkl", pickled)
        z.writestr("archive/byteorder", "little")
        z.writestr(name, storage)
        z.writestr("archive/data/1", storage)
    return file.getvalue()


def load(torch, data, **options):
    return torch.load(io.BytesIO(data), **options)


def calling(function, *args):
    """The pickle of an object that calls a function when it is loaded."""

    class Bad:
        def __reduce__(self):
            return function, args

    return pickle.dumps(Bad(), 2)


# --- pickles that want to run something ------------------------------------------------------------------------------

HOSTILE = {
    "os.system": calling(os.system, "touch {}"),
    "eval": calling(eval, "open({!r}, 'w')"),
    "exec": calling(exec, "open({!r}, 'w')"),
    "open": calling(open, "{}", "w"),
    "subprocess": calling(subprocess.check_call, ["touch", "{}"]),
    "getattr": calling(getattr, "", "upper"),
    "a name with dots": b"\x80\x04\x8c\x0bcollections\x8c\x14OrderedDict.__init__\x93.",
    "a module of brisk's": b"cbrisk.serialization\nload\n(X\x01\0\0\0xtR.",
    "a method of a type that is known": b"ctorch\nSize.__class__\n.",
    "a factory that runs": b"ccollections\ndefaultdict\ncos\nsystem\n\x85R.",
    "the state of a type": b"ccollections\nOrderedDict\n}X\x01\0\0\0x}sb.",
    "the state of a tensor": b"ctorch\nSize\n)R}b.",
    "keys that take forever to hash": b"}K\x01\x85" + b"q\0h\0\x86" * 60 + b"K\x01s.",
    "a set that takes forever to hash": b"\x8f(K\x01\x85" + b"q\0h\0\x86" * 60 + b"\x90.",
    "a set of such by its name": b"c__builtin__\nset\n](K\x01\x85" + b"q\0h\0\x86" * 60 + b"e\x85R.",
    "a key that cannot be hashed": b"}]K\x01s.",
    "text that is no text": b"X\x02\0\0\0\xff\xff.",
    "a large bytearray": b"c__builtin__\nbytearray\nJ\xff\xff\xff\x7f\x85R.",
    "a large text repeated": b"c__builtin__\nstr\nX\x01\0\0\0x\x85R.",
    "a storage in place of a size": b"ctorch\nSize\nctorch\nFloatStorage\n\x85R.",
    "a size of texts": b"ctorch\nSize\nX\x01\0\0\0x\x85R.",
    "a device that is none": b"ctorch\ndevice\nX\x03\0\0\0abc\x85R.",
    "a parameter of nothing": b"ctorch._utils\n_rebuild_parameter\n(NN}tR.",
    "a tensor of nothing": b"ctorch._utils\n_rebuild_tensor_v2\n(NK\0))\x89}tR.",
    "a counter of nonsense": b"ccollections\nCounter\nK\x05\x85R.",
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("weights_only", [True, False])
def test_a_hostile_pickle_runs_nothing(torch, name, weights_only, tmp_path):
    marker = str(tmp_path / "marker")
    with pytest.raises((pickle.UnpicklingError, RuntimeError)) as error:
        load(torch, archive(HOSTILE[name].replace(b"{}", marker.encode())), weights_only=weights_only)
    assert str(error.value)
    assert not os.path.exists(marker)


def test_deep_nesting_is_no_stack_overflow(torch):
    depth = 200_000
    value = load(torch, archive(b"]" * depth + b"a" * (depth - 1) + b"."))
    for _ in range(depth - 1):
        (value,) = value
    assert value == []


def test_a_list_that_holds_itself_is_loaded(torch):
    value = load(torch, archive(b"]q\0h\0a."))
    assert value[0] is value


def test_a_huge_number_in_the_memo_takes_no_memory(torch):
    with pytest.raises(pickle.UnpicklingError, match="memo"):
        load(torch, archive(b"]r\xff\xff\xff\xff."))


# --- archives --------------------------------------------------------------------------------------------------------


def test_a_compressed_archive_is_refused(torch):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("archive/data.pkl", b"N." + b"\0" * 10_000_000)
    with pytest.raises(RuntimeError, match="compressed"):
        load(torch, file.getvalue())


@pytest.mark.parametrize("name", ["../archive/x", "/etc/passwd", "archive/../../x", "a\\b"])
def test_a_name_that_is_a_path_elsewhere_is_refused(torch, name):
    with pytest.raises(RuntimeError, match="unsafe name"):
        load(torch, archive(b"N.", name=name))


def test_a_file_of_another_kind_is_refused_by_name(torch):
    file = io.BytesIO()
    np.save(file, np.ones(3))
    with pytest.raises(pickle.UnpicklingError, match="numpy.load"):
        load(torch, file.getvalue())
    with pytest.raises(pickle.UnpicklingError, match="load_file"):
        load(torch, torch.safetensors.save({"a": torch.ones(2)}))
    for data in (b"hello world", b"PK\x03\x04", b"\x80\x02N.", b"\x80", b"\0" * 100):
        with pytest.raises((pickle.UnpicklingError, RuntimeError)):
            load(torch, data)


# --- mutations -------------------------------------------------------------------------------------------------------


def mutated(rng, data):
    """Some bytes changed, some cut out, some doubled."""
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        at = rng.randrange(len(data)) if data else 0
        kind = rng.randrange(6)
        if kind == 0:
            data[at : at + 1] = bytes([rng.randrange(256)])
        elif kind == 1:
            data[at : at + 1] = bytes([rng.choice((0, 1, 127, 128, 255, *b".()]}uRbQc\x93\x81"))])
        elif kind == 2:
            del data[at : at + rng.choice((1, 2, 8, 100))]
        elif kind == 3:
            data[at:at] = data[at : at + rng.choice((1, 4, 30))]
        elif kind == 4:
            data[at : at + 4] = rng.choice((0, 1, 2**31 - 1, 2**32 - 1)).to_bytes(4, "little")
        else:
            del data[at:]
    return bytes(data)


def valid_files(torch):
    value = collections.OrderedDict(
        a=torch.arange(4.0), b={"c": torch.nn.Parameter(torch.ones(2, 2))}, d=[1, 2.5, None, "x", {1, 2}], e=torch.int8
    )
    for protocol in (2, 4):
        file = io.BytesIO()
        torch.save(value, file, pickle_protocol=protocol)
        yield file.getvalue(), lambda data: load(torch, data)
        yield zipfile.ZipFile(file).read("archive/data.pkl"), lambda data: load(torch, archive(data))
    tensors = {"a": torch.ones(2, 3), "b": torch.zeros(0, dtype=torch.int8)}
    yield torch.safetensors.save(tensors, {"k": "v"}), torch.safetensors.load


@pytest.mark.parametrize("seed", range(4))
def test_a_file_changed_at_random_is_an_error_or_a_value(torch, seed):
    rng = random.Random(seed)
    allowed = (pickle.UnpicklingError, RuntimeError, ValueError, EOFError)
    outcomes = collections.Counter()
    for data, read in valid_files(torch):
        read(data)
        for _ in range(300):
            changed = mutated(rng, data)
            try:
                read(changed)
                outcomes["value"] += 1
            except allowed as error:
                assert str(error)
                outcomes["error"] += 1
    assert outcomes["error"] > 1000
    assert outcomes["value"] > 10


# --- saving ----------------------------------------------------------------------------------------------------------


def test_a_save_that_is_killed_leaves_the_old_file(torch, tmp_path):
    path = str(tmp_path / "x.pt")
    torch.save({"x": 1}, path)

    class Unwilling:
        def __reduce__(self):
            raise ValueError("no")

    with pytest.raises(ValueError):
        torch.save([torch.ones(1000), Unwilling()], path)
    assert torch.load(path) == {"x": 1}
    program = (
        "import resource, sys, brisk; resource.setrlimit(resource.RLIMIT_FSIZE, (50000, 50000));"
        "brisk.save(brisk.ones(100000), sys.argv[1])"
    )
    result = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=False)
    assert result.returncode != 0
    assert torch.load(path) == {"x": 1}


def test_a_failed_save_leaves_no_temporary_file(torch, tmp_path):
    class Full(io.RawIOBase):
        def write(self, data):
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        torch.save(torch.ones(3), Full())
    torch.save(1, tmp_path / "x.pt")
    assert os.listdir(tmp_path) == ["x.pt"]


def test_the_same_tensors_give_the_same_bytes(torch):
    files = [io.BytesIO(), io.BytesIO()]
    for file in files:
        torch.save({"a": torch.arange(3)}, file)
    assert files[0].getvalue() == files[1].getvalue()


def test_storages_are_aligned_in_the_file(torch):
    file = io.BytesIO()
    torch.save([torch.ones(1), torch.ones(2)], file)
    for info in zipfile.ZipFile(file).infolist():
        name, extra = struct.unpack_from("<HH", file.getvalue(), info.header_offset + 26)
        assert (info.header_offset + 30 + name + extra) % 64 == 0


# --- safetensors -----------------------------------------------------------------------------------------------------


def test_safetensors_keep_names_dtypes_and_elements(torch, tmp_path):
    tensors = {
        "weight": torch.arange(6.0).reshape(2, 3).t(),
        'é\n"x\\': torch.ones(2, dtype=torch.bfloat16),
        "flags": torch.tensor([True, False]),
        "scalar": torch.tensor(3, dtype=torch.int16),
        "empty": torch.empty(0, 4),
    }
    path = tmp_path / "x.safetensors"
    torch.safetensors.save_file(tensors, path, metadata={"format": "pt"})
    for loaded in (torch.safetensors.load_file(path), torch.safetensors.load(torch.safetensors.save(tensors))):
        assert set(loaded) == set(tensors)
        for name, t in tensors.items():
            assert loaded[name].dtype is t.dtype
            assert loaded[name].tolist() == t.tolist()


def test_safetensors_are_laid_out_as_the_format_says(torch):
    import json

    data = torch.safetensors.save({"a": torch.ones(2, 3), "b": torch.zeros(1, dtype=torch.int64)}, {"k": "v"})
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    assert header["__metadata__"] == {"k": "v"}
    assert header["a"] == {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}
    assert header["b"] == {"dtype": "I64", "shape": [1], "data_offsets": [24, 32]}
    assert len(data) == 8 + length + 32
    assert length % 8 == 0


def test_tensors_that_share_memory_are_not_saved_as_safetensors(torch):
    x = torch.ones(3)
    with pytest.raises(RuntimeError, match="share memory"):
        torch.safetensors.save({"a": x, "b": x[1:]})


# --- what needs a network or another package -------------------------------------------------------------------------


def test_what_needs_a_network_says_so(torch):
    with pytest.raises(RuntimeError, match="does not use the network"):
        torch.hub.load("pytorch/vision", "resnet18")
    with pytest.raises(RuntimeError, match="does not use the network"):
        torch.utils.model_zoo.load_url("https://example.com/x.pth")


# --- NumPy's files ---------------------------------------------------------------------------------------------------


def test_npy_files_are_numpys_both_ways(torch, tmp_path):
    np = pytest.importorskip("numpy")
    for dtype in ("float32", "float64", "float16", "int64", "int32", "uint8", "bool"):
        x = torch.arange(6).reshape(2, 3).to(getattr(torch, dtype))
        torch.npy.save(tmp_path / "ours", x.t())
        read = np.load(tmp_path / "ours.npy")
        assert read.dtype == dtype and (read == x.numpy().T).all()
        np.save(tmp_path / "theirs.npy", x.numpy().T)
        again = torch.npy.load(tmp_path / "theirs.npy")
        assert again.dtype == x.dtype and torch.equal(again, x.t())


def test_npz_files_are_numpys_both_ways(torch, tmp_path):
    np = pytest.importorskip("numpy")
    torch.npy.savez(tmp_path / "ours.npz", a=torch.ones(2), b=torch.arange(3))
    with np.load(tmp_path / "ours.npz") as read:
        assert sorted(read) == ["a", "b"] and read["b"].tolist() == [0, 1, 2]
    np.savez(tmp_path / "theirs.npz", a=np.ones(2), b=np.arange(3))
    again = torch.npy.load(tmp_path / "theirs.npz")
    assert sorted(again) == ["a", "b"] and again["a"].dtype == torch.float64


def test_npy_files_that_are_broken_or_missing_are_refused(torch, tmp_path):
    (tmp_path / "broken.npy").write_bytes(b"\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order'")
    with pytest.raises(RuntimeError):
        torch.npy.load(tmp_path / "broken.npy")
    (tmp_path / "objects.npy").write_bytes(
        b"\x93NUMPY\x01\x00\x76\x00" + b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }".ljust(117) + b"\n"
    )
    with pytest.raises(ValueError, match="type"):
        torch.npy.load(tmp_path / "objects.npy")
    with pytest.raises(FileNotFoundError):
        torch.npy.load(tmp_path / "none.npy")
    with pytest.raises(ValueError, match="tensors"):
        torch.npy.savez(tmp_path / "x.npz", a=3)
