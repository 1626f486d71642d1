"""Making tensors: from Python, from NumPy, by size, as ranges, and at random (same seed, same numbers)."""

import pytest

from tests.torch.scripts import compare_lines

DTYPE_NAMES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")


def over_dtypes(text):
    """Each line once per dtype, where it says DT."""
    return "\n".join(text.replace("DT", f"torch.{name}") for name in DTYPE_NAMES)


def test_tensor_from_scalars_and_lists():
    compare_lines(
        """
        torch.tensor(1)
        torch.tensor(1.5)
        torch.tensor(True)
        torch.tensor([])
        torch.tensor([[]])
        torch.tensor([1, 2, 3])
        torch.tensor([1, 2.5])
        torch.tensor([True, 2])
        torch.tensor([True, False])
        torch.tensor([[1, 2], [3, 4]])
        torch.tensor(((1, 2), [3, 4]))
        torch.tensor([[1.0], [2]])
        torch.tensor(range(4))
        torch.tensor([float('nan'), float('inf'), -0.0])
        torch.tensor(2**62)
        torch.tensor(2**64)
        torch.tensor([1, 2], dtype=torch.float16)
        torch.tensor([1.9, -1.9], dtype=torch.int32)
        torch.tensor([0.0, 0.5, 2], dtype=torch.bool)
        torch.tensor(3, dtype=torch.uint8)
        torch.tensor([300], dtype=torch.uint8)
        torch.tensor([1.5], requires_grad=True)
        torch.tensor([1], requires_grad=True)
        torch.tensor([torch.tensor(1), torch.tensor(2)])
        torch.tensor([torch.tensor(1.5), 2])
        torch.tensor([torch.tensor([1]), torch.tensor([2])])
        torch.tensor([torch.tensor([1, 2]), torch.tensor([2, 3])])
        torch.tensor([np.float64(1.5), np.float32(2)])
        torch.tensor([np.arange(3), np.arange(3)])
        torch.tensor([np.arange(3.0), [1, 2, 3]])
        torch.tensor(np.float32(1.5))
        torch.tensor(np.int16(3))
        torch.tensor(np.bool_(True))
        torch.tensor([[[1, 2]], [[3, 4]]])
        torch.tensor([1, 'a'])
        torch.tensor('abc')
        torch.tensor(None)
        torch.tensor([None])
        torch.tensor([[1, 2], [3]])
        torch.tensor([[1, 2], 3])
        torch.tensor({1: 2})
        torch.tensor([1j]).dtype if False else 0
        torch.tensor([1], device='cpu')
        torch.tensor(data=[1, 2])
        torch.Tensor([1, 2])
        torch.Tensor(2, 3).shape
        torch.Tensor().shape
        torch.FloatTensor([1, 2])
        torch.LongTensor([1, 2])
        torch.scalar_tensor(2)
        torch.set_default_dtype(torch.float64) :: (torch.tensor(1.5), torch.zeros(2), torch.tensor([1]))
        torch.set_default_dtype(torch.int32) :: 1
        """
    )


def test_numpy_arrays_become_tensors():
    compare_lines(
        """
        torch.tensor(np.arange(6).reshape(2, 3))
        torch.tensor(np.arange(6.0).reshape(2, 3).T)
        torch.tensor(np.arange(10)[::2])
        torch.tensor(np.arange(10)[::-1])
        torch.from_numpy(np.arange(6.0))
        torch.from_numpy(np.arange(6.0).reshape(2, 3).T).stride()
        torch.from_numpy(np.arange(10.0)[::2]).stride()
        torch.from_numpy(np.arange(10.0)[::-1])
        torch.from_numpy(np.array(3.5))
        torch.from_numpy(np.zeros((0, 3)))
        torch.from_numpy(np.array(['a']))
        torch.from_numpy(np.array([object()]))
        torch.from_numpy([1, 2])
        torch.from_numpy(np.float64(1))
        a = np.zeros(3); t = torch.from_numpy(a); a[0] = 5 :: t
        a = np.zeros(3); t = torch.from_numpy(a); t[1] = 5; t += 1 :: (t.sum().item(), a)
        a = np.zeros(3); t = torch.as_tensor(a); a[0] = 5 :: t
        a = np.zeros(3); t = torch.as_tensor(a, dtype=torch.float32); a[0] = 5 :: t
        a = np.zeros(3); t = torch.tensor(a); a[0] = 5 :: t
        a = np.zeros(3); t = torch.asarray(a); a[0] = 5 :: t
        torch.as_tensor([1, 2])
        torch.as_tensor([1, 2.5], dtype=torch.float64)
        torch.as_tensor(np.float32(2))
        torch.as_tensor(5)
        a = np.zeros(3).astype('>f4') :: torch.from_numpy(a)
        torch.frombuffer(bytearray(b'abcd'), dtype=torch.uint8)
        """
        + "\n".join(
            f"torch.from_numpy(np.array([0, 1, 3]).astype('{name}'))"
            for name in ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool")
        )
    )


