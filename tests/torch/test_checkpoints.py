"""Checkpoints that are not reentrant, against PyTorch: their tape, how far and how often the function runs again."""

import contextlib

import pytest

from tests.torch.gradient_programs import checkpointing, collection, compare, function, leaf, shown_name, tried

PROGRAMS, program = collection()


def checkpoint(m, f, *args, **kwargs):
    return checkpointing(m).checkpoint(f, *args, use_reentrant=False, **kwargs)


def tree(fn, depth=20):
    return fn and (fn.name(), [(tree(f, depth - 1), number) for f, number in fn.next_functions if depth])


def first_line(answer):
    return (answer[0], answer[1].strip().splitlines()[0]) if isinstance(answer, tuple) else answer


# --- the tape


@program
def the_tape_is_that_of_the_function(m):
    x, w = leaf(m), leaf(m, 2.0, 3.0, 4.0)
    y = checkpoint(m, lambda a: ((a * w).sin().exp() + a, a.detach(), 3), x * 2)
    z = checkpoint(m, lambda a: m.softmax(a.view(1, 3) @ w.view(3, 1).tanh(), 0), y[0])
    return tree(y[0].grad_fn), y[1].grad_fn, y[2], tree(z.grad_fn), tree(z.sum().grad_fn)


@program
def the_tape_of_layers(m):
    m.manual_seed(0)
    net = m.nn.Sequential(m.nn.Linear(4, 5), m.nn.ReLU(), m.nn.LayerNorm(5), m.nn.Linear(5, 2)).double()
    y = checkpoint(m, net, m.linspace(-1, 1, 12, dtype=m.float64).view(3, 4))
    names = tree(y.grad_fn)
    y.pow(2).sum().backward()
    return names, y, [p.grad for p in net.parameters()]


@program
def nested_checkpoints_leave_no_trace_on_the_tape(m):
    x, w = leaf(m), leaf(m, 2.0, 3.0, 4.0)
    y = checkpoint(m, lambda a: checkpoint(m, lambda b: (b * w).sin() * b, a.exp()).cos(), x)
    names = tree(y.grad_fn)
    y.sum().backward()
    return names, x.grad, w.grad


@program
def what_goes_in_may_come_out(m):
    x = leaf(m)
    h = x * 2
    y, same, view = checkpoint(m, lambda a: (a.sin(), a, a[1:]), h)
    names = tree(y.grad_fn), tree(same.grad_fn), tree(view.grad_fn)
    (y.sum() + same.prod() + view.exp().sum()).backward()
    return names, same is h, x.grad


@program
def results_in_containers_are_left_as_they_are(m):
    x = leaf(m)
    out = checkpoint(m, lambda a: {"y": [a.sin(), None], "n": 3, "s": (a.cos(),)}, x)
    (out["y"][0].sum() + out["s"][0].prod()).backward()
    return sorted(out), out["n"], out["y"][1], x.grad


@program
def saved_values_can_be_looked_at(m):
    x, runs = leaf(m), []

    def f(a):
        runs.append(1)
        return (a * 2).sin()

    y = checkpoint(m, f, x)
    return y.grad_fn._saved_self, len(runs)


@program
def a_function_on_the_tape_can_be_called(m):
    x = leaf(m)
    y = checkpoint(m, lambda a: (a * 2).sin().exp(), x)
    return y.grad_fn(m.ones(3))


# --- how far it runs again


def stations(m, f, *args, backward=lambda y: y.sum().backward(), **kwargs):
    """What a function that is told of the stations on its way comes by: in the forward, and in a backward."""
    seen = []
    y = checkpoint(m, lambda *a: f(seen.append, *a), *args, **kwargs)
    forward, seen[:] = list(seen), []
    backward(y)
    return forward, list(seen)


def past_the_last_saved(at, a):
    at("begin")
    a = a.sin()
    at("sin")
    a = a.exp()
    at("exp")
    a = a + 1
    at("add")
    a = a.sum()
    at("sum")
    return a


@program
def what_follows_the_last_saved_value_is_not_run_again(m):
    x = leaf(m)
    return stations(m, past_the_last_saved, x), x.grad


