"""The API of gradients, each call of it in PyTorch and in brisk: what it returns, or how it refuses."""

import threading

import pytest

from tests.torch.gradient_programs import collection, compare, function, functional, inside, leaf, shown_name, tried

PROGRAMS, program = collection()


# ---- backward


@program
def backward_takes_a_gradient(m):
    x = leaf(m)
    (x * x).backward(m.tensor([1.0, 0.0, 2.0]))
    (x * x).backward(gradient=m.tensor([1.0, 0.0, 2.0]))
    return x.grad


@program
def a_second_backward_needs_the_graph_retained(m):
    x = leaf(m)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    return [x.grad, tried(lambda: y.backward())]


@program
def a_second_backward_where_nothing_was_saved(m):
    x = leaf(m)
    y = (x + x).sum()
    y.backward()
    y.backward()
    return x.grad


@program
def backward_with_create_graph(m):
    x = leaf(m)
    (x**3).sum().backward(create_graph=True)
    g = x.grad
    r = g.requires_grad
    (h,) = m.autograd.grad(g.sum(), x)
    return g, r, h


@program
def backward_to_some_inputs(m):
    x, w = leaf(m), leaf(m)
    y = x * w
    z = y * 2
    z.sum().backward(inputs=[x, y])
    return x.grad, w.grad, y.grad


@program
def backward_to_one_input(m):
    x, w = leaf(m), leaf(m)
    (x * w).sum().backward(inputs=w)
    return x.grad, w.grad


@program
def backward_to_inputs_that_are_not_there(m):
    x, w = leaf(m), leaf(m)
    y = (x * 1).sum()
    return [tried(lambda: y.backward(inputs=[w])), w.grad, tried(lambda: y.backward(inputs=[m.ones(3)]))]


@program
def backward_from_several_outputs(m):
    x = leaf(m)
    m.autograd.backward([(x * x).sum(), x * 3], [None, m.ones(3)])
    return x.grad


@program
def two_losses_over_a_shared_trunk(m):
    x = leaf(m)
    h = x.exp()
    a = (h * h).sum()
    b = h.sum()
    a.backward(retain_graph=True)
    b.backward()
    return x.grad, tried(lambda: b.backward())


@program
def a_trunk_that_was_freed(m):
    x = leaf(m)
    h = x.exp()
    a = h.sum()
    a.backward()
    return tried(lambda: h.sum().backward())


# ---- grad


@program
def inputs_that_are_not_used(m):
    x, w = leaf(m), leaf(m)
    y = (x * x).sum()
    return [
        tried(lambda: m.autograd.grad(y, [x, w], retain_graph=True)),
        tried(lambda: m.autograd.grad(y, [x, w], allow_unused=True, retain_graph=True)),
        tried(lambda: m.autograd.grad(y, [x, w], materialize_grads=True, retain_graph=True)),
        tried(lambda: m.autograd.grad(y, [x, w], allow_unused=False, materialize_grads=True)),
        tried(lambda: m.autograd.grad(y, w, allow_unused=True, retain_graph=True)),
        tried(lambda: m.autograd.grad(y, m.ones(3), retain_graph=True)),
        tried(lambda: m.autograd.grad(m.ones(3).sum(), x)),
        tried(lambda: m.autograd.grad(y, [])),
        tried(lambda: m.autograd.grad([], [x])),
    ]


@program
def gradients_of_several_outputs(m):
    x = leaf(m)
    y = x * x
    z = x.exp()
    return [
        tried(lambda: m.autograd.grad([y, z], x, [m.ones(3), m.ones(3) * 2], retain_graph=True)),
        tried(lambda: m.autograd.grad([y, z.sum()], x, [m.ones(3), None], retain_graph=True)),
        tried(lambda: m.autograd.grad(y, x, m.ones(3), retain_graph=True)),
        tried(lambda: m.autograd.grad(y, x, grad_outputs=m.eye(3), is_grads_batched=True, retain_graph=True)),
        tried(lambda: m.autograd.grad([y, z], x, [m.ones(3)])),
        tried(lambda: m.autograd.grad(y, x, retain_graph=True)),
        tried(lambda: m.autograd.grad(y, y, m.ones(3) * 4, retain_graph=True)),
        tried(lambda: m.autograd.grad(y, [x, y], m.ones(3), retain_graph=True)),
    ]