@pytest.mark.parametrize(
    "line",
    [
        "torch.zeros(2, 3, dtype=DT)",
        "torch.ones((2, 3), dtype=DT)",
        "torch.full((2, 2), 3, dtype=DT)",
        "torch.empty(2, 3, dtype=DT).shape",
        "torch.arange(5, dtype=DT)",
        "torch.arange(1, 6, 2, dtype=DT)",
        "torch.eye(3, dtype=DT)",
        "torch.eye(2, 4, dtype=DT)",
        "torch.linspace(0, 10, 5, dtype=DT)",
        "torch.logspace(0, 1, 4, dtype=DT)",
        "torch.zeros(2, dtype=DT).new_full((2,), 1)",
        "torch.zeros((), dtype=DT)",
        "torch.zeros(0, 3, dtype=DT)",
        "torch.ones(2, dtype=DT).tolist()",
        "torch.finfo(DT).eps",
        "torch.iinfo(DT).max",
        "torch.promote_types(DT, torch.int16)",
        "torch.result_type(torch.ones(2, dtype=DT), 1.5)",
        "torch.can_cast(DT, torch.int32)",
        "DT.is_floating_point",
        "DT.itemsize",
        "repr(DT)",
    ],
)
def test_creation_in_every_dtype(line):
    compare_lines(over_dtypes(line))


def test_creation_by_size():
    compare_lines(
        """
        torch.zeros(3)
        torch.zeros([2, 3])
        torch.zeros(torch.Size([2]))
        torch.zeros(())
        torch.zeros(size=(2, 2))
        torch.ones(2, 3, requires_grad=True)
        torch.zeros(-1)
        torch.zeros(2, -3)
        torch.zeros('a')
        torch.zeros(2.5)
        torch.zeros(np.int64(2), 3)
        torch.zeros(torch.tensor(2), 3)
        torch.full((2,), 1)
        torch.full((2,), 1.5)
        torch.full((2,), True)
        torch.full((), 7)
        torch.full([2, 2], float('nan'))
        torch.arange(5)
        torch.arange(5.0)
        torch.arange(1, 2, 0.25)
        torch.arange(5, 0, -2)
        torch.arange(0)
        torch.arange(0, 5, -1)
        torch.arange(0, 5, 0)
        torch.arange(0, 1, 0.1)
        torch.arange(3, dtype=torch.float32) / 3
        torch.arange(start=1, end=4)
        torch.range(0, 3)
        torch.linspace(0, 1, 7)
        torch.linspace(-3, 3, 1)
        torch.linspace(0, 1, 0)
        torch.linspace(1, 0, 1025)
        torch.linspace(0, 1, -1)
        torch.linspace(0, 1, steps=5, dtype=torch.float64)
        torch.logspace(-2, 2, 5)
        torch.logspace(0, 3, 4, base=2)
        torch.eye(3)
        torch.eye(2, 3)
        torch.eye(0)
        torch.eye(-1)
        torch.tril_indices(3, 3)
        torch.triu_indices(3, 4, 1)
        torch.vander(torch.tensor([1., 2, 3]))
        torch.hann_window(5)
        torch.empty_strided((2, 3), (1, 2)).stride()
        torch.zeros(1).device.type
        torch.get_default_dtype()
        torch.Size([1, 2]) == (1, 2)
        torch.Size((2, 3)).numel()
        """
    )


