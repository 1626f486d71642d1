"""Python data to tensors and back. BRISK_TEST_MODULE=torch runs this file against PyTorch."""

import array
import importlib
import os
import subprocess
import sys

import pytest

bk = importlib.import_module(os.environ.get("BRISK_TEST_MODULE", "brisk"))
np = pytest.importorskip("numpy")
IS_TORCH = bk.__name__ == "torch"
pytestmark = pytest.mark.filterwarnings("ignore")

nan, inf = float("nan"), float("inf")


class Sequence:
    def __len__(self):
        return 2

    def __getitem__(self, i):
        if i < 2:
            return i
        raise IndexError(i)


class Float:
    def __float__(self):
        return 1.5


class Index:
    def __index__(self):
        return 3


CASES = [
    (lambda: 3, "int64", [], 3),
    (lambda: 2.5, "float32", [], 2.5),
    (lambda: True, "bool", [], True),
    (lambda: [1, 2, 3], "int64", [3], [1, 2, 3]),
    (lambda: (1.0, 2.0), "float32", [2], [1.0, 2.0]),
    (lambda: [True, False], "bool", [2], [True, False]),
    (lambda: [True, 2], "int64", [2], [1, 2]),
    (lambda: [True, 2.5], "float32", [2], [1.0, 2.5]),
    (lambda: [1, 2.5, True, 3], "float32", [4], [1.0, 2.5, 1.0, 3.0]),
    (lambda: [[1, 2], [3, 4], [5, 6.5]], "float32", [3, 2], [[1, 2], [3, 4], [5, 6.5]]),
    (lambda: [[[1], [2]], [[3], [4]]], "int64", [2, 2, 1], [[[1], [2]], [[3], [4]]]),
    (lambda: [], "float32", [0], []),
    (lambda: [[], []], "float32", [2, 0], [[], []]),
    (lambda: [[[]]], "float32", [1, 1, 0], [[[]]]),
    (lambda: range(2, 11, 4), "int64", [3], [2, 6, 10]),
    (lambda: [range(2), range(2, 4)], "int64", [2, 2], [[0, 1], [2, 3]]),
    (lambda: [range(2), (0.5, 1)], "float32", [2, 2], [[0, 1], [0.5, 1]]),
    (lambda: Sequence(), "int64", [2], [0, 1]),
    (lambda: [Sequence(), [5, 6]], "int64", [2, 2], [[0, 1], [5, 6]]),
    (lambda: -(2**63), "int64", [], -(2**63)),
    (lambda: [2**63, 1.0], "float32", [2], [2.0**63, 1.0]),
    (lambda: [[1, 2**70], [3, 0.5]], "float32", [2, 2], [[1, 2.0**70], [3, 0.5]]),
    (lambda: [1e300, nan], "float32", [2], [inf, nan]),
    (lambda: bytearray(b"ab"), "int64", [2], [97, 98]),
    (lambda: memoryview(b"ab"), "int64", [2], [97, 98]),
    (lambda: array.array("d", [1, 2.5]), "float32", [2], [1.0, 2.5]),
    (lambda: [array.array("d", [1, 2.5])], "float32", [1, 2], [[1.0, 2.5]]),
    (lambda: np.float32(1.5), "float32", [], 1.5),
    (lambda: np.float64(1.5), "float64", [], 1.5),
    (lambda: np.bool_(True), "bool", [], True),
    (lambda: np.int8(1), "int8", [], 1),
    (lambda: [np.float32(1), np.float64(2)], "float64", [2], [1.0, 2.0]),
    (lambda: [1.0, np.float64(2)], "float64", [2], [1.0, 2.0]),
    (lambda: [np.int8(2), 1], "int64", [2], [2, 1]),
    (lambda: [np.int8(2), 1.0], "float32", [2], [2.0, 1.0]),
    (lambda: [True, np.int8(3)], "int8", [2], [1, 3]),
    (lambda: [np.float16(1), 1], "float16", [2], [1.0, 1.0]),
    (lambda: [np.bool_(True)], "bool", [1], [True]),
    (lambda: np.array(1.5), "float64", [], 1.5),
    (lambda: np.arange(6).reshape(2, 3), "int64", [2, 3], [[0, 1, 2], [3, 4, 5]]),
    (lambda: np.arange(6, dtype="f4").reshape(2, 3).T, "float32", [3, 2], [[0, 3], [1, 4], [2, 5]]),
    (lambda: np.arange(8)[::3], "int64", [3], [0, 3, 6]),
    (lambda: [np.array([1.0, 2]), np.array([1, 2])], "float64", [2, 2], [[1, 2], [1, 2]]),
    (lambda: [np.array([1, 2]), np.array([1.5, 2], "f4")], "float32", [2, 2], [[1, 2], [1.5, 2]]),
    (lambda: [[1, 2], np.array([1, 2], "f8")], "float64", [2, 2], [[1, 2], [1, 2]]),
    (lambda: [[np.ones(2)], [np.zeros(2)]], "float64", [2, 1, 2], [[[1, 1]], [[0, 0]]]),
    (lambda: [bk.tensor(1.0), bk.tensor(2)], "float32", [2], [1.0, 2.0]),
    (lambda: [bk.tensor(1), 2.5], "float32", [2], [1.0, 2.5]),
    (lambda: [bk.tensor([1.0]), bk.tensor([2.0])], "float32", [2], [1.0, 2.0]),
    (lambda: bk.tensor([[1, 2]]), "int64", [1, 2], [[1, 2]]),
    (lambda: bk.Size([1, 2]), "int64", [2], [1, 2]),
]


