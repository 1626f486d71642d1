"""Hooks, modes and transforms of gradients, in PyTorch and in brisk: what happens, in which order, what is refused."""

import pytest

from tests.torch.gradient_programs import collection, compare, functional, inside, leaf, shown_name, tried

PROGRAMS, program = collection()


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
        asking = m.ones(2).requires_grad_()
    return [
        tried(lambda: asking.add_(1)),
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


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("fn", PROGRAMS, ids=shown_name)
def test_hooks_and_modes_as_in_pytorch(fn):
    compare(fn)
