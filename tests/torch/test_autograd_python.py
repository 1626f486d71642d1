"""The Python side of autograd against PyTorch: derivatives of functions, custom functions, checks, checkpoints.

Every test is one program, run in both libraries; what it returns is compared, and where PyTorch raises, so must we."""

import importlib
import warnings

import numpy as np
import pytest

from tests.torch.compare import REF, SUT, Raised, check_same, outcome, tensor_of

PROGRAMS = []


def program(fn):
    PROGRAMS.append(fn)
    return fn


def leaf(m, *shape, seed=0, dtype="float64", grad=True):
    data = np.random.RandomState(seed).randn(*shape)
    t = tensor_of(m, np.asarray(data, dtype))
    return t.requires_grad_() if grad else t


def sub(m, name):
    return importlib.import_module(f"{m.__name__}.{name}")


# --- torch.autograd.functional


def two_in_two_out(a, b):
    return (a * b).sin(), (a.sum() * b**2)


@program
def jacobian_of_tuples_is_nested_as_outputs_then_inputs(m):
    return m.autograd.functional.jacobian(two_in_two_out, (leaf(m, 3), leaf(m, 3, seed=1)))


@program
def jacobian_of_a_matrix_by_a_matrix(m):
    x = leaf(m, 2, 3, grad=False)
    return m.autograd.functional.jacobian(lambda x: x @ x.t(), x)


@program
def jacobian_on_the_tape_is_differentiated_again(m):
    x = leaf(m, 3)
    j = m.autograd.functional.jacobian(lambda x: x**3, x, create_graph=True)
    j.pow(2).sum().backward()
    return j, x.grad


@program
def jacobian_forward_mode_and_vectorized(m):
    f, x = m.autograd.functional, leaf(m, 3, grad=False)
    return (
        f.jacobian(lambda x: (x.exp(), x.sum()), x, vectorize=True),
        f.jacobian(lambda x: (x.exp(), x.sum()), x, vectorize=True, strategy="forward-mode"),
    )


@program
def jacobian_of_an_output_that_uses_no_input_is_zero(m):
    return m.autograd.functional.jacobian(lambda a, b: a * 2, (leaf(m, 2), leaf(m, 3)))


@program
def jacobian_strict_of_an_unused_input_is_refused(m):
    return m.autograd.functional.jacobian(lambda a, b: a * 2, (leaf(m, 2), leaf(m, 3)), strict=True)


@program
def jacobian_of_a_list_is_refused(m):
    return m.autograd.functional.jacobian(lambda a: a * 2, [leaf(m, 2)])


@program
def hessian_of_one_and_of_two_inputs(m):
    f = m.autograd.functional
    one = f.hessian(lambda x: (x**3).sum(), leaf(m, 3))
    return one, f.hessian(lambda a, b: (a * a * b).sum(), (leaf(m, 2), leaf(m, 2, seed=4)))


@program
def hessian_of_several_numbers_is_refused(m):
    return m.autograd.functional.hessian(lambda x: x**3, leaf(m, 3))


@program
def products_with_vectors(m):
    f, x, v = m.autograd.functional, leaf(m, 3), leaf(m, 3, seed=7, grad=False)
    scalar = lambda x: (x.sin() * x).sum()  # noqa: E731
    return (
        f.vjp(lambda x: x**3, x, v),
        f.jvp(lambda x: x**3, x, v),
        f.vhp(scalar, x, v),
        f.hvp(scalar, x, v),
        f.vjp(scalar, x),
        f.vjp(two_in_two_out, (x, v), (v, v)),
        f.jvp(two_in_two_out, (x, v), (v, v)),
    )


@program
def products_on_the_tape(m):
    f, x, v = m.autograd.functional, leaf(m, 3), leaf(m, 3, seed=7, grad=False)
    for name in ("vhp", "hvp"):
        getattr(f, name)(lambda x: (x**4).sum(), x, v, create_graph=True)[1].sum().backward()
    return x.grad


@program
def a_vector_of_the_wrong_size_is_refused(m):
    return m.autograd.functional.vjp(lambda x: x * 2, leaf(m, 3), leaf(m, 4))


@program
def no_vector_for_several_outputs_is_refused(m):
    return m.autograd.functional.vjp(lambda x: x * 2, leaf(m, 3))


@program
def hvp_strict_of_a_linear_function_is_refused(m):
    return m.autograd.functional.hvp(lambda x: x.sum(), leaf(m, 3), leaf(m, 3), strict=True)


