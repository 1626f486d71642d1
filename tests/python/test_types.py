"""dtype, Size, device, layout, memory_format, finfo, iinfo. BRISK_TEST_MODULE=torch runs this file against PyTorch."""

import copy
import importlib
import os
import pickle

import pytest

bk = importlib.import_module(os.environ.get("BRISK_TEST_MODULE", "brisk"))

DTYPES = ["float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"]


@pytest.mark.parametrize("name", DTYPES + ["complex64", "complex128"])
def test_a_dtype_is_a_singleton_known_by_name(name):
    dtype = getattr(bk, name)
    assert repr(dtype) == str(dtype) == f"torch.{name}"
    assert isinstance(dtype, bk.dtype)
    assert pickle.loads(pickle.dumps(dtype)) is dtype
    assert copy.deepcopy(dtype) is copy.copy(dtype) is dtype
    assert {dtype: 1}[getattr(bk, name)] == 1


def test_dtype_aliases_are_the_same_objects():
    aliases = {
        "float": "float32",
        "double": "float64",
        "half": "float16",
        "long": "int64",
        "int": "int32",
        "short": "int16",
    }
    for alias, name in aliases.items():
        assert getattr(bk, alias) is getattr(bk, name)
    assert bk.cfloat is bk.complex64 and bk.cdouble is bk.complex128


def test_dtype_attributes():
    rows = {
        "float32": (True, True, 4),
        "float64": (True, True, 8),
        "float16": (True, True, 2),
        "bfloat16": (True, True, 2),
        "int64": (False, True, 8),
        "int8": (False, True, 1),
        "uint8": (False, False, 1),
        "bool": (False, False, 1),
    }
    for name, (is_float, is_signed, size) in rows.items():
        d = getattr(bk, name)
        assert (d.is_floating_point, d.is_signed, d.itemsize, d.is_complex) == (is_float, is_signed, size, False)
    assert bk.complex64.is_complex and not bk.complex64.is_floating_point
    assert bk.complex64.to_real() is bk.float32 and bk.float64.to_complex() is bk.complex128
    assert bk.int8.to_real() is bk.int8
    with pytest.raises(RuntimeError, match="Unknown Complex ScalarType for Char"):
        bk.int8.to_complex()


def test_dtypes_cannot_be_made():
    for kind in (bk.dtype, bk.layout, bk.memory_format):
        with pytest.raises(TypeError, match="cannot create"):
            kind()


def test_python_types_name_dtypes():
    assert bk.zeros(2, dtype=float).dtype is bk.float64
    assert bk.zeros(2, dtype=int).dtype is bk.int64
    assert bk.zeros(2, dtype=bool).dtype is bk.bool
    with pytest.raises(TypeError, match="argument 'dtype' must be torch.dtype, not type"):
        bk.zeros(2, dtype=str)


@pytest.mark.skipif(bk.__name__ == "torch", reason="PyTorch has complex tensors")
def test_complex_tensors_are_refused_by_name():
    with pytest.raises(NotImplementedError, match="complex64"):
        bk.zeros(2, dtype=bk.complex64)


def test_size_is_a_tuple_that_stays_a_size():
    s = bk.Size([2, 3, 4])
    assert repr(s) == "torch.Size([2, 3, 4])" and str(bk.Size()) == "torch.Size([])"
    assert s == (2, 3, 4) and hash(s) == hash((2, 3, 4)) and isinstance(s, tuple)
    for t, expected in [
        (s[1:], (3, 4)),
        (s[::-1], (4, 3, 2)),
        (s + (5,), (2, 3, 4, 5)),
        ((5,) + s, (5, 2, 3, 4)),
        (s + s, (2, 3, 4, 2, 3, 4)),
        (s * 2, (2, 3, 4, 2, 3, 4)),
        (2 * s, (2, 3, 4, 2, 3, 4)),
        (copy.deepcopy(s), (2, 3, 4)),
        (pickle.loads(pickle.dumps(s)), (2, 3, 4)),
    ]:
        assert type(t) is bk.Size and t == expected
    assert s[0] == 2 and s[-1] == 4
    assert s.numel() == 24 and bk.Size([]).numel() == 1 and bk.Size([3, 0]).numel() == 0
    assert bk.Size([2, True]) == (2, 1) and repr(bk.Size([2, True])) == "torch.Size([2, 1])"


def test_size_takes_ints_only():
    with pytest.raises(TypeError, match=r"torch.Size\(\) takes an iterable of 'int' \(item 1 is 'str'\)"):
        bk.Size((2, "a"))
    with pytest.raises(TypeError, match=r"item 0 is 'float'"):
        bk.Size([1.5])
    with pytest.raises(TypeError, match="not iterable"):
        bk.Size(3)
    with pytest.raises(TypeError, match="can only concatenate tuple"):
        bk.Size([1]) + [2]


