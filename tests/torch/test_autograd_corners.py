"""What autograd says at its corners: warnings, errors and what contexts give, line by line against PyTorch."""

import warnings

import pytest

from tests.torch.compare import REF, SUT

CUSTOM = """
class Double(T.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2

class Scaled(T.autograd.Function):
    @staticmethod
    def forward(x, k):
        return x * k

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.k = inputs[1]

    @staticmethod
    def backward(ctx, g):
        return g * ctx.k, None

class WrongDirt(T.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x * 2
        ctx.mark_dirty(y)
        return y

    @staticmethod
    def backward(ctx, g):
        return g * 2

def run_twice(y):
    y.backward()
    y.backward()
    return x.grad

def changing(first, then):
    calls = []
    def f(a):
        calls.append(a)
        return (first if len(calls) == 1 else then)(a).sum()
    return f

def after_change(of, change):
    # the gradient of a leaf that is changed between forward and backward
    w = T.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    y = of(w).sum()
    change(w)
    y.backward()
    return w.grad, w.shape, w.is_leaf

def grown(w):
    with T.no_grad():
        w.add_(1)

def remade(method, *arguments):
    # a leaf that a method in place gives other sizes, outside of the tape
    w = T.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    with T.no_grad():
        getattr(w, method)(*arguments)
    (w * w).sum().backward()
    return w, w.is_leaf, w.grad, w.shape, w.grad.shape

def seen(enter):
    with enter() as value:
        return value

def decorated(decorate):
    class C:
        def __init__(self):
            self.mode = T.is_grad_enabled()
        def later(self):
            return T.is_grad_enabled()
    c = decorate(C)()
    return c.mode, c.later()

def thrown(decorate):
    @decorate
    def numbers():
        try:
            yield T.is_grad_enabled()
        except ValueError:
            yield T.is_grad_enabled()
        finally:
            closed.append(T.is_grad_enabled())
        return 7
    closed = []
    one, other = numbers(), numbers()
    found = [next(one), T.is_grad_enabled(), one.throw(ValueError), T.is_grad_enabled(), next(other), other.close()]
    try:
        next(one)
    except StopIteration as stop:
        found.append(stop.value)
    return found, closed

def tied():
    layers = T.nn.Sequential(T.nn.Linear(2, 2), T.nn.Linear(2, 2))
    layers[1].weight = layers[0].weight
    return layers

def with_hook(m, x):
    m.register_full_backward_hook(lambda m, inputs, outputs: None)
    y = m(x)
    y.sum().backward()
    return y.grad_fn.name()
"""

