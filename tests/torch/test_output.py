"""Getting values out: printing, item, tolist, numpy, buffers, DLPack, iteration, copies, pickles, formats."""

import pytest

from tests.torch.scripts import compare_lines
from tests.torch.test_creation import over_dtypes

PRINTED = """
torch.tensor(1.5)
torch.tensor(3)
torch.tensor(True)
torch.tensor([])
torch.zeros(0, 3)
torch.zeros(2, 0)
torch.tensor([], dtype=torch.int64)
torch.tensor([1., 2, 3])
torch.tensor([1.5, 2.25, -3])
torch.tensor([0.1, 1000.5])
torch.tensor([1e-5, 1.])
torch.tensor([1e5, 1.5])
torch.tensor([1e8, 1.])
torch.tensor([123456789.])
torch.tensor([1e-10])
torch.tensor([float('nan'), 1.5])
torch.tensor([float('inf'), -float('inf'), 2])
torch.tensor([float('nan')])
torch.tensor([-0.0, 0.0])
torch.tensor([0.00001, 123456.])
torch.tensor([1/3, 2/3], dtype=torch.float64)
torch.tensor([1/3, 2/3], dtype=torch.float16)
torch.tensor([1/3, 200/3], dtype=torch.bfloat16)
torch.tensor([[1, -22], [333, 4]])
torch.tensor([[True, False], [False, True]])
torch.tensor([1, 2], dtype=torch.int8)
torch.tensor([1, 2], dtype=torch.int16)
torch.tensor([1, 2], dtype=torch.int32)
torch.tensor([1, 255], dtype=torch.uint8)
torch.arange(24.).reshape(2, 3, 4)
torch.arange(24.).reshape(2, 3, 4).transpose(0, 2)
torch.arange(120).reshape(1, 2, 3, 4, 5)
torch.arange(100.)
torch.arange(1000)
torch.arange(1001)
torch.arange(2000.)
torch.arange(3000.).reshape(60, 50)
torch.arange(30000.).reshape(30, 10, 100)
torch.arange(12000).reshape(2, 3, 2, 1000)
torch.arange(40) * 1000000
torch.linspace(0, 1, 50)
torch.rand(5, 5)
torch.randn(3, 20)
torch.ones(2, requires_grad=True)
torch.ones(2, requires_grad=True) * 2
torch.ones(2, requires_grad=True).sum()
torch.ones(3, 3, requires_grad=True).t()
torch.ones(2, requires_grad=True)[0]
torch.ones(2, 3, requires_grad=True)[:, 1:]
torch.ones(2, 3, requires_grad=True)[None]
torch.ones(2, 3, requires_grad=True).view(6)
(torch.ones(2, 3, requires_grad=True) * 2).unbind()[0]
torch.ones(2, 3, requires_grad=True).squeeze()
list(torch.ones(2, 3, requires_grad=True).split(1))
torch.ones(2, requires_grad=True).tanh()
torch.ones(2, requires_grad=True).detach()
torch.nn.Parameter(torch.ones(2))
torch.zeros(2).shape
torch.float32
torch.device('cpu')
torch.eye(3)
torch.tensor([1e38, 1e-38])
torch.tensor([[1e-3, 1e3]])
torch.tensor([[0.5, float('nan')], [1e6, 1]])
torch.tensor(1e-20)
torch.tensor(123456.789)
torch.tensor([1.0000001])
torch.full((3,), 99999.)
torch.full((3,), 100000.)
torch.max(torch.tensor([[1., 2], [3, 4]]), 1)
torch.tensor([[1., 2]]).sort()
"""
OPTIONS = ["precision=2", "precision=8", "threshold=5", "edgeitems=1, threshold=5", "linewidth=40", "sci_mode=True",
           "sci_mode=False", "profile='short'",
           "profile='full'", "threshold=float('inf')"]  # fmt: skip


def lines(text):
    return text.strip().split("\n")