def test_device_parses_prints_and_compares():
    d = bk.device
    assert repr(d("cpu")) == "device(type='cpu')" and str(d("cuda:1")) == "cuda:1"
    assert repr(d("cuda", 1)) == repr(d("cuda:1")) == "device(type='cuda', index=1)"
    assert repr(d(type="cuda", index=0)) == "device(type='cuda', index=0)"
    assert d("cpu").type == "cpu" and d("cpu").index is None and d("cuda:1").index == 1
    assert d("cpu") == d("cpu") and d("cpu") != d("cpu:0") and d("cpu") != "cpu"
    assert d(d("cuda")) == d("cuda") and len({d("cpu"), d("cpu"), d("cpu:0")}) == 2
    for x in (d("cpu"), d("cuda:1"), d("mps")):
        assert pickle.loads(pickle.dumps(x)) == x and copy.deepcopy(x) == x
    with d("cpu") as entered:
        assert entered == d("cpu")


@pytest.mark.parametrize(
    "args, error, text",
    [
        (("foo",), RuntimeError, "Expected one of cpu, cuda, .* device type at start of device string: foo"),
        (("cpu:x",), RuntimeError, "Invalid device string: 'cpu:x'"),
        (("cuda:01",), RuntimeError, "Invalid device string: 'cuda:01'"),
        (("cuda:-1",), RuntimeError, "Invalid device string: 'cuda:-1'"),
        (("",), RuntimeError, "Device string must not be empty"),
        (("cuda:1", 1), RuntimeError, "must not include an index because index was passed explicitly: cuda:1"),
        (("cuda", -1), RuntimeError, "Device index must not be negative"),
        ((), TypeError, r"device\(\) received an invalid combination of arguments - got \(\)"),
        ((1.5,), TypeError, r"got \(float\)"),
    ],
)
def test_device_errors(args, error, text):
    with pytest.raises(error, match=text):
        bk.device(*args)


def test_devices_are_not_ordered():
    with pytest.raises(TypeError):
        assert bk.device("cpu") < bk.device("cuda")


@pytest.mark.skipif(bk.__name__ == "torch" and bk.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_missing_fails_where_it_is_used():
    with pytest.raises(AssertionError, match="not compiled with CUDA"):
        bk.zeros(2, device="cuda")


def test_layouts_and_memory_formats_have_names():
    for name in ("strided", "sparse_coo"):
        assert repr(getattr(bk, name)) == f"torch.{name}" and isinstance(getattr(bk, name), bk.layout)
    for name in ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d"):
        assert repr(getattr(bk, name)) == f"torch.{name}" and isinstance(getattr(bk, name), bk.memory_format)
        assert copy.deepcopy(getattr(bk, name)) is getattr(bk, name)


FLOATS = {
    "float32": (32, 1.1920928955078125e-07, 3.4028234663852886e38, 1.1754943508222875e-38, 1e-06),
    "float64": (64, 2.220446049250313e-16, 1.7976931348623157e308, 2.2250738585072014e-308, 1e-15),
    "float16": (16, 0.0009765625, 65504.0, 6.103515625e-05, 0.001),
    "bfloat16": (16, 0.0078125, 3.3895313892515355e38, 1.1754943508222875e-38, 0.01),
}


@pytest.mark.parametrize("name", FLOATS)
def test_finfo(name):
    f = bk.finfo(getattr(bk, name))
    assert (f.bits, f.eps, f.max, f.tiny, f.resolution) == FLOATS[name]
    assert f.smallest_normal == f.tiny and f.min == -f.max and f.dtype == name
    assert f == bk.finfo(getattr(bk, name)) and f != bk.finfo(bk.float64 if name != "float64" else bk.float32)


def test_finfo_prints_and_defaults():
    text = "finfo(resolution=1e-06, min=-3.40282e+38, max=3.40282e+38, eps=1.19209e-07, smallest_normal=1.17549e-38, "
    assert repr(bk.finfo()) == repr(bk.finfo(bk.float32)) == text + "tiny=1.17549e-38, dtype=float32)"
    assert bk.finfo(bk.complex64).dtype == "float32" and bk.finfo(float).bits == 64
    with pytest.raises(TypeError, match="requires a floating point input type"):
        bk.finfo(bk.int32)
    with pytest.raises(TypeError, match=r"argument 'type' \(position 1\) must be torch.dtype, not str"):
        bk.finfo("a")


@pytest.mark.parametrize("name, bits", [("int64", 64), ("int32", 32), ("int16", 16), ("int8", 8), ("uint8", 8)])
def test_iinfo(name, bits):
    i = bk.iinfo(getattr(bk, name))
    unsigned = name == "uint8"
    assert (i.bits, i.dtype) == (bits, name)
    assert (i.min, i.max) == ((0, 255) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1))


def test_iinfo_refuses_what_is_no_integer():
    assert repr(bk.iinfo(bk.int32)) == "iinfo(min=-2.14748e+09, max=2.14748e+09, dtype=int32)"
    with pytest.raises(TypeError, match="requires an integer input type"):
        bk.iinfo(bk.float32)
    with pytest.raises(TypeError, match="torch.bool is not supported by torch.iinfo"):
        bk.iinfo(bk.bool)
    with pytest.raises(TypeError, match="missing 1 required positional arguments"):
        bk.iinfo()