LINES = """
Double.apply(x).grad_fn.saved_tensors
(y := Double.apply(x)).sum().backward() or y.grad_fn.saved_tensors
Scaled.apply(x)
Scaled.apply(x, 2, 3)
WrongDirt.apply(x)
(x * 2).grad
(x * 2)[0].grad
x.grad
x.detach().grad
(x * 2).grad_fn.foo
Double.apply(x).grad_fn.foo
type((x * 2).grad_fn).__module__
T.is_anomaly_check_nan_enabled()
seen(T.no_grad)
seen(T.enable_grad)
seen(T.inference_mode)
seen(lambda: T.set_grad_enabled(True))
decorated(T.no_grad())
thrown(T.no_grad())
thrown(T.inference_mode())
type(T.inference_mode(lambda: 3)).__name__
x.register_post_accumulate_grad_hook(lambda p: p.grad) and x.sum().backward()
x.register_post_accumulate_grad_hook(lambda p: 3) and x.sum().backward()
T.autograd.backward(x.sum(), T.tensor(1.0), grad_variables=T.tensor(1.0))
T.autograd.backward(x.sum(), grad_variables=T.tensor(3.0)) or x.grad
T.autograd.backward(x.sum(), None, None, False, None, [x]) or x.grad
isinstance(x, T.autograd.Variable), T.autograd.Variable(x.detach(), requires_grad=True), T.autograd.Variable(x) is x
T.autograd.Variable([1])
T.nn.Parameter(T.ones(2, dtype=T.int64))
setattr(T.ones(2, dtype=T.int64), "requires_grad", True)
T.ones(2, dtype=T.int64).requires_grad_()
copy.deepcopy(x * 2)
run_twice(ck(lambda a: (a * a).sum(), x, use_reentrant=False))
run_twice(ck(lambda a: (a + a).sum(), x, use_reentrant=False))
ck(changing(lambda a: a * a, lambda a: a[:1] * a[:1]), x, use_reentrant=False).backward()
ck(changing(lambda a: a * a * a, lambda a: a * a), x, use_reentrant=False).backward()
with_hook(T.nn.Identity(), x)
with_hook(T.nn.Linear(2, 2), x.detach())
T.func.vjp(lambda a: a * 2, x.detach())[1]((x, x))
T.func.vjp(lambda a: (a, {"b": a}), x.detach())[1]((x, {"c": x}))
T.func.vjp(lambda a: [a, a], x.detach())[1]((x, x))
T.func.vjp(lambda a: a.long(), x.detach())
T.func.jacrev(lambda a: a.long())(x.detach())
T.func.jvp(lambda a: a, (x.detach(),), (x, x))
T.func.jvp(lambda a, b: a, (x.detach(), {"c": x.detach()}), (x, [x]))
T.func.jvp(lambda a: a["c"] * 2, ({"c": x.detach()},), ({"c": T.ones(2)},))
T.func.jvp(lambda a: T.ones(2), (x.detach(),), (T.ones(2),), strict=True)
T.func.jvp(lambda a: (a, T.ones(2)), (x.detach(),), (T.ones(2),), strict=True)
T.func.jvp(lambda a: a * 2, (x.detach(),), (T.ones(2),), strict=True)
T.autograd.functional.jacobian(T.sin, x, strict=True, vectorize=True, strategy="forward-mode")
T.autograd.functional.jacobian(T.sin, x, strict=True, vectorize=True)
T.func.vmap(lambda a: a.max(0))(x.reshape(1, -1))
tuple(T.func.vmap(lambda a: a.sort())(x.reshape(1, -1)))
T.func.vmap(lambda a: a, in_dims=None)(x)
T.func.vmap(lambda a: a, in_dims="a")(x)
T.func.vmap(lambda a: a, in_dims=(0, 0))(x)
T.func.vmap(lambda a: a, in_dims=((0, 0),))((x,))
T.func.vmap(lambda a: 3)(x)
T.func.vmap(lambda a: (a, a), out_dims=(0, 0, 0))(x.detach())
T.func.functional_call(linear, {"x": x, "weight": T.zeros(2, 2), "bias": T.ones(2)}, (x.detach(),)).tolist()
T.func.functional_call(linear, {"x": x}, (x.detach(),), strict=True)
T.func.functional_call(tied(), {"0.weight": T.zeros(2, 2), "1.weight": T.ones(2, 2)}, (x.detach(),))
T.func.vjp(lambda a: None, x.detach())
T.func.jvp(lambda a: (), (x.detach(),), (x.detach(),))
T.func.jacrev(lambda a: 3)(x.detach())
T.func.jacrev(lambda a: None)(x.detach())
T.func.jacfwd(lambda a: (a, 3))(x.detach())
T.func.jacrev(lambda a: a, has_aux=True)(x.detach())
T.func.hessian(lambda a: "a")(x.detach())
after_change(lambda w: w * w, lambda w: setattr(w, "data", T.ones(1, 3)))
after_change(lambda w: w[:, :2] * w[:, 1:], lambda w: setattr(w, "data", T.ones(1, 3)))
after_change(lambda w: w[:, :2] * w[:, 1:], grown)
after_change(lambda w: w * w, grown)
setattr(x, "data", 3)
setattr(x, "data", T.ones(2, dtype=T.int64))
x.t_()
x.unsqueeze_(0)
x[0:1].squeeze_()
x.set_(T.ones(2))
remade("t_")
remade("squeeze_")
remade("unsqueeze_", 0)
remade("transpose_", 0, 1)
(x * x).sum().backward(inputs=[3])
T.autograd.grad((x * x).sum(), "a")
T.autograd.grad(x * x, x, [3.0])
T.autograd.grad(x * x, x, [T.ones(2), T.ones(2)])
T.autograd.grad([x * x, x], x, [T.ones(2)])
T.autograd.grad(x * 2, x, T.ones(2, 3), is_grads_batched=True)
T.autograd.grad(x * 2, x, T.ones(2, 3, 4), is_grads_batched=True)
T.autograd.grad(x * 2, x, T.ones(2), is_grads_batched=True)
T.autograd.grad(x.sum(), x, T.ones(3, 1), is_grads_batched=True)
T.autograd.grad(x * 2, x, T.ones(0, 2), is_grads_batched=True)
T.autograd.grad(x.sum(), x, T.ones(()), is_grads_batched=True)
T.func.grad(lambda a: a.requires_grad_().sum())(x.detach())
T.func.grad(lambda a: a.requires_grad_(False).sum())(x.detach())
T.func.grad(lambda a: (a * T.ones(2).requires_grad_()).sum())(x.detach())
T.func.grad(lambda a: a.sum().backward())(x.detach())
T.func.grad(lambda a: (a * 2).retain_grad())(x.detach())
T.func.vmap(lambda a: a.requires_grad_())(x.detach())
T.func.vmap(lambda a: a.sum().backward())(x.detach())
T.func.vmap(lambda a: T.autograd.backward(a.sum()))(x.detach())
T.func.vjp(lambda a: a.requires_grad_(), x.detach())
T.func.jvp(lambda a: a.requires_grad_(), (x.detach(),), (T.ones(2),))
T.func.jvp(lambda a: a.sum().backward(), (x.detach(),), (T.ones(2),))
T.func.jacrev(lambda a: a.requires_grad_())(x.detach())
T.func.jacfwd(lambda a: a.requires_grad_())(x.detach())
T.func.functionalize(lambda a: a.requires_grad_())(x.detach())
T.func.grad(lambda a: T.func.grad(lambda b: (b**3).sum())(a).sum())(x.detach())
T.func.grad(lambda a: T.autograd.grad((a**3).sum(), a, create_graph=True)[0].sum())(x.detach())
T.func.grad(lambda a: T.nn.Linear(2, 2)(a).sum() * 0)(x.detach()).tolist()
T.func.grad(lambda a: (a * T.hann_window(2, requires_grad=True)).sum() * 0)(x.detach()).tolist()
[T.func.grad(lambda a: a.sum())(x.detach()), x.detach().requires_grad_()]
""".strip().splitlines()