# --- torch.func


@program
def grad_nests_and_gives_plain_tensors(m):
    f, x = m.func, leaf(m, grad=False)
    first, second = f.grad(m.sin)(x), f.grad(f.grad(f.grad(m.sin)))(x)
    return first, first.requires_grad, second, second.requires_grad


@program
def grad_by_argnums_with_aux_and_dicts(m):
    f, x, y = m.func, leaf(m, 3, grad=False), leaf(m, 3, seed=3, grad=False)
    loss = lambda x, y: ((x * y).sum(), x + y)  # noqa: E731
    params = {"w": x, "b": [y]}
    return (
        f.grad(loss, argnums=1, has_aux=True)(x, y),
        f.grad(lambda x, y: (x * y).sum(), argnums=(0, 1))(x, y),
        f.grad_and_value(lambda p: (p["w"] * p["b"][0]).sum())(params),
        f.grad_and_value(loss, has_aux=True)(x, y),
    )


@program
def grad_keeps_the_tape_to_what_it_captured(m):
    w, x = leaf(m, 3), leaf(m, 3, seed=2, grad=False)
    g = m.func.grad(lambda x: (x**2 * w).sum())(x)
    g.sum().backward()
    return g, g.requires_grad, w.grad


@program
def grad_works_under_no_grad(m):
    with m.no_grad():
        g = m.func.grad(lambda x: (x**3).sum())(leaf(m, 3))
    return g, g.requires_grad


@program
def grad_of_a_perturbation_of_another_level(m):
    return m.func.grad(lambda x: x * m.func.grad(lambda y: x * y)(m.tensor(1.0)))(m.tensor(3.0))


@program
def grad_of_several_numbers_is_refused(m):
    return m.func.grad(lambda x: x * 2)(leaf(m, 3))


@program
def vjp_and_jvp_of_func(m):
    f, x, v = m.func, leaf(m, 3, grad=False), leaf(m, 3, seed=5, grad=False)
    out, pull = f.vjp(lambda x: x.sin(), x)
    out2, pull2, aux = f.vjp(lambda a, b: (a * b, a), x, v, has_aux=True)
    return out, pull(v), out2, pull2(v), aux, f.jvp(lambda x: x.sin(), (x,), (v,)), f.linearize(m.exp, x)[1](v)


@program
def jacrev_jacfwd_and_hessian(m):
    f, x, y = m.func, leaf(m, 3, grad=False), leaf(m, 3, seed=5, grad=False)
    return (
        f.jacrev(lambda x: (x.sin(), x.sum()))(x),
        f.jacfwd(lambda x: x.exp() * x.sum())(x),
        f.jacrev(lambda x, y: x * y, argnums=(0, 1))(x, y),
        f.hessian(lambda x: (x**3).sum() * x[0])(x),
        f.jacrev(lambda x: {"a": x * 2})(x),
        f.jacrev(lambda x: (x * 2, x), has_aux=True)(x),
        f.jacfwd(f.jacfwd(lambda x: x.sin()))(x),
    )


@program
def vmap_maps_dimensions(m):
    v, x, y = m.func.vmap, leaf(m, 4, 3, grad=False), leaf(m, 3, 4, seed=1, grad=False)
    return (
        v(lambda a, b: a @ b, in_dims=(0, 1))(x, y),
        v(lambda a, b: (a + b, a.sum()), in_dims=(0, None), out_dims=(1, 0))(x, y[:, 0]),
        v(v(lambda a: a * 2))(x),
        v(lambda d: d["a"] * d["b"], in_dims=({"a": 0, "b": None},))({"a": x, "b": y[:, 0]}),
        v(m.func.grad(lambda a: (a**2).sum()))(x),
        m.vmap(m.dot)(x, x),
    )


@program
def vmap_takes_part_in_gradients(m):
    x = leaf(m, 4, 3)
    m.func.vmap(lambda a: (a**2).sum())(x).sum().backward()
    return x.grad


@program
def vmap_of_sizes_that_differ_is_refused(m):
    return m.func.vmap(lambda a, b: a + b)(leaf(m, 3), leaf(m, 4))


@program
def vmap_of_random_numbers_is_refused(m):
    return m.func.vmap(lambda a: a + m.randn(()))(leaf(m, 3))


@program
def vmap_of_nothing_is_refused(m):
    return m.func.vmap(lambda: 1)()


