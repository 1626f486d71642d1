"""The API of gradients, each call of it in PyTorch and in brisk: what it returns, or how it refuses."""

import importlib
import threading

import pytest

from tests.torch.compare import REF, SUT, Raised, check_same, outcome

PROGRAMS = []


def program(fn):
    PROGRAMS.append(fn)
    return fn


def inside(m, name):
    return importlib.import_module(f"{m.__name__}.{name}")


def functional(m):
    return inside(m, "autograd.functional")


def checkpointing(m):
    return inside(m, "utils.checkpoint")


def function(m, **methods):
    return type("Fn", (m.autograd.Function,), {name: staticmethod(f) for name, f in methods.items()})


def tried(call):
    try:
        return call()
    except Exception as error:
        return type(error).__name__, str(error).replace("brisk.", "torch.")


def leaf(m, *v):
    return m.tensor(list(v) or [1.0, 2.0, 3.0], requires_grad=True)


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


# ---- hooks


@program
def a_hook_replaces_and_is_removed(m):
    x = leaf(m)
    y = x * 2
    h = y.register_hook(lambda g: g * 10)
    (y * 1).sum().backward()
    a = x.grad.clone()
    h.remove()
    x.grad = None
    (x * 2).sum().backward()
    return a, x.grad


@program
def a_hook_writes_in_place(m):
    x = leaf(m)
    y = x * 2

    def f(g):
        g.mul_(2)

    y.register_hook(f)
    (y * m.arange(3.0)).sum().backward()
    return x.grad


@program
def hooks_of_a_leaf_in_their_order(m):
    x = leaf(m)
    log = []
    x.register_hook(lambda g: log.append("a"))
    x.register_hook(lambda g: log.append("b"))
    x.register_post_accumulate_grad_hook(lambda p: log.append(("p", p.grad.tolist())))
    (x * 2).sum().backward()
    return log


@program
def a_hook_on_several_tensors(m):
    gr = inside(m, "autograd.graph")
    x = leaf(m)
    a = x * 2
    b = x * 3
    log = []
    gr.register_multi_grad_hook([a, b], lambda gs: log.append([None if g is None else g.tolist() for g in gs]))
    (a.sum() + b.sum()).backward()
    gr.register_multi_grad_hook([a, b], lambda g: log.append(g.tolist()), mode="any")
    a = None
    return log


@program
def hooks_around_a_function(m):
    x = leaf(m)
    y = x.exp()
    log = []
    y.grad_fn.register_hook(
        lambda gi, go: log.append(("post", [None if g is None else g.tolist() for g in gi], [g.tolist() for g in go]))
    )
    y.grad_fn.register_prehook(lambda go: log.append(("pre", [g.tolist() for g in go])))
    (y * 2).sum().backward()
    return log


@program
def hooks_around_a_function_replace(m):
    x = leaf(m)
    y = x.exp()
    y.grad_fn.register_prehook(lambda go: (go[0] * 2,))
    y.grad_fn.register_hook(lambda gi, go: (gi[0] * 3,))
    y.sum().backward()
    return x.grad


@program
def hooks_of_a_module(m):
    lin = m.nn.Linear(3, 2)
    log = []
    with m.no_grad():
        lin.weight.fill_(1.0)
        lin.bias.fill_(0.0)
    lin.register_forward_pre_hook(lambda mod, i: log.append(("fpre", len(i))))
    lin.register_forward_hook(lambda mod, i, o: log.append(("f", tuple(o.shape))))
    lin.register_full_backward_pre_hook(lambda mod, go: log.append(("bpre", [g.tolist() for g in go])))
    lin.register_full_backward_hook(
        lambda mod, gi, go: log.append(("b", [None if g is None else g.tolist() for g in gi], [g.tolist() for g in go]))
    )
    x = m.ones(1, 3, requires_grad=True)
    lin(x).sum().backward()
    lin(m.ones(1, 3)).sum().backward()
    return log, x.grad