@pytest.mark.parametrize("make, dtype, shape, values", CASES)
def test_dtype_shape_and_values_are_inferred(make, dtype, shape, values):
    t = bk.tensor(make())
    assert t.dtype is getattr(bk, dtype)
    assert list(t.shape) == shape
    assert repr(t.tolist()) == repr(bk.tensor(values, dtype=t.dtype).tolist())
    assert np.array_equal(np.array(t.tolist(), float), np.array(values, float), equal_nan=True)


GIVEN = [
    ([1.5, -2.7], "int64", [1, -2]),
    ([-1, -255, 255], "uint8", [255, 1, 255]),
    ([2, 0, -1], "bool", [True, False, True]),
    ([nan, 0.0, 2**70], "bool", [True, False, True]),
    ([2**70, 1], "float64", [2.0**70, 1.0]),
    ([70000.0, 0.1], "float16", [inf, 0.0999755859375]),
    ([1, True], "bfloat16", [1.0, 1.0]),
    ([Float()], "float32", [1.5]),
    ([Index()], "int64", [3]),
    ([], "int32", []),
    (range(3), "float64", [0.0, 1.0, 2.0]),
    (range(3), "uint8", [0, 1, 2]),
    (np.array([300, -1]), "uint8", [44, 255]),
    (np.array([1.7, -1.7]), "int64", [1, -1]),
    ([np.float64(1.5)], "int64", [1]),
    (np.array([0.5, 0.0]), "bool", [True, False]),
    (np.array([[1, 2], [3, 4]], "i2"), "float32", [[1.0, 2.0], [3.0, 4.0]]),
]


@pytest.mark.parametrize("data, dtype, values", GIVEN)
def test_a_dtype_may_be_given(data, dtype, values):
    t = bk.tensor(data, dtype=getattr(bk, dtype))
    assert t.dtype is getattr(bk, dtype)
    assert t.tolist() == values and [type(v) for v in t.tolist()] == [type(v) for v in values]


