"""Custom functions: what they are refused for, and what their calls show, in PyTorch's words.

Every test is one program, run in both libraries; what it returns is compared, or the words of what it raises."""

import pytest

from tests.torch.compare import REF, SUT, Raised, check_same, outcome

PROGRAMS = []


def program(fn):
    PROGRAMS.append(fn)
    return fn


def make(m, forward, backward=lambda ctx, g: g, **more):
    methods = {"forward": forward, "backward": backward, **more}
    return type("Fn", (m.autograd.Function,), {name: staticmethod(f) for name, f in methods.items() if f})


def leaf(m):
    return m.ones(3, requires_grad=True)


def double(ctx, x):
    return x * 2


@program
def without_a_forward(m):
    return make(m, None).apply(leaf(m))


@program
def without_a_backward(m):
    make(m, double, None).apply(leaf(m)).sum().backward()


@program
def with_a_backward_named_vjp(m):
    x = leaf(m)
    make(m, double, None, vjp=lambda ctx, g: g * 7).apply(x).sum().backward()
    return x.grad


@program
def with_both(m):
    make(m, double, vjp=lambda ctx, g: g).apply(leaf(m)).sum().backward()


@program
def that_saves_a_number(m):
    return make(m, lambda ctx, x: ctx.save_for_backward(3) or x * 2).apply(leaf(m))


@program
def that_returns_a_word_too(m):
    word, y = make(m, lambda ctx, x: ("word", x * 2), lambda ctx, a, g: g).apply(leaf(m))
    return word, y.requires_grad


@program
def that_returns_a_word_only(m):
    return make(m, lambda ctx, x: "word").apply(leaf(m))


@program
def that_returns_a_list(m):
    return make(m, lambda ctx, x: [x * 2]).apply(leaf(m))[0].requires_grad


@program
def with_too_many_gradients(m):
    make(m, double, lambda ctx, g: (g, g)).apply(leaf(m)).sum().backward()


@program
def with_too_few_gradients(m):
    x = leaf(m)
    make(m, lambda ctx, x, y: x * y).apply(x, x).sum().backward()


@program
def with_none_too_many(m):
    x = leaf(m)
    make(m, double, lambda ctx, g: (g, None, None)).apply(x).sum().backward()
    return x.grad


@program
def with_a_gradient_for_a_number(m):
    make(m, lambda ctx, x, k: x * k, lambda ctx, g: (g, g)).apply(leaf(m), 3).sum().backward()


@program
def with_a_gradient_of_another_size(m):
    make(m, double, lambda ctx, g: m.ones(5)).apply(leaf(m)).sum().backward()


@program
def with_a_gradient_that_broadcasts(m):
    x = leaf(m)
    make(m, double, lambda ctx, g: m.ones(2, 3)).apply(x).sum().backward()
    return x.grad


@program
def with_a_gradient_that_is_no_tensor(m):
    make(m, double, lambda ctx, g: 3).apply(leaf(m)).sum().backward()


@program
def with_a_list_of_gradients(m):
    make(m, double, lambda ctx, g: [g]).apply(leaf(m)).sum().backward()


@program
def with_no_gradient(m):
    x = leaf(m)
    make(m, double, lambda ctx, g: None).apply(x).sum().backward()
    return x.grad


@program
def that_writes_to_a_leaf(m):
    return make(m, lambda ctx, x: ctx.mark_dirty(x) or x.mul_(2)).apply(leaf(m))


@program
def that_does_not_return_what_it_wrote(m):
    return make(m, lambda ctx, x: ctx.mark_dirty(x) or x.mul_(2) * 1).apply(leaf(m) * 1)


@program
def with_an_integer_output(m):
    def forward(ctx, x):
        return x.argmax(), x * 2

    x = leaf(m)
    i, y = make(m, forward, lambda ctx, i, g: g + i.sum()).apply(x)
    y.sum().backward()
    return i.requires_grad, y.requires_grad, x.grad


