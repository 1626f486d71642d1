"""Bad input raises what PyTorch raises, on the line that caused it, in words that name what did not fit."""

import subprocess
import sys
import traceback
import warnings

import numpy as np
import pytest

from tests.torch.compare import REF, SUT, Raised, outcome, same_exception
from tests.torch.scripts import compare_lines, evaluate, lines_of

# A line, and after | words that the message must contain (PyTorch's contains them too)
MESSAGES = """
torch.ones(2, 3) + torch.ones(4) | size of tensor a (3) must match the size of tensor b (4)
torch.ones(2, 3) @ torch.ones(4, 5) | 2x3 and 4x5
torch.mm(torch.ones(2, 3), torch.ones(2, 3)) | 2x3 and 2x3
torch.mm(torch.ones(2), torch.ones(2, 3)) | matrix
torch.ones(2, 3).view(4) | shape '[4]' is invalid for input of size 6
torch.ones(2, 3).reshape(4, -1) | shape '[4, -1]' is invalid for input of size 6
torch.ones(2, 3).t().view(-1) | view
torch.ones(2, 3).sum(5) | Dimension out of range
torch.ones(2, 3).sum(-3) | Dimension out of range
torch.ones(2, 3).sum((0, 0)) | dim 0 appears multiple times
torch.ones(2, 3).transpose(0, 2) | Dimension out of range
torch.ones(2, 3).permute(0) | permute
torch.ones(2, 3).unsqueeze(5) | Dimension out of range
torch.cat([torch.ones(2, 3), torch.ones(2, 4)]) | Sizes of tensors must match except in dimension 0
torch.stack([torch.ones(2), torch.ones(3)]) | stack expects each tensor to be equal size
torch.cat([]) | non-empty
torch.stack([]) | non-empty
torch.ones(3)[3] | index 3 is out of bounds for dimension 0 with size 3
torch.ones(3)[-4] | index -4 is out of bounds for dimension 0 with size 3
torch.ones(3)[0, 0] | too many indices for tensor of dimension 1
torch.ones(3)[torch.tensor([3])] | index 3 is out of bounds
torch.ones(3)[torch.ones(2).bool()] | shape of the mask [2]
torch.ones(3)[1.5] | indices
torch.ones(3)[::-1] | step must be greater than zero
torch.tensor([[1, 2], [3]]) | expected sequence of length 2 at dim 1
torch.tensor(['a']) | str
torch.tensor([1, None]) | None
torch.zeros(-1) | non-negative
torch.zeros(2, -1) | non-negative
torch.ones(2, -1) | negative
torch.empty(2, -1) | negative
torch.ones(3).expand(2) | expanded size
torch.ones(3).expand(2, 4) | expanded size
bool(torch.ones(2)) | Boolean value of Tensor with more than one value is ambiguous
bool(torch.ones(0)) | Boolean value of Tensor with no values is ambiguous
torch.ones(2).item() | a Tensor with 2 elements cannot be converted to Scalar
int(torch.ones(2))
float(torch.ones(0))
torch.ones(2, requires_grad=True).numpy() | detach
torch.ones(2).mean(dtype=torch.int64)
torch.tensor([1, 2]).mean()
torch.ones(2, dtype=torch.int64).requires_grad_() | floating point
torch.tensor([1, 2], requires_grad=True) | floating point
torch.ones(2).backward() | does not require grad
torch.ones(2, requires_grad=True).mul(2).backward() | grad can be implicitly created only for scalar outputs
torch.arange(0, 5, 0) | step must be nonzero
torch.arange(0, 5, -1)
torch.ones(3).scatter_(0, torch.tensor([5]), 1.0) | index 5 is out of bounds for dimension 0 with size 3
torch.ones(3).gather(0, torch.tensor([5])) | index 5 is out of bounds for dimension 0 with size 3
torch.ones(3).index_select(0, torch.tensor([5])) | out of range
torch.ones(3).take(torch.tensor([5])) | out of range
F.embedding(torch.tensor([5]), torch.ones(3, 2)) | out of range
F.one_hot(torch.tensor([-1])) | non-negative
F.one_hot(torch.tensor([5]), 3) | smaller than num_classes
torch.bincount(torch.tensor([-1])) | non-negative
torch.ones(2, 3).squeeze(4) | Dimension out of range
torch.ones(2).argmax(3) | Dimension out of range
torch.ones(0).argmax()
torch.ones(0).max()
torch.ones(2, 3).topk(5) | out of range
torch.tensor([1]) // torch.tensor([0]) | ZeroDivisionError
torch.tensor([1]) % torch.tensor([0]) | ZeroDivisionError
torch.tensor([2]) ** -1 | negative integer powers
torch.ones(2).bool() - torch.ones(2).bool() | not supported
-torch.ones(2).bool() | not supported
torch.ones(2) & torch.ones(2)
torch.ones(2).bitwise_not()
torch.ones(2, 3).split([1, 3]) | split_with_sizes
torch.ones(2, 3).chunk(0) | chunk expects
torch.ones(2, 3).unflatten(1, (2, 2)) | unflatten
torch.ones(2, 3).narrow(0, 1, 5) | exceeds dimension size
torch.ones(2, 3).diagonal(0, 0, 0)
torch.ones(2).unfold(0, 3, 1) | maximum size
torch.einsum('ij,jk->ik', torch.ones(2, 3), torch.ones(4, 5))
torch.einsum('ij', torch.ones(2))
F.linear(torch.ones(2, 3), torch.ones(4, 5)) | 2x3 and 5x4
torch.bmm(torch.ones(2, 3, 4), torch.ones(2, 5, 6))
torch.dot(torch.ones(2), torch.ones(3))
torch.mv(torch.ones(2, 3), torch.ones(2))
torch.ones(2).to('cuda')
torch.zeros(2, device='cuda')
torch.ones(2).cuda()
torch.ones(2).to('nonsense')
torch.device('nonsense')
torch.ones(2).foo | has no attribute
torch.foo_bar | has no attribute
torch.ones(2, dtype='float32')
torch.ones(2).to(torch.float31) | has no attribute
torch.add('a', torch.ones(2))
torch.ones(2) + 'a'
'a' + torch.ones(2)
torch.ones(2) + None
torch.ones(2) + [1, 2]
torch.exp(2)
torch.exp([1.0])
torch.ones(2).exp(1, 2, 3)
torch.sum(torch.ones(2), nonsense=1)
torch.ones(2).clamp() | At least one of
torch.multinomial(torch.tensor([1., -1.]), 1)
torch.linspace(0, 1, -1)
torch.eye(-1)
torch.randint(3, 3, (2,))
torch.randperm(-1)
torch.full((2,), 'a')
torch.ones(2).fill_('a')
torch.ones(2).fill_(torch.ones(2))
torch.ones(2).copy_(torch.ones(3))
torch.from_numpy([1])
torch.allclose(torch.ones(2), torch.ones(2).long())
torch.where(torch.ones(2), torch.ones(2), torch.ones(2))
torch.masked_select(torch.ones(2), torch.ones(2))
torch.masked_select(torch.ones(2), torch.ones(2, dtype=torch.uint8))
torch.ones(2, 3).t_(5)
torch.ones(2, 2, 2).t()
torch.ones(2)[torch.ones(2)]
torch.empty(2**62)
torch.empty(2**40, 2**40)
torch.ones(1).expand(-2)
torch.ones(2).repeat()
torch.ones(2, 3).repeat(2)
torch.ones(2).roll((1, 2), 0)
torch.set_default_dtype(torch.int32)
torch.manual_seed('a')
next(iter(torch.tensor(1)))
len(torch.tensor(1))
torch.ones(3).tolist(1)
torch.cdist(torch.ones(2, 3), torch.ones(2, 4))
torch.tensordot(torch.ones(2, 3), torch.ones(2, 3), 1)
torch.autograd.grad(torch.ones(1), torch.ones(1))
torch.ones(2, requires_grad=True).add_(1) | leaf
"""
# setup :: expression | words
SCRIPTS = """
x = torch.zeros(1).expand(3) :: x.add_(1) | single memory location
x = torch.arange(8.) :: x[1:].copy_(x[:-1]) | single memory location
x = torch.arange(8.) :: x[1:].add_(x[:-1]) | single memory location
x = torch.arange(4.).reshape(2, 2) :: x.add_(x.t())
x = torch.arange(4.).reshape(2, 2) :: x.copy_(x.t()) | single memory location
x = torch.zeros(1, 3).expand(2, 3) :: x.copy_(torch.ones(2, 3)) | single memory location
x = torch.arange(12.).reshape(3, 4) :: x.sub_(x[0]) | single memory location
x = torch.arange(12.).reshape(3, 4) :: x[1:].clamp_(min=x[:2]) | single memory location
x = torch.arange(12.).reshape(3, 4) :: x[1:].addcmul_(x[:2], x[1:]) | single memory location
x = torch.arange(12.).reshape(3, 4) :: torch.add(x[1:], 1, out=x[:2]) | single memory location
x = torch.arange(12.).reshape(3, 4) :: torch.exp(x[1:], out=x[:2]) | single memory location
x = torch.zeros(2, dtype=torch.uint8) :: x.fill_(-1.5) | type uint8_t without overflow
x = torch.zeros(2, dtype=torch.int8) :: x.__setitem__(0, 300) | type int8_t without overflow
x = torch.zeros(2, dtype=torch.uint8) :: x.masked_fill(x == 0, 256) | type uint8_t without overflow
x = torch.zeros(2, dtype=torch.int32) :: torch.where(x > 0, x, 2**40) | without overflow
x = torch.zeros(2) :: x.scatter_(0, torch.tensor([0]), 1e300) | type float without overflow
x = torch.ones(2, dtype=torch.int64) :: x.add_(0.5)
x = torch.ones(2, dtype=torch.int64) :: x.mul_(torch.ones(2)) | can't be cast
x = torch.ones(2, dtype=torch.bool) :: x.add_(1) | can't be cast
x = torch.ones(2) :: x.add_(torch.ones(3, 2))
x = torch.ones(2) :: torch.add(x, x, out=torch.ones(2, dtype=torch.int64)) | can't be cast
x = torch.ones(2, requires_grad=True) :: torch.add(x, x, out=torch.ones(2))
x = torch.ones(2, requires_grad=True); y = x.exp().sum(); y.backward() :: y.backward() | second time
x = torch.ones(2, requires_grad=True) :: x[0].fill_(1) | leaf
x = torch.ones(2) :: setattr(x, 'grad', torch.ones(3))
x = torch.ones(2) :: setattr(x, 'grad', 5)
x = torch.ones(2) :: setattr(x, 'shape', (1,))
x = torch.ones(2) :: setattr(x, 'data', 5)
x = torch.ones(2) :: x.__delitem__(0)
x = torch.ones(3) :: x.__setitem__(3, 1.0) | index 3 is out of bounds for dimension 0 with size 3
x = torch.ones(3) :: x.__setitem__(0, torch.ones(2))
x = torch.ones(3) :: x.__setitem__(slice(None), torch.ones(2))
x = torch.ones(3) :: x.__setitem__(torch.tensor([5]), 1.0) | out of bounds
x = torch.ones(3) :: x.__setitem__(0, 'a')
x = torch.zeros(3, 3) :: x.__setitem__((0, 0), torch.ones(2))
x = torch.zeros(3, 4).double() :: x.__setitem__(torch.tensor([0, 1]), torch.ones(3, 4)) | cannot be broadcast
x = torch.zeros(3, 4).double() :: x.__setitem__(x < 1, torch.ones(5)) | cannot be broadcast to indexing result
x = torch.zeros(3, 4).double() :: x.__setitem__(torch.tensor([0, 1]), torch.ones(2, 4)) | dtypes match
x = torch.zeros(3, 4).double() :: x.__setitem__(x < 1, torch.ones(12)) | source and destination dtypes match
a = np.arange(6.)[::-1] :: torch.from_numpy(a) | negative
a = np.array(['x']) :: torch.tensor(a)
a = np.array([1, 'x'], dtype=object) :: torch.tensor(a)
"""