ERRORS = [
    (lambda: "a", None, TypeError, r"new\(\): invalid data type 'str'"),
    (lambda: b"ab", None, TypeError, r"new\(\): invalid data type 'bytes'"),
    (lambda: ["a"], None, ValueError, "too many dimensions 'str'"),
    (lambda: ["a"], "float32", ValueError, "too many dimensions 'str'"),
    (lambda: [1, "a"], None, TypeError, r"new\(\): invalid data type 'str'"),
    (lambda: [1, "a"], "float32", TypeError, "must be real number, not str"),
    (lambda: [1, "a"], "int32", TypeError, "'str' object cannot be interpreted as an integer"),
    (lambda: None, None, RuntimeError, "Could not infer dtype of NoneType"),
    (lambda: [1, None], None, RuntimeError, "Could not infer dtype of NoneType"),
    (lambda: [None], "float32", TypeError, "must be real number, not NoneType"),
    (lambda: [None], "bool", TypeError, "'NoneType' object cannot be interpreted as an integer"),
    (lambda: [object()], None, RuntimeError, "Could not infer dtype of object"),
    (lambda: {1, 2}, None, RuntimeError, "Could not infer dtype of set"),
    (lambda: {1: 2}, None, RuntimeError, "Could not infer dtype of dict"),
    (lambda: iter([1]), None, RuntimeError, "Could not infer dtype of list_iterator"),
    (lambda: Float(), None, RuntimeError, "Could not infer dtype of Float"),
    (lambda: [[1, 2], [3]], None, ValueError, r"expected sequence of length 2 at dim 1 \(got 1\)"),
    (lambda: [[1], [3, 2]], None, ValueError, r"expected sequence of length 1 at dim 1 \(got 2\)"),
    (lambda: [[[1, 2]], [[3]]], "bool", ValueError, r"expected sequence of length 2 at dim 2 \(got 1\)"),
    (lambda: [np.array([1, 2]), np.array([1])], None, ValueError, r"expected sequence of length 2 at dim 1 \(got 1\)"),
    (lambda: [1, [3, 2]], None, TypeError, "'list' object cannot be interpreted as an integer"),
    (lambda: [1.0, [3, 2]], None, TypeError, "must be real number, not list"),
    (lambda: [[1], 2], None, TypeError, "not a sequence"),
    (lambda: [np.array([1, 2]), 3], None, TypeError, "not a sequence"),
    (lambda: [2**63], None, ValueError, "Overflow when unpacking long"),
    (lambda: 2**64, None, ValueError, "Overflow when unpacking long"),
    (lambda: [300], "uint8", RuntimeError, "value cannot be converted to type uint8 without overflow"),
    (lambda: [-256], "uint8", RuntimeError, "value cannot be converted to type uint8 without overflow"),
    (lambda: [-1.5], "uint8", RuntimeError, "value cannot be converted to type uint8 without overflow"),
    (lambda: [2**31], "int32", RuntimeError, "value cannot be converted to type int32 without overflow"),
    (lambda: [127.9], "int8", RuntimeError, "value cannot be converted to type int8 without overflow"),
    (lambda: [nan], "int64", RuntimeError, "value cannot be converted to type int64 without overflow"),
    (lambda: [1e30], "int64", RuntimeError, "value cannot be converted to type int64 without overflow"),
    (lambda: 10**400, "float64", OverflowError, "int too large to convert to float"),
    (lambda: [bk.zeros(2)], None, ValueError, "only one element tensors can be converted to Python scalars"),
    (lambda: [bk.tensor(1.5)], "int64", TypeError, "only integer tensors of a single element"),
    (lambda: np.array(["a"]), None, TypeError, "can't convert np.ndarray of type numpy.str_"),
    (lambda: np.array([None]), None, TypeError, "can't convert np.ndarray of type numpy.object_"),
    (lambda: np.zeros(2, "M8[s]"), None, TypeError, "can't convert np.ndarray of type numpy.datetime64"),
    (lambda: np.array([1], ">f4"), None, ValueError, "byte order different from the native"),
]


@pytest.mark.parametrize("make, dtype, error, text", ERRORS)
def test_what_cannot_be_converted_raises(make, dtype, error, text):
    with pytest.raises(error, match=text):
        bk.tensor(make(), dtype=dtype and getattr(bk, dtype))


@pytest.mark.skipif(IS_TORCH, reason="PyTorch refuses these")
def test_beyond_pytorch():
    class Array:
        def __array__(self, dtype=None, copy=None):
            return np.ones((2, 2), "f4")

    assert bk.tensor(Array()).tolist() == [[1, 1], [1, 1]]
    assert bk.tensor([Array(), Array()]).shape == (2, 2, 2)
    assert bk.tensor([np.array(1.5), np.array(2.5)]).tolist() == [1.5, 2.5]


def test_a_list_that_changes_while_it_is_read():
    data = [1.0, None, 2.0, 3.0]

    class Shrinks:
        def __float__(self):
            del data[1:]
            return 0.5

    data[1] = Shrinks()
    if IS_TORCH:
        assert bk.tensor(data, dtype=bk.float32).shape == (4,)  # what it held is read from a copy
    else:
        with pytest.raises(ValueError, match="changed while it was read"):
            bk.tensor(data, dtype=bk.float32)


@pytest.mark.skipif(IS_TORCH, reason="PyTorch imports NumPy")
def test_neither_import_nor_lists_import_numpy():
    code = "import brisk, sys; brisk.tensor([[1.5, 2], (3, 4)]).tolist(); assert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_tolist_gives_python_numbers_nested():
    assert bk.tensor([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]
    assert bk.tensor(True).tolist() is True
    assert bk.zeros(0, 3).tolist() == [] and bk.zeros(2, 0).tolist() == [[], []]
    assert bk.tensor([1.5], dtype=bk.bfloat16).tolist() == [1.5]
    assert [type(v) for v in (bk.tensor(1).tolist(), bk.tensor(1.0).tolist())] == [int, float]


@pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="sanitizers take their time")
def test_importing_the_package_takes_less_than_a_tenth_of_a_second_and_no_numpy():
    code = """
import sys, time
begin = time.process_time()
import brisk
print(time.process_time() - begin)
assert "numpy" not in sys.modules and "brisk.optim" not in sys.modules
"""
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(7)]
    assert min(float(run.stdout) for run in runs) < 0.1