@program
def whose_saved_tensors_are_read_a_second_time(m):
    y = make(m, lambda ctx, x: ctx.save_for_backward(x) or x * 2, lambda ctx, g: g * ctx.saved_tensors[0]).apply(
        leaf(m)
    )
    y.sum().backward()
    y.sum().backward()


@program
def whose_ctx_is_reached_through_the_graph(m):
    def forward(ctx, x, y, k):
        ctx.save_for_backward(x)
        ctx.scale = k
        return x * k

    x = leaf(m)
    y = make(m, forward, lambda ctx, g: (g * ctx.scale, None, None)).apply(x, m.ones(2), 3)
    fn = y.grad_fn
    seen = fn.scale, fn.needs_input_grad, fn.saved_tensors[0] is x, fn.dirty_tensors, fn.name(), type(fn).__name__
    fn.scale = 5
    y.sum().backward()
    return seen, x.grad, repr(y).partition("grad_fn=")[2]


@program
def that_gives_back_a_view_of_its_input(m):
    x = leaf(m)
    y = (x * 2).view(3, 1)
    (make(m, lambda ctx, y: y, lambda ctx, g: g * 10).apply(y) + y).sum().backward()
    return x.grad


@program
def differentiated_twice_though_only_once_allowed(m):
    once = m.autograd.function.once_differentiable(lambda ctx, g: g * 2)
    x = leaf(m)
    (g,) = m.autograd.grad((make(m, double, once).apply(x) ** 2).sum(), x, create_graph=True)
    m.autograd.grad(g.sum(), x)


@pytest.mark.filterwarnings("ignore")
@program
def whose_apply_calls_that_of_its_base(m):
    class Twice(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    class Thrice(Twice):
        @classmethod
        def apply(cls, x):
            return super().apply(x) + 1

        @staticmethod
        def forward(ctx, x):
            return x * 3

    class Again(Thrice):
        pass

    return Twice.apply(leaf(m)), Thrice.apply(leaf(m)), Again.apply(leaf(m)), super(Thrice, Again).apply(leaf(m))


@program
def whose_methods_are_replaced_between_calls(m):
    fn, found = make(m, double), []
    for factor in (3, 4):
        x = leaf(m)
        y = fn.apply(x)
        fn.forward = staticmethod(lambda ctx, x, factor=factor: x * factor)
        fn.backward = staticmethod(lambda ctx, g, factor=factor: g * factor)
        y.sum().backward()
        found += [y, x.grad]
    return found


@program
def whose_forward_is_inherited_and_replaced_in_the_base(m):
    base = make(m, double)
    derived = type("Derived", (base,), {})
    first = derived.apply(leaf(m))
    base.forward = staticmethod(lambda ctx, x: x * 5)
    return first, derived.apply(leaf(m))


@program
def whose_apply_is_kept_under_another_name(m):
    apply = make(m, double).apply
    return apply(leaf(m)), apply.__name__, apply.__self__.__name__, apply == apply.__self__.apply


@program
def with_hooks_on_its_output_and_on_its_place(m):
    x, seen = leaf(m), []
    y = make(m, double, lambda ctx, g: seen.append(("backward", g.sum().item())) or g * 2).apply(x)
    y.register_hook(lambda g: seen.append(("tensor", g.sum().item())) or g * 3)
    y.retain_grad()
    y.grad_fn.register_prehook(lambda g: seen.append(("before", g[0].sum().item())))
    y.grad_fn.register_hook(lambda i, o: seen.append(("after", i[0].sum().item(), o[0].sum().item())))
    y.sum().backward()
    return x.grad, y.grad, seen


@program
def whose_output_is_an_input_of_grad(m):
    x = leaf(m)
    y = make(m, double).apply(x)
    z = make(m, double).apply(y * 1.5)
    return m.autograd.grad(z.sum(), [y, x])


@program
def of_float64_whose_output_is_written_through_a_view(m):
    x = m.ones(4, dtype=m.float64, requires_grad=True)
    y = make(m, lambda ctx, x: x * 2, lambda ctx, g: g * 2).apply(x)
    y[1:3].mul_(5)
    y.sum().backward()
    return y, x.grad, y.grad_fn.name()


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__.replace("_", " "))
def test_a_function(fn):
    ours, theirs = outcome(fn, SUT), outcome(fn, REF)
    check_same(ours, theirs, fn.__name__)
    if isinstance(theirs, Raised):
        assert str(ours.error) == str(theirs.error)


