"""Custom functions and checkpoints, each use of them in PyTorch and in brisk: what it returns, or how it refuses."""

import re as regular
import warnings

import pytest

from tests.torch.compare import REF, SUT
from tests.torch.gradient_programs import checkpointing, collection, compare, function, inside, leaf, shown_name, tried

PROGRAMS, program = collection()


# ---- checkpoint


@program
def checkpoints(m):
    out = []
    for re in (True, False):
        w = leaf(m)
        x = leaf(m)
        n = [0]

        def f(x, k=1):
            n[0] += 1
            return (x * w).tanh() * k

        y = checkpointing(m).checkpoint(f, x, use_reentrant=re)
        y.sum().backward()
        out += [y, x.grad, w.grad, n[0]]
    return out


@program
def checkpoints_inside_checkpoints(m):
    x = leaf(m)
    w = leaf(m)
    n = [0]

    def g(x):
        n[0] += 1
        return (x * w).sin()

    def f(x):
        return (
            checkpointing(m)
            .checkpoint(g, checkpointing(m).checkpoint(g, x, use_reentrant=False), use_reentrant=False)
            .exp()
        )

    y = checkpointing(m).checkpoint(f, x, use_reentrant=False)
    y.sum().backward()
    return y, x.grad, w.grad, n[0]


@program
def checkpoints_and_random_numbers(m):
    out = []
    for re in (True, False):
        for keep in (True, False):
            m.manual_seed(3)
            x = m.ones(50, requires_grad=True)
            y = checkpointing(m).checkpoint(
                lambda t: m.nn.functional.dropout(t, 0.5) * t, x, use_reentrant=re, preserve_rng_state=keep
            )
            m.rand(3)
            y.sum().backward()
            out.append((bool(((y > 0) == (x.grad > 0)).all()) if keep else None, m.rand(1)))
    return out


@program
def checkpoints_with_keywords(m):
    x = leaf(m)
    y = checkpointing(m).checkpoint(lambda a, b=2, c=None: a * b + c, x, b=3, c=x, use_reentrant=False)
    y.sum().backward()
    return y, x.grad, tried(lambda: checkpointing(m).checkpoint(lambda a, b: a * b, x, b=3, use_reentrant=True))


@program
def a_checkpointed_sequence(m):
    m.manual_seed(0)
    s = m.nn.Sequential(m.nn.Linear(3, 3), m.nn.Tanh(), m.nn.Linear(3, 3), m.nn.Tanh())
    x = m.ones(2, 3, requires_grad=True)
    y = checkpointing(m).checkpoint_sequential(s, 2, x, use_reentrant=False)
    y.sum().backward()
    return y, x.grad, [p.grad for p in s.parameters()]


@program
def a_second_derivative_through_a_checkpoint(m):
    x = leaf(m)
    y = checkpointing(m).checkpoint(lambda t: (t**3).sin(), x, use_reentrant=False)
    (g,) = m.autograd.grad(y.sum(), x, create_graph=True)
    g.sum().backward()
    return x.grad


@program
def grad_through_a_reentrant_checkpoint(m):
    x = leaf(m)
    y = checkpointing(m).checkpoint(lambda t: t**3, x, use_reentrant=True)
    return tried(lambda: m.autograd.grad(y.sum(), x))


@program
def a_checkpoint_of_inputs_without_gradients(m):
    x = m.ones(3)
    w = leaf(m)
    y = checkpointing(m).checkpoint(lambda t: t * w, x, use_reentrant=True)
    r1 = y.requires_grad
    y = checkpointing(m).checkpoint(lambda t: t * w, x, use_reentrant=False)
    y.sum().backward()
    return r1, w.grad


@program
def a_checkpoint_with_two_results(m):
    x = leaf(m)
    a, b = checkpointing(m).checkpoint(lambda t: (t * 2, (t * t, 3)[0]), x, use_reentrant=False)
    (a.sum() + b.sum()).backward()
    return x.grad


@program
def a_checkpoint_gone_through_twice(m):
    x = leaf(m)
    n = []

    def f(t):
        n.append(1)
        return t.exp().sin()

    y = checkpointing(m).checkpoint(f, x, use_reentrant=False)
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    return x.grad, len(n)


@program
def a_checkpoint_that_computes_something_else(m):
    x = leaf(m)
    c = [0]

    def f(t):
        c[0] += 1
        return t.exp().sin() if c[0] == 1 else t.exp()

    y = checkpointing(m).checkpoint(f, x, use_reentrant=False)
    answer = tried(lambda: y.sum().backward())
    return answer and answer[0]


# ---- anomaly