RANDOM = """
torch.rand(6)
torch.rand(3, 5)
torch.rand(17, dtype=torch.float64)
torch.rand(1025)
torch.rand(5, dtype=torch.float16)
torch.rand(5, dtype=torch.bfloat16)
torch.rand(())
torch.rand(0)
torch.rand_like(torch.zeros(2, 3))
torch.randn(3)
torch.randn(15)
torch.randn(16)
torch.randn(17)
torch.randn(20)
torch.randn(4, 5, 6)
torch.randn(1023)
torch.randn(7, dtype=torch.float64)
torch.randn(33, dtype=torch.float64)
torch.randn(9, dtype=torch.float16)
torch.randn(40, dtype=torch.bfloat16)
torch.randn_like(torch.zeros(4, 5).t())
(torch.randn(3), torch.randn(3), torch.rand(2), torch.randn(2))
(torch.randn(1), torch.randn(20), torch.randn(1))
torch.randint(0, 10, (4,))
torch.randint(5, (2, 3))
torch.randint(-5, 5, (7,), dtype=torch.int32)
torch.randint(0, 2**40, (3,))
torch.randint(0, 2**28, (3,))
torch.randint(0, 100, (5,), dtype=torch.float32)
torch.randint_like(torch.zeros(3), 4)
torch.randint(3, 3, (2,))
torch.randperm(20)
torch.randperm(0)
torch.randperm(1)
torch.randperm(1000)
torch.randperm(5, dtype=torch.int32)
torch.normal(0.0, 1.0, (5,))
torch.normal(2, 3, size=(20,))
torch.normal(torch.zeros(4), torch.ones(4))
torch.normal(torch.arange(20.), 0.5)
torch.normal(0.0, torch.arange(1., 4.))
torch.normal(0.0, -1.0, (2,))
torch.bernoulli(torch.full((9,), 0.3))
torch.bernoulli(torch.full((9,), 0.3, dtype=torch.float64))
torch.bernoulli(torch.full((3,), 1.5))
torch.bernoulli(torch.zeros(9), p=0.5)
torch.multinomial(torch.tensor([1., 2, 3, 4]), 2)
torch.multinomial(torch.tensor([1., 2, 3, 4]), 10, replacement=True)
torch.multinomial(torch.tensor([[1., 2], [0, 1]]), 1)
torch.multinomial(torch.tensor([[1., 2, 1], [5, 1, 2]]), 3)
torch.multinomial(torch.tensor([1., 2]), 3)
torch.multinomial(torch.tensor([1., -2]), 1)
torch.multinomial(torch.zeros(3), 1)
torch.empty(20).uniform_()
torch.empty(5).uniform_(-2, 3)
torch.empty(5).uniform_(3, 2)
torch.empty(5, dtype=torch.float64).uniform_(-2, 3)
torch.zeros(4, 6).t().uniform_()
torch.zeros(8, 8)[::2, 1::3].uniform_()
torch.empty(5).normal_()
torch.empty(20).normal_(1, 2)
torch.zeros(40)[::2].normal_()
torch.zeros(5, 6).t().normal_()
torch.empty(5).normal_(0, -1)
torch.empty(5, dtype=torch.int64).random_()
torch.empty(5, dtype=torch.int64).random_(10)
torch.empty(5, dtype=torch.int32).random_(-3, 4)
torch.empty(5).random_()
torch.empty(5, dtype=torch.uint8).random_()
torch.empty(5, dtype=torch.bool).random_()
torch.empty(20).bernoulli_(0.5)
torch.empty(20, dtype=torch.int64).bernoulli_()
torch.empty(3, 2).bernoulli_(torch.tensor([0.1, 0.9]))
torch.empty(9).exponential_()
torch.empty(9, dtype=torch.float64).exponential_(2.0)
torch.empty(9).exponential_(-1)
torch.empty(9).geometric_(0.3)
torch.empty(9).log_normal_()
torch.empty(9).cauchy_()
torch.empty(3).fill_(2.5)
torch.ones(3).zero_()
F.dropout(torch.ones(20), 0.4)
F.dropout(torch.ones(20), 0.4, training=False)
F.dropout(torch.ones(3, 4), 1.0)
torch.initial_seed()
a = torch.rand(2); torch.manual_seed(7); b = torch.rand(2) :: (a, b)
a = torch.rand(2); s = torch.get_rng_state(); b = torch.rand(2); torch.set_rng_state(s) :: (b, torch.rand(2))
a = torch.randn(1); s = torch.get_rng_state(); b = torch.randn(2); torch.set_rng_state(s) :: (b, torch.randn(2))
g = torch.Generator().manual_seed(3) :: (torch.rand(3, generator=g), torch.rand(2), torch.randn(20, generator=g))
g = torch.Generator().manual_seed(3) :: (torch.randperm(5, generator=g), g.initial_seed())
g = torch.Generator().manual_seed(3) :: (torch.randint(0, 9, (4,), generator=g), torch.empty(3).uniform_(generator=g))
x = torch.rand(3); y = x * 2; torch.manual_seed(1); z = torch.rand(3) :: (y, z, x)
torch.manual_seed(2**40 + 3) :: torch.rand(3)
torch.manual_seed(-1) :: torch.rand(3)
torch.manual_seed('a')
c = torch.random.fork_rng(); c.__enter__(); torch.rand(3); c.__exit__(None, None, None) :: torch.rand(2)
"""


@pytest.mark.parametrize("seed", [0, 1234])
def test_the_same_seed_gives_the_same_numbers(seed):
    lines = RANDOM.strip().split("\n")
    compare_lines(
        "\n".join(f"torch.manual_seed({seed}); " + (line if " :: " in line else f"0 :: {line}") for line in lines),
        rtol=2e-6,
    )