# --- tensors saved on the way: PyTorch takes them for constants, brisk says so


def evaluated(t):
    t.sum().item()
    return t


def filled_by_elements(x):
    out = SUT.zeros(len(x))
    for i in range(len(x)):
        out[i] = x[i].exp() * 2
    return out


def exp_by_the_way(ctx, x):
    e = x.exp()
    ctx.save_for_backward(e)
    return e * 1


def second_derivative(forward, backward=lambda ctx, g: g * ctx.saved_tensors[0]):
    x = SUT.tensor([1.0, 2.0], requires_grad=True)
    y = make(SUT, forward, backward).apply(x * 1).sum() + (x**3).sum()
    (g,) = SUT.autograd.grad(y, x, create_graph=True)
    return SUT.autograd.grad(g.sum(), x)[0].tolist()


@pytest.mark.parametrize(
    "forward",
    [
        exp_by_the_way,
        lambda ctx, x: ctx.save_for_backward(x.detach()) or x * x,
        lambda ctx, x: ctx.save_for_backward(x.view(1, 2)[0]) or x * x,
        lambda ctx, x: ctx.save_for_backward(SUT.tensor([1.0, 1.0]) + x * (x > 1)) or x * x,
        lambda ctx, x: ctx.save_for_backward(evaluated(x.exp())[:2].flip(0)) or x * x,
        lambda ctx, x: ctx.save_for_backward(filled_by_elements(evaluated(x))) or x * x,
    ],
)
def test_a_second_derivative_through_a_tensor_saved_on_the_way_is_refused(forward):
    with pytest.raises(RuntimeError, match="Save inputs and compute the tensor again in backward"):
        second_derivative(forward)


@pytest.mark.parametrize(
    "forward",
    [
        lambda ctx, x: ctx.save_for_backward((x > 1).float()) or x.relu(),
        lambda ctx, x: ctx.save_for_backward(x.sign()) or x.abs(),
        lambda ctx, x: ctx.save_for_backward(SUT.ones_like(x) * 3) or x * 3,
        lambda ctx, x: ctx.save_for_backward(SUT.arange(2.0).exp()) or x,
        lambda ctx, x: ctx.save_for_backward(evaluated((x * x).sign() + SUT.arange(2.0).exp())) or x,
    ],
)
def test_constants_and_masks_are_no_tensors_on_the_way(forward):
    assert second_derivative(forward) == [6.0, 12.0]


def test_a_number_saved_on_the_way_is_refused_too():
    x = SUT.tensor(1.5, requires_grad=True)
    assert x.item() == 1.5  # so that forward computes at once
    f = make(SUT, exp_by_the_way, lambda ctx, g: g * ctx.saved_tensors[0]).apply
    (g,) = SUT.autograd.grad(f(x), x, create_graph=True)
    with pytest.raises(RuntimeError, match="computed on the way"):
        g.backward()


def test_what_is_not_differentiated_again_is_not_refused():
    def quietly(ctx, g):
        with SUT.no_grad():
            return g * ctx.saved_tensors[0]

    assert second_derivative(exp_by_the_way, quietly) == [6.0, 12.0]
    x = SUT.tensor([1.0, 2.0], requires_grad=True)
    f = make(SUT, exp_by_the_way, lambda ctx, g: g * ctx.saved_tensors[0]).apply
    (g,) = SUT.autograd.grad(f(x).sum(), x, create_graph=True)
    (g.detach() * x).sum().backward()
    assert SUT.allclose(x.grad, SUT.exp(x))
    assert SUT.allclose(SUT.autograd.functional.jvp(f, x, SUT.ones(2))[1], SUT.exp(x))  # by the vector only