@program
def anomalies_are_named(m):
    x = m.tensor([-1.0, 0.0], requires_grad=True)
    out = []
    with m.autograd.detect_anomaly():
        out.append(tried(lambda: x.sqrt().sum().backward()))
    with m.autograd.set_detect_anomaly(True):
        out.append(tried(lambda: (x.log() * 0).sum().backward()))
    with m.autograd.detect_anomaly(check_nan=False):
        out.append(tried(lambda: x.sqrt().sum().backward()))
    m.autograd.set_detect_anomaly(False)
    return out


@program
def an_anomaly_in_a_higher_derivative_names_what_it_was_recorded_for(m):
    x = m.tensor([0.0], requires_grad=True)
    told = []
    with warnings.catch_warnings(record=True) as caught, m.autograd.set_detect_anomaly(True):
        warnings.simplefilter("always")
        (g,) = m.autograd.grad(x.sqrt().exp().sum(), x, create_graph=True)
        told.append(tried(lambda: (g * 0).sum().backward()))
    for one in caught:
        named = r"(?:Error detected in|induced by) \w+|line \d+, in an_anomaly.*\n.*\n"
        told += regular.findall(named, str(one.message))
    return told


@program
def an_anomaly_in_a_custom_function(m):
    class B(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * float("nan")

    x = leaf(m)
    with m.autograd.detect_anomaly():
        return tried(lambda: B.apply(x).sum().backward())


@program
def wrong_gradients_of_a_custom_function(m):
    x, y = leaf(m), leaf(m)

    def run(back, n=2):
        f = function(m, forward=lambda ctx, a, b: a * b, backward=back)
        f.apply(x, y).sum().backward()

    return [
        tried(lambda: run(lambda ctx, g: g)),
        tried(lambda: run(lambda ctx, g: (g, g, g))),
        tried(lambda: run(lambda ctx, g: (g, g, None, None))),
        tried(lambda: run(lambda ctx, g: (g[:2], g))),
        tried(lambda: run(lambda ctx, g: (g, 3))),
        tried(lambda: run(lambda ctx, g: None)),
        tried(lambda: run(lambda ctx, g: (None, None))),
        tried(lambda: run(lambda ctx, g: (g.double(), g))),
        tried(lambda: run(lambda ctx, g: (g.sum(), g))),
        tried(lambda: run(lambda ctx, g: [g, g])),
        tried(lambda: run(lambda ctx, g: (g.unsqueeze(0), g))),
    ]


@program
def arguments_that_are_no_tensors(m):
    x = leaf(m)
    f = function(
        m,
        forward=lambda ctx, a, k, s, d: setattr(ctx, "k", k) or a * k,
        backward=lambda ctx, g: (g * ctx.k, None, None, None),
    )
    y = f.apply(x, 3.0, "s", {"a": 1})
    y.sum().backward()
    return y, x.grad


@program
def a_gradient_for_an_argument_that_is_no_tensor(m):
    x = leaf(m)
    f = function(m, forward=lambda ctx, a, k: a * k, backward=lambda ctx, g: (g, g))
    return tried(lambda: f.apply(x, 3.0).sum().backward())


@program
def several_results_and_materialized_gradients(m):
    x = leaf(m)
    log = []

    def b(ctx, g, h):
        log.append((g.tolist() if g is not None else None, h.tolist() if h is not None else None))
        return g

    f = function(m, forward=lambda ctx, a: (a * 2, a * 3), backward=b)
    a, c = f.apply(x)
    a.sum().backward()

    def fw(ctx, a):
        ctx.set_materialize_grads(False)
        return a * 2, a * 3

    f2 = function(m, forward=fw, backward=b)
    a, c = f2.apply(x)
    a.sum().backward()
    return log, x.grad


@program
def needs_input_grad(m):
    x, y = leaf(m), m.ones(3)
    log = []

    def b(ctx, g):
        log.append(ctx.needs_input_grad)
        return g, None, None

    f = function(m, forward=lambda ctx, a, b, k: a * b, backward=b)
    f.apply(x, y, 2).sum().backward()
    return log


@program
def results_marked_non_differentiable(m):
    x = leaf(m)

    def fw(ctx, a):
        i = a.argmax()
        s = a * 2
        d = a * 5
        ctx.mark_non_differentiable(i, d)
        return s, i, d

    f = function(m, forward=fw, backward=lambda ctx, g, h, k: g * 2)
    s, i, d = f.apply(x)
    s.sum().backward()
    return s.requires_grad, i.requires_grad, d.requires_grad, x.grad


@program
def arguments_marked_dirty(m):
    x = leaf(m)

    def fw(ctx, a):
        a.mul_(3)
        ctx.mark_dirty(a)
        return a

    f = function(m, forward=fw, backward=lambda ctx, g: g * 3)
    y = x * 1
    z = f.apply(y)
    z.sum().backward()
    return z is y, y, x.grad, tried(lambda: f.apply(x)), tried(lambda: f.apply(m.ones(3)))


@program
def a_tensor_marked_dirty_that_is_no_argument(m):
    x = leaf(m)

    def fw(ctx, a):
        b = a * 1
        b.mul_(3)
        ctx.mark_dirty(b)
        return b

    f = function(m, forward=fw, backward=lambda ctx, g: g * 3)
    return tried(lambda: f.apply(x * 1).sum().backward()), x.grad


@program
def a_dirty_argument_that_is_not_returned(m):
    def fw(ctx, a):
        a.mul_(3)
        ctx.mark_dirty(a)
        return a * 1

    f = function(m, forward=fw, backward=lambda ctx, g: g * 3)
    x = leaf(m)
    return tried(lambda: f.apply(x * 1))


@program
def once_differentiable(m):
    x = leaf(m)
    od = inside(m, "autograd.function").once_differentiable

    def b(ctx, g):
        return 2 * ctx.saved_tensors[0] * g

    def fw(ctx, a):
        ctx.save_for_backward(a)
        return a * a

    f = function(m, forward=fw, backward=od(b))
    (g,) = m.autograd.grad(f.apply(x).sum(), x, create_graph=True)
    return g, tried(lambda: g.sum().backward())


@program
def setup_context(m):
    x = leaf(m)

    def sc(ctx, inputs, output):
        ctx.save_for_backward(inputs[0], output)
        ctx.k = inputs[1]

    f = function(m, forward=lambda a, k=2: a * k, setup_context=sc, backward=lambda ctx, g: (g * ctx.k, None))
    y = f.apply(x, 4)
    y.sum().backward()
    return y, x.grad, tried(lambda: f.apply(x))


@program
def third_derivatives_of_a_custom_function(m):
    x = leaf(m)

    def fw(ctx, a):
        ctx.save_for_backward(a)
        return a**3

    f = function(m, forward=fw, backward=lambda ctx, g: 3 * ctx.saved_tensors[0] ** 2 * g)
    (g,) = m.autograd.grad(f.apply(x).sum(), x, create_graph=True)
    (h,) = m.autograd.grad(g.sum(), x, create_graph=True)
    (k,) = m.autograd.grad(h.sum(), x)
    return g, h, k


@program
def mistakes_in_a_custom_function(m):
    x = leaf(m)
    f0 = type("N", (m.autograd.Function,), {})
    fb = function(m, forward=lambda ctx, a: a * 1)

    def sv(ctx, a):
        ctx.save_for_backward(a, 3)
        return a * 1

    def sv2(ctx, a):
        ctx.save_for_backward(a * 2)
        return a * 1

    fs = function(m, forward=sv, backward=lambda ctx, g: g)
    fr = function(m, forward=lambda ctx, a: 3, backward=lambda ctx, g: g)
    fn = function(m, forward=lambda ctx, a: None, backward=lambda ctx, g: g)
    ft = function(m, forward=lambda ctx, a: (a * 1, "s", None), backward=lambda ctx, g, *r: g)
    return [
        tried(lambda: f0.apply(x)),
        tried(lambda: fb.apply(x).sum().backward()),
        tried(lambda: fs.apply(x)),
        tried(lambda: fr.apply(x)),
        tried(lambda: fn.apply(x)),
        tried(lambda: ft.apply(x)),
        tried(lambda: m.autograd.Function()(x)),
        tried(lambda: function(m, forward=lambda ctx, a: 1 / 0, backward=lambda ctx, g: g).apply(x)),
        tried(
            lambda: function(m, forward=lambda ctx, a: a * 1, backward=lambda ctx, g: 1 / 0).apply(x).sum().backward()
        ),
    ]


@program
def saved_tensors_that_were_freed(m):
    x = leaf(m)

    def fw(ctx, a):
        ctx.save_for_backward(a)
        return a * a

    f = function(m, forward=fw, backward=lambda ctx, g: 2 * ctx.saved_tensors[0] * g)
    y = f.apply(x).sum()
    y.backward()
    return tried(lambda: y.backward())


@program
def a_function_that_returns_its_input(m):
    x = leaf(m)
    f = function(m, forward=lambda ctx, a: a, backward=lambda ctx, g: 2 * g)
    y = f.apply(x)
    y.sum().backward()
    f2 = function(m, forward=lambda ctx, a: a.view(-1), backward=lambda ctx, g: 2 * g)
    z = f2.apply(x * 1)
    return y is x, y.requires_grad, y.grad_fn.name(), x.grad, z.grad_fn.name()


@program
def attributes_of_a_custom_grad_fn(m):
    x = leaf(m)

    def fw(ctx, a):
        ctx.z = 5
        return a * 1

    f = function(m, forward=fw, backward=lambda ctx, g: g * ctx.z)
    y = f.apply(x)
    y.grad_fn.z = 7
    y.sum().backward()
    return x.grad, y.grad_fn.z, y.grad_fn.name(), type(y.grad_fn).__name__, tried(lambda: y.grad_fn.nope), f.__name__


@program
def an_argument_that_is_none(m):
    f = function(m, forward=lambda ctx, a, b: a * 1 if b is None else a * b, backward=lambda ctx, g: (g, None))
    x = leaf(m)
    f.apply(x, None).sum().backward()
    return x.grad


@program
def a_custom_function_without_gradients(m):
    f = function(m, forward=lambda ctx, a: a * 2, backward=lambda ctx, g: g)
    x = leaf(m)
    with m.no_grad():
        a = f.apply(x).requires_grad
    return a, f.apply(m.ones(3)).requires_grad, f.apply(x).is_leaf


@program
def a_custom_function_that_returns_a_list(m):
    f = function(m, forward=lambda ctx, a: [a * 2, a * 3], backward=lambda ctx, g, h: g + h)
    x = leaf(m)
    o = f.apply(x)
    return tried(lambda: type(o).__name__)


@program
def a_tape_inside_a_custom_forward(m):
    x = leaf(m)

    def fw(ctx, a):
        with m.enable_grad():
            a = a.detach().requires_grad_()
            b = a.exp()
        ctx.a, ctx.b = a, b
        return b.detach()

    def bw(ctx, g):
        return m.autograd.grad(ctx.b, ctx.a, g)[0]

    f = function(m, forward=fw, backward=bw)
    f.apply(x).sum().backward()
    return x.grad


@program
def vjp_for_backward(m):
    x = leaf(m)
    f = function(m, forward=lambda ctx, a: a * 2, vjp=lambda ctx, g: g * 9)
    f.apply(x).sum().backward()
    return x.grad


@program
def a_ctx_is_no_instance_of_its_function(m):
    seen, said = [], []

    class Twice(m.autograd.Function):
        factor = 2

        @staticmethod
        def forward(ctx, a):
            seen.append(type(ctx))
            before = ctx.to_save
            ctx.save_for_backward(a, None)
            said.append((before, ctx.to_save))
            return a * ctx._forward_cls.factor

        @staticmethod
        def backward(ctx, g):
            seen.append(type(ctx))
            return tried(lambda: g * ctx.factor) and g * Twice.factor

    x = leaf(m)
    y = Twice.apply(x)
    y.sum().backward()
    first, second = seen
    base = m.autograd.function.BackwardCFunction
    context = m.autograd.function.FunctionCtx
    names = first.__name__, first.__qualname__, first.__module__, repr(first), [k.__name__ for k in first.__mro__[:2]]
    return (
        names, first is second is Twice._backward_cls, first._forward_cls is Twice, issubclass(first, base),
        issubclass(first, context), issubclass(first, m.autograd.Function), issubclass(Twice, context),
        [hasattr(first, k) for k in ("forward", "backward", "factor", "save_for_forward", "mark_dirty")], x.grad,
        isinstance(y.grad_fn, first), isinstance(y.grad_fn, m.autograd.graph.Node), repr(type(y.grad_fn)),
        isinstance(y.sum().grad_fn, base), repr(type(y.sum().grad_fn)), said, y.grad_fn.to_save,
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("fn", PROGRAMS, ids=shown_name)
def test_custom_functions_and_checkpoints_as_in_pytorch(fn):
    compare(fn)


def test_mark_shared_storage_of_old_programs_warns_and_does_nothing():
    def program(m):
        class Square(m.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                y = x * x
                ctx.mark_shared_storage((x, y))
                ctx.save_for_backward(x)
                return y

            @staticmethod
            def backward(ctx, g):
                return 2 * ctx.saved_tensors[0] * g

        x = m.tensor([1.0, 2.0], requires_grad=True)
        with pytest.warns(FutureWarning, match="Tensors with shared storages are automatically tracked"):
            Square.apply(x).sum().backward()
        return x.grad.tolist()

    assert program(SUT) == program(REF) == [2.0, 4.0]
