"""The strides of dimensions of one element, where only `stride()` tells them: PyTorch's, for every kind of op."""

import pytest

from tests.torch.compare import REF, SUT, Raised, outcome

# Each in its own way odd: what is left after slicing, transposing and expanding.
LAYOUTS = {
    "contiguous": lambda m: m.zeros(1, 3),
    "a row transposed": lambda m: m.zeros(3, 1).t(),
    "a column transposed": lambda m: m.zeros(1, 3).t(),
    "one row of steps": lambda m: m.zeros(4, 6)[1:2, ::2],
    "one column": lambda m: m.zeros(4, 6)[:, 2:3],
    "one column of a transpose": lambda m: m.zeros(4, 6).t()[:, 2:3],
    "reversed": lambda m: m.zeros(2, 1, 3).permute(2, 1, 0),
    "turned": lambda m: m.zeros(2, 1, 3).permute(1, 2, 0),
    "two ones": lambda m: m.zeros(1, 2, 1, 3).permute(3, 0, 2, 1),
    "expanded": lambda m: m.zeros(1, 1).expand(1, 3),
    "one of an expanded": lambda m: m.zeros(3, 1).expand(3, 2)[:, :1],
    "a window": lambda m: m.zeros(3).unfold(0, 2, 1)[:1],
    "a gap": lambda m: m.zeros(20).as_strided((3, 1, 2), (2, 11, 1)),
    "a gap, turned": lambda m: m.zeros(40).as_strided((3, 1, 2), (1, 11, 4)),
    "empty": lambda m: m.zeros(0, 1, 3).permute(2, 1, 0),
    "empty, as it is": lambda m: m.zeros(2, 0, 3),
    "empty and turned": lambda m: m.zeros(3, 0, 2).permute(1, 2, 0),
    "images with channels last": lambda m: m.zeros(1, 2, 1, 3).permute(0, 3, 1, 2),
    "a last one of a transpose": lambda m: m.zeros(1, 3, 2).permute(2, 1, 0),
    "a last one of a turned slice": lambda m: m.zeros(4, 3, 2).permute(2, 1, 0)[:, :, :1],
}

LINES = """
x.isinf() ; x.isfinite() ; x.isnan() ; torch.isposinf(x) ; torch.isclose(x, x) ; ~(x > 0) ; (x > 0) & (x > 0)
F.softsign(x) ; torch.sinc(x) ; torch.ldexp(x, torch.tensor(2)) ; torch.ldexp(x, x.long()) ; x.deg2rad() ; x.rad2deg()
F.prelu(x, torch.ones(1)) ; F.rrelu(x) ; F.rrelu(x, training=True) ; F.hardtanh(x) ; F.relu6(x)
F.threshold(x, 0.1, 2.0)
torch.nan_to_num(x) ; x.masked_fill(x > 0, 1.0) ; torch.where(x > 0, x, 1.0) ; x.clamp(0, 1) ; x.lerp(x, 0.5)
torch.addcmul(x, x, x) ; F.gelu(x) ; F.silu(x) ; F.mish(x) ; F.elu(x) ; F.celu(x) ; F.selu(x) ; F.softplus(x)
F.softshrink(x) ; F.hardshrink(x) ; F.tanhshrink(x) ; F.hardsigmoid(x) ; F.hardswish(x) ; F.logsigmoid(x)
torch.einsum('...ij->...ji', x) ; torch.einsum('...ij->...ij', x) ; torch.einsum('...ij->...j', x)
torch.bernoulli(x) ; torch.poisson(x) ; torch.normal(x, x) ; torch.renorm(x, 2, 0, 1.0) ; F.one_hot(x.long(), 3)
F.huber_loss(x, x * 1, reduction='none') ; F.mse_loss(x, x * 1, reduction='none')
F.binary_cross_entropy(x, x * 1, reduction='none') ; F.smooth_l1_loss(x, x * 1, reduction='none')
x * 2 ; 2 * x ; 2 - x ; x / 3 ; 2 / x ; x ** 2 ; 2 ** x ; x * torch.tensor(2.0)
x + x ; x.clone() ; x.double() ; x.long()
x.softmax(-1) ; x.cumsum(-1) ; x.flip(-1) ; x.roll(1, -1) ; x.sum(-1, keepdim=True) ; x.amax(0, keepdim=True)
torch.stack([x]) ; torch.stack([x, x], 1) ; torch.stack([x, x], -2) ; torch.stack([x, x], -1)
F.rms_norm(x, x.shape[-1:]) ; F.rms_norm(x, x.shape[-1:], torch.ones(x.shape[-1]))
F.binary_cross_entropy_with_logits(x, x * 1, reduction='none')
F.binary_cross_entropy_with_logits(x, x * 1, torch.ones(x.shape[-1]), reduction='none')
torch.addcmul(x, x, x[:1]) ; torch.addcmul(x[:1], x, x) ; torch.addcmul(x, x[..., :1], x)
torch.addcmul(x.contiguous(), x, x) ; torch.addcdiv(x, x, x + 1) ; torch.addcdiv(x, x[:1], x + 1)
torch.addcdiv(x[..., :1], x, x + 1, value=2) ; torch.addcmul(x, x, x, value=2) ; torch.addcmul(x, torch.ones(()), x)
torch.addcmul(x, x, torch.ones(x.shape[-1])) ; torch.addcmul(torch.ones(x.shape[-1]), x, x)
torch.zeros_like(x) ; torch.cat([x, x]) ; x[[0]] ; x[:, [0]] ; x.tril() ; x.diff() ; F.layer_norm(x, x.shape[-1:])
"""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("line", [line.strip() for row in LINES.split("\n") for line in row.split(" ; ") if line])
def test_strides_of_dimensions_of_one_element_are_pytorchs(line):
    for name, layout in LAYOUTS.items():

        def strides(m):
            return eval(line, {"torch": m, "F": m.nn.functional, "x": layout(m)}).stride()

        theirs, ours = outcome(strides, REF), outcome(strides, SUT)
        if not isinstance(theirs, Raised):
            assert ours == theirs, f"{line} of {name}"


def test_einsum_of_one_operand_is_a_view_unless_it_sums():
    for m in (REF, SUT):
        x = m.arange(6.0).reshape(1, 2, 3)
        m.einsum("ijk->kji", x)[0, 0, 0] = 7.0
        m.einsum("ijk->jk", x)[0, 1] = 9.0  # a sum over one element: memory of its own
        assert x.flatten().tolist() == [7, 1, 2, 3, 4, 5], m.__name__


@pytest.mark.parametrize("draw", ["bernoulli(p)", "poisson(p)", "nn.functional.rrelu(p - 0.5, training=True)"])
def test_draws_by_element_go_through_row_major_order(draw):
    def drawn(m):
        m.manual_seed(3)
        p = (m.arange(24.0).reshape(2, 3, 4) / 24).permute(2, 0, 1)
        return eval(f"m.{draw}", {"m": m, "p": p})

    ours, theirs = drawn(SUT), drawn(REF)
    assert (ours.tolist(), ours.stride()) == (theirs.tolist(), theirs.stride())
