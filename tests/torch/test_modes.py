"""Inference mode and forward mode against PyTorch: one program for each test, its results or its words compared."""

import importlib

import pytest

from tests.torch.compare import REF, SUT, Raised, check_same, outcome

PROGRAMS = []


def program(fn):
    PROGRAMS.append(fn)
    return fn


# --- inference mode


def made_inside(m):
    with m.inference_mode():
        return m.ones(3)


def leaf(m):
    return m.ones(3, requires_grad=True)


@program
def what_is_made_inside_is_an_inference_tensor(m):
    x = leaf(m)
    with m.inference_mode():
        a = m.ones(3)
        made = [a, x * 2, a.view(3, 1), x.detach(), m.ones(3, requires_grad=True), a[1:], m.nn.Linear(3, 2)(a)]
        inside = m.is_inference_mode_enabled(), m.is_grad_enabled()
    flags = [(t.is_inference(), t.requires_grad) for t in made]
    return flags, x.view(3, 1).is_inference(), m.is_inference(a), inside, m.is_inference_mode_enabled()


@program
def a_write_outside(m):
    made_inside(m).add_(1)


@program
def a_write_to_an_element_outside(m):
    made_inside(m)[0] = 1


@program
def a_write_to_an_element_that_is_evaluated_outside(m):
    a = made_inside(m)
    a.tolist()
    a[0] = 1


@program
def a_write_through_a_view_outside(m):
    made_inside(m).view(3, 1).mul_(2)


@program
def a_write_outside_without_the_tape(m):
    with m.no_grad():
        made_inside(m).add_(1)


@program
def a_result_outside(m):
    m.add(m.ones(3), 1, out=made_inside(m))


@program
def a_write_inside(m):
    a, n = made_inside(m), m.ones(3)
    with m.inference_mode():
        a.add_(1)
        n.add_(a)
    return a, n, n.is_inference()


@program
def a_gradient_that_would_read_it(m):
    made_inside(m) * leaf(m)


@program
def a_product_whose_gradient_would_read_it(m):
    leaf(m) @ made_inside(m)


@program
def a_gradient_that_would_read_what_was_written_inside(m):
    with m.inference_mode():
        a = m.ones(3)
        a += 1
    a.view(3) * leaf(m)


@program
def a_custom_function_that_saves_it(m):
    class Save(m.autograd.Function):
        @staticmethod
        def forward(ctx, x, a):
            ctx.save_for_backward(a)
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g, None

    Save.apply(leaf(m), made_inside(m))


@program
def a_gradient_that_does_not_read_it(m):
    x = leaf(m)
    (made_inside(m) + x * 2).sum().backward()
    return x.grad


@program
def a_clone_is_a_tensor_like_others(m):
    b, x = made_inside(m).clone(), leaf(m)
    (b * x).sum().backward()
    return b.is_inference(), x.grad, (made_inside(m) * 2).is_inference()


@program
def a_normal_tensor_written_inside_stays_one(m):
    n, x = m.ones(3), leaf(m)
    with m.inference_mode():
        n.mul_(2)
    (n * x).sum().backward()
    return x.grad


@program
def requires_grad_outside(m):
    made_inside(m).requires_grad_()


@program
def its_version(m):
    return made_inside(m)._version


@program
def decorators_with_and_without_parentheses(m):
    @m.inference_mode()
    def f(x):
        return x * 2

    @m.inference_mode
    def g(x):
        return x * 2

    @m.inference_mode(False)
    def h(x):
        return x * 2

    return [(k(leaf(m)).is_inference(), k(leaf(m)).requires_grad, k.__name__) for k in (f, g, h)]


@program
def inference_mode_turned_off_inside(m):
    with m.inference_mode(), m.inference_mode(False):
        y = leaf(m) * 2
        return y.requires_grad, y.is_inference(), m.is_inference_mode_enabled(), m.is_grad_enabled()


@program
def grad_mode_turned_on_inside(m):
    with m.inference_mode(), m.enable_grad():
        y = leaf(m) * 2
        return y.requires_grad, y.is_inference(), m.is_grad_enabled()


@program
def a_backward_inside(m):
    with m.inference_mode():
        (leaf(m) * 2).sum().backward()


@program
def a_gradient_made_inside(m):
    x = leaf(m)
    (x * 2).backward(made_inside(m))
    return x.grad


# --- forward mode


def tried(call):
    try:
        return call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def forward_ad(m):
    return importlib.import_module(f"{m.__name__}.autograd.forward_ad")


def point(m):
    return m.tensor([1.0, 2.0, 3.0]), m.tensor([1.0, 0.0, 2.0])