@program
def results_of_vmap_lie_in_memory_as_batches_do(m):
    x = leaf(m, 3, 4, 5, grad=False)
    functions = (lambda t: t * 2, lambda t: t.t() * 2, lambda t: t @ t.t(), lambda t: t)
    return str([m.func.vmap(f, out_dims=d)(x).stride() for f in functions for d in (0, 1, 2, -1)])


@program
def jacobians_lie_in_memory_by_rows_or_columns_as_they_were_computed(m):
    x, n, functional = leaf(m, 3, 4, grad=False), m.func, m.autograd.functional
    cube, turned = (lambda t: (t**3).sum()), (lambda t: t.t() * t.t())
    return str([
        [n.jacrev(f)(x).stride() for f in (m.sin, turned)],
        [n.jacfwd(f)(x).stride() for f in (m.sin, turned)],
        [functional.jacobian(f, x).stride() for f in (m.sin, turned)],
        [functional.jacobian(f, x, vectorize=True).stride() for f in (m.sin, turned)],
        [functional.jacobian(f, x, vectorize=True, strategy="forward-mode").stride() for f in (m.sin, turned)],
        [h(cube)(x).stride() for h in (n.hessian, lambda f: n.jacrev(n.jacrev(f)), lambda f: n.jacfwd(n.jacfwd(f)))],
        [functional.hessian(cube, x, vectorize=v).stride() for v in (False, True)],
        functional.hessian(cube, x, vectorize=True, outer_jacobian_strategy="forward-mode").stride(),
    ])  # fmt: skip


def squares(m, log, rule=None):
    """k x^2, with a vmap that says what it is given."""

    class Square(m.autograd.Function):
        @staticmethod
        def forward(x, k=1):
            return x * x * k

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(inputs[0])
            ctx.save_for_forward(inputs[0])
            ctx.k = inputs[1]

        @staticmethod
        def backward(ctx, g):
            return 2 * ctx.saved_tensors[0] * g * ctx.k, None

        @staticmethod
        def jvp(ctx, t, _):
            return 2 * ctx.saved_tensors[0] * t * ctx.k

        @staticmethod
        def vmap(info, in_dims, x, k):
            log.append((info, in_dims, tuple(x.shape), k, x.requires_grad))
            return rule(x, k) if rule else (Square.apply(x, k), in_dims[0])

    return Square


@program
def a_custom_functions_vmap_is_called_once_with_the_batch(m):
    log, x = [], leaf(m, 2, 3, grad=False)
    f, vmap = squares(m, log).apply, m.func.vmap
    found = [
        vmap(f)(x), vmap(f, in_dims=1)(x), vmap(f, in_dims=1, out_dims=1)(x), vmap(lambda t: f(t, 3))(x),
        vmap(lambda t: f(t, k=3))(x), vmap(lambda t: f(t.sin(), 3).exp())(x), vmap(lambda t: f(f(t) + 1, 2))(x),
        vmap(lambda t, u: f(u) + t, in_dims=(0, None))(x, x[0]),
        vmap(f, randomness="same")(x),
    ]  # fmt: skip
    return found, str(log)


@program
def a_custom_functions_vmap_inside_of_derivatives(m):
    log, x, n = [], leaf(m, 2, 3, grad=False), m.func
    f = squares(m, log).apply
    found = [
        n.vmap(n.grad(lambda t: f(t, 3).sum()))(x),
        n.vmap(n.jacrev(lambda t: f(t, 3)))(x),
        n.vmap(n.grad(lambda t: n.grad(lambda u: f(u).sum())(t).sum()))(x),
        n.vmap(lambda t: n.jvp(f, (t,), (t,)))(x),
        n.grad(lambda x: n.vmap(f)(x).sum())(x),
    ]
    y = leaf(m, 2, 3)
    n.vmap(f)(y).sum().backward()
    return found, y.grad, str(log)


@program
def a_custom_functions_vmap_inside_of_another_vmap(m):
    f, x = squares(m, []).apply, leaf(m, 2, 3, grad=False)
    return m.func.vmap(m.func.vmap(f))(x), m.func.vmap(m.func.vmap(f), in_dims=1, out_dims=1)(x)


@program
def a_custom_functions_vmap_may_return_what_all_examples_share(m):
    return m.func.vmap(squares(m, [], lambda x, k: (x.sum(0), None)).apply)(leaf(m, 2, 3, grad=False))


