"""Calls in all the forms that PyTorch has, and no others: its keywords, older orders, numbers where it takes them."""

import warnings

import pytest

from tests.torch.compare import REF, SUT, Raised, outcome
from tests.torch.scripts import compare_lines, evaluate, lines_of

SETUP = (
    "x = torch.arange(6.).reshape(2, 3); y = torch.arange(12.).reshape(3, 4); n = torch.arange(6).reshape(2, 3);"
    " b = x > 2; v = torch.arange(3.); i = torch.tensor([0, 1]); c = torch.ones(2, 3, 4);"
    " OUTS = [torch.empty(0), torch.empty(0), torch.empty(0, dtype=torch.int64), torch.empty(0)]"
)

TAKEN = """
x.copy_(x + 1, non_blocking=True)
x.copy_(v, True)
x.copy_(2)
torch.pow(input=x, exponent=2)
torch.pow(self=2, exponent=x)
x.pow(exponent=v)
x.clone().pow_(exponent=2)
torch.heaviside(input=x, values=v)
torch.xlogy(self=2, other=x)
torch.where(condition=b, self=1, other=x)
torch.result_type(tensor=x, other=n)
torch.addcmul(x, 2, x, x)
x.addcdiv(2, x, x + 1)
torch.celu(x - 3)
torch.celu(input=x - 3, alpha=2)
torch.repeat_interleave(torch.tensor([1, 2, 0]))
torch.hamming_window(5, True, 0.5, 0.4)
torch.hann_window(5, layout=torch.strided, pin_memory=False)
torch.hsplit(input=x, sections=3)
x.vsplit(indices=(1,))
torch.histogram(x)
x.clone().resize_(size=(3, 2))
x.new_empty_strided((2, 3), (3, 1), layout=torch.strided).stride()
torch.isin(n, 3)
torch.isin(elements=n, test_element=3)
x.clamp_min(min=2)
x.clamp_max(max=v)
x.norm('nuc')
x.norm(p='nuc', dim=(0, 1), keepdim=True)
torch.norm(c, 'nuc', dim=(0, 2))
torch.norm(x, 'nuc', dtype=torch.float64, out=torch.empty(0, dtype=torch.float64))
torch.threshold(x, 2, 9, out=torch.empty(0))
torch.threshold(x, threshold=2, value=9)
torch.linalg.lstsq(y.t() + torch.eye(4, 3), torch.ones(4, 1), out=OUTS)[0].sum()
torch.gradient(v ** 2, spacing=[2.])
torch.gradient(x ** 2, spacing=[2, 3])
torch.gradient(y ** 2, spacing=[2, .5], dim=(-1, 0))
torch.gradient(y ** 2, spacing=torch.tensor(2.))
torch.gradient(y ** 2, spacing=(torch.tensor([0., 1, 4]), torch.tensor([1., 2, 3, 5])))
torch.gradient(y ** 2, spacing=[torch.tensor([1., 2, 3, 5])], dim=1, edge_order=2)
torch.gradient(y ** 2, spacing=2, edge_order=2)
torch.cov(y, fweights=torch.tensor([1, 2, 3, 1]))
torch.cov(y, aweights=torch.tensor([1, 2, 3, 1.]))
torch.cov(y, correction=0, fweights=torch.tensor([1, 2, 3, 1]), aweights=torch.tensor([1, 2, 3, 1.]))
n[0].cov(correction=2, fweights=torch.tensor([1, 2, 3]), aweights=torch.tensor([1, .5, 1]))
torch.addmm(2, x, 3, x[:, :2], x)
torch.addmm(2, x, x[:, :2], x, out=torch.empty(0))
x.addmm(2, 3, x[:, :2], x)
x.addmm(.5, x[:, :2], x)
x.clone().addmm_(2, 3, x[:, :2], x)
x.clone().addmm_(2, x[:, :2], x)
torch.addmv(2, v[:2], 3, x, v)
v[:2].addmv(2, x, v)
torch.addr(2, x, 3, v[:2], v)
torch.addbmm(2, x, 3, c[:, :2, :2].transpose(1, 2), c[:, :2, :3])
torch.baddbmm(2, c[:, :3, :3], 3, c[:, :, :2], c[:, :2, :3])
x.clone().addcmul_(2, x, x)
x.clone().addcdiv_(2, x, x + 1)
torch.binary_cross_entropy_with_logits(x, x, reduction=2)
torch.hinge_embedding_loss(x, x, 1., 0)
torch.margin_ranking_loss(x, x, x, 1., 2)
torch.cosine_embedding_loss(x, x + 1, v[:2], reduction=7)
torch.triplet_margin_loss(x, x + 1, x - 1, 1., 2., 1e-6, False, 0)
torch.poisson_nll_loss(x, x, True, False, 1e-8, 2)
torch.kl_div(x, x, 0)
torch.ctc_loss(c.log_softmax(2).transpose(0, 1), n[:, 1:] % 3 + 1, torch.tensor([3, 3]), torch.tensor([2, 1]), 0, 0)
"""


