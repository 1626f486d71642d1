"""Tensors of many dimensions: the state of a register of qubits is one of size 2 for each, and gates are einsums."""

import pytest

from tests.torch.compare import REF, SUT, check_same, outcome

# b is twelve dimensions of size 2; o the same in another order, which no two of its dimensions let anybody join.
LINES = """
o.contiguous() ; o * 2 + b ; o + b[0] ; o.sum((0, 3, 7)) ; o.sum() ; o.mean(tuple(range(11))) ; o.var((1, 2, 3))
o.max(5) ; o.argmin(9) ; o.amax((2, 10)) ; o.flip(3, 5, 11) ; o.roll((1, 1), (0, 5)) ; o.cumsum(4) ; o.cummax(7)
o.sort(4, descending=True) ; o.topk(1, 8) ; o.softmax(6) ; o.log_softmax(-1) ; o.logsumexp((1, 11)) ; o.norm(2, 3)
o[:, 0, ..., 1] ; o[torch.tensor([1, 0, 1]), :, torch.tensor([0, 0, 1])] ; o[..., torch.tensor([1]), :, 0]
o[o > 2000] ; o.masked_fill(o > 9, -1.0) ; torch.where(o > b, o, b) ; o.gather(2, (b % 2).long()) ; o.nonzero()
torch.cat([o, b], 7) ; torch.stack([o, b], 3) ; o.unsqueeze(4) ; o[:, 0].squeeze() ; o.movedim((0, 1), (7, 3))
o.reshape(64, 64) ; o.flatten(2, 9) ; o.unflatten(0, (1, 2, 1)) ; o.repeat(*[1] * 11, 3) ; o.tile(2, 1) ; o.split(1, 5)
o @ torch.ones(2, 3) ; torch.tensordot(o, g, dims=([3, 5], [2, 3])) ; torch.kron(b[0, 0, 0, 0], b[1, 0, 0, 0])
torch.einsum('abcdefghijkl,mndg->abcmefnhijkl', o, g) ; torch.einsum('abcdefghijkl,ml->abcdefghijkm', o, h)
torch.einsum('...ab,bc->...ac', o, h) ; torch.einsum('abcdefghijkl,abcdefghijkl->', o, b)
torch.einsum('abcdefghijkl,mndg,km,ln->abcefhijdgkl', o, g, h, h).contiguous()
torch.einsum(o, [*range(12)], h, [30, 4], [*range(4), 30, *range(5, 12)])
torch.einsum('abcdefghij,klmnopqrst->abcdefghijklmnopqrst', o[0, 0], b[0, 0])
torch.ones([1] * 32) + 1 ; torch.ones([1] * 32).sum() ; torch.ones([1] * 32).permute(*range(31, -1, -1)).sum((0, 31))
torch.arange(2.0**20).reshape([2] * 20).permute(*range(19, -1, -1)).sum(tuple(range(0, 20, 2)))
str(o[0, 0]) ; o.tolist()
torch.zeros([2] * 12) + torch.zeros([3] * 12) ; o.sum(12) ; o[(0,) * 13] ; o.permute(*range(11)) ; o.view(3, -1)
"""


def programs():
    return [line.strip() for row in LINES.split("\n") for line in row.split(" ; ") if line.strip()]


def values(m):
    b = m.arange(2.0**12).reshape([2] * 12)
    o = b.permute(*range(0, 12, 2), *range(11, 0, -2))
    return {"torch": m, "b": b, "o": o, "g": m.arange(16.0).reshape(2, 2, 2, 2) / 8, "h": m.arange(4.0).reshape(2, 2)}


@pytest.mark.parametrize("line", programs())
def test_tensors_of_many_dimensions_compute_as_pytorchs(line):
    theirs, ours = (outcome(lambda m=m: eval(line, values(m))) for m in (REF, SUT))
    check_same(ours, theirs, line)


@pytest.mark.parametrize(
    "line", ["(x * x).sum((0, 5, 11))", "torch.einsum('abcdefghijkl,mndg->abcmefnhijkl', x, g) ** 2"]
)
def test_gradients_of_many_dimensions_are_pytorchs(line):
    def gradient(m):
        v = values(m)
        x = v["x"] = v["o"].clone().requires_grad_()
        y = eval(line, v)
        y[..., 0].mul_(3)
        y.sum().backward()
        return x.grad

    check_same(outcome(gradient, SUT), outcome(gradient, REF), line)


def test_more_dimensions_than_there_is_room_for_are_refused_by_name():
    with pytest.raises(ValueError, match="at most 32 dimensions"):
        SUT.ones([1] * 33)
    with pytest.raises(RuntimeError, match="at most 32 dimensions"):
        SUT.ones([1] * 32).unsqueeze(0)


@pytest.mark.parametrize(
    "index",
    [(None,) * 20 + (0,) * 20, (0,) * 20 + (None,) * 20, (0,) * 9 + (slice(1, 2),) * 3, (None, slice(1)) * 8 + (1,)],
    ids=["made and dropped", "dropped and made", "dropped and cut", "made and cut"],
)
def test_a_long_index_gives_a_view_that_knows_what_it_is_of(index):
    def program(m):
        x = m.arange(2.0**12).reshape((2,) * 12 + (1,) * 8).requires_grad_()
        y = x[index]
        fn = y.grad_fn
        y.sum().backward()
        return y.detach(), fn.name(), tuple(fn._saved_self_sym_sizes) if "Select" in fn.name() else None, x.grad

    check_same(outcome(program, SUT), outcome(program, REF), str(index))


def test_sixteen_items_of_an_index_are_shown_as_they_were_written():
    def names(m):
        fn, found = m.zeros([2] * 12, requires_grad=True)[(slice(1), None) * 3 + (1, slice(1)) * 4].grad_fn, []
        while fn.next_functions:
            found.append(fn.name())
            fn = fn.next_functions[0][0]
        return found

    assert names(SUT) == names(REF)
