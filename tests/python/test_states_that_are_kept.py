"""A list of states that is still there when they are evaluated: they are made in their stack, and nobody sees it."""

import os

import brisk
import numpy as np
import pytest
from brisk import _C

T, B, H = 6, 4, 8


def numbers(*shape, seed):
    return brisk.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype("float32") * 0.3)


def loop(gradient=False):
    """The states of a loop, and their stack, evaluated."""
    W, x = numbers(H, H, seed=1).requires_grad_(gradient), numbers(T, B, H, seed=2)
    h, outs = brisk.zeros(B, H), []
    for t in range(T):
        h = brisk.tanh(x[t] + h @ W)
        outs.append(h)
    y = brisk.stack(outs)
    if gradient:
        (y * y).mean().backward()
    brisk.sync()
    return outs, y


def values(t):
    return np.array(t.detach().tolist())


@pytest.mark.skipif(os.environ.get("BRISK_EAGER", "0") != "0", reason="nothing is placed")
@pytest.mark.parametrize("gradient", [False, True])
def test_states_that_a_list_keeps_are_computed_in_their_stack(gradient):
    brisk.compiler.reset()
    before = _C._plan_facts()
    loop(gradient)
    after = _C._plan_facts()
    assert after["PLACED"] - before["PLACED"] >= T
    assert after["COPIED"] == before["COPIED"]


WRITES = {
    "an element of a state": (lambda outs, y: outs[0].__setitem__((0, 0), 5.0), 0, False),
    "an element of the stack": (lambda outs, y: y.__setitem__((1, 0, 0), 5.0), None, True),
    "a state": (lambda outs, y: outs[2].add_(1), 2, False),
    "the stack": (lambda outs, y: y.mul_(2), None, True),
    "a state through its data": (lambda outs, y: outs[1].data.zero_(), 1, False),
    "a view of a state": (lambda outs, y: outs[1].view(-1)[3:5].copy_(brisk.ones(2)), 1, False),
    "a part of the stack": (lambda outs, y: y[2].fill_(3), None, True),
    "an array of a state": (lambda outs, y: outs[3].numpy().__setitem__((0, 0), 9.0), 3, False),
    "an array of the stack": (lambda outs, y: y.numpy().__setitem__((0, 0, 0), 9.0), None, True),
    "both arrays": (lambda outs, y: (outs[5].numpy(), y.numpy().__setitem__(5, 9.0)), None, True),
    "an address": (lambda outs, y: (y.data_ptr(), outs[4].data_ptr(), outs[4].add_(1)), 4, False),
}


@pytest.mark.parametrize("what", WRITES)
def test_a_write_to_one_of_them_is_seen_by_no_other(what):
    write, state, stack = WRITES[what]
    outs, y = loop()
    before = values(y)
    write(outs, y)
    for t in range(T):
        assert (values(outs[t]) == before[t]).all() == (t != state)
    assert (values(y) == before).all() == (not stack)


def test_they_have_storages_of_their_own():
    outs, y = loop()
    assert len({t.data_ptr() for t in (*outs, y)}) == T + 1
    assert outs[1].untyped_storage().nbytes() == B * H * 4 and outs[1].storage_offset() == 0
    assert outs[1]._base is None


def test_the_last_state_alone_keeps_no_others():
    def last():
        outs, y = loop(True)
        h = outs[-1]
        del outs
        return h.detach()

    before = _C.info()["memory in use"]
    kept = [last() for _ in range(50)]
    assert _C.info()["memory in use"] - before < 50 * B * H * 4 * T
    assert len(kept) == 50
