"""Hooks on tensors and on functions of the graph, and what a graph shows of itself, against PyTorch.

Every test is one program, run in both libraries; what it returns is compared, and where PyTorch raises, so must we, in
the same words."""

import importlib

import pytest

from tests.torch.compare import REF, SUT, Raised, check_same, outcome

PROGRAMS = []


def program(fn):
    PROGRAMS.append(fn)
    return fn


def graph_of(m):
    return importlib.import_module(f"{m.__name__}.autograd.graph")


def leaf(m, n=3):
    return m.arange(1.0, n + 1).requires_grad_()


def values(gradients):
    return [None if g is None else g.tolist() for g in gradients]


# --- order


@program
def hooks_run_in_the_order_of_pytorch(m):
    log, w = [], leaf(m)
    y = w * 2
    z = y * y
    y.register_hook(lambda g: log.append("tensor 1"))
    y.retain_grad()
    y.register_hook(lambda g: log.append(("tensor 2", y.grad is None)))
    y.grad_fn.register_prehook(lambda gs: log.append(("before", values(gs), y.grad is None)))
    y.grad_fn.register_hook(lambda gi, go: log.append(("after", values(gi), values(go))))
    accumulate = y.grad_fn.next_functions[0][0]
    w.register_post_accumulate_grad_hook(lambda t: log.append(("accumulated", t is w, t.grad.tolist())))
    accumulate.register_prehook(lambda gs: log.append(("before the leaf", values(gs), w.grad is None)))
    accumulate.register_hook(lambda gi, go: log.append(("after the leaf", values(gi), values(go))))
    w.register_hook(lambda g: log.append("leaf"))
    z.sum().backward()
    return str(log)


@program
def a_post_accumulate_hook_may_use_up_the_gradient(m):
    w = leaf(m)

    def step(p):
        with m.no_grad():
            p -= 0.1 * p.grad
        p.grad = None

    w.register_post_accumulate_grad_hook(step)
    for _ in range(3):
        (w * w).sum().backward()
    return w.detach(), w.grad


@program
def autograd_grad_runs_tensor_hooks_but_not_those_of_accumulation(m):
    log, w = [], leaf(m)
    w.register_hook(lambda g: g * 10)
    w.register_post_accumulate_grad_hook(lambda t: log.append("accumulated"))
    (g,) = m.autograd.grad((w * 3).sum(), w)
    return g, w.grad, log


@program
def hooks_that_replace_gradients_are_chained(m):
    w = leaf(m)
    y = w * 2
    y.register_hook(lambda g: g + 1)
    y.register_hook(lambda g: g * 10)
    y.grad_fn.register_prehook(lambda gs: (gs[0] + 0.5,))
    y.grad_fn.register_hook(lambda gi, go: (gi[0] - 1, None))
    y.sum().backward()
    return w.grad


@program
def hooks_taken_off_do_not_run(m):
    log, w = [], leaf(m)
    y = w * 2
    handles = [
        y.register_hook(lambda g: log.append(1)),
        y.grad_fn.register_prehook(lambda g: log.append(2)),
        y.grad_fn.register_hook(lambda a, b: log.append(3)),
        w.register_post_accumulate_grad_hook(lambda t: log.append(4)),
    ]
    for handle in handles:
        handle.remove()
        handle.remove()
    with y.register_hook(lambda g: log.append(5)):
        pass
    y.sum().backward()
    return log


@program
def a_hook_sees_a_gradient_of_a_gradient(m):
    w = leaf(m)
    y = w**3
    y.register_hook(lambda g: g * 2)
    (g,) = m.autograd.grad(y.sum(), w, create_graph=True)
    g.sum().backward()
    return g.detach(), w.grad


@program
def hooks_of_a_custom_function_see_all_its_results(m):
    class Two(m.autograd.Function):
        @staticmethod
        def forward(ctx, x, k):
            ctx.k = k
            return x * k, x + k

        @staticmethod
        def backward(ctx, a, b):
            return a * ctx.k + b, None

    log, w = [], leaf(m)
    a, b = Two.apply(w, 4)
    assert a.grad_fn is b.grad_fn
    a.grad_fn.register_prehook(lambda gs: log.append(values(gs)))
    a.grad_fn.register_hook(lambda gi, go: (log.append((values(gi), values(go))), (gi[0] * 2,))[1])
    a.sum().backward()
    return log, w.grad, a.grad_fn.k, type(a.grad_fn).__name__, a.grad_fn.name(), a.grad_fn.next_functions[0][1]


# --- views


@program
def a_hook_on_a_view_sees_what_views_of_it_send(m):
    seen, w = [], leaf(m, 6)
    a = (w * 2)[2:]
    a.register_hook(lambda g: seen.append(g.tolist()))
    (a[1:] * 3).sum().backward()
    return seen, w.grad


@program
def a_hook_on_a_view_replaces_what_views_of_it_send(m):
    w = leaf(m, 6)
    a = (w * 2).view(2, 3)
    b = a.t()
    a.register_hook(lambda g: g * 10)
    (b * 3 + b[0]).sum().backward()
    return w.grad


@program
def a_view_of_all_elements_keeps_its_own_gradient(m):
    w = leaf(m, 4)
    h = w * 2
    a = h.view(4)
    a.retain_grad()
    (a.view(2, 2).sum() + h.sum() * 5).backward()
    return a.grad, w.grad


@program
def a_view_of_a_leaf_keeps_its_own_gradient(m):
    w = leaf(m, 4)
    a = w.view(2, 2)
    a.retain_grad()
    b = a[0]
    b.register_hook(lambda g: g * 3)
    (a * 2 + b[1:]).sum().backward()
    return a.grad, w.grad


@program
def a_hook_after_a_function_that_makes_a_view(m):
    w = leaf(m, 4)
    a = (w * 2)[1:]
    a.grad_fn.register_hook(lambda gi, go: (gi[0] * 2,))
    a.sum().backward()
    return w.grad


# --- errors


def failing(line):
    def run(m):
        w = leaf(m)
        y = w * 2
        z = y.exp()
        exec(line, {"w": w, "y": y, "z": z, "torch": m})
        z.sum().backward()
        return w.grad

    run.__name__ = line
    PROGRAMS.append(run)


for _line in (
    "y.grad_fn.register_hook(lambda gi, go: 3)",
    "y.grad_fn.register_hook(lambda gi, go: (1, 2, 3))",
    "y.grad_fn.register_hook(lambda gi, go: (None, None))",
    "y.grad_fn.register_hook(lambda gi, go: [gi[0], gi[1]])",
    "y.grad_fn.register_hook(lambda gi, go: (torch.ones(7), None))",
    "y.grad_fn.register_prehook(lambda gs: gs[0] * 2)",
    "y.grad_fn.register_prehook(lambda gs: (None, None))",
    "y.grad_fn.register_prehook(lambda gs: (None,))",
    "y.grad_fn.register_prehook(lambda gs: (torch.ones(7),))",
    "y.register_hook(lambda g: torch.ones(7))",
    "y.register_hook(lambda g: g.double())",
    "y.register_hook(lambda g: 'no')",
    "y.register_post_accumulate_grad_hook(print)",
    "w.detach().register_post_accumulate_grad_hook(print)",
    "w.detach().register_hook(print)",
    "w.register_post_accumulate_grad_hook(lambda t: 3)",
):
    failing(_line)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__.replace("_", " "))
def test_hooks(fn):
    ours, theirs = outcome(fn, SUT), outcome(fn, REF)
    check_same(ours, theirs, fn.__name__)
    if isinstance(theirs, Raised):
        assert str(ours.error) == str(theirs.error)
