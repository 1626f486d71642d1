"""How functions and methods take their arguments. BRISK_TEST_MODULE=torch runs this file against PyTorch."""

import copy
import importlib
import os
import pickle

import pytest

bk = importlib.import_module(os.environ.get("BRISK_TEST_MODULE", "brisk"))
IS_TORCH = bk.__name__ == "torch"


@pytest.fixture
def x():
    return bk.zeros(2, 3)


class Index:
    def __index__(self):
        return 1


def test_ints_come_in_many_forms(x):
    np = pytest.importorskip("numpy")
    for dim in (1, np.int64(1), np.int8(1), bk.tensor(1)):
        assert x.unsqueeze(dim).shape == (2, 1, 3)
    if not IS_TORCH:
        assert x.unsqueeze(Index()).shape == (2, 1, 3)
    assert bk.zeros(bk.tensor(2), 3).shape == (2, 3)


def test_sizes_come_as_a_tuple_or_spread_out(x):
    for y in (x.view(3, 2), x.view((3, 2)), x.view([3, 2]), x.view(bk.Size([3, 2])), x.view(size=(3, 2))):
        assert y.shape == (3, 2)
    assert x.view(-1).shape == (6,) and x.permute(1, 0).shape == x.permute(dims=(1, 0)).shape == (3, 2)
    assert bk.zeros(2, 3, dtype=bk.int64).shape == bk.zeros((2, 3)).shape == bk.zeros(size=(2, 3)).shape == (2, 3)
    assert bk.zeros(()).shape == ()


def test_keywords_numpy_words_and_input(x):
    assert x.sum(dim=0).shape == x.sum(axis=0).shape == bk.sum(input=x, dim=0).shape == (3,)
    assert x.sum(axis=0, keepdims=True).shape == bk.sum(x, (0,), True).shape == (1, 3)
    assert bk.add(x, other=1).shape == bk.add(x1=x, x2=1).shape == bk.add(input=x, other=x, alpha=2).shape == (2, 3)
    assert bk.cat([x, x], axis=1).shape == (2, 6)
    assert bk.relu(input=x).shape == bk.sum(a=x, axis=1, keepdim=True).expand(2, 3).shape


def test_overloads_are_chosen_by_type(x):
    assert bk.max(x).shape == () and x.max(0)[0].shape == (3,) and bk.max(x, x).shape == (2, 3)
    assert x.add(1).tolist() == x.add(x + 1).tolist() == x.add(True).tolist()
    assert x.sum(None).shape == x.sum().shape == ()