@program
def it_is_run_to_its_end_where_that_is_asked_for(m):
    x, out = leaf(m), []
    out.append(stations(m, past_the_last_saved, x, early_stop=False))
    for enable in (False, True):
        with checkpointing(m).set_checkpoint_early_stop(enable):
            out.append(stations(m, past_the_last_saved, x, early_stop=not enable))
    return out, x.grad


@program
def stopping_may_be_forbidden_in_the_forward_alone(m):
    x, seen = leaf(m), []
    with checkpointing(m).set_checkpoint_early_stop(False):
        y = checkpoint(m, lambda a: past_the_last_saved(seen.append, a), x)
    y.backward()
    return seen


@program
def a_function_that_saves_nothing_is_not_run_again(m):
    def f(at, a):
        at("begin")
        return (a + 1).sum() - 3

    x = leaf(m)
    return stations(m, f, x), x.grad


@program
def branches_that_lead_nowhere_count(m):
    def f(at, a):
        y = a.sin()
        at("sin")
        a.cos()
        at("cos")
        return y

    x = leaf(m)
    return stations(m, f, x), x.grad


@program
def products_and_layers_stop_it_too(m):
    m.manual_seed(0)
    layer = m.nn.Linear(3, 3)

    def f(at, a):
        a = m.relu(layer(a))
        at("relu")
        a = a @ layer.weight
        at("product")
        a = layer(a) * 2
        at("layer")
        a = a.t() - a.mean(0, keepdim=True).t()
        at("views")
        return a

    x = m.ones(2, 3, requires_grad=True)
    return stations(m, f, x), x.grad, layer.weight.grad


@program
def a_write_in_place_may_be_the_last_to_save(m):
    def f(at, a):
        a = a * 1
        at("mul")
        a.exp_()
        at("exp_")
        a.add_(1)
        at("add_")
        return a

    x = leaf(m)
    return stations(m, f, x), x.grad


@program
def a_custom_function_may_be_the_last_to_save(m):
    def forward(ctx, a):
        ctx.save_for_backward(a)
        return a * a

    cube = function(m, forward=forward, backward=lambda ctx, g: g * 2 * ctx.saved_tensors[0])

    def f(at, a):
        a = a.sin()
        at("sin")
        a = cube.apply(a)
        at("function")
        return a + 1

    x = leaf(m)
    return stations(m, f, x), x.grad


@program
def the_exception_that_stops_it_can_be_seen(m):
    def f(at, a):
        try:
            a = a.sin()
            at("sin")
        except Exception as error:
            at(type(error).__name__)
            raise
        finally:
            at("finally")
        return a

    return stations(m, f, leaf(m))


# --- how often


@program
def each_backward_runs_it_once(m):
    x, n = leaf(m), []

    def f(a):
        n.append(m.is_grad_enabled())
        return a.exp().sin() * a

    y = checkpoint(m, f, x)
    counts = [len(n)]
    for _ in range(3):
        y.sum().backward(retain_graph=True)
        counts.append(len(n))
    y.sum().backward()
    counts.append(len(n))
    again = first_line(tried(lambda: y.sum().backward()))
    return counts, n, x.grad, again


@program
def a_second_derivative_runs_it_for_each_pass(m):
    x, n = leaf(m), []

    def f(a):
        n.append(1)
        return a.exp().sin() * a

    y = checkpoint(m, f, x)
    (g,) = m.autograd.grad(y.sum(), x, create_graph=True)
    counts = [len(n)]
    (h,) = m.autograd.grad(g.sum(), x, create_graph=True)
    counts.append(len(n))
    h.sum().backward()
    return counts + [len(n)], g, h, x.grad


@program
def nested_checkpoints_run_again_from_the_outside(m):
    x, seen = leaf(m), []

    def inner(b):
        seen.append("inner")
        b = b.sin()
        seen.append("sin")
        b = b.exp()
        seen.append("exp")
        return b + 1

    def outer(a):
        seen.append("outer")
        a = checkpoint(m, inner, a * a)
        seen.append("between")
        a = checkpoint(m, inner, a * a)
        seen.append("end")
        return a * 2

    y = checkpoint(m, outer, x)
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    return seen, x.grad