@program
def hooks_of_a_module_replace(m):
    lin = m.nn.Linear(3, 2, bias=False)
    with m.no_grad():
        lin.weight.fill_(1.0)
    lin.register_full_backward_hook(lambda mod, gi, go: (gi[0] * 10,))
    lin.register_full_backward_pre_hook(lambda mod, go: (go[0] * 2,))
    x = m.ones(1, 3, requires_grad=True)
    lin(x).sum().backward()
    return x.grad, lin.weight.grad


@program
def hooks_of_all_modules(m):
    mm = inside(m, "nn.modules.module")
    log = []
    hs = [
        mm.register_module_forward_hook(lambda mod, i, o: log.append("gf")),
        mm.register_module_full_backward_hook(lambda mod, gi, go: log.append("gb")),
        mm.register_module_forward_pre_hook(lambda mod, i: log.append("gp")),
    ]
    lin = m.nn.Linear(2, 2)
    lin(m.ones(1, 2, requires_grad=True)).sum().backward()
    [h.remove() for h in hs]
    return log


@program
def all_hooks_in_their_order(m):
    log = []
    x = leaf(m)
    a = x * 2
    b = a.exp()
    c = a.sin()
    d = b * c
    for n, t in {"a": a, "b": b, "c": c, "d": d}.items():
        t.register_hook(lambda g, n=n: log.append("t" + n))
        t.grad_fn.register_prehook(lambda g, n=n: log.append("pre" + n))
        t.grad_fn.register_hook(lambda i, o, n=n: log.append("post" + n))
        t.retain_grad()
    d.sum().backward()
    return log


@program
def a_hook_in_the_second_order(m):
    x = leaf(m)
    y = x * x
    log = []
    y.register_hook(lambda g: log.append(g.tolist()))
    (g,) = m.autograd.grad((y**2).sum(), x, create_graph=True)
    g.sum().backward()
    return log, x.grad


@program
def a_hook_on_a_product_in_the_second_order(m):
    x = leaf(m)
    y = x.prod()
    log = []
    y.register_hook(lambda g: log.append(g.tolist()))
    (g,) = m.autograd.grad(y, x, create_graph=True)
    g.sum().backward()
    return log, x.grad


@program
def a_hook_on_cumulated_products_in_the_second_order(m):
    x = leaf(m)
    y = x.cumprod(0)
    log = []
    y.register_hook(lambda g: log.append(g.tolist()))
    (g,) = m.autograd.grad(y.sum(), x, create_graph=True)
    g.sum().backward()
    return log, x.grad


# ---- modes


@program
def modes_as_contexts_decorators_and_functions(m):
    x = leaf(m)
    out = []
    with m.no_grad():
        y = x * 2
        out += [y.requires_grad, y.is_leaf, m.is_grad_enabled()]
    with m.no_grad(), m.enable_grad():
        out.append((x * 2).requires_grad)
    with m.set_grad_enabled(False):
        out.append((x * 2).requires_grad)
    m.set_grad_enabled(False)
    out.append(m.is_grad_enabled())
    m.set_grad_enabled(True)

    @m.no_grad()
    def f(t):
        return (t * 2).requires_grad

    @m.enable_grad()
    def g(t):
        return (t * 2).requires_grad

    @m.inference_mode()
    def h(t):
        return (t * 2).is_inference()

    @m.set_grad_enabled(False)
    def k(t):
        return (t * 2).requires_grad

    @m.no_grad
    def q(t):
        return (t * 2).requires_grad

    @m.no_grad()
    def gen():
        yield m.is_grad_enabled()
        yield m.is_grad_enabled()

    out += [f(x), g(x), h(x), k(x), q(x), [(v, m.is_grad_enabled()) for v in gen()], f.__name__]
    with m.inference_mode(False):
        out.append((x * 2).requires_grad)
    with m.inference_mode():
        out += [m.is_inference_mode_enabled(), m.is_grad_enabled()]
    return out