@pytest.mark.parametrize("call", lines_of(TAKEN))
def test_a_form_that_pytorch_has_is_taken(call):
    line = f"{SETUP} :: {call}"
    assert not isinstance(outcome(evaluate, REF, line), Raised)
    compare_lines(line)


# Refused with PyTorch's type and words, all of them
REFUSED = """
x.copy_(torch.ones(5))
c.norm('nuc')
v.norm('nuc')
x.norm('nuc', dim=0)
torch.gradient(y, spacing=[2, 3, 4])
torch.gradient(y, spacing=[2, 3], dim=1)
torch.gradient(y, dim=(0, -2))
torch.gradient(y, edge_order=3)
torch.gradient(x, edge_order=2)
torch.gradient(v, spacing=[x])
torch.cov(y, fweights=torch.tensor([1, 2, 3.]))
torch.cov(y, fweights=torch.tensor([1, 2, 3]))
torch.cov(y, fweights=torch.tensor([1, -2, 3, 4]))
torch.cov(y, fweights=torch.tensor([0, 0, 0, 0]))
torch.cov(y, aweights=torch.tensor([1, 2, 3, 4]))
torch.cov(y, aweights=torch.ones(2, 2))
torch.cov(y, aweights=torch.tensor([1, -2., 3, 4]))
torch.hinge_embedding_loss(x, x, reduction='sum')
n.clamp_(min=1.5)
n.clamp_(1, 1.5)
n.int().clamp_max_(1.5)
b.clamp_(min=1)
x.dim(3)
x.exp_(1)
x.abs(out=x)
torch.is_grad_enabled(2)
torch.get_default_dtype(dtype=2)
v.copy_(x)
x.copy_(y)
x.__setitem__(slice(None), y)
x.view(-2, 3)
x.reshape(-5)
x.expand(-2, 3)
torch.reshape(x, 6)
torch.permute(x, 1)
torch.full(2, 1)
x.unflatten(0, 2)
torch.flip(x, 0)
torch.hstack([])
torch.vstack([])
x.as_strided((-1,), (1,))
x.as_strided((2,), (1,), -1)
torch.empty_strided((2,), (-1,))
torch.ones(-1)
torch.empty(2, -1)
x.new_zeros(-1)
torch.unravel_index(n, (-1, 3))
x.repeat_interleave(torch.tensor([1., 2.]), 0)
torch.maximum(x, 1)
torch.minimum(1, x)
torch.atan2(x, 1)
torch.hypot(x, 2.0)
x.logical_and(1)
torch.logaddexp(x, 1)
x.index_fill_(0, x[0], 1)
x.index_copy_(0, i, n)
x.index_copy_(0, i, y)
x.index_add_(0, v, y)
x.index_add_(0, i, x)
x.index_copy_(0, i, x)
x.scatter_(0, n % 2, x)
x.scatter_add_(0, n % 2, x)
x.put_(i, x)
torch.tensor(3.).index_select(0, torch.tensor([0, 0]))
x.masked_fill(x, 1)
x.masked_fill(b, v)
x.float_power_(2)
torch.lerp(x, n, 0.5)
torch.nn.functional.linear(x, n)
torch.nn.functional.relu(b)
torch.nn.functional.celu(x, 0.)
torch.nn.functional.gelu(n)
torch.nn.functional.silu(n)
torch.bitwise_and(x, x)
n << 1.5
b.floor()
torch.frac(n)
torch.floor_divide(b, b)
torch.set_num_threads(0)
torch.set_num_threads('a')
"""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", lines_of(REFUSED))
def test_what_pytorch_refuses_is_refused_in_its_words(call):
    said = []
    for module in (SUT, REF):
        raised = outcome(evaluate, module, f"{SETUP} :: {call}")
        assert isinstance(raised, Raised), f"{module.__name__} accepts it"
        said.append((type(raised.error).__name__, str(raised.error)))
    assert said[0] == said[1]


FEW = """
torch.tensor(3.).var()
torch.ones(1).std()
torch.ones(2, 3).var(0, correction=2)
torch.var_mean(torch.ones(1))
torch.std_mean(torch.ones(1, 2), 0)
torch.empty(0).var(unbiased=False)
torch.ones(2).var(unbiased=False)
torch.ones(3).var(correction=3.5)
"""


@pytest.mark.parametrize("call", lines_of(FEW))
def test_a_spread_without_degrees_of_freedom_is_warned_of(call):
    said = []
    for module in (SUT, REF):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            evaluate(module, call)
        said.append([str(w.message).split(" (Triggered")[0] for w in caught])
    assert said[0] == said[1]


def test_a_capsule_is_consumed_once():
    for module in (SUT, REF):
        capsule = module.utils.dlpack.to_dlpack(module.arange(3.0))
        assert module.utils.dlpack.from_dlpack(capsule).tolist() == [0, 1, 2]
        with pytest.raises(RuntimeError, match="invalid capsule"):
            module.from_dlpack(capsule)
        with pytest.raises(RuntimeError, match="invalid capsule"):
            module.from_dlpack(1)