@program
def three_checkpoints_inside_each_other(m):
    x, seen = leaf(m), []

    def level(depth, a):
        seen.append(depth)
        if depth == 0:
            return a.sin()
        return checkpoint(m, lambda b: level(depth - 1, b), a.exp() * 0.1).cos()

    y = checkpoint(m, lambda a: level(3, a), x)
    names = tree(y.grad_fn)
    y.sum().backward()
    return names, seen, x.grad


@program
def a_part_of_the_results_may_be_asked_for(m):
    x, w, n = leaf(m), leaf(m, 2.0, 3.0, 4.0), []

    def f(a):
        n.append(1)
        return (a * w).sin(), (a / w).exp()

    a, b = checkpoint(m, f, x)
    out = m.autograd.grad(a.sum(), [x, w], retain_graph=True)
    out += m.autograd.grad(b.sum(), [w], retain_graph=True)
    out += m.autograd.grad(a.sum() + b.sum(), [x])
    return out, len(n)


@program
def a_reentrant_checkpoint_inside_and_outside(m):
    x, w = leaf(m), leaf(m, 2.0, 3.0, 4.0)
    cp, seen = checkpointing(m).checkpoint, []

    def inner(a):
        seen.append("inner")
        return (a * w).sin()

    def outer(a):
        seen.append("outer")
        return cp(inner, a.exp(), use_reentrant=other) * a

    for other in (False, True):
        y = cp(outer, x, use_reentrant=not other)
        y.sum().backward()
    return seen, x.grad, w.grad


# --- what else is inside


@program
def hooks_inside_run_once(m):
    x, seen = leaf(m), []

    def f(a):
        b = a.sin()
        b.register_hook(lambda g: seen.append(("b", g.tolist())))
        c = b.exp()
        c.register_hook(lambda g: g * 2)
        c.retain_grad()
        kept.append(c)
        return c * b

    kept = []
    y = checkpoint(m, f, x)
    y.grad_fn.register_hook(lambda inputs, outputs: seen.append([g.tolist() for g in inputs + outputs]))
    y.sum().backward()
    return seen, x.grad, kept[0].grad, len(kept)


@program
def custom_functions_inside_keep_what_they_are_told(m):
    seen = []

    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        ctx.note = len(seen)
        seen.append("forward")
        return a * b, a + b

    def backward(ctx, g, h):
        a, b = ctx.saved_tensors
        seen.append(("backward", ctx.note, a.requires_grad, b.grad_fn is None))
        return g * b + h, g * a + h

    fn, x, w = function(m, forward=forward, backward=backward), leaf(m), leaf(m, 2.0, 3.0, 4.0)
    y = checkpoint(m, lambda a: sum(fn.apply(a.sin(), w)).exp(), x)
    y.sum().backward()
    return seen, x.grad, w.grad


@program
def saved_tensors_are_given_once_in_a_backward(m):
    def forward(ctx, a):
        ctx.save_for_backward(a)
        return a * a

    def backward(ctx, g):
        return g * ctx.saved_tensors[0] + g * ctx.saved_tensors[0]

    x, square = leaf(m), function(m, forward=forward, backward=backward)
    y = checkpoint(m, lambda a: square.apply(a.sin()), x)
    return first_line(tried(lambda: y.sum().backward()))


@program
def a_gradient_inside_the_function(m):
    def f(a):
        n.append(1)
        with m.enable_grad():
            b = a.sin() * a
            (g,) = m.autograd.grad(b.sum(), a, create_graph=True)
        return g * b

    out, n = [], []
    for stop in (True, False):
        x = leaf(m)
        y = checkpoint(m, f, x, early_stop=stop)
        y.sum().backward()
        out.append((y, x.grad))
    return out


@program
def writes_in_place_inside(m):
    x = leaf(m)

    def f(a):
        b = a * 2
        b[0] = a[1] * a[2]
        b[1:].mul_(a[:2])
        return b.sin()

    y = checkpoint(m, f, x)
    names = tree(y.grad_fn)
    y.sum().backward()
    return names, y, x.grad