@program
def inference_mode(m):
    x = leaf(m)
    with m.inference_mode():
        z = x * 2
        v = x[0:1]
    return [
        z.is_inference(),
        z.requires_grad,
        tried(lambda: z.requires_grad_()),
        tried(lambda: z.add_(1)),
        tried(lambda: x * z),
        (z + 1).is_inference(),
        z.clone().is_inference(),
        tried(lambda: z._version),
        tried(lambda: z.view(-1).is_inference()),
        v.is_inference(),
        tried(lambda: (m.ones(3, requires_grad=True) + z).sum().backward()),
    ]


@program
def jacobians(m):
    def f(x):
        return x**2

    def g(x, y):
        return (x * y, x.sum())

    x, y = m.arange(3.0), m.arange(3.0) + 1
    return [
        functional(m).jacobian(f, x),
        functional(m).jacobian(g, (x, y)),
        functional(m).jacobian(f, x, vectorize=True),
        functional(m).jacobian(f, x, create_graph=True),
        tried(lambda: functional(m).jacobian(lambda x: m.ones(2), x)),
        tried(lambda: functional(m).jacobian(lambda x: m.ones(2), x, strict=True)),
        tried(lambda: functional(m).jacobian(lambda x, y: x, (x, y), strict=True)),
        functional(m).jacobian(f, x, strategy="reverse-mode"),
        tried(lambda: functional(m).jacobian(f, x, vectorize=True, strategy="forward-mode")),
        tried(lambda: functional(m).jacobian(f, x, strategy="forward-mode")),
        tried(lambda: functional(m).jacobian(f, 3)),
        tried(lambda: functional(m).jacobian(lambda x: 3, x)),
        functional(m).jacobian(g, (x, y), vectorize=True),
    ]


@program
def products_with_jacobians_and_hessians(m):
    def f(x):
        return x**2

    x = m.arange(3.0)
    v = m.ones(3)
    return [
        functional(m).vjp(f, x, v),
        functional(m).jvp(f, x, v),
        functional(m).vjp(f, x, v, create_graph=True),
        functional(m).jvp(f, x, v, create_graph=True),
        tried(lambda: functional(m).vjp(f, x)),
        tried(lambda: functional(m).jvp(f, x)),
        tried(lambda: functional(m).vjp(f, x, m.ones(2))),
        tried(lambda: functional(m).jvp(f, x, m.ones(2))),
        tried(lambda: functional(m).vjp(lambda x: m.ones(3), x, v, strict=True)),
        tried(lambda: functional(m).jvp(lambda x: m.ones(3), x, v, strict=True)),
        functional(m).vjp(lambda x: m.ones(3), x, v),
        functional(m).hvp(lambda x: (x**3).sum(), x, v),
        functional(m).vhp(lambda x: (x**3).sum(), x, v),
        tried(lambda: functional(m).hvp(lambda x: x.sum(), x, v, strict=True)),
        functional(m).hvp(lambda x: x.sum(), x, v),
        tried(lambda: functional(m).hvp(lambda x: x, x, v)),
        functional(m).hvp(lambda x, y: (x * x * y).sum(), (x, v), (v, v), create_graph=True),
        tried(lambda: functional(m).vhp(lambda x: (x**3).sum(), x)),
    ]