def pushed(m, f):
    fw = forward_ad(m)
    with fw.dual_level():
        unpacked = fw.unpack_dual(f(fw.make_dual(*point(m))))
        return unpacked.primal.detach(), unpacked.tangent


for _f in (
    lambda x: x.sin() * x,
    lambda x: x.sum() * x.exp(),
    lambda x: x[1:] * 2,
    lambda x: x.max(),
    lambda x: x.view(3, 1) @ x.view(1, 3),
    lambda x: x.softmax(0),
    lambda x: (x * 1).mul_(x).add_(1),
    lambda x: x.detach() * x,
    lambda x: x > 1,
):
    PROGRAMS.append(lambda m, f=_f: pushed(m, f))
    PROGRAMS[-1].__name__ = f"tangent of line {_f.__code__.co_firstlineno}"


@program
def two_dual_tensors(m):
    fw, (p, v) = forward_ad(m), point(m)
    with fw.dual_level():
        a, b = fw.make_dual(p, v), fw.make_dual(p * 2, v * 3)
        answers = [fw.unpack_dual(t) for t in (a * b + a.sum(), b.exp(), a, p)]
    return [(u.primal.detach(), u.tangent) for u in answers], type(answers[0]).__name__


def asks(*tensors):
    return [(t.requires_grad, t.is_leaf, t.grad_fn is None) for t in tensors]


@program
def dual_tensors_ask_for_gradients_where_their_values_do(m):
    fw, (p, v) = forward_ad(m), point(m)
    w = m.ones(3, requires_grad=True)
    with fw.dual_level():
        d, e = fw.make_dual(p, v), fw.make_dual(w, v)
        y, z = d * 2, d * w
        with m.no_grad():
            silent = e * 2
        tangent = fw.unpack_dual(z).tangent
        tangent.sum().backward()
        inside = asks(d, y, y.sum(), z, silent), (e.requires_grad, tangent.requires_grad), w.grad
        refused = [tried(lambda: y.sum().backward()), tried(lambda: m.autograd.grad(y.sum(), d))]
        return inside, refused, (y * 2).numpy(), fw.unpack_dual(silent).tangent, asks(y)


@program
def functions_in_forward_mode_see_no_gradients_asked_for(m):
    seen = []

    def f(x):
        seen.append(asks(x, x * 2))
        return x * x

    p, v = point(m)
    return m.func.jvp(f, (p,), (v,)), m.func.jacfwd(f)(p), m.func.linearize(f, p)[1](v), seen[:3]


def with_jvp(m, calls, backward=True):
    methods = {
        "forward": staticmethod(lambda x: x * x),
        "setup_context": staticmethod(lambda ctx, inputs, output: keep(ctx, inputs[0])),
        "jvp": staticmethod(lambda ctx, t: (calls.append("jvp"), 2 * ctx.saved_tensors[0] * t)[1]),
    }
    if backward:
        methods["backward"] = staticmethod(lambda ctx, g: 2 * ctx.saved_tensors[0] * g)
    return type("Fn", (m.autograd.Function,), methods).apply


def keep(ctx, x):
    ctx.save_for_backward(x)
    ctx.save_for_forward(x)


@program
def jvp_asks_a_custom_function_for_its_own(m):
    calls, (p, v) = [], point(m)
    square = with_jvp(m, calls)
    cube = lambda x: square(x) * x  # noqa: E731
    answers = [
        m.func.jvp(square, (p,), (v,)),
        m.func.jvp(lambda x: square(square(x).sin()), (p,), (v,)),
        m.func.jvp(with_jvp(m, calls, backward=False), (p,), (v,)),
    ]
    counted = len(calls)
    answers.append(m.func.grad(lambda x: m.func.jvp(cube, (x,), (v,))[1].sum())(p))
    answers.append(m.func.jvp(m.func.grad(lambda x: cube(x).sum()), (p,), (v,)))
    return answers, counted


@program
def jvp_says_what_is_wrong_with_its_arguments(m):
    p, v = point(m)
    given = [(p, (v,)), ((p,), v), ((p,), (m.ones(2),)), ((), ())]
    return [tried(lambda: m.func.jvp(lambda x: x, *a))[:60] for a in given]


@program
def a_dual_tensor_written_in_place(m):
    fw, (p, v) = forward_ad(m), point(m)
    with fw.dual_level():
        a = fw.make_dual(p, v)
        a *= m.tensor([1.0, 2.0, 3.0])
        a[0] = 5
        return fw.unpack_dual(a).tangent


@program
def reverse_over_forward(m):
    fw, (p, v) = forward_ad(m), point(m)
    p.requires_grad_()
    with fw.dual_level():
        tangent = fw.unpack_dual((fw.make_dual(p, v) ** 3).sum()).tangent
        return tangent.detach(), m.autograd.grad(tangent, p)