def cases(text):
    for line in text.strip("\n").split("\n"):
        code, _, words = line.partition(" | ")
        yield code.strip(), words.strip()


ALL = list(cases(MESSAGES)) + list(cases(SCRIPTS))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("line,words", ALL, ids=[line for line, _ in ALL])
def test_bad_input(line, words):
    if "cuda" in line and REF.cuda.is_available():
        pytest.skip("a CUDA device is present")
    compare_lines(line)
    theirs, ours = (outcome(evaluate, m, line) for m in (REF, SUT))
    assert isinstance(theirs, Raised), f"PyTorch accepts it: {theirs!r}"
    if words:
        assert words in str(theirs.error), f"the test asks for words that PyTorch does not say: {theirs!r}"
        assert words in str(ours.error), f"the message does not say {words!r}: {ours!r}"


def test_a_numpy_array_that_is_not_writable_is_taken_with_a_warning():
    """PyTorch warns and shares the memory all the same."""
    array = np.zeros(3)
    array.flags.writeable = False
    for m in (REF, SUT):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert m.from_numpy(array).sum().item() == 0
        assert (
            REF is SUT or m is REF or caught and "writable" in str(caught[0].message)
        )  # PyTorch itself warns once per process


def test_fill_reaches_expanded_memory_although_arithmetic_may_not():
    for m in (REF, SUT):
        x = m.zeros(1, 3)
        x.expand(2, 3).fill_(1)
        x.expand(4, 3).zero_()
        assert x.tolist() == [[0, 0, 0]]