ERRORS = [
    ("bk.relu('a')", r"relu\(\): argument 'input' \(position 1\) must be Tensor, not str"),
    ("bk.relu(None)", r"must be Tensor, not NoneType"),
    ("bk.relu([1])", r"must be Tensor, not list"),
    ("bk.relu()", r'relu\(\) missing 1 required positional arguments: "input"'),
    ("bk.relu(x, 1)", r"relu\(\) takes 1 positional argument but 2 were given"),
    ("bk.relu(x, foo=1)", r"relu\(\) got an unexpected keyword argument 'foo'"),
    ("bk.sum('a')", r"sum\(\): argument 'input' \(position 1\) must be Tensor, not str"),
    ("x.sum('a')", r"sum\(\) received an invalid combination of arguments - got \(str\), but expected one of:\n \* "),
    ("bk.sum()", r"sum\(\) received an invalid combination of arguments - got \(\), but expected one of:"),
    ("bk.max(x, 'a')", r"max\(\) received an invalid combination of arguments - got \(Tensor, str\)"),
    ("x.max(foo=1)", r"max\(\) received an invalid combination of arguments - got \(foo=int"),
    ("x.sum(0, 1)", r"sum\(\): argument 'keepdim' \(position 2\) must be bool, not int"),
    ("x.sum(0, foo=1)", r"sum\(\) got an unexpected keyword argument 'foo'"),
    ("x.sum(0, dim=1)", r"sum\(\) got multiple values for argument 'dim'"),
    ("x.sum(dim=[0, 'a'])", r"sum\(\): argument 'dim' failed to unpack the object at pos 2 with error"),
    ("x.transpose('a', 1)", r"transpose\(\): argument 'dim0' \(position 1\) must be int, not str"),
    ("x.transpose(0)", r'transpose\(\) missing 1 required positional arguments: "dim1"'),
    ("x.transpose(0, 1, 2)", r"transpose\(\) takes 2 positional arguments but 3 were given"),
    ("bk.transpose(x, 0)", r'transpose\(\) missing 1 required positional arguments: "dim1"'),
    ("x.unsqueeze(1.5)", r"unsqueeze\(\): argument 'dim' \(position 1\) must be int, not float"),
    ("x.unsqueeze(True)", r"unsqueeze\(\): argument 'dim' \(position 1\) must be int, not bool"),
    ("x.unsqueeze(dim=None)", r"unsqueeze\(\): argument 'dim' must be int, not NoneType"),
    ("x.unsqueeze(bk.tensor(1.0))", r"must be int, not Tensor"),
    ("x.view('a')", r"view\(\) received an invalid combination of arguments - got \(str\)"),
    ("x.view(3, 'a')", r"view\(\): argument 'size' failed to unpack the object at pos 2"),
    ("x.reshape()", r'reshape\(\) missing 1 required positional arguments: "shape"'),
    ("x.reshape(-1.5)", r"reshape\(\): argument 'shape' \(position 1\) must be tuple of ints, not float"),
    ("bk.zeros()", r'zeros\(\) missing 1 required positional arguments: "size"'),
    ("bk.zeros('a')", r"zeros\(\): argument 'size' \(position 1\) must be tuple of ints, not str"),
    ("bk.zeros(True)", r"zeros\(\): argument 'size' \(position 1\) must be tuple of ints, not bool"),
    ("bk.zeros([2, 1.0])", r"zeros\(\): argument 'size' failed to unpack the object at pos 2"),
    ("bk.zeros(2, dtype='a')", r"zeros\(\): argument 'dtype' must be torch.dtype, not str"),
    ("bk.zeros(2, layout=1)", r"zeros\(\): argument 'layout' must be torch.layout, not int"),
    ("bk.zeros(2, requires_grad=1)", r"zeros\(\): argument 'requires_grad' must be bool, not int"),
    ("bk.zeros(2, 2, size=(2,))", r"zeros\(\) got multiple values for argument 'size'"),
    ("bk.zeros((2,), (2,))", r"zeros\(\) takes 1 positional argument but 2 were given"),
    ("bk.add(x, 1, alpha='a')", r"add\(\): argument 'alpha' must be Number, not str"),
    ("bk.add(1, x, alpha='a')", r"add\(\)"),
    ("x.add(1, out=x)", r"add\(\) (got an unexpected keyword argument 'out'|received an invalid combination)"),
    ("x.exp(out=x)", r"exp\(\) (got an unexpected keyword argument 'out'|takes no keyword arguments)"),
    ("x.contiguous(memory_format=1)", r"argument 'memory_format' must be torch.memory_format, not int"),
    ("bk.stack(x)", r"stack\(\): argument 'tensors' \(position 1\) must be tuple of Tensors, not Tensor"),
    ("bk.stack((x, 1))", r"expected Tensor as element 1 in argument 0, but got int"),
    ("bk.cat([x], dim='a')", r"cat\(\): argument 'dim' must be int, not str"),
    ("bk.cat([x], 0, 1)", r"cat\(\) takes from 1 to 2 positional arguments but 3 were given"),
    ("bk.dropout(x, 'a', True)", r"dropout\(\): argument 'p' \(position 2\) must be float, not str"),
    ("bk.dropout(x, 1, 1)", r"dropout\(\): argument 'train' \(position 3\) must be bool, not int"),
    ("x.tril(diagonal=None)", r"tril\(\): argument 'diagonal' must be int, not NoneType"),
]


@pytest.mark.parametrize("call, text", ERRORS, ids=[c for c, _ in ERRORS])
def test_a_call_that_fits_nothing_says_why(x, call, text):
    with pytest.raises(TypeError, match=text):
        eval(call, {"bk": bk, "x": x})


def test_ints_past_64_bits_overflow(x):
    with pytest.raises(ValueError, match="Overflow when unpacking long"):
        x.unsqueeze(2**70)
    with pytest.raises(OverflowError, match="int too big to convert"):
        x.add(2**70)


def test_functions_have_a_name_and_survive_pickle_and_copy():
    for f in (bk.relu, bk.Tensor.relu):
        assert f.__name__ == "relu"
        assert pickle.loads(pickle.dumps(f)) is f and copy.deepcopy(f) is f
    assert IS_TORCH or "relu(Tensor input)" in bk.relu.__doc__


def test_functions_do_not_bind_and_methods_do(x):
    class Module:
        act = bk.relu

    assert Module().act(x).shape == (2, 3)
    bound = x.unsqueeze
    assert bound(0).shape == bk.Tensor.unsqueeze(x, 0).shape == (1, 2, 3)
    assert list(map(bk.Tensor.relu, [x]))[0].shape == (2, 3)


@pytest.mark.skipif(IS_TORCH, reason="compiles brisk's own rows")
def test_every_signature_compiles():
    for owner in (bk, bk.Tensor):
        for name in dir(owner):
            f = getattr(owner, name, None)  # what is not there says so
            if type(f).__name__ in ("builtin_function", "builtin_method"):
                assert f.overloads and all(s.startswith("(") for s in f.overloads), name
