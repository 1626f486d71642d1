"""Leaves that were made as views of a tensor without gradients: what is on which side of a write, against PyTorch.

PyTorch does not forget what such a leaf was. A view of it that is written to since is one of the tensor below, which
has no gradient; and when that tensor comes onto the tape, the leaf is a view of it again.
"""

import pytest

from tests.torch.compare import REF, SUT, outcome

LEAVES = {
    "reshaped": lambda b: b.reshape(2, 3),
    "a part": lambda b: b[1:5],
    "all of it": lambda b: b.view(6),
    "a part of a part": lambda b: b[0:6][1:5],
    "turned": lambda b: b.view(2, 3).t(),
    "repeated": lambda b: b[1].expand(4),
    "empty": lambda b: b[:0].reshape(0, 3),
    "detached": lambda b: b.detach()[1:5].detach(),
}

VIEWS = {
    "a part": lambda a: a[0:1],
    "the same": lambda a: a.view(a.shape),
    "a view of a view": lambda a: a[0:2][0:1],
    "one more dimension": lambda a: a.unsqueeze(0),
}

# b is the tensor below, a the leaf, y a view of it, w a tensor with a gradient
PROGRAMS = """
pass
quiet(a.add_, 1)
quiet(b.mul_, 2)
b.mul_(2)
b.data.mul_(2)
y.grad_fn; quiet(b.mul_, 2)
z = y * 2; quiet(b.mul_, 2); y = y + z
y.retain_grad(); quiet(b.mul_, 2); seen.append(y.is_leaf)
quiet(b.mul_, 2); y = y.unsqueeze(0)
quiet(b.mul_, 2); y = y + a.view(a.shape).sum()
quiet(b.mul_, 2); y = a * 3
y.register_hook(seen.append); a.register_hook(seen.append); quiet(b.mul_, 2)
b[2:3].mul_(w)
b[2:3].mul_(w); y = a * 2
b[2:3] = w; y = y + a.sum()
b[2:3].mul_(w); a.grad_fn; a.mul_(2); y = a
b[2:3].mul_(w); seen.append(a.is_leaf); seen.append(a.requires_grad); y.mul_(3)
a.sum().backward(); b[2:3].mul_(w); seen.append(a.grad); y = a * 2
a.sum().backward(); a.requires_grad_(False); seen.append(a.grad); a.requires_grad_()
a.requires_grad_(False); a[:1].mul_(w.sum()); y = b
a.requires_grad_(False); a.mul_(w.sum()); y = b * 2
b.requires_grad_(); y = y * 2
b.requires_grad_(); quiet(b.mul_, 2); y = y * a.sum()
y.detach_()
a.mul_(2)
y.mul_(2)
y = a.detach(); quiet(a.mul_, 2)
del a; quiet(b.mul_, 2)
""".strip().splitlines()


def path(f):
    """The names on the way from a function, as far as they are the tape's own."""
    if f is None:
        return None
    through = [] if f.name().endswith("CopySlices") else [path(g) for g, _ in f.next_functions]
    return [f.name(), through]


def answer(m, leaf, view, program):
    def quiet(call, *arguments):
        with m.no_grad():
            call(*arguments)

    def run():
        b = m.arange(6.0)
        a = LEAVES[leaf](b).requires_grad_()
        kept = a
        w = m.ones(1, requires_grad=True)
        names = {"m": m, "b": b, "a": a, "y": VIEWS[view](a), "w": w, "quiet": quiet, "seen": []}
        exec(program, names)
        y, seen = names["y"], names["seen"]
        about = [y.requires_grad, y.is_leaf, path(y.grad_fn), kept.is_leaf, kept._is_view(), kept._base is b]
        if y.requires_grad:
            y.sum().backward()
        about += [kept.grad, w.grad, b.grad if b.is_leaf else None]
        about += [y.grad] if y.is_leaf or y.retains_grad else []
        return [v.tolist() if isinstance(v, m.Tensor) else v for v in [*about, *seen]]

    return outcome(run)


@pytest.mark.parametrize("leaf", [leaf for leaf in LEAVES if leaf != "detached"])
def test_a_leaf_that_is_a_view_cannot_be_detached_in_place(leaf):
    for m in (SUT, REF):
        with pytest.raises(RuntimeError, match="Can't detach views in-place"):
            LEAVES[leaf](m.arange(6.0)).requires_grad_().detach_()


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("leaf", LEAVES)
def test_a_leaf_that_is_a_view_and_its_views_lead_where_pytorchs_lead(leaf, program):
    for view in VIEWS:
        ours, theirs = answer(SUT, leaf, view, program), answer(REF, leaf, view, program)
        assert str(ours) == str(theirs), f"{view} of {leaf}: {program}"


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_leaf_of_forward_mode_that_is_still_about_changes_nothing(program):
    """As garbage of another test may be, until it is collected."""
    with SUT.autograd.forward_ad.dual_level():
        kept = SUT.autograd.forward_ad.make_dual(SUT.ones(3), SUT.ones(3))
    for leaf in LEAVES:
        for view in VIEWS:
            ours, theirs = answer(SUT, leaf, view, program), answer(REF, leaf, view, program)
            assert str(ours) == str(theirs), f"{view} of {leaf}: {program}"
    del kept