@program
def a_custom_function_with_several_results_has_an_out_dim_for_each(m):
    class Both(m.autograd.Function):
        @staticmethod
        def forward(x, y):
            return x + y, x * y

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, a, b):
            x, y = ctx.saved_tensors
            return a + b * y, a + b * x

        @staticmethod
        def vmap(info, in_dims, x, y):
            x, y = (t.unsqueeze(-1) if d is None else t.movedim(d, -1) for t, d in zip((x, y), in_dims))
            return Both.apply(x, y), (-1, x.dim() - 1)

    x, vmap = leaf(m, 2, 3, grad=False), m.func.vmap
    return vmap(Both.apply)(x, x + 1), vmap(Both.apply, in_dims=(None, 0), out_dims=(0, 1))(x[0], x)


@program
def random_numbers_around_a_custom_functions_vmap(m):
    f, x = squares(m, []).apply, leaf(m, 2, 3, grad=False)
    m.manual_seed(3)
    same = m.func.vmap(lambda t: f(t + m.rand(3)) + m.rand(3), randomness="same")(x)
    return same, m.rand(2)


@program
def random_numbers_after_a_custom_functions_vmap_are_refused(m):
    return m.func.vmap(lambda t: squares(m, []).apply(t) + m.rand(3))(leaf(m, 2, 3, grad=False))


def vmap_of_a_wrong_rule(answer):
    @program
    def run(m):
        return m.func.vmap(squares(m, [], answer).apply)(leaf(m, 2, 3, grad=False))

    run.__name__ = f"vmap_of_rule_{len(PROGRAMS)}_that_is_wrong_is_refused"


vmap_of_a_wrong_rule(lambda x, k: x)
vmap_of_a_wrong_rule(lambda x, k: (x, 0, 0))
vmap_of_a_wrong_rule(lambda x, k: 1 / 0)


@program
def a_custom_function_with_two_vmaps_is_refused(m):
    f = squares(m, [])
    f.generate_vmap_rule = True
    return m.func.vmap(f.apply)(leaf(m, 2, 3, grad=False))


def test_examples_that_draw_other_numbers_each_draw_them_once_around_a_custom_functions_vmap():
    f = squares(SUT, []).apply
    SUT.manual_seed(3)
    first, last = SUT.func.vmap(lambda t: (f(t) * 0 + SUT.rand(3), f(t) * 0 + SUT.rand(3)), randomness="different")(
        SUT.ones(4, 3)
    )
    drawn = SUT.cat([first.reshape(-1), last.reshape(-1), SUT.rand(3)]).tolist()
    assert len(set(drawn)) == 27


# --- gradcheck