def shown(m, value):
    if isinstance(value, m.Tensor):
        return value.tolist(), value.requires_grad
    if isinstance(value, (tuple, list)):
        return [shown(m, v) for v in value]
    return str(value)


def answer(m, line):
    """(the value or the error, the warnings), in words. The advice at the end of PyTorch's longer errors is its own."""
    import copy

    names = {"T": m, "x": m.tensor([1.0, 2.0], requires_grad=True), "copy": copy, "linear": m.nn.Linear(2, 2)}
    names["ck"] = m.utils.checkpoint.checkpoint
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        exec(CUSTOM, names)
        try:
            value = shown(m, eval(line, names))
        except Exception as error:
            value = f"{type(error).__name__}: {error}".split("\n\nTip:")[0]
    words = [(w.category.__name__, str(w.message).split(" (Triggered internally")[0]) for w in told]
    return value, [w for w in words if "torch.jit" not in w[1]]


@pytest.mark.parametrize("line", LINES)
def test_autograd_answers_warns_and_refuses_in_pytorchs_words(line):
    assert answer(SUT, line) == answer(REF, line)


ONCE = """
import warnings, sys
m = __import__(sys.argv[1])
def told(f):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        f()
    print([str(w.message).split(" (Triggered internally")[0] for w in told])
x = m.ones(2, requires_grad=True)
told(lambda: x[0].item())
told(lambda: bool(x[0]))
told(lambda: float(x[0]))
told(lambda: float(x[0]))
told(lambda: (x ** 3).sum().backward())
told(lambda: (x ** 3).sum().backward(create_graph=True))
told(lambda: (x ** 3).sum().backward(create_graph=True))
"""


def test_what_pytorch_warns_of_once_is_warned_of_once():
    """In programs of their own: what was warned of before is known."""
    import subprocess
    import sys

    def lines(m):
        run = subprocess.run([sys.executable, "-c", ONCE, m.__name__], capture_output=True, text=True, check=True)
        return run.stdout

    assert lines(SUT) == lines(REF)


@pytest.mark.parametrize("power", [3, 4, 1, 0, -1.5, 1.5, 2.5, -2])
def test_the_gradient_of_a_power_is_a_product_and_asks_for_no_choice(power):
    def names(m):
        x = m.tensor([1.0, 2.0], requires_grad=True)
        (g,) = m.autograd.grad((x**power).sum(), x, create_graph=True)
        return g.grad_fn.name() if power else None, [round(v, 5) for v in g.tolist()]

    assert names(SUT) == names(REF)