def line_that_raised(body):
    """The source line of the user's code that an exception came from."""
    try:
        body(SUT)
    except Exception:
        frames = traceback.extract_tb(sys.exc_info()[2])
        return [frame.line for frame in frames if frame.filename == __file__][-1]
    return None


def test_errors_are_raised_on_the_users_line():
    def shapes(torch):
        x = torch.ones(2, 3)
        y = x * 2
        z = y + torch.ones(4)  # here
        return z.sum()

    def index(torch):
        x = torch.arange(3.0) + 1
        y = x[torch.tensor([7])]  # here
        return y.sum().item()

    def division(torch):
        x = torch.arange(3) // torch.tensor([1, 0, 1])  # here
        return x.sum().item()

    def embedding(torch):
        w = torch.ones(3, 2)
        e = torch.nn.functional.embedding(torch.tensor([1, 3]), w)  # here
        return e.sum().item()

    for body in (shapes, index, division, embedding):
        assert "# here" in (line_that_raised(body) or ""), body.__name__


def test_a_failed_step_leaves_its_target_as_it_was():
    for m in (REF, SUT):
        x = m.arange(3.0)
        y = x * 2
        for bad in (
            lambda: x.add_(m.ones(4)),
            lambda: x.__setitem__(9, 1.0),
            lambda: x.copy_(m.ones(5)),
            lambda: m.mm(x, x),
        ):
            error = outcome(bad)
            assert isinstance(error, Raised)
        assert x.tolist() == [0, 1, 2] and y.tolist() == [0, 2, 4]


