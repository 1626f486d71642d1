"""The first steps of a loop run while Python still records it, and nobody can tell but by the clock.

Each program begins as one that ran before, and then does something of its own: it gives the bits that it gives when
nothing runs ahead."""

import contextlib
import ctypes
import os
import threading

import brisk
import numpy as np
import pytest
from brisk import _C

STEPS, ROWS, WIDTH = 200, 16, 64
MIDDLE = STEPS // 2


def is_possible():
    """Not where each op is evaluated at once, and not with one thread."""
    return os.environ.get("BRISK_EAGER", "0") in ("", "0") and brisk.get_num_threads() > 1


class Model:
    def __init__(self):
        numbers = np.random.default_rng(0)
        self.x = brisk.tensor(numbers.standard_normal((STEPS + 1, ROWS, WIDTH), dtype=np.float32))
        self.into, self.over = brisk.nn.Linear(WIDTH, WIDTH), brisk.nn.Linear(WIDTH, WIDTH)
        self.kept = []
        with brisk.no_grad():
            for p in self.parameters():
                p.copy_(brisk.tensor(numbers.standard_normal(p.shape, dtype=np.float32) * 0.1))

    def parameters(self):
        return [*self.into.parameters(), *self.over.parameters()]

    def run(self, way=None, steps=STEPS):
        """A loop and its gradients; `way` has its turn in the middle."""
        h, outs = brisk.zeros(ROWS, WIDTH), []
        for p in self.parameters():
            p.grad = None
        for t in range(steps):
            if way and t == MIDDLE:
                way(self, h)
            h = brisk.tanh(self.into(self.x[t]) + self.over(h))
            outs.append(h)
        outs = brisk.stack(outs)
        del h
        (outs**2).mean().backward()
        results = [outs, *(p.grad for p in self.parameters()), *self.kept]
        self.kept = []
        return [r.detach().clone().numpy() for r in results]


def taken():
    return _C.info()["plans run ahead"]


def arm(model):
    """Runs the loop until it has run ahead."""
    before = taken()
    for _ in range(600):
        model.run()
        if taken() > before or not is_possible():
            return
    raise AssertionError("nothing runs ahead")


def nothing(model, h):
    pass


def by_element(model, h):
    model.x[3, 2, 1] = 7.0
    model.x[MIDDLE + 3, 2, 1] = 7.0


def by_slice(model, h):
    model.x[:, 5] = 0.5


def in_place(model, h):
    model.x.mul_(0.5)


def by_out(model, h):
    brisk.add(model.x, 1.0, out=model.x)


def by_draw(model, h):
    brisk.manual_seed(1)
    model.x.uniform_()


def through_data(model, h):
    model.x.data[4] += 1.0


def through_an_array(model, h):
    model.x.numpy()[MIDDLE - 2 : MIDDLE + 2] = -1.0


def through_an_array_of_a_view(model, h):
    model.x[MIDDLE + 1].numpy()[3] = -1.0


def through_dlpack(model, h):
    np.from_dlpack(model.x.numpy())[:] *= 0.5


def by_address(model, h):
    ctypes.cast(model.x.data_ptr(), ctypes.POINTER(ctypes.c_float))[7] = 9.0


def through_another_dtype(model, h):
    model.x.view(brisk.int32)[MIDDLE + 2] = 0


def by_other_memory(model, h):
    model.x = model.x.clone()


def by_data_of_other_memory(model, h):
    model.x.data = brisk.full(model.x.shape, 0.25)


def to_a_bias(model, h):
    with brisk.no_grad():
        model.over.bias.add_(0.125)


def to_a_weight_through_data(model, h):
    model.into.weight.data.mul_(0.5)


def to_the_state(model, h):
    h.add_(0.25)


def by_keeping_the_state(model, h):
    model.kept.append(h)


def by_looking_at_the_state(model, h):
    assert np.isfinite(h.sum().item())


def by_printing(model, h):
    assert "tensor" in repr(model.x)


def by_an_error(model, h):
    with contextlib.suppress(RuntimeError):
        h @ model.x


def by_another_thread(model, h):
    thread = threading.Thread(target=lambda: model.kept.append((model.x * 2).sum()))
    thread.start()
    thread.join()


def by_letting_go(model, h):
    model.x = model.x + 0


WAYS = [value for value in list(globals().values()) if callable(value) and getattr(value, "__code__", None)]
WAYS = [value for value in WAYS if value.__code__.co_varnames[:2] == ("model", "h")]


@pytest.fixture(autouse=True)
def all_rewrites():
    _C._plan_without("")
    yield
    _C._plan_without("")


@pytest.mark.parametrize("way", WAYS, ids=lambda f: f.__name__)
def test_a_loop_may_do_anything_in_its_midst(way):
    model = Model()
    arm(model)
    got = model.run(way)
    _C._plan_without("ahead")
    expected = Model().run(way)
    assert len(got) == len(expected)
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_array_equal(a, b)
    _C._plan_without("")
    arm(Model())


@pytest.mark.parametrize("steps", [MIDDLE + 1, STEPS - 1, STEPS + 1])
def test_a_loop_of_another_length_is_computed_anew(steps):
    model = Model()
    arm(model)
    got = model.run(steps=steps)
    _C._plan_without("ahead")
    for a, b in zip(got, Model().run(steps=steps), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_loop_that_is_left_by_an_exception_leaves_nothing_behind():
    model = Model()
    arm(model)

    def leave(model, h):
        raise KeyError("enough")

    expected = model.run()
    used = _C.info()["memory in use"]
    for _ in range(3):
        with pytest.raises(KeyError):
            model.run(leave)
        for a, b in zip(model.run(), expected, strict=True):
            np.testing.assert_array_equal(a, b)
    brisk.sync()
    assert _C.info()["memory in use"] < used + 10_000  # the memory of a plan is a hundred times that


def test_values_that_change_between_runs_are_those_of_the_run():
    model, other = Model(), Model()
    for k in range(8):
        with brisk.no_grad():
            for m in (model, other):
                m.x[k] = k
                m.over.weight[k] *= 1.5
        brisk.sync()
        _C._plan_without("")
        got = model.run()
        _C._plan_without("ahead")
        for a, b in zip(got, other.run(), strict=True):
            np.testing.assert_array_equal(a, b)