@program
def gradients_by_what_was_computed_on_the_way(m):
    x = leaf(m)
    y = x * 2
    z = y.exp().sum()
    return m.autograd.grad(z, [y, x])


@program
def grad_accumulates_nothing(m):
    x = leaf(m)
    m.autograd.grad((x * x).sum(), x)
    return x.grad


@program
def gradients_by_edges(m):
    gr = inside(m, "autograd.graph")
    x = leaf(m)
    y = x * 2
    e = gr.get_gradient_edge(y)
    return m.autograd.grad(y.exp().sum(), [e, gr.get_gradient_edge(x)])


@program
def a_gradient_penalty(m):
    m.manual_seed(0)
    lin = m.nn.Linear(3, 1)
    x = m.ones(2, 3, requires_grad=True)
    with m.no_grad():
        [p.fill_(0.5) for p in lin.parameters()]
    (g,) = m.autograd.grad(lin(x).pow(3).sum(), x, create_graph=True)
    g.norm().backward()
    return [p.grad for p in lin.parameters()]


# ---- accum


@program
def gradients_add_up_in_one_tensor(m):
    x = leaf(m)
    (x * 2).sum().backward()
    g = x.grad
    (x * 3).sum().backward()
    return x.grad is g, g, x.grad.data_ptr() == g.data_ptr()


@program
def a_gradient_set_to_zero(m):
    x = leaf(m)
    (x * 2).sum().backward()
    x.grad.zero_()
    (x * 5).sum().backward()
    return x.grad


@program
def requires_grad_and_leaves(m):
    x = m.ones(3)
    a = x.requires_grad
    x.requires_grad_()
    y = x * 2
    return [
        a,
        x.requires_grad,
        y.requires_grad,
        x.is_leaf,
        y.is_leaf,
        y.detach().is_leaf,
        y.detach().requires_grad,
        tried(lambda: y.requires_grad_(False)),
        tried(lambda: setattr(y, "requires_grad", False)),
        tried(lambda: m.arange(3).requires_grad_()),
        tried(lambda: m.tensor([True], requires_grad=True)),
        x.requires_grad_(False).requires_grad,
        tried(lambda: setattr(x, "requires_grad", 1)),
    ]


@program
def the_gradient_of_what_is_no_leaf(m):
    x = leaf(m)
    y = x * 2
    y.sum().backward()
    return y.grad


@program
def retained_gradients(m):
    x = leaf(m)
    y = x * 2
    y.retain_grad()
    y.retain_grad()
    (y * y).sum().backward()
    return (
        y.grad,
        y.retains_grad,
        x.retains_grad,
        tried(lambda: m.ones(3).retain_grad()),
        tried(lambda: x.retain_grad()),
    )


@program
def a_retained_gradient_follows_a_write(m):
    x = leaf(m)
    y = x * 2
    y.retain_grad()
    y.mul_(3)
    y.sum().backward()
    return y.grad


# ---- detach, data


@program
def detach_and_data(m):
    x = leaf(m)
    y = x * 2
    d = y.detach()
    d.mul_(5)
    r = [y, d.requires_grad, d.data_ptr() == y.data_ptr()]
    z = y.data
    z.add_(1)
    y.sum().backward()
    x.data = m.ones(3) * 7
    return r, y, x.grad, x, x.is_leaf, tried(lambda: x.detach_()), tried(lambda: y[0].detach_())


@program
def writes_to_a_leaf(m):
    x = leaf(m)
    return (
        tried(lambda: x.add_(1)),
        tried(lambda: x[0].add_(1)),
        tried(lambda: x.__setitem__(0, 1.0)),
        tried(lambda: x.detach().add_(1)),
    )