def test_tensors_print_as_in_pytorch():
    compare_lines("\n".join(f"torch.manual_seed(0) :: repr({line})" for line in lines(PRINTED)))
    compare_lines("\n".join(f"torch.manual_seed(0) :: str({line})" for line in lines(PRINTED)))
    compare_lines("\n".join(f"torch.manual_seed(0) :: f'{{{line}}}'" for line in lines(PRINTED) if "'" not in line))


@pytest.mark.parametrize("option", OPTIONS)
def test_print_options_change_what_is_printed(option):
    setup = f"torch.manual_seed(0); torch.set_printoptions(profile='default'); torch.set_printoptions({option})"
    compare_lines("\n".join(f"{setup} :: repr({line})" for line in lines(PRINTED)))


OUT_BY_DTYPE = """
torch.tensor([0, 1, 2], dtype=DT).tolist()
torch.tensor([[0, 1], [2, 3]], dtype=DT).tolist()
torch.tensor(1, dtype=DT).tolist()
torch.tensor(1, dtype=DT).item()
torch.tensor([[1]], dtype=DT).item()
torch.tensor([0, 1, 2], dtype=DT).numpy()
torch.tensor([[0, 1], [2, 3]], dtype=DT).t().numpy()
np.array(torch.tensor([0, 1, 2], dtype=DT))
np.asarray(torch.tensor([0, 1, 2], dtype=DT), dtype='float32')
np.sum(torch.tensor([0, 1, 2], dtype=DT).numpy())
repr(torch.tensor([0, 1, 2], dtype=DT))
float(torch.tensor(1, dtype=DT))
int(torch.tensor(1, dtype=DT))
bool(torch.tensor(1, dtype=DT))
[10, 20][torch.tensor(1, dtype=DT)]
list(range(torch.tensor(3, dtype=DT)))
f'{torch.tensor(1, dtype=DT)}'
f'{torch.tensor(1, dtype=DT):.3f}'
f'{torch.tensor(1, dtype=DT):5}'
f'{torch.tensor(1, dtype=DT).item()}'
'%d' % torch.tensor(1, dtype=DT)
'%.2f' % torch.tensor(1, dtype=DT)
round(torch.tensor(1, dtype=DT))
pickle.loads(pickle.dumps(torch.tensor([0, 1, 2], dtype=DT)))
copy.deepcopy(torch.tensor([0, 1, 2], dtype=DT))
[v.item() for v in torch.tensor([0, 1, 2], dtype=DT)]
torch.from_dlpack(torch.tensor([0, 1, 2], dtype=DT))
"""


@pytest.mark.parametrize("line", lines(OUT_BY_DTYPE))
def test_output_of_every_dtype(line):
    compare_lines(over_dtypes(line))


