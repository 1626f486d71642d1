"""Checkpoints: what they keep, and what becomes of it. How they behave is compared with PyTorch in tests/torch."""

import gc
import threading

import brisk
import pytest
from brisk import _C
from brisk.utils.checkpoint import checkpoint

MEGABYTE = 1 << 20


def bytes_in_use():
    brisk.sync()
    gc.collect()
    return _C._in_use()[0]


def chain(h, steps=10):
    for _ in range(steps):
        h = (h.tanh() * h).exp() * 0.01
    return h


def evaluated_on_the_way(h):
    before, first = bytes_in_use(), not evaluated_on_the_way.ran
    for _ in range(10):
        h = (h.tanh() * h).exp() * 0.01
        assert not first or bytes_in_use() < before + 2 * MEGABYTE
    evaluated_on_the_way.ran = True
    return h


evaluated_on_the_way.ran = False


def checkpoints_inside(h):
    for _ in range(4):
        h = checkpoint(chain, h * 1.0, use_reentrant=False)
    return h


class Square(brisk.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        return 2 * g * ctx.saved_tensors[0]


def custom_functions(h):
    for _ in range(5):
        h = Square.apply(h * 0.5)
    return h


@pytest.mark.parametrize("function", [chain, evaluated_on_the_way, checkpoints_inside, custom_functions])
def test_nothing_that_a_function_saves_is_kept(function):
    x = brisk.ones(MEGABYTE // 4, requires_grad=True)
    before = bytes_in_use()
    y = checkpoint(function, x, use_reentrant=False)
    assert bytes_in_use() - before < 1.1 * MEGABYTE  # y, and the random state
    y.sum().backward()
    plain = brisk.ones(MEGABYTE // 4, requires_grad=True)
    function(plain).sum().backward()
    assert brisk.equal(x.grad, plain.grad)


def test_what_a_backward_asks_for_and_does_not_read_is_gone_with_it():
    x, w = brisk.ones(MEGABYTE // 4, requires_grad=True), brisk.ones(MEGABYTE // 4, requires_grad=True)
    y = checkpoint(lambda a: chain(a) * w, x, use_reentrant=False)
    before = bytes_in_use()
    for _ in range(2):
        (g,) = brisk.autograd.grad(y.sum(), w, retain_graph=True)
        assert bytes_in_use() - before < 1.1 * MEGABYTE  # g
        del g
        assert bytes_in_use() == before


def test_a_tape_that_was_never_walked_goes_with_its_results():
    def program():
        x = brisk.ones(50, requires_grad=True)
        y = checkpoint(checkpoints_inside, x, use_reentrant=False)
        assert y.grad_fn.next_functions

    program()
    gc.collect()
    before = _C._in_use()
    program()
    gc.collect()
    assert _C._in_use() == before


def test_a_long_row_of_checkpoints_is_freed_and_walked_without_recursion():
    x = brisk.ones(2, requires_grad=True)
    for walk in (False, True):
        y = x
        for _ in range(20_000):
            y = checkpoint(brisk.sin, y, use_reentrant=False, preserve_rng_state=False)
        if walk:
            y.sum().backward()
        del y
    assert x.grad is not None


def test_threads_run_their_own_functions_again():
    failed = []

    def work(number):
        x, w = brisk.full((3,), 0.1 * number, requires_grad=True), brisk.ones(3, requires_grad=True)
        plain = x.detach().clone().requires_grad_()
        for _ in range(50):
            y = checkpoint(lambda a: (a * w).sin().exp(), x, use_reentrant=False)
            z = (x * w).cos()
            (y.sum() + z.sum()).backward()
            ((plain * w.detach()).sin().exp().sum() + plain.cos().sum()).backward()
        if not brisk.allclose(x.grad, plain.grad):
            failed.append(number)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed


def test_an_exception_inside_leaves_no_checkpoint_behind():
    x = brisk.ones(3, requires_grad=True)
    with pytest.raises(ZeroDivisionError):
        checkpoint(lambda a: a.sin() / (1 // 0), x, use_reentrant=False)
    assert not _C._has_saver()
    runs = []

    def fails_once(a):
        runs.append(1)
        if len(runs) == 2:
            raise KeyError("the second time")
        return a.sin()

    y = checkpoint(fails_once, x, use_reentrant=False)
    with pytest.raises(KeyError):
        y.sum().backward()
    assert not _C._has_saver()
    y.sum().backward()
    assert brisk.allclose(x.grad, x.cos()) and len(runs) == 3


@pytest.mark.parametrize("leaf", [False, True])
def test_arguments_that_were_written_to_since_are_as_they_were(leaf):
    x = brisk.tensor([1.0, 2.0], requires_grad=True)
    expected = x.detach().cos() * x.detach() + x.detach().sin()
    h = x if leaf else x * 1
    y = checkpoint(lambda a: a.sin() * a, h, use_reentrant=False)
    with brisk.no_grad():
        h.mul_(2)
    y.sum().backward()
    assert brisk.allclose(x.grad, expected)


def test_second_runs_of_other_sizes_are_refused_without_the_check_too():
    runs, x = [], brisk.ones(3, requires_grad=True)

    def f(a):
        runs.append(1)
        return a.sin() if len(runs) == 1 else a.expand(2, 3).clone().sin().sum(0)

    y = checkpoint(f, x, use_reentrant=False, determinism_check="none")
    with pytest.raises(RuntimeError, match="other sizes"):
        y.sum().backward()