@program
def tangents_of_parameters(m):
    fw, linear = forward_ad(m), m.nn.Linear(3, 2, bias=False)
    weight = linear.weight.detach().fill_(0.5)
    del linear.weight
    with fw.dual_level():
        linear.weight = fw.make_dual(weight, m.ones(2, 3))
        return fw.unpack_dual(linear(point(m)[0])).tangent


@program
def a_level_entered_and_left(m):
    fw, (p, v) = forward_ad(m), point(m)
    level = fw.enter_dual_level()
    d = fw.make_dual(p, v)
    tangent = fw.unpack_dual(d * 2).tangent
    fw.exit_dual_level(level=level)
    return level, tangent, fw.unpack_dual(d).tangent


@program
def a_dual_tensor_outside_of_a_level(m):
    forward_ad(m).make_dual(*point(m))


@program
def levels_inside_each_other(m):
    with forward_ad(m).dual_level(), forward_ad(m).dual_level():
        pass


@program
def a_level_that_was_not_entered(m):
    forward_ad(m).exit_dual_level()


@program
def a_dual_tensor_of_integers(m):
    with forward_ad(m).dual_level():
        forward_ad(m).make_dual(m.arange(3), m.ones(3))


@program
def a_tangent_of_another_size(m):
    with forward_ad(m).dual_level():
        forward_ad(m).make_dual(m.ones(3), m.ones(4))


@program
def unpacking_a_number(m):
    with forward_ad(m).dual_level():
        forward_ad(m).unpack_dual(3)


@program
def forward_mode_without_gradients(m):
    fw, (p, v) = forward_ad(m), point(m)
    with m.no_grad(), fw.dual_level():
        a = fw.make_dual(p, v)
        y = (a**3).sum() * a.sin()
        y[0] *= 2
        return fw.unpack_dual(y).tangent, fw.unpack_dual(a).tangent, m.is_grad_enabled()


@program
def a_part_without_gradients_has_tangents_all_the_same(m):
    fw, (p, v) = forward_ad(m), point(m)
    w = m.tensor([2.0, 3.0, 4.0], requires_grad=True)
    with fw.dual_level():
        a = fw.make_dual(p, v)
        with m.no_grad():
            c = a * a * w
            w += 1
        y = a * c * w
        tangent = fw.unpack_dual(y).tangent
        (gradient,) = m.autograd.grad(y.sum(), w, retain_graph=True)
    (again,) = m.autograd.grad(y.sum(), w)
    with m.no_grad():
        after = (w * 2).requires_grad
    return tangent.detach(), gradient, again, w.is_leaf, after, m.is_grad_enabled()


@program
def a_function_in_forward_mode_that_turns_gradients_off(m):
    def f(x):
        with m.no_grad():
            c = x * x
        return x - c

    func = importlib.import_module(f"{m.__name__}.func")
    p, v = point(m)
    with m.no_grad():
        inside = func.jvp(f, (p,), (v,))
    return func.jvp(f, (p,), (v,)), inside, func.grad(lambda x: f(x).sum())(p), func.vjp(f, p)[1](v)


@program
def a_dual_tensor_shares_the_memory_of_its_primal(m):
    fw, (p, v) = forward_ad(m), point(m)
    with fw.dual_level():
        a = fw.make_dual(p, v)
        a.mul_(3)
        return p, fw.unpack_dual(a).primal, fw.unpack_dual(a).tangent


@program
def a_dual_tensor_in_inference_mode(m):
    fw, (p, v) = forward_ad(m), point(m)
    with m.inference_mode(), fw.dual_level():
        return fw.unpack_dual(fw.make_dual(p, v) * 2).tangent


# --- what a compiler is told


@program
def a_function_that_no_compiler_is_to_see(m):
    compiler = m.compiler
    twice, once = compiler.disable(lambda x: x * 2), compiler.disable(recursive=False)(lambda x: x + 1)
    with compiler.set_stance("force_eager"):
        inside = twice(m.ones(2)), compiler.allow_in_graph(once)(m.ones(2))
    stands = compiler.set_stance("force_eager")(lambda: compiler.is_compiling())
    return inside, stands(), compiler.is_dynamo_compiling(), compiler.is_exporting(), compiler.reset()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__.replace("_", " "))
def test_a_mode(fn):
    ours, theirs = outcome(fn, SUT), outcome(fn, REF)
    check_same(ours, theirs, fn.__name__, strides=None)
    if isinstance(theirs, Raised):
        assert str(ours.error) == str(theirs.error)