def test_values_leave_as_python_objects():
    compare_lines(
        """
        torch.tensor([1.5, 2]).tolist()
        torch.zeros(2, 0).tolist()
        torch.tensor([[1.5], [2]]).item()
        torch.zeros(0).item()
        torch.tensor(0.1).item()
        torch.tensor(0.1, dtype=torch.float64).item()
        torch.tensor(float('nan')).item()
        torch.arange(6).reshape(2, 3)[1].tolist()
        torch.arange(6).reshape(2, 3).t().tolist()
        bool(torch.tensor([0.0]))
        bool(torch.tensor([1, 2]))
        bool(torch.tensor([]))
        int(torch.tensor(2.7))
        int(torch.tensor([1, 2]))
        float(torch.tensor([[2.5]]))
        complex(torch.tensor(2.5))
        len(torch.zeros(3, 2))
        len(torch.tensor(1))
        [t.tolist() for t in torch.arange(4).reshape(2, 2)]
        list(torch.tensor(1))
        3 in torch.arange(5)
        9 in torch.arange(5)
        torch.tensor([1, 2]) in [torch.tensor([1, 2])]
        x = torch.tensor(1); y = torch.tensor(1) :: (hash(x) == hash(y), hash(x) == hash(x))
        x = torch.tensor([1, 2]); d = {x: 5} :: d[x]
        x = torch.tensor([1, 2]); s = {x, x, torch.tensor([1, 2])} :: len(s)
        np.array([torch.tensor(1), torch.tensor(2)])
        np.asarray(torch.arange(4.0)) + 1
        torch.arange(4.0).numpy() * 2
        np.exp(torch.tensor([0.0, 1.0]))
        np.add(torch.ones(2), np.ones(2))
        torch.ones(2) + np.float64(2)
        np.float64(2) * torch.ones(2)
        torch.ones(2, requires_grad=True).numpy()
        torch.ones(2, requires_grad=True).detach().numpy()
        x = torch.zeros(3); n = x.numpy(); x[1] = 5; x += 1 :: n
        x = torch.zeros(3); n = x.numpy(); n[1] = 5 :: x
        x = torch.zeros(3); n = np.asarray(x); n[1] = 5 :: x
        x = torch.zeros(3); n = np.array(x); n[1] = 5 :: x
        x = torch.zeros(4); n = x[::2].numpy(); n[1] = 5 :: x
        x = torch.zeros(4); y = x * 2; n = y.numpy(); y += 1 :: (n, x)
        x = torch.zeros(3); y = torch.from_dlpack(x); y[0] = 4 :: x
        x = torch.zeros(3); y = np.from_dlpack(x); x[0] = 4 :: y
        torch.from_dlpack(np.arange(3.0))
        [int(n) for n in torch.zeros(2).__dlpack_device__()]
        x = torch.ones(3).numpy() :: x.flags.writeable
        memoryview(torch.arange(3).numpy()).tolist()
        x = torch.arange(3.0); y = copy.copy(x); y[0] = 9 :: x
        x = torch.arange(3.0); y = copy.deepcopy(x); y[0] = 9 :: x
        x = torch.arange(6.0).reshape(2, 3); y = copy.deepcopy([x, x.t()]); y[0][0, 1] = 9 :: y
        x = torch.arange(6.0).reshape(2, 3); y = copy.deepcopy({'a': x, 'b': x}) :: y['a'] is y['b']
        x = torch.ones(2, requires_grad=True); x.sum().backward(); y = copy.deepcopy(x) :: (y, y.grad, y.is_leaf)
        x = torch.ones(2, requires_grad=True) :: copy.deepcopy(x * 2)
        x = torch.arange(6.0).reshape(2, 3).t() :: pickle.loads(pickle.dumps(x))
        x = torch.ones(2, requires_grad=True) :: pickle.loads(pickle.dumps(x))
        torch.arange(3).__array__()
        torch.arange(3).__array__(dtype=np.float32)
        torch.arange(5).__contains__(2)
        torch.tensor(5).__index__()
        torch.tensor(5.5).__index__()
        torch.tensor([1, 2]).__index__()
        max(torch.tensor([1, 3, 2]))
        sum(torch.tensor([1, 3, 2]))
        sorted(torch.tensor([1, 3, 2]))
        list(reversed(torch.tensor([1, 3, 2])))
        list(map(float, torch.tensor([1, 3, 2])))
        a, b = torch.tensor([1, 2]) :: a + b
        (a, b), c = torch.ones(2, 2) :: (a, c)
        '{:.2f} {}'.format(torch.tensor(1.234), torch.tensor([1, 2]))
        f'{torch.tensor([1.5, 2.5]):.2f}'
        f'{torch.tensor(1.23456):.3e}|{torch.tensor(7):04d}'
        divmod(torch.tensor(7), 2)
        torch.tensor([1, 2]).dtype is torch.int64
        type(torch.ones(1)).__name__
        isinstance(torch.ones(1), torch.Tensor)
        isinstance(torch.nn.Parameter(torch.ones(1)), torch.Tensor)
        torch.arange(3).data_ptr() != 0
        x = torch.zeros(3) :: x[1:].data_ptr() - x.data_ptr()
        x = torch.zeros(3) :: x.data_ptr() == x.numpy().ctypes.data
        """
    )