@program
def a_leaf_written_since(m):
    x = leaf(m)
    x.exp()
    z = (x * x).sum()
    with m.no_grad():
        x.add_(1)
    return tried(lambda: z.backward()), x._version


# ---- graph


@program
def what_a_graph_shows(m):
    gr = inside(m, "autograd.graph")
    x = leaf(m)
    y = (x * x).exp()
    fn = y.grad_fn
    return (
        fn.name(),
        [(f.name(), i) for f, i in fn.next_functions],
        fn.next_functions[0][0].next_functions[0][0].variable is x,
        isinstance(fn, gr.Node),
        repr(fn).split(" object")[0].replace("brisk", "torch"),
        y.grad_fn is fn,
        y.output_nr,
        tried(lambda: fn._saved_result),
        fn.metadata,
        fn._sequence_nr() >= 0,
    )


@program
def hooks_on_saved_tensors(m):
    gr = inside(m, "autograd.graph")
    x = leaf(m)
    log = []
    with gr.saved_tensors_hooks(lambda t: (log.append("p"), t)[1], lambda t: (log.append("u"), t)[1]):
        y = x.exp()
    y.sum().backward()
    with gr.save_on_cpu():
        z = (x * x).sum()
    z.backward()

    def bad():
        with gr.disable_saved_tensors_hooks("no"), gr.saved_tensors_hooks(lambda t: t, lambda t: t):
            pass

    return sorted(log), x.grad, tried(bad)


@program
def saved_tensors_that_are_written(m):
    gr = inside(m, "autograd.graph")
    with gr.allow_mutation_on_saved_tensors():
        x = leaf(m)
        y = x * 1
        z = y.sin()
        y.mul_(5)
        z.sum().backward()
    return x.grad


# ---- threads


@program
def gradients_in_threads(m):
    x = leaf(m)
    out = []

    def w(k):
        for _ in range(20):
            (x * k).sum().backward()
        out.append(m.is_grad_enabled())

    with m.no_grad():
        ts = [threading.Thread(target=w, args=(k,)) for k in range(4)]
        [t.start() for t in ts]
        [t.join() for t in ts]
    return out, float(x.grad.sum())


@program
def a_long_chain(m):
    x = m.ones(1, requires_grad=True)
    y = x
    for _ in range(20000):
        y = y + 1
    y.backward()
    return x.grad


@program
def an_error_inside_backward(m):
    x = leaf(m)
    w = leaf(m)
    f = function(m, forward=lambda ctx, a: a * 1, backward=lambda ctx, g: 1 / 0)
    y = f.apply(x) * w
    return tried(lambda: y.sum().backward()), x.grad, w.grad


@program
def a_backward_inside_a_hook(m):
    x = leaf(m)

    def h(g):
        z = leaf(m)
        with m.enable_grad():
            (z * g.detach()).sum().backward()
        return g * z.grad

    y = x * 2
    y.register_hook(h)
    y.sum().backward()
    return x.grad


@program
def what_is_refused_is_refused_with_pytorchs_words(m):
    x, f = leaf(m), functional(m)
    graph, a = inside(m, "autograd.graph"), m.autograd
    sides = x.detach().double().requires_grad_()

    def packed_in_place():
        with graph.saved_tensors_hooks(lambda t: t.mul_(2), lambda t: t):
            return x.exp()

    return [
        tried(call)
        for call in (
            lambda: graph.register_multi_grad_hook((m.ones(2),), print),
            packed_in_place,
            lambda: f.jacobian(m.sin, x, strict=True, vectorize=True),
            lambda: f.jacobian(m.sin, x, strategy="sideways"),
            lambda: f.jacobian(m.sin, x, strategy="forward-mode", create_graph=True),
            lambda: m.func.grad(m.sum)(m.tensor([1, 2])),
            lambda: a.gradgradcheck(m.sin, sides, check_fwd_over_rev=True, check_rev_over_rev=False),
            lambda: a.gradgradcheck(m.sin, sides, check_rev_over_rev=False),
            lambda: a.grad("x", x),
            lambda: setattr(x, "grad", m.ones(3, dtype=m.float64)),
        )
    ]