@program
def functions_of_functions(m):
    fn = inside(m, "func")

    def f(x):
        return (x**3).sum()

    x = m.arange(3.0)
    return [
        fn.grad(f)(x),
        fn.grad(lambda x, y: (x * y).sum(), argnums=(0, 1))(x, x),
        fn.grad(lambda x: ((x**2).sum(), x.sum()), has_aux=True)(x),
        fn.grad_and_value(f)(x),
        fn.vjp(lambda x: x**2, x)[1](m.ones(3)),
        fn.vjp(lambda x: (x**2, x), x, has_aux=True)[2],
        fn.jvp(lambda x: x**2, (x,), (m.ones(3),)),
        fn.jacrev(lambda x: x**2)(x),
        fn.jacfwd(lambda x: x**2)(x),
        fn.hessian(f)(x),
        fn.jacrev(fn.grad(f))(x),
        fn.grad(lambda x: fn.grad(f)(x).sum())(x),
        fn.vmap(fn.grad(lambda x: x**3))(x),
        tried(lambda: fn.grad(lambda x: x)(x)),
        tried(lambda: fn.grad(f)(3)),
        tried(lambda: fn.grad(lambda x: 3.0)(x)),
        fn.jacrev(lambda x, y: x * y, argnums=1)(x, x),
        fn.jacrev(lambda d: d["a"] * 2)({"a": x}),
        tried(lambda: fn.grad(f, argnums=2)(x)),
        fn.vjp(lambda x, y: (x * y, x + y), x, x)[1]((m.ones(3), m.ones(3))),
        fn.jacrev(lambda x: (x**2, x**3))(x),
        fn.jacrev(lambda x: (x**2, x.sum()), has_aux=True)(x),
        fn.jacrev(lambda x: x**2, chunk_size=2)(x),
        tried(lambda: fn.vjp(lambda x: x**2, x)[1](m.ones(2))),
        tried(lambda: fn.jvp(lambda x: x**2, (x,), (m.ones(2),))),
        tried(lambda: fn.jvp(lambda x: x**2, x, x)),
    ]


@program
def a_captured_tensor_keeps_its_gradient(m):
    fn = inside(m, "func")
    w = leaf(m)
    r = fn.grad(lambda x: (x * x * w).sum())(m.ones(3))
    return r.requires_grad, m.autograd.grad(r.sum(), w)


@program
def gradcheck_and_gradgradcheck(m):
    a = m.autograd
    x = m.tensor([0.5, 1.0, 2.0], dtype=m.float64, requires_grad=True)

    class Bad(a.Function):
        @staticmethod
        def forward(ctx, x):
            return x * x

        @staticmethod
        def backward(ctx, g):
            return g

    r = [
        a.gradcheck(lambda x: x.sin(), (x,)),
        a.gradgradcheck(lambda x: x.sin(), (x,)),
        tried(lambda: a.gradcheck(Bad.apply, (x,)))[0],
        a.gradcheck(Bad.apply, (x,), raise_exception=False),
        a.gradcheck(lambda x: x.sin(), (x,), fast_mode=True),
        a.gradgradcheck(lambda x: x**3, (x,), fast_mode=True),
        tried(lambda: a.gradcheck(lambda x: x, (m.ones(3),))),
        a.gradcheck(lambda x, y: x * y, (x, x.detach().clone().requires_grad_())),
        a.gradcheck(lambda x: (x * 2, x.exp()), (x,)),
        a.gradcheck(lambda x: x.sin(), x, eps=1e-5, atol=1e-4, rtol=1e-2),
        a.gradcheck(lambda x: x * 2, (x,), check_forward_ad=True),
        a.gradgradcheck(lambda x: x**3, (x,), m.ones(3, dtype=m.float64, requires_grad=True)),
        a.gradcheck(lambda x: x.sin(), (x,), check_batched_grad=False, nondet_tol=0.0),
    ]
    return r


@program
def gradcheck_of_what_is_constant(m):
    a = m.autograd
    return [
        tried(lambda: a.gradcheck(lambda x: x.sum() * 0 + 3, (m.ones(2, dtype=m.float64, requires_grad=True),))),
        tried(
            lambda: a.gradcheck(lambda x: m.ones(2, dtype=m.float64), (m.ones(2, dtype=m.float64, requires_grad=True),))
        ),
    ]


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
@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__.replace("_", " "))
def test_gradients_as_in_pytorch(fn):
    ours, theirs = outcome(fn, SUT), outcome(fn, REF)
    assert not isinstance(theirs, Raised), "what raises is tried"
    check_same(ours, theirs, fn.__name__, strides=None)