def both(program):
    """What a function of the library gives or raises, as text, is the same in both."""

    def said(m):
        try:
            return repr(program(m)).replace(f"{m.__name__}.", "torch.")
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    ours, theirs = said(SUT), said(REF)
    assert ours == theirs


def test_what_a_backward_says_to_save_for_backward_changes_nothing():
    def program(m):
        seen = []

        class Twice(m.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * 2

            @staticmethod
            def backward(ctx, g):
                ctx.save_for_backward(g, g, g)
                seen.append([t.tolist() for t in ctx.saved_tensors])
                return g * 2

        x = m.ones(2, requires_grad=True)
        y = Twice.apply(x)
        y.sum().backward(retain_graph=True)
        y.sum().backward()
        return seen, x.grad

    both(program)


def test_a_saved_output_shows_the_function_that_made_it():
    def program(m):
        seen = []

        class Exp(m.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                out = x.exp()
                ctx.save_for_backward(out)
                return out

            @staticmethod
            def backward(ctx, g):
                (out,) = ctx.saved_tensors
                seen.append(repr(out))
                return g * out

        x = m.zeros(2, requires_grad=True)
        m.autograd.grad(Exp.apply(x).sum(), x, create_graph=True)
        return seen

    both(program)


BATCHES = {
    "rows": lambda m, a: m.autograd.grad(a * 2, a, m.eye(2), is_grads_batched=True),
    "none for a number": lambda m, a: m.autograd.grad(a.sum(), a, is_grads_batched=True),
    "other numbers of rows": lambda m, a: m.autograd.grad(
        [a * 2, a.sum()], a, [m.ones(3, 2), m.ones(4)], is_grads_batched=True
    ),
    "none among rows": lambda m, a: m.autograd.grad([a * 2, a.sum()], a, [m.ones(3, 2), None], is_grads_batched=True),
    "zeros for what was not used": lambda m, a: m.autograd.grad(
        a * 2, [a, m.ones(3, requires_grad=True)], m.eye(2), is_grads_batched=True, materialize_grads=True
    ),
}


@pytest.mark.parametrize("case", BATCHES)
def test_gradients_of_a_batch_of_vectors(case):
    both(lambda m: BATCHES[case](m, m.ones(2, requires_grad=True)))


def test_inputs_by_name_give_gradients_by_name():
    def program(m):
        x, unused = m.ones(2, requires_grad=True), m.ones(3, requires_grad=True)
        return m.autograd.grad((x * x).sum(), {"x": x, "unused": unused}, materialize_grads=True, create_graph=True)

    both(lambda m: list(program(m)))
    both(lambda m: [program(m)["x"].detach(), program(m)["unused"]])


@pytest.mark.filterwarnings("error")
def test_only_inputs_is_deprecated():
    x = {m: m.ones(2, requires_grad=True) for m in (SUT, REF)}
    both(lambda m: m.autograd.grad(x[m].sum(), x[m], only_inputs=False))


def test_a_long_chain_of_views_is_read_without_recursion():
    x = SUT.ones(1, requires_grad=True)
    y = x
    for _ in range(60_000):
        y = y[0:1]
    (y * 3).sum().backward()
    assert x.grad.tolist() == [3.0]


VIEWS_BESIDE_THE_TAPE = {
    "what a custom function made a view": lambda m, x: [View.of(m).apply(x)],
    "an input that a custom function returned": lambda m, x: [Same.of(m).apply(x)],
    "a view of such a view": lambda m, x: [View.of(m).apply(x)[1:][1:]],
    "a custom function without gradients": lambda m, x: [View.of(m).apply(x.detach())],
    "views without gradients, of each other": lambda m, x: without_gradients(m, lambda: [x.view(-1), x[0][1:], x.t()]),
    "a view of a view without gradients": lambda m, x: [without_gradients(m, lambda: x.view(-1)).detach()[1:]],
    "what is no view": lambda m, x: without_gradients(m, lambda: [x.repeat(2), x.detach(), x.rot90(), x @ x]),
    "views in inference mode": lambda m, x: in_inference_mode(m, lambda: [x[0], (x * 2)[0]]),
}


class View:
    @staticmethod
    def of(m):
        class Flat(m.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.view(-1)

            @staticmethod
            def backward(ctx, g):
                return g.view(2, 2)

        return Flat


class Same:
    @staticmethod
    def of(m):
        class Itself(m.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x

            @staticmethod
            def backward(ctx, g):
                return g

        return Itself


def without_gradients(m, f):
    with m.no_grad():
        return f()


def in_inference_mode(m, f):
    with m.inference_mode():
        return f()


@pytest.mark.parametrize("case", VIEWS_BESIDE_THE_TAPE)
def test_a_view_beside_the_tape_knows_what_it_is_a_view_of(case):
    def program(m):
        x = m.ones(2, 2, requires_grad=True)
        return [(v._is_view(), v._base is x, v._base is None) for v in VIEWS_BESIDE_THE_TAPE[case](m, x)]

    both(program)


def test_views_of_views_without_gradients_keep_no_row_of_each_other_alive():
    import weakref

    for m in (SUT, REF):
        x = m.ones(3)
        with m.no_grad():
            between = x[:2]
            last = between[:1]
        gone = weakref.ref(between)
        del between
        assert gone() is None and last._base is x


FORWARD_JACOBIANS = {
    "one input, one output": (lambda a: a.sum(0), 1),
    "one input, two outputs": (lambda a: (a.sum(0), a * 2), 1),
    "two inputs, one output": (lambda a, b: a * b, 2),
    "two inputs, two outputs": (lambda a, b: (a * b, b.sum()), 2),
}


@pytest.mark.parametrize("case", FORWARD_JACOBIANS)
def test_a_jacobian_in_forward_mode_is_nested_in_the_lists_and_tuples_of_pytorch(case):
    def program(m):
        f, count = FORWARD_JACOBIANS[case]
        x = m.tensor([[1.0, 2.0], [3.0, 4.0]])
        inputs = x if count == 1 else (x, x + 1)
        return m.autograd.functional.jacobian(f, inputs, vectorize=True, strategy="forward-mode")

    both(program)


def test_a_hessian_by_an_outer_forward_mode_is_nested_as_that_of_pytorch():
    def program(m):
        x = m.tensor([1.0, 2.0])
        options = {"vectorize": True, "outer_jacobian_strategy": "forward-mode"}
        f = m.autograd.functional.hessian
        (one, other) = f(lambda a, b: (a * b * b).sum(), (x, x), **options), f(lambda a: (a**3).sum(), x, **options)
        return type(one), [(type(row), [t.tolist() for t in row]) for row in one], other.tolist()

    both(program)


def kept_names(m, program):
    x = m.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    kept = program(m, x)

    def tree(fn, depth=2):
        return fn and (fn.name(), [(tree(f, depth - 1), k) for f, k in fn.next_functions if depth])

    return [(tree(t.grad.grad_fn), t.grad.is_leaf, t.grad.tolist()) for t in kept]


def retained(m, x):
    y = x * 2
    y.retain_grad()
    (y * y).sum().backward(create_graph=True)
    return x, y


KEPT = {
    "the first": lambda m, x: (x * x).sum().backward(create_graph=True) or [x],
    "two after each other": lambda m, x: [(x * x).sum().backward(create_graph=True) for _ in "ab"] and [x],
    "after one without a graph": lambda m, x: [(x * x).sum().backward(create_graph=g) for g in (False, True)] and [x],
    "for inputs": lambda m, x: (x * x).sum().backward(create_graph=True, inputs=[x]) or [x],
    "what the caller gave": lambda m, x: x.backward(m.ones(2, 2, requires_grad=True), create_graph=True) or [x],
    "on no tape": lambda m, x: x.sum().backward(create_graph=True) or [x],
    "retained": retained,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", KEPT)
def test_a_gradient_that_is_kept_has_a_place_of_its_own_on_the_tape(case):
    assert kept_names(SUT, KEPT[case]) == kept_names(REF, KEPT[case])


@pytest.mark.filterwarnings("ignore")
def test_a_kept_gradient_is_differentiated_again():
    def program(m):
        x = m.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        (x.t() ** 4).sum().backward(create_graph=True)
        first = x.grad
        x.grad = None
        (first**2).sum().backward(create_graph=True)
        second = x.grad
        x.grad = None
        second.sum().backward()
        return first.tolist(), second.tolist(), x.grad

    both(program)