@program
def a_view_knows_what_it_is_a_view_of(m):
    x = leaf(m)
    y = x * 2
    v = y[1:]
    w = v.view(2, 1)
    alone, copy = (x * 3)[:2], x.expand(2, 3).t().reshape(-1)  # nobody else has the base of the first
    return (
        [t._is_view() for t in (x, y, v, w, alone, copy)],
        [x._base, y._base, v._base is y, w._base is y],
        alone._base,
    )


@program
def marking_an_input_dirty_counts_as_a_write(m):
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    x = leaf(m)
    y = x * 1
    function(m, forward=forward, backward=lambda ctx, g: g * 2).apply(y)
    y.sum().backward()
    return y._version, x.grad


def weighed(m, t):
    return (t * m.arange(1.0, t.numel() + 1).reshape(t.shape)).sum()


@program
def as_strided_of_a_view_sends_its_gradient_through_the_view(m):
    answers = []
    for view, strided in (
        (lambda t: t[:3].unsqueeze(0).expand(2, 3), ((2, 3), (0, 1))),
        (lambda t: t[:3].unsqueeze(0).expand(2, 3), ((2, 2), (1, 1))),
        (lambda t: t.as_strided((3, 3), (1, 1)), ((2, 2), (2, 1))),
        (lambda t: t.unfold(0, 3, 1), ((2, 2), (2, 1))),
        (lambda t: t.view(2, 3), ((2, 2), (3, 1))),
        (lambda t: t.view(2, 3).t(), ((2, 2), (3, 1))),
        (lambda t: t[1:4], ((3,), (2,), 0)),  # what is outside of the view is lost
        (lambda t: t[1:4], ((3,), (2,))),
        (lambda t: t[1:4], ((2,), (1,), 2)),
    ):
        x, seen = m.arange(6.0).requires_grad_(), []
        v = view(x * 1)
        v.retain_grad()
        v.register_hook(seen.append)
        y = v.as_strided(*strided)
        y.retain_grad()
        (g,) = m.autograd.grad((y[1:] ** 3).sum(), x, create_graph=True)
        weighed(m, y).backward(retain_graph=True)
        (h,) = m.autograd.grad((g**2).sum(), x)
        answers.append((x.grad, v.grad, y.grad, seen, g.detach(), h, shown(y)))
    return answers


def shown(t):
    return type(t.grad_fn).__name__, [type(f).__name__ for f, _ in t.grad_fn.next_functions]


@program
def as_strided_beyond_a_leaf_or_written_to(m):
    leaves = m.arange(6.0)[1:4].requires_grad_(), m.arange(3.0).expand(2, 3).requires_grad_()
    weighed(m, leaves[0].as_strided((3,), (2,), 0)).backward()
    weighed(m, leaves[1].as_strided((2, 2), (1, 1))).backward()
    x = m.arange(1.0, 7.0).requires_grad_()
    base = x * 1
    part = base[1:4]
    y = part.as_strided((3,), (2,), 0)
    y.mul_(3)
    (weighed(m, part) + weighed(m, base) + weighed(m, y)).backward()
    return [t.grad for t in leaves], x.grad


@program
def gradients_through_dtypes(m):
    x = leaf(m)
    y = (x.double() * m.ones(3, dtype=m.float64)).sum() + x.half().sum()
    y.backward()
    return x.grad


@program
def writes_through_views_of_views(m):
    x = m.arange(12.0).requires_grad_()
    y = (x * 1).view(3, 4)
    v = y[1:]
    w = v.t()
    w[0] = 5
    v[0, 1] = 7
    (y * m.arange(12.0).view(3, 4)).sum().backward()
    return x.grad, y


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("fn", PROGRAMS, ids=shown_name)
def test_gradients_as_in_pytorch(fn):
    compare(fn)