@program
def the_same_random_numbers_inside_and_afterwards(m):
    m.manual_seed(0)
    x = m.ones(40, requires_grad=True)
    y = checkpoint(m, lambda a: m.nn.functional.dropout(a, 0.5) * a * a, x)
    m.rand(3)
    y.sum().backward()
    return bool(((y > 0) == (x.grad > 0)).all()), m.rand(2)


@program
def without_gradients_it_is_the_function(m):
    x, seen = leaf(m), []

    @contextlib.contextmanager
    def told(name):
        seen.append(name)
        yield

    def contexts():
        return told("forward"), told("again")

    with m.no_grad():
        y = checkpoint(m, lambda a: a.sin(), x, context_fn=contexts)
    z = checkpoint(m, lambda a: a.sin(), x, context_fn=contexts)
    z.sum().backward()
    return y.requires_grad, y, seen, x.grad


@program
def a_context_may_not_swallow_an_exception(m):
    def f(a):
        raise ValueError("no")

    def contexts():
        return contextlib.suppress(ValueError), contextlib.nullcontext()

    x = leaf(m)
    return (
        tried(lambda: checkpoint(m, f, x)), tried(lambda: checkpoint(m, f, x, context_fn=contexts)),
        tried(lambda: checkpoint(m, f, x, context_fn=contexts, debug=True)),
        tried(lambda: checkpoint(m, f, x, determinism_check="some")),
    )  # fmt: skip


@program
def hooks_for_saved_tensors_around_and_inside(m):
    out = []
    hooks = m.autograd.graph.saved_tensors_hooks
    for inside in (False, True):
        x, log = leaf(m), []
        h = x.exp()  # before, and nobody's

        def pack(t):
            log.append("pack")  # noqa: B023
            return t

        def unpack(t):
            log.append("unpack")  # noqa: B023
            return t

        def f(a):
            with hooks(pack, unpack) if inside else contextlib.nullcontext():  # noqa: B023
                return a.sin()

        with contextlib.nullcontext() if inside else hooks(pack, unpack):
            y = checkpoint(m, f, h)
        y.sum().backward()
        out.append((log, x.grad))
    return out


# --- what is refused


def changing(m, first, then, **kwargs):
    runs, x = [], leaf(m)

    def f(a):
        runs.append(1)
        return (first if len(runs) == 1 else then)(a)

    y = checkpoint(m, f, x, **kwargs)
    return tried(lambda: y.sum().backward())


@program
def a_second_run_that_saves_less_is_refused(m):
    return changing(m, lambda a: a.sin().exp() * a, lambda a: a.sin())[1].split("\n\n")[0]


@program
def a_second_run_that_saves_more_is_refused_if_it_runs_to_its_end(m):
    less, more = (lambda a: a.sin()), (lambda a: a.sin().exp() * a)
    return changing(m, less, more), first_line(changing(m, less, more, early_stop=False))


@program
def a_second_run_that_saves_other_sizes_is_refused(m):
    def wide(a):
        return a.expand(2, 3).clone().sin().sum(0)

    text = changing(m, lambda a: a.sin(), wide)[1].split("\n\n")[0]
    return text, changing(m, lambda a: a.sin(), lambda a: a.cos()), changing(m, wide, lambda a: a.sin())[0]


@program
def the_errors_may_tell_of_all_operations(m):
    error, text = changing(m, lambda a: a.sin().exp() * a, lambda a: a.sin(), debug=True)
    with checkpointing(m).set_checkpoint_debug_enabled(True):
        other = changing(m, lambda a: a.sin().exp() * a, lambda a: a.sin())
    parts = ["Detected non-determinism", "original forward", "during recomputation", "sin", "exp", __file__]
    return error, other[0], [part in text for part in parts], [part in other[1] for part in parts]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("fn", PROGRAMS, ids=shown_name)
def test_checkpoints_as_in_pytorch(fn):
    compare(fn)