def test_try_and_except_around_an_index_goes_on_as_in_pytorch():
    def program(m):
        found = []
        x = m.arange(5.0)
        for i in (1, 7, -5, -6, 4):
            try:
                found.append(x.index_select(0, m.tensor([i])).item())
            except Exception as error:
                found.append(type(error))
        return found

    ours, theirs = program(SUT), program(REF)
    for a, b in zip(ours, theirs):
        assert a == b or same_exception_type(a, b)


def same_exception_type(a, b):
    return isinstance(a, type) and isinstance(b, type) and same_exception(a(), b())


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x.nothing,
        lambda x: x + "1",
        lambda x: "1" + x,
        lambda x: x @ [1],
        lambda x: x < "1",
        lambda x: x(),
        lambda x: delattr(x, "nothing"),
        lambda x: "".join([x]),
        lambda x: type(x).nothing,
        lambda x: x.names,
    ],
)
def test_what_python_itself_refuses_names_tensors_as_with_pytorch(use):
    said = []
    for module in (SUT, REF):
        with pytest.raises((TypeError, AttributeError)) as refused:
            use(module.ones(2))
        said.append((type(refused.value), str(refused.value)))
    assert said[0] == said[1]


REFUSED = """
F.binary_cross_entropy(torch.tensor([0.5]), torch.tensor([1.5]))
F.binary_cross_entropy(torch.tensor([0.5]), torch.tensor([-0.1]))
F.binary_cross_entropy(torch.tensor([1.5]), torch.tensor([1.5]))
F.embedding(torch.tensor([1.0]), torch.ones(3, 2))
torch.nn.Embedding(3, 2)(torch.tensor([1], dtype=torch.uint8))
torch.nn.LSTM(4, 3)(torch.ones(0, 2, 4))
torch.nn.GRU(4, 3, batch_first=True)(torch.ones(2, 0, 4))
torch.gcd(torch.tensor([4.0]), torch.tensor(2))
torch.gcd(torch.tensor([True]), torch.tensor([True]))
torch.lcm(torch.tensor([4]), 2)
torch.gcd(4, torch.tensor([4]))
"""


@pytest.mark.parametrize("line", lines_of(REFUSED))
def test_what_was_once_accepted_is_refused_in_pytorchs_words(line):
    said = []
    for module in (SUT, REF):
        with pytest.raises((TypeError, RuntimeError)) as refused:
            evaluate(module, line)
        said.append((type(refused.value), str(refused.value)))
    assert said[0] == said[1]


ONCE = """
import sys, warnings
torch = __import__(sys.argv[1])
for call in sys.argv[2:]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        eval(call), eval(call)
    print([(str(w.message).partition(" (Triggered")[0], w.filename) for w in seen])
"""
OLDER_NAMES = [
    "torch.cross(torch.ones(3), torch.ones(3))",
    "torch.chain_matmul(torch.eye(2), torch.eye(2))",
    "torch.lu(torch.eye(2))",
    "torch.lu_solve(torch.ones(2, 1), *torch.linalg.lu_factor(torch.eye(2)))",
    "torch.triangular_solve(torch.ones(2, 1), torch.eye(2))",
]


def test_a_function_that_has_a_new_name_says_so_once():
    """In programs of their own: what was warned of before is known."""

    def said(m):
        command = [sys.executable, "-c", ONCE, m.__name__, *OLDER_NAMES]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        return [[text for text, _ in eval(line)] for line in lines], lines

    ours, theirs = said(SUT), said(REF)
    assert ours[0] == theirs[0]
    assert all("<string>" in line for line in ours[1])  # on the user's line
