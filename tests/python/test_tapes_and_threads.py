"""Tapes and threads: passes run side by side, modes belong to a thread, and what is not needed any more is freed."""

import gc
import threading

import brisk
import pytest
from brisk import _C
from brisk.autograd.graph import saved_tensors_hooks


def run_in_threads(work, count=4):
    """work(number) in threads of their own; the first error is raised here."""
    errors = []

    def guarded(number):
        try:
            work(number)
        except BaseException as error:  # whatever it is, the test is to show it
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_passes_over_tapes_of_their_own_run_side_by_side():
    def work(number):
        for _ in range(30):
            x = brisk.full((50,), float(number + 1), requires_grad=True)
            (x.exp().log() * x).sum().backward()
            assert brisk.allclose(x.grad, 2 * x.detach(), rtol=1e-4)

    run_in_threads(work)


def test_passes_over_one_tape_from_several_threads_add_up():
    x = brisk.ones(100, requires_grad=True)
    trunk = (x * 3).sin()
    lock = threading.Lock()
    total = []

    def work(number):
        (g,) = brisk.autograd.grad((trunk * (number + 1)).sum(), x, retain_graph=True)
        with lock:
            total.append((number + 1, g))

    run_in_threads(work)
    for factor, g in total:
        assert brisk.allclose(g, factor * 3 * brisk.cos(brisk.full((100,), 3.0)), atol=1e-5)


def test_a_leaf_takes_the_gradients_of_all_threads():
    x = brisk.zeros(10, requires_grad=True)
    x.grad = brisk.zeros(10)

    def work(number):
        for _ in range(25):
            (x * 1.0).sum().backward()

    run_in_threads(work)
    assert x.grad.tolist() == [100.0] * 10


def test_custom_functions_and_hooks_run_in_several_threads():
    class Twice(brisk.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 2 * g + 0 * x

    def work(number):
        for _ in range(20):
            seen = []
            x = brisk.ones(5, requires_grad=True)
            y = Twice.apply(x)
            y.register_hook(lambda g, seen=seen: seen.append(threading.get_ident()))
            y.sum().backward()
            assert seen == [threading.get_ident()] and x.grad.tolist() == [2] * 5

    run_in_threads(work)


def test_modes_belong_to_a_thread():
    inside, done = threading.Event(), threading.Event()
    seen = {}

    def hold():
        with brisk.no_grad(), brisk.inference_mode():
            seen["held"] = brisk.is_grad_enabled(), brisk.is_inference_mode_enabled()
            inside.set()
            done.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait(10)
    seen["here"] = brisk.is_grad_enabled(), brisk.is_inference_mode_enabled()
    y = brisk.ones(2, requires_grad=True) * 2
    done.set()
    thread.join()
    assert seen == {"held": (False, True), "here": (True, False)}
    assert y.requires_grad and not y.is_inference()


def test_hooks_for_saved_tensors_belong_to_a_thread():
    packed = []

    def work(number):
        x = brisk.ones(3, requires_grad=True)
        (x * x).sum().backward()
        assert x.grad.tolist() == [2] * 3

    with saved_tensors_hooks(lambda t: packed.append(threading.get_ident()) or t, lambda t: t):
        run_in_threads(work)
        x = brisk.ones(3, requires_grad=True)
        y = x.exp()
    y.sum().backward()
    assert set(packed) == {threading.get_ident()}


def in_use():
    gc.collect()
    return _C._in_use()


def hooked():
    x = brisk.ones(50, requires_grad=True)
    y = (x * 2).view(5, 10)
    y.register_hook(lambda g: g * 2)
    y.retain_grad()
    y.grad_fn.register_hook(lambda a, b: None)
    x.register_post_accumulate_grad_hook(lambda t: None)
    y.t().exp().sum().backward()


def packed():
    x = brisk.ones(50, requires_grad=True)
    with saved_tensors_hooks(lambda t: t * 1, lambda t: t):
        y = (x * x).exp()
    y.sum().backward()


def packed_and_left():
    x = brisk.ones(50, requires_grad=True)
    with saved_tensors_hooks(lambda t: t * 1, lambda t: t):
        (x * x).exp()


def looked_at():
    x = brisk.ones(50, requires_grad=True)
    fn = (x.view(5, 10).t() * 2).exp().grad_fn
    while fn.next_functions:
        fn = fn.next_functions[0][0]
    assert fn.variable is x


def forward_mode():
    with brisk.autograd.forward_ad.dual_level():
        d = brisk.autograd.forward_ad.make_dual(brisk.ones(50), brisk.ones(50))
        brisk.autograd.forward_ad.unpack_dual(d.sin().sum())


def forward_mode_without_gradients():
    fw = brisk.autograd.forward_ad
    with brisk.no_grad(), fw.dual_level():
        d = fw.make_dual(brisk.ones(50), brisk.ones(50))
        fw.unpack_dual((d**3).sin() * d)


def parts_of_an_expanded_view():
    x = brisk.ones(4, requires_grad=True)
    e = (x * 1).expand(4, 4)
    e.retain_grad()
    (e[2].sum() + e[:, 1:][1].sum() + e.t()[[0, 1]].sum()).backward()


def names_on_the_tape():
    x = brisk.ones(4, requires_grad=True)
    loss = brisk.nn.functional.cross_entropy(brisk.stack([x, x]) * 2, brisk.tensor([1, 0]))
    work = [loss.grad_fn]
    while work:
        work.extend(f for f, _ in work.pop().next_functions if f)
    loss.backward()


def checkpointed():
    x = brisk.ones(4, requires_grad=True)
    brisk.utils.checkpoint.checkpoint(lambda t: (t * t).sin(), x, use_reentrant=False).sum().backward()


def refused():
    class Way(brisk.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            e = x.exp()
            ctx.save_for_backward(e)
            return e * 1

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    x = brisk.ones(50, requires_grad=True)
    (g,) = brisk.autograd.grad(Way.apply(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="computed on the way"):
        g.sum().backward()


@pytest.mark.parametrize(
    "program",
    [hooked, packed, packed_and_left, looked_at, forward_mode, forward_mode_without_gradients,
     parts_of_an_expanded_view, names_on_the_tape, checkpointed, refused],
    ids=lambda p: p.__name__,
)  # fmt: skip
def test_nodes_and_bytes_in_use_are_afterwards_what_they_were(program):
    for _ in range(2):  # constants stay warm
        program()
    before = in_use()
    for _ in range(3):
        program()
        assert in_use() == before


def test_many_views_of_views_are_freed_without_recursion():
    x = brisk.ones(4, requires_grad=True)
    v = (x * 1).view(2, 2)
    for _ in range(300_000):
        v = v.t()
    del v


def test_a_graph_of_a_million_nodes_that_is_never_walked_is_freed():
    x = brisk.ones(2, requires_grad=True)
    before = in_use()[1]
    y = x
    for _ in range(1_000_000):
        y = y * 1.0
    fn = y.grad_fn
    del y
    assert fn.next_functions
    del fn
    assert abs(in_use()[1] - before) < 10