def wrong_double(m):
    class Wrong(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 3

    return Wrong.apply


@program
def gradcheck_accepts_what_is_right(m):
    x = leaf(m, 2, 3)
    f = lambda x: (x.sin() * x, x.sum())  # noqa: E731
    return m.autograd.gradcheck(f, (x,)), m.autograd.gradgradcheck(f, (x,)), m.autograd.gradcheck(f, x, fast_mode=True)


@program
def gradcheck_returns_false_when_told_not_to_raise(m):
    return m.autograd.gradcheck(wrong_double(m), (leaf(m, 3),), raise_exception=False)


@program
def gradcheck_of_a_wrong_backward_is_refused(m):
    return m.autograd.gradcheck(wrong_double(m), (leaf(m, 3),))


@program
def gradcheck_without_an_input_that_requires_grad_is_refused(m):
    return m.autograd.gradcheck(lambda x: x, (leaf(m, 3, grad=False),))


@program
def gradgradcheck_of_a_backward_that_is_off_the_tape_is_refused(m):
    class Cube(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 3 * x.detach() ** 2

    assert m.autograd.gradcheck(Cube.apply, (leaf(m, 3),))
    return m.autograd.gradgradcheck(Cube.apply, (leaf(m, 3),))


def test_gradcheck_says_which_jacobian_is_wrong():
    for m in (REF, SUT):
        message = "Jacobian mismatch for output 0 with respect to input 0,\nnumerical:"
        with pytest.raises(m.autograd.gradcheck.__globals__["GradcheckError"], match=message):
            m.autograd.gradcheck(wrong_double(m), (leaf(m, 3),))


def checked(m, backward, *, jvp=None, forward=lambda x: x * x, materialize=True, **options):
    """What gradcheck says of a function of these parts: its answer or its error, and its warnings."""

    class Checked(m.autograd.Function):
        @staticmethod
        def forward(x):
            return forward(x)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.set_materialize_grads(materialize)
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx, *gs):
            return backward(ctx.saved_tensors[0], *gs)

    if jvp:
        Checked.jvp = staticmethod(lambda ctx, t: jvp(ctx.saved_tensors[0], t))
    return gradcheck_says(m, Checked.apply, **options)


def gradcheck_says(m, f, *inputs, check="gradcheck", **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            said = str(getattr(m.autograd, check)(f, inputs or (leaf(m, 3),), **options))
        except Exception as error:
            said = f"{type(error).__name__}: {str(error).split('NOTE')[0].rstrip()}"
    return said.replace(m.__name__, "torch"), [str(w.message) for w in caught]


def refuses_none(x, g):
    if g is None:
        raise RuntimeError("none")
    return 2 * x * g


@program
def gradcheck_sends_no_gradient_to_each_output_and_to_all(m):
    right, two = (lambda x, g: 2 * x * g), (lambda x: (x * x, x * 3))
    both = lambda x, a, b: 2 * x * a + 3 * b  # noqa: E731
    return str([
        checked(m, right, materialize=False),
        checked(m, refuses_none, materialize=False),
        checked(m, refuses_none, materialize=False, raise_exception=False),
        checked(m, refuses_none, materialize=False, check_undefined_grad=False),
        checked(m, lambda x, g: 2 * x * (1 if g is None else g), materialize=False),
        checked(m, lambda x, g: None if g is None else 2 * x * g, materialize=False),
        checked(m, both, forward=two),
        checked(m, both, forward=two, materialize=False),
    ])  # fmt: skip


@program
def gradcheck_takes_tensors_as_outputs(m):
    outputs = [lambda x: 3.0, lambda x: (x * 2, 3.0), lambda x: None, lambda x: [x * 2, x]]
    outputs.append(lambda x: (x * 2, m.arange(3)))
    return str([gradcheck_says(m, f) for f in outputs] + [gradcheck_says(m, outputs[0], check="gradgradcheck")])


@program
def gradcheck_checks_a_jvp_where_it_is_asked_to(m):
    right, wrong = (lambda x, g: 2 * x * g), (lambda x, g: 3 * x * g)
    return str([
        checked(m, right, jvp=right, check_forward_ad=True),
        checked(m, right, jvp=wrong),
        checked(m, right, jvp=wrong, check_forward_ad=True),
        checked(m, right, jvp=wrong, check_forward_ad=True, raise_exception=False),
        checked(m, wrong, jvp=right, check_forward_ad=True, check_backward_ad=False),
        checked(m, right, jvp=right, check_forward_ad=True, fast_mode=True),
        checked(m, right, jvp=wrong, check_forward_ad=True, fast_mode=True),
        checked(m, wrong, fast_mode=True)[0].split("\nnumerical:")[0],
        gradcheck_says(m, m.sin, check="gradgradcheck", check_fwd_over_rev=True),
    ])  # fmt: skip


@program
def gradcheck_refuses_options_that_contradict_each_other(m):
    return str([
        gradcheck_says(m, m.sin, check_backward_ad=False),
        gradcheck_says(m, m.sin, check_backward_ad=False, check_forward_ad=True, check_batched_grad=True),
        gradcheck_says(m, m.sin, check_batched_forward_grad=True),
    ])  # fmt: skip


@program
def gradcheck_says_where_a_backward_or_a_shape_changes_from_call_to_call(m):
    count = iter(range(1, 10000))
    drifting = lambda x, g: 2 * x * g * (1 + 1e-9 * next(count))  # noqa: E731
    changing = lambda x: x * 2 if next(count) % 2 else x[:1] * 2  # noqa: E731
    drifts = [checked(m, drifting), checked(m, drifting, nondet_tol=1e-3)]
    count = iter(range(1, 10000))
    return str(drifts + [gradcheck_says(m, changing)])


# --- checkpoint


@program
def checkpoint_gives_the_same_gradients(m):
    cp, results = sub(m, "utils.checkpoint").checkpoint, []
    for reentrant in (True, False):
        x, w = leaf(m, 3), leaf(m, 3, seed=1)
        h = x * 2
        y, aux = cp(lambda h, s: ((h * w).sin() * s, h + 1), h, 3.0, use_reentrant=reentrant)
        (y.sum() + aux.prod()).backward()
        results += [y, x.grad, w.grad]
    return results


@program
def checkpoint_with_keywords_inside_grad_twice(m):
    cp, x = sub(m, "utils.checkpoint").checkpoint, leaf(m, 3)
    y = cp(lambda a, *, k: (a**3 * k).sum(), x * 1, use_reentrant=False, k=2.0)
    (g,) = m.autograd.grad(y, x, create_graph=True)
    g.sum().backward()
    return y, g, x.grad


@program
def checkpoint_reentrant_by_grad_is_refused(m):
    cp, x = sub(m, "utils.checkpoint").checkpoint, leaf(m, 3)
    return m.autograd.grad(cp(lambda a: a.sin(), x * 1, use_reentrant=True).sum(), x)


@program
def checkpoint_draws_the_same_numbers_again(m):
    cp, results = sub(m, "utils.checkpoint").checkpoint, []
    for reentrant in (True, False):
        m.manual_seed(3)
        x = leaf(m, 5, dtype="float32")
        y = cp(lambda a: a * m.rand(5), x * 1, use_reentrant=reentrant)
        m.rand(2)
        y.sum().backward()
        results += [(y / x).sub(x.grad).abs().max() < 1e-6, m.rand(1)]
    return results


@program
def checkpoints_nest_and_follow_one_another(m):
    cp, x, w = sub(m, "utils.checkpoint"), leaf(m, 3), leaf(m, 3, seed=1)
    inner = lambda a: cp.checkpoint(lambda b: (b * w).sin(), a * 2, use_reentrant=False)  # noqa: E731
    y = cp.checkpoint(inner, x, use_reentrant=False)
    y = cp.checkpoint_sequential([m.sin, m.exp, m.tanh, lambda a: a * w], 2, y, use_reentrant=False)
    y.sum().backward()
    return x.grad, w.grad


@program
def checkpoints_in_a_row_share_their_weights(m):
    cp, w, h = sub(m, "utils.checkpoint").checkpoint, leaf(m, 3, 3), leaf(m, 2, 3, seed=1)
    s = w.sin()  # captured, and no leaf
    for _ in range(4):
        h = cp(lambda h: (h @ w).tanh() * s.sum(), h, use_reentrant=False)
    h.sum().backward()
    return h, w.grad


@program
def hooks_on_what_a_checkpoint_reads_run_once(m):
    cp, log = sub(m, "utils.checkpoint").checkpoint, []

    def hooked(t, name):
        t.register_hook(lambda g: (log.append(name), g * 2)[1])
        return t

    w, x = hooked(leaf(m, 3), "w"), leaf(m, 3, seed=1)
    w.register_post_accumulate_grad_hook(lambda p: log.append("taken"))
    h = hooked(x * 1, "h")
    h.retain_grad()
    y = hooked(cp(lambda a: hooked(a * w, "inner").exp(), h, use_reentrant=False), "y")
    y.sum().backward()
    first = w.grad, x.grad, h.grad
    y = cp(lambda a: cp(lambda b: b * w, a * w, use_reentrant=False), x.detach(), use_reentrant=False)
    (g,) = m.autograd.grad(y.sum(), w, create_graph=True)
    return first, g, m.autograd.grad(g.sum(), w), str(log)


@program
def a_determinism_check_that_is_none_is_refused(m):
    sub(m, "utils.checkpoint").checkpoint(m.sin, leaf(m, 3), use_reentrant=False, determinism_check="all")


# --- anomaly mode


@program
def a_nan_in_a_gradient_is_refused(m):
    with m.autograd.set_detect_anomaly(True):
        x = leaf(m, 3).detach().neg().abs().neg().requires_grad_()
        (x.sqrt() * 0).sum().backward()


@program
def anomaly_mode_finds_nothing_where_there_is_nothing(m):
    x = leaf(m, 3)
    with m.autograd.detect_anomaly():
        x.exp().sum().backward()
    return x.grad


def test_a_nan_names_the_function_and_the_line_of_its_forward():
    for m in (REF, SUT):
        x = tensor_of(m, np.array([-1.0, 2.0])).requires_grad_()
        with m.autograd.set_detect_anomaly(True):
            y = x.sqrt()  # the line that is named
            named = pytest.warns(UserWarning, match="the line that is named")
            with named, pytest.raises(RuntimeError, match="'SqrtBackward0' returned nan values in its 0th output"):
                y.sum().backward()


def fails(m, how):
    """A backward that fails, and where its forward was called."""
    x = m.ones(2, requires_grad=True)
    if how == "in a function of the library":
        y = m.nn.functional.normalize((x * -1).sqrt(), dim=0)  # the line that is named
    elif how == "in a custom function":
        y = function(m, lambda ctx, x: x * 2, lambda ctx, g: 1 / 0)(x)  # the line that is named
    elif how == "in a hook":
        y = x.exp()  # the line that is named
        y.register_hook(lambda g: 1 / 0)
    elif how == "a second time":
        y = x.exp()  # the line that is named
        y.sum().backward()
    elif how == "after a write":
        y = x * x  # the line that is named
        with m.no_grad():
            x.add_(1)
    else:
        (y,) = m.autograd.grad((x * 0).sqrt().sum(), x, create_graph=True)  # the line that is named
    y.sum().backward()


HOW_BACKWARDS_FAIL = (
    "in a function of the library", "in a custom function", "in a hook", "a second time", "after a write",
    "in a gradient",
)  # fmt: skip


@pytest.mark.parametrize("how", HOW_BACKWARDS_FAIL)
def test_what_fails_in_anomaly_mode_is_named_with_the_line_of_its_forward(how):
    told = []
    for m in (REF, SUT):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with m.autograd.set_detect_anomaly(True), pytest.raises((RuntimeError, ZeroDivisionError)) as error:
                fails(m, how)
        first = str(caught[0].message).replace("torch::autograd::", "")
        assert "the line that is named" in first
        told.append((first.split("\n")[0], type(error.value)))
    assert told[0] == told[1]


# --- custom functions


def function(m, forward, backward, **more):
    body = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type("Mine", (m.autograd.Function,), body | {k: staticmethod(v) for k, v in more.items()}).apply


@program
def needs_input_grad_and_non_tensors(m):
    seen = []

    def forward(ctx, x, n, y, text=None):
        seen.append(ctx.needs_input_grad)
        ctx.n = n
        return x * n + y

    apply = function(m, forward, lambda ctx, g: (g * ctx.n, None, None, None))
    x = leaf(m, 3)
    apply(x, 3, leaf(m, 3, grad=False), "text").sum().backward()
    return seen, x.grad


@program
def several_outputs_and_zeros_for_those_not_used(m):
    got = []

    def backward(ctx, *grads):
        got.extend(grads)
        return grads[0] + grads[1]

    x = leaf(m, 3)
    function(m, lambda ctx, x: (x * 1, x * 2), backward)(x)[1].sum().backward()
    return got, x.grad


@program
def none_for_outputs_not_used_when_told_so(m):
    got = []

    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 1, x * 2

    def backward(ctx, *grads):
        got.extend(grads)
        return grads[1]

    function(m, forward, backward)(leaf(m, 3))[1].sum().backward()
    return got


@program
def outputs_marked_not_differentiable_have_no_tape(m):
    def forward(ctx, x):
        a, b = x * 2, x.argmax()
        c = x > 0
        ctx.mark_non_differentiable(b, c, d := x * 3)
        return a, b, c, d

    a, b, c, d = function(m, forward, lambda ctx, g, *_: g * 2)(leaf(m, 3))
    return [t.requires_grad for t in (a, b, c, d)], a, b, c, d


@program
def a_dirty_input_is_returned_itself(m):
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    x = leaf(m, 3)
    y = x * 1
    z = function(m, forward, lambda ctx, g: g * 2)(y)
    z.sum().backward()
    return z is y, y, x.grad


@program
def a_dirty_leaf_is_refused(m):
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    return function(m, forward, lambda ctx, g: g * 2)(leaf(m, 3))


@program
def a_dirty_input_that_is_not_returned_is_refused(m):
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x * 2

    return function(m, forward, lambda ctx, g: g * 2)(leaf(m, 3) * 1)


@program
def setup_context_takes_defaults_and_keywords(m):
    def setup(ctx, inputs, output):
        ctx.inputs = inputs[1:]
        ctx.save_for_backward(inputs[0])

    def backward(ctx, g):
        return g * 2 * ctx.saved_tensors[0] * ctx.inputs[0] * ctx.inputs[1], None, None

    apply = function(m, lambda x, a=2, b=3: x**2 * a * b, backward, setup_context=setup)
    x = leaf(m, 3)
    (apply(x) + apply(x, b=5)).sum().backward()
    return x.grad


@program
def keywords_stand_for_positions(m):
    x, y = leaf(m, 3), leaf(m, 3, seed=1)
    function(m, lambda ctx, x, y: x * y, lambda ctx, g: (g, g * 2))(x, y=y).sum().backward()
    return x.grad, y.grad


@program
def an_unknown_keyword_is_refused(m):
    return function(m, lambda ctx, x: x, lambda ctx, g: g)(leaf(m, 3), z=1)


@program
def too_few_gradients_are_refused(m):
    function(m, lambda ctx, x, y: x * y, lambda ctx, g: g)(leaf(m, 3), leaf(m, 3)).sum().backward()


@program
def too_many_gradients_are_refused(m):
    function(m, lambda ctx, x: x * 2, lambda ctx, g: (g, g))(leaf(m, 3)).sum().backward()


@program
def a_gradient_for_a_number_is_refused(m):
    function(m, lambda ctx, x, n: x * n, lambda ctx, g: (g, g))(leaf(m, 3), 2).sum().backward()


@program
def a_gradient_of_the_wrong_shape_is_refused(m):
    function(m, lambda ctx, x: x * 2, lambda ctx, g: g[:2])(leaf(m, 3)).sum().backward()


@program
def a_gradient_that_was_broadcast_is_summed(m):
    x = leaf(m, 3)
    function(m, lambda ctx, x: x.expand(4, 3) * 2, lambda ctx, g: g * 2)(x).sum().backward()
    return x.grad


@program
def a_gradient_that_is_a_number_is_refused(m):
    function(m, lambda ctx, x: x * 2, lambda ctx, g: 3.0)(leaf(m, 3)).sum().backward()


@program
def a_saved_output_is_differentiated_again(m):
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    apply = function(m, forward, lambda ctx, g: g * ctx.saved_tensors[0])
    x = leaf(m, 3)
    (g,) = m.autograd.grad(apply(x).sum(), x, create_graph=True)
    g.sum().backward()
    return g, x.grad


@program
def once_differentiable_twice_is_refused(m):
    backward = m.autograd.function.once_differentiable(lambda ctx, g: g * 2)
    x = leaf(m, 3)
    (g,) = m.autograd.grad(function(m, lambda ctx, x: x * 2, backward)(x).pow(2).sum(), x, create_graph=True)
    g.sum().backward()


@program
def saved_tensors_are_freed(m):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    y = function(m, forward, lambda ctx, g: g * ctx.saved_tensors[0])(leaf(m, 3)).sum()
    y.backward(retain_graph=True)
    y.backward()
    return y


@program
def saved_tensors_used_after_they_are_freed_are_refused(m):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    y = function(m, forward, lambda ctx, g: g * ctx.saved_tensors[0])(leaf(m, 3)).sum()
    y.backward()
    y.backward()


@program
def saving_a_number_is_refused(m):
    return function(m, lambda ctx, x: ctx.save_for_backward(3) or x * 2, lambda ctx, g: g)(leaf(m, 3))


@program
def under_no_grad_nothing_is_taped(m):
    x = leaf(m, 3)
    with m.no_grad():
        y = function(m, lambda ctx, x: x, lambda ctx, g: g)(x)
    return y.requires_grad, y is x, y


@program
def a_function_without_backward_is_refused(m):
    class OneWay(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    OneWay.apply(leaf(m, 3)).sum().backward()


@program
def a_backward_inside_a_backward(m):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    def backward(ctx, g):
        with m.enable_grad():
            x = ctx.saved_tensors[0].detach().requires_grad_()
            (d,) = m.autograd.grad((x**3).sum(), x)
        return g * d

    x = leaf(m, 3)
    (function(m, forward, backward)(x * 2) * x).sum().backward()
    return x.grad


@program
def grad_by_an_intermediate_leaves_what_is_before_it(m):
    x = leaf(m, 3)
    h = x * x
    (g,) = m.autograd.grad((h * h).sum(), h)
    h.sum().backward()
    return g, x.grad


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_autograd(fn):
    theirs = outcome(fn, REF)
    assert isinstance(theirs, Raised) == fn.__name__.endswith("refused"), f"PyTorch {theirs!r}"
    check_same(outcome(fn, SUT), theirs, fn.__name__, strides=None)
