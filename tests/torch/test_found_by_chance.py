"""What random programs once found: extra names, strides, tapes, 16-bit floats and numbers, memory that changes."""

import brisk
import pytest

from tests.torch.compare import REF, check_tensor


def test_tensor_has_no_method_that_pytorch_has_not():
    extra = {n for n in dir(brisk.Tensor) if not n.startswith("_")} - set(dir(REF.Tensor))
    assert extra == set()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    "expression",
    [
        "x / 3.3",
        "x * 0.1",
        "x + 0.1",
        "x - 0.1",
        "0.1 - x",
        "x * s",
        "x / s",
        "s * x",
        "x == 0.1",
        "x % 0.7",
        "x ** 1.3",
    ],
)
def test_a_number_beside_a_16_bit_float_keeps_the_precision_it_has_in_pytorch(dtype, expression):
    for count in (1, 39):
        results = []
        for module in (brisk, REF):
            x = module.arange(1, count + 1, dtype=getattr(module, dtype)) / 7
            results.append(eval(expression, {"x": x, "s": module.tensor(0.1)}))
        check_tensor(*results, f"{expression} of {count}")


@pytest.mark.parametrize("sizes", [(2, 2), (6,), (3, 2, 1), (0,), ()])
def test_resize_keeps_the_elements_that_fit(sizes):
    ours, theirs = brisk.arange(6.0), REF.arange(6.0)
    check_tensor(ours.resize_(sizes), theirs.resize_(sizes), f"resize_{sizes}")


def test_resize_to_more_begins_with_what_was_there():
    x = brisk.arange(3.0)
    assert x.resize_(2, 2) is x
    assert x.shape == (2, 2) and x.flatten()[:3].tolist() == [0, 1, 2]
    assert x.resize_as_(brisk.zeros(1, 2)).tolist() == [[0, 1]]


def test_resize_refuses_what_requires_grad():
    with pytest.raises(RuntimeError, match="cannot resize variables that require grad"):
        brisk.ones(3, requires_grad=True).resize_(2)


def test_set_shares_the_memory_of_its_source():
    x, y = brisk.zeros(0), brisk.arange(3.0)
    x.set_(y)
    y[0] = 5
    assert x.tolist() == [5, 1, 2]
    assert x.set_().tolist() == []
    with pytest.raises(RuntimeError):
        x.set_(brisk.arange(3))


@pytest.mark.parametrize("strides", [(1, 3, 9), (1, 3, 1), (9, 3, 1), (1, 1, 2), (3, 1, 7)])
@pytest.mark.parametrize("sizes", [(2, 1, 1), (2, 3, 1), (2, 3, 4)])
def test_the_strides_of_what_is_read_at_indices_follow_those_of_the_source(sizes, strides):
    ours, theirs = (m.as_strided(m.arange(100.0), sizes, strides)[:, [0, -1]] for m in (brisk, REF))
    check_tensor(ours, theirs, f"{sizes} by {strides}")


def test_what_is_read_from_a_tensor_on_the_tape_is_on_the_tape():
    flags = []
    for module in (brisk, REF):
        x = module.zeros(3, 4, requires_grad=True)
        joined = module.cat([module.ones(3, 4), x], 0)
        corner = joined[0, 0:1]
        y = module.stack([corner, corner])
        y.sum().backward()
        flags.append((corner.requires_grad, y.requires_grad, x.grad.tolist()))
    assert flags[0] == flags[1]


def test_the_gradient_of_a_16_bit_number_has_its_dtype():
    for dtype in ("float16", "bfloat16"):
        x = brisk.ones((), dtype=getattr(brisk, dtype), requires_grad=True)
        (x / 2 * 0.3).double().backward()
        assert x.grad.dtype is x.dtype


def test_what_is_joined_with_an_empty_tensor_on_the_tape_is_on_the_tape():
    x = brisk.zeros(0, requires_grad=True)
    y = brisk.cat([brisk.ones(2, 3), x * 2, brisk.ones(2, 3)], 1)
    assert y.requires_grad and y.tolist() == [[1.0] * 6] * 2
    y.sum().backward()
    assert x.grad.shape == (0,)


def test_a_value_that_does_not_fit_is_refused_before_the_subscript():
    x = brisk.zeros(1, 1, dtype=brisk.uint8)
    with pytest.raises(RuntimeError, match="overflow"):
        x[0, 1] = -1.5


@pytest.mark.parametrize("sizes", [(1, 2, 3), (1, 1, 2, 1), (4, 1, 2, 3), (1, 4, 2, 3)])
def test_new_dimensions_of_one_element_have_the_strides_they_have_in_pytorch(sizes):
    ours, theirs = (m.arange(2.0).view(2, 1).expand(sizes) for m in (brisk, REF))
    check_tensor(ours, theirs, f"expand{sizes}")
    check_tensor(ours.transpose(0, -1).exp(), theirs.transpose(0, -1).exp(), f"exp of expand{sizes}")
    check_tensor(brisk.tensor(3.0).expand(1), REF.tensor(3.0).expand(1), "a number")


def test_a_join_of_one_part_leaves_the_tape_of_the_part_alone():
    gradients = []
    for module in (brisk, REF):
        x = module.ones(3, requires_grad=True)
        y = x * 5
        y[0:2] = 0.25
        z = module.cat([y], 0)
        (y.sum() + z.sum()).backward()
        gradients.append(x.grad.tolist())
    assert gradients[0] == gradients[1] == [0, 0, 10]


def test_a_view_of_a_tensor_that_came_onto_the_tape_later_may_be_written_to():
    """PyTorch takes the view for a leaf, unless somebody has asked for its grad_fn since."""
    w = brisk.ones((), requires_grad=True)
    base = brisk.zeros(2, 4)
    view = base.transpose(0, 0)
    view[2:].add_(w)
    view[...] = w
    view *= 2
    base.sum().backward()
    assert w.grad.item() == 16


def both(program):
    return program(brisk), program(REF)


def test_nothing_flows_back_through_a_tensor_that_was_filled():
    def run(module):
        x = module.ones(3, requires_grad=True)
        y = x * 2
        y.fill_(2)
        (g,) = module.autograd.grad((y * y).sum() + x.sum(), x, create_graph=True)
        return g.requires_grad, g.tolist()

    ours, theirs = both(run)
    assert ours == theirs


def test_a_gradient_kept_twice_is_on_no_tape_when_the_second_pass_is_on_none():
    def run(module):
        x = module.ones(3, requires_grad=True)
        y = x * 2
        y.retain_grad()
        z = (y**3).sum()
        module.autograd.grad(z, x, create_graph=True)
        z.backward()
        return y.grad.requires_grad, y.grad.tolist()

    ours, theirs = both(run)
    assert ours == theirs


def test_a_hook_sees_the_gradient_of_a_view_that_was_read_and_evaluated_before():
    def run(module):
        x = module.ones(5, requires_grad=True)
        y = (x * 1)[3].expand(2)
        z = y * -2
        z.tolist()
        y.retain_grad()
        (y.sum() + z.sum()).backward()
        return y.grad.tolist()

    ours, theirs = both(run)
    assert ours == theirs


def test_a_function_that_returns_the_view_it_was_given_passes_the_gradient_on():
    def run(module):
        class Same(module.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x

            @staticmethod
            def backward(ctx, g):
                return 2 * g

        x = module.ones(4, requires_grad=True)
        y = (x / 2).view(2, 2)
        Same.apply(y).neg().sum().backward()
        return x.grad.tolist()

    ours, theirs = both(run)
    assert ours == theirs


def test_the_gradient_by_a_view_has_what_its_views_send():
    def run(module):
        x = module.arange(12.0, requires_grad=True)
        h = (x * 2).view(3, 4)
        columns = h[:, :3]
        same = columns.view_as(columns)
        z = (columns.t()[1:] * 3).sum() + columns[0].sum() + (same[1, 1:] * 5).sum()
        z.backward(retain_graph=True)
        return [g.tolist() for g in (x.grad, *module.autograd.grad(z, (h, columns, same)))]

    ours, theirs = both(run)
    assert ours == theirs


@pytest.mark.parametrize("view", ["x.movedim(2, 0)", "x.movedim(2, 0).expand(4, 2, 3)", "x.transpose(0, 1)"])
def test_a_gradient_that_is_kept_has_the_strides_it_came_with(view):
    strides = []
    for module in (brisk, REF):
        x = module.zeros(2, 3, 4).requires_grad_()
        kept = eval(view, {"x": x})
        kept.retain_grad()
        (kept.double().sum() + 0).backward()
        strides.append((kept.grad.stride(), x.grad.stride()))
    assert strides[0] == strides[1]


@pytest.mark.parametrize("step", ["v.detach().numpy()", "v.data_ptr()", "x.data.mul_(2)", "v.data[0] = 1"])
@pytest.mark.parametrize("view", ["x.t()", "x.view(2, 2)", "x[0:1]", "(x * 2).t()", "x.t().view_as(x)"])
def test_the_hook_of_a_view_stays_when_its_memory_moves_or_is_written_behind_the_tape(view, step):
    def run(module):
        scope = {"x": module.ones(2, 2, requires_grad=True)}
        exec(f"v = {view}\nhook = v.register_hook(lambda g: g * 0.5)\n{step}\nv.sum().backward()", scope)
        return scope["x"].grad.tolist()

    ours, theirs = both(run)
    assert ours == theirs


@pytest.mark.parametrize("view", ["x.t()", "x.view(2, 2)", "x[0:1]", "(x * 2).view(4)"])
def test_the_hook_of_a_view_is_that_of_its_memory_before_it_was_written_without_the_tape(view):
    def run(module):
        x = module.ones(2, 2, requires_grad=True)
        v = eval(view, {"x": x})
        v.register_hook(lambda g: g * 0.5)
        with module.no_grad():
            v.mul_(2)
        v.sum().backward()
        return x.grad.tolist()

    ours, theirs = both(run)
    assert ours == theirs


@pytest.mark.parametrize("early", [True, False])
def test_who_keeps_the_gradient_of_a_tensor_that_was_written_gets_that_of_what_was_left_alone(early):
    def run(module):
        x = module.ones(3, requires_grad=True)
        y = x * 1
        if early:
            y.retain_grad()
        y[:1] = 2
        rest = y[1:]
        y.retain_grad()
        y.register_hook(lambda g: g * 10)
        loss = y.sum() + rest.sum()
        (by,) = module.autograd.grad(loss, y, retain_graph=True)
        loss.backward()
        return x.grad.tolist(), y.grad.tolist(), by.tolist()

    ours, theirs = both(run)
    assert ours == theirs


@pytest.mark.parametrize("make", ["x * 2", "x.repeat(2, 1)", "x.repeat_interleave(2, 0)"])
@pytest.mark.parametrize("view", ["y", "y[0]", "y.t()", "y.view(-1)[1:]", "y[:, 1:].t()", "y.view_as(y)"])
def test_a_function_may_write_to_a_part_of_a_tensor(make, view):
    def run(module):
        class Thrice(module.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.mark_dirty(x)
                return x.mul_(3)

            @staticmethod
            def backward(ctx, g):
                return 3 * g

        x = module.ones(2, 3, requires_grad=True)
        y = eval(make, {"x": x})
        v = eval(view, {"y": y})
        same = Thrice.apply(v) is v
        ((y * y).sum() + v.sum()).backward()
        return same, x.grad.tolist(), y.tolist(), v.tolist()

    ours, theirs = both(run)
    assert ours == theirs


def test_a_hook_on_a_view_sees_the_gradient_of_what_was_there_before_a_write_through_the_view():
    """PyTorch does not run it."""
    x = brisk.ones(3, requires_grad=True)
    view = (x * 1)[1:]
    view.register_hook(lambda g: g * 10)
    view.mul_(2)
    view.sum().backward()
    assert x.grad.tolist() == [0, 20, 20]


def test_a_view_that_was_read_and_then_refused_a_write_is_on_the_tape_still():
    def run(module):
        x = module.zeros(3, 4).requires_grad_()
        view = x.diagonal()
        with pytest.raises(RuntimeError, match="a view of a leaf Variable"):
            view[view > 2] = 2
        view.sum().backward()
        return x.grad.tolist()

    ours, theirs = both(run)
    assert ours == theirs


@pytest.mark.parametrize("base", ["x", "x * 2"])
def test_a_view_that_was_read_without_the_tape_is_where_it_was_on_the_tape(base):
    def run(module):
        x = module.arange(4.0).requires_grad_()
        view = eval(base, {"x": x})[1:]
        y = (view * 2).sum()
        y.item()
        with module.no_grad():
            view.sum().item()
        view.register_hook(lambda g: g * 3)
        return [module.autograd.grad(y, t, retain_graph=True)[0].tolist() for t in (view, x)]

    ours, theirs = both(run)
    assert ours == theirs


def test_a_gradient_that_is_asked_for_has_been_through_its_hooks():
    """PyTorch's has not if another tensor is asked for that it leads to."""
    x = brisk.ones(3, requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: g * 3)
    for inputs in ((y,), (y, x)):
        assert brisk.autograd.grad(y.sum(), inputs, retain_graph=True)[0].tolist() == [3] * 3


@pytest.mark.parametrize(
    "write", ["y = m.zeros(3).copy_(z)", "y = m.cat([z])", "y = m.zeros(3).copy_(x)", "y = m.cat([x])"]
)
def test_a_tensor_that_took_the_value_of_another_has_a_gradient_and_hooks_of_its_own(write):
    def run(module):
        x = module.ones(3, requires_grad=True)
        scope = {"m": module, "x": x, "z": x * 2}
        exec(write, scope)
        y, z = scope["y"], scope["z"]
        loss = y.sum() + (z * 5).sum() + (x * 7).sum()
        asked = [g.tolist() for g in module.autograd.grad(loss, (y, z, x), retain_graph=True)]
        y.retain_grad()
        y.register_hook(lambda g: g * 10)
        loss.backward()
        return asked, x.grad.tolist(), y.grad.tolist()

    ours, theirs = both(run)
    assert ours == theirs


def test_who_keeps_the_gradient_of_a_functions_output_gets_that_of_the_output_that_was_saved():
    def run(module):
        class Square(module.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                y = x * x
                ctx.save_for_backward(x, y)
                return y

            @staticmethod
            def backward(ctx, g):
                x, y = ctx.saved_tensors
                return g * y / x * 2

        x = module.full((3,), 2.0, requires_grad=True)
        y = Square.apply(x)
        y.retain_grad()
        (g,) = module.autograd.grad(y.sum(), x, create_graph=True)
        y.grad = None
        g.sum().backward()
        return y.grad.tolist(), x.grad.tolist()

    ours, theirs = both(run)
    assert ours == theirs


def test_a_view_of_what_a_function_wrote_and_returned_leads_the_gradient_into_the_next_function():
    """Solvers of differential equations keep their slopes so: written past the version counter, returned unmarked."""

    def run(module):
        class Put(module.autograd.Function):
            @staticmethod
            def forward(ctx, scratch, value, index):
                ctx.index = index
                scratch.data[index] = value
                return scratch

            @staticmethod
            def backward(ctx, grad):
                return grad, grad[ctx.index], None

        def step(y, slope):
            slopes = Put.apply(module.empty(2, 3), slope, (..., 0))
            for i in range(2):
                y = y + (slopes[..., : i + 1] * 0.5).sum(dim=-1).view_as(y)
                slopes = Put.apply(slopes, y * y, (..., i + 1))
            return y, slopes[..., -1]

        x = module.tensor([0.5, 0.25], requires_grad=True)
        y, slope = step(*step(x, x * x))
        (y.sum() + slope.sum()).backward()
        return y.tolist(), slope.tolist(), x.grad.tolist()

    ours, theirs = both(run)
    assert ours == theirs


@pytest.mark.parametrize("factor", [0.5, 2, True, [0.5]])
@pytest.mark.parametrize("learned", [False, True])
def test_a_factor_may_be_a_tensor_of_one_element_without_gradient(factor, learned):
    def run(module):
        t = module.tensor(factor)
        if learned and t.is_floating_point():
            t.requires_grad_()
        x, y = module.ones(2), module.tensor([3.0, 5.0])
        said = []
        for f in (
            lambda: x.add(y, alpha=t),
            lambda: module.sub(y, x, alpha=t),
            lambda: module.ones(2).add_(y, alpha=t),
            lambda: x.add(1, alpha=t),
            lambda: x.addcmul(y, y, value=t),
            lambda: module.ones(2).addcdiv_(y, y, value=t),
        ):
            try:
                said.append(f().tolist())
            except (RuntimeError, TypeError) as error:
                said.append(type(error))
        return said

    ours, theirs = both(run)
    assert ours == theirs


def test_a_mean_of_what_a_later_op_takes_the_memory_of():
    def run(module):
        x = module.tensor([[-1.75], [2.25], [1.75]])
        x[x > 2] = -1
        y = x.to(module.float32)
        part = y[1, 1::3, None]
        mean = y.mean(-2)
        del x
        joined = module.cat([part], 0)
        del part
        kept = y.relu()
        del y
        return mean.tolist(), kept.tolist(), joined.tolist()

    ours, theirs = both(run)
    assert ours == theirs


def test_what_is_copied_before_a_write_is_read_before_it_is_overwritten():
    def run(module):
        x = module.tensor([[-1.5, -2.0, 0.75], [3.0, 1.0, 0.5]])
        other = x.tanh()  # an earlier group of the same sizes, which the product below joins
        stacked = module.stack([x.unsqueeze(1)], 2)
        stacked[0, :, :, 2:] = 3
        x.mul_(3)
        return stacked.tolist(), x.tolist(), other.shape

    ours, theirs = both(run)
    assert ours == theirs


def test_a_copy_of_a_leaf_does_not_see_what_is_written_to_the_leaf():
    def run(module):
        x = module.tensor([1.0, 2.0], requires_grad=True)
        joined, filled = module.stack([x], -1), module.zeros(2)
        filled.copy_(x)
        loss = (joined * joined).sum() + (filled * filled).sum()
        with module.no_grad():
            x.mul_(10)
        loss.backward()
        return x.grad.tolist()

    ours, theirs = both(run)
    assert ours == theirs


@pytest.mark.parametrize("indices", ["x.long()", "iter([x.long()])"])
def test_index_put_takes_no_indices_that_nobody_holds(indices):
    for module in (brisk, REF):
        x = module.tensor([0.0, 1.0])
        with pytest.raises(TypeError):
            x.index_put(eval(indices), module.tensor(1.0))


STRIDES = {
    "a difference of what a number was added to": """
        x = torch.arange(24.0).reshape(2, 3, 4).diagonal(-1)
        y = (x + True).square()
        result = y - x.unfold(1, 1, 2)""",
    "a minimum with what has dimensions of one element": """
        x = torch.zeros(3, 1)
        result = torch.minimum(x, x[None].unfold(-3, 1, 2).relu())""",
    "a product with a square of what has dimensions of one element": """
        x = torch.tensor([[2.0], [-2.0], [2.75]])
        y = x.unfold(-2, 3, 1).movedim(0, 1).clone()
        result = y * y * x""",
    "a stack of images whose channels come last": """
        x = torch.ones(2, 3, 4).unfold(1, 3, 3).transpose(1, 2)
        result = torch.stack([x, x], 2)""",
    "a stack along a new last dimension": """
        x = torch.ones(2, 4, 3).permute(0, 2, 1)
        result = torch.stack([x, x], 3)""",
    "volumes whose channels come last, joined": """
        x = torch.ones(2, 4, 5, 6, 3).permute(0, 4, 1, 2, 3)
        result = torch.cat([x, x + 1], 1)""",
    "images whose channels come last, joined with some whose do not": """
        x = torch.ones(2, 4, 5, 3).permute(0, 3, 1, 2)
        result = torch.cat([x, x.contiguous()], 1)""",
    "a number, expanded": "result = torch.tensor(3.0).expand(1)",
    "an empty product with a number": "result = torch.ones(3, 1, 1) * torch.ones(0, 1) * True",
    "no rows of an empty tensor": "result = torch.ones(2, 1, 3).narrow(0, 0, 0)[[]]",
    "a matrix of one row that requires gradients, times matrices": """
        result = torch.ones(1, 3, requires_grad=True) @ torch.ones(2, 3, 4)""",
    "a matrix that requires gradients, times columns": """
        result = torch.ones(2, 3, requires_grad=True) @ torch.ones(2, 2, 3, 1)""",
}


@pytest.mark.parametrize("what", STRIDES)
def test_results_have_the_strides_they_have_in_pytorch(what):
    def run(module):
        scope = {"torch": module}
        exec("\n".join(line.strip() for line in STRIDES[what].splitlines()), scope)
        return scope["result"]

    check_tensor(*both(run), what, strides="exact")


@pytest.mark.parametrize("requires_grad", [False, True])
def test_an_input_that_a_function_returns_is_a_view_of_it_by_its_sizes(requires_grad):
    def run(module):
        class GivesItsInput(module.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x

            @staticmethod
            def backward(ctx, g):
                return g

        x = module.zeros(2, 3, requires_grad=requires_grad).unfold(0, 2, 2)
        y = GivesItsInput.apply(x)
        return x.stride(), y.stride(), y.neg().stride(), y is x

    ours, theirs = both(run)
    assert ours == theirs


@pytest.mark.parametrize("write", ["view", "base", "none", "as_strided"])
def test_the_gradient_of_an_empty_view_is_a_constant_once_its_memory_was_written_to(write):
    def run(module):
        x = module.ones(2, 3, requires_grad=True)
        view = x.as_strided((0, 3), (3, 1)) if write == "as_strided" else x[2:]
        with module.no_grad():
            if write in ("view", "base"):
                (view if write == "view" else x).mul_(2)
        (g,) = module.autograd.grad(view.sin().sum(), x, create_graph=True)
        return g.tolist(), g.requires_grad

    ours, theirs = both(run)
    assert ours == theirs


def test_a_view_whose_memory_was_written_to_since_is_one_of_its_base():
    """A hook on the view that it was made of does not see its gradient any more."""

    def run(module):
        base = module.ones(3, requires_grad=True) * 2
        outer = base.view(1, 3)
        inner = outer[0]
        inner[inner > 5] = 2
        seen = []
        _ = outer.grad_fn, outer.register_hook(lambda g: seen.append(g.tolist()))
        (inner * 3).sum().backward()
        return seen

    ours, theirs = both(run)
    assert ours == theirs


@pytest.mark.parametrize("number", [1, 3, 1.0, 0.7])
def test_a_number_divided_by_a_tensor_is_its_reciprocal_times_the_number(number):
    def run(module):
        x = module.tensor([3.0, 0.7, 11.0, 1e-3], requires_grad=True)
        y = number / x
        y.register_hook(lambda g: g * 2)
        (g,) = module.autograd.grad(y.sum(), x, create_graph=True)
        (h,) = module.autograd.grad(g.sum(), x)
        name = type(y.grad_fn).__name__
        return (
            name,
            y.tolist(),
            (number / x.detach()).tolist(),
            (number / x.detach()[0]).tolist(),
            g.tolist(),
            h.tolist(),
        )

    ours, theirs = both(run)
    assert ours == theirs


@pytest.mark.parametrize(
    "line",
    [
        "torch.nn.functional.silu(x)",
        "torch.nn.functional.gelu(x, approximate='tanh')",
        "torch.nn.functional.gelu(x)",
        "torch.nn.functional.elu(x)",
        "torch.nn.functional.selu(x)",
        "torch.nn.functional.softplus(x)",
        "torch.nn.functional.mish(x)",
        "(x / 4).erfinv()",
        "x / (x + 3)",
        "(x / 3).exp()",
        "x.tanh()",
        "(x + 3).sqrt()",
        "(x + 3).rsqrt()",
        "x.hypot(x + 1)",
        "x.softmax(0)",
        "x.logsumexp(0)",
        "x.norm()",
        "x.std()",
    ],
)
def test_a_second_derivative_passes_a_hook_on_a_result_where_it_does_in_pytorch(line):
    def run(module):
        x = module.tensor([-0.75, 0.5, 1.25], dtype=module.float64, requires_grad=True)
        y = eval(line, {"x": x, "torch": module})
        y.register_hook(lambda g: g * 0.5)
        (g,) = module.autograd.grad(y.sum() + x.sum(), x, create_graph=True)
        (h,) = module.autograd.grad(g.tanh().sum(), x)
        return g.detach(), h

    for ours, theirs in zip(*both(run)):
        check_tensor(ours, theirs, line, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("wants", [(True, False), (False, True), (True, True), (False, False)])
@pytest.mark.parametrize(
    "sizes", [((1, 3, 2), (4, 2, 1)), ((1, 1, 2), (4, 2, 5)), ((1, 3, 2), (4, 2, 0)), ((4, 3, 2), (1, 2, 1))]
)
def test_a_product_with_one_matrix_for_all_has_pytorchs_strides_and_gradients(sizes, wants):
    def run(module):
        module.manual_seed(0)
        a, b = (module.randn(size).requires_grad_(wanted) for size, wanted in zip(sizes, wants))
        c = a @ b
        if any(wants):
            (c * c).sum().backward()
        return c.stride(), c.detach(), *(t.grad for t in (a, b) if t.requires_grad)

    ours, theirs = both(run)
    assert ours[0] == theirs[0]
    for mine, expected in zip(ours[1:], theirs[1:]):
        check_tensor(mine, expected, "product", rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("write", ["tanh_()", "lerp_(torch.ones(()), 0.5)", "addcmul_(w, w)", "clamp_(min=w)"])
@pytest.mark.parametrize("part", ["view", "view[::2]"])
def test_a_write_to_a_view_without_elements_sends_its_gradient_past_the_view(part, write):
    def run(module):
        x = module.ones((2, 4), requires_grad=True)
        w = module.ones((), requires_grad=True)
        view = (x * 2).narrow(0, 0, 0).t()
        with module.no_grad():
            view += 1  # from here on the view is an as_strided, whose gradient is a constant
        eval(f"({part}).{write}", {"view": view, "w": w, "torch": module})
        (g,) = module.autograd.grad(x.sum() + view.sum(), x, create_graph=True)
        return g.requires_grad, g.tolist()

    ours, theirs = both(run)
    assert ours == theirs


@pytest.mark.parametrize("leaf", [False, True])
@pytest.mark.parametrize("std", ["float32", "float64"])
@pytest.mark.parametrize("mean", ["float32", "float64"])
def test_what_is_drawn_around_a_mean_has_its_dtype(mean, std, leaf):
    def run(module):
        of = module.zeros(3, dtype=getattr(module, mean), requires_grad=leaf)
        t = module.normal(of, module.ones(2, 3, dtype=getattr(module, std), requires_grad=leaf))
        return str(t.dtype).split(".")[-1], t.shape, t.requires_grad

    ours, theirs = both(run)
    assert ours == theirs


VERSIONS = """
F.pad(x, (1, 2), mode="circular") ; F.pad(x, (0, 2, 1, -1), mode="circular") ; F.pad(x, (0, 0), mode="circular")
F.one_hot(k) ; F.one_hot(k, 5) ; F.one_hot(k[:0], 5) ; rnn.pad_sequence([x, x[0, :1]]) ; F.alpha_dropout(x, 0.5, True)
rnn.pad_sequence([x, x[0, :1]], True, padding_side="left") ; F.feature_alpha_dropout(x, 0.5, True)
rnn.pad_packed_sequence(rnn.pack_sequence([x[0], x[0, :1]]))[0] ; x.quantile(0.3) ; x.quantile(q, 0)
x.nanquantile(0.3, 1, keepdim=True) ; x.quantile(0.3, interpolation="nearest") ; x.quantile(q, 0, interpolation="lower")
x.quantile(q, 0, interpolation="midpoint") ; x.quantile(0.3, interpolation="higher")
"""


@pytest.mark.parametrize("leaf", [False, True])
@pytest.mark.parametrize("line", [e.strip() for row in VERSIONS.strip().split("\n") for e in row.split(" ; ")])
def test_the_version_of_a_result_counts_what_pytorch_wrote_while_making_it(line, leaf):
    def run(module):
        scope = {"F": module.nn.functional, "rnn": module.nn.utils.rnn, "k": module.tensor([1, 2])}
        x = module.arange(12.0).reshape(1, 4, 3) if "circular" not in line else module.arange(24.0).reshape(1, 2, 4, 3)
        x.requires_grad_(leaf)
        if "F.pad(x, (1, 2)" in line or "F.pad(x, (0, 0)" in line:
            x = x[0]
        t = eval(line, {**scope, "x": x, "q": module.tensor([0.3, 0.5])})
        version = t._version
        if leaf and t.requires_grad:
            (t * t).sum().backward()
        return version, t.requires_grad and t.grad_fn.name()

    ours, theirs = both(run)
    assert ours == theirs


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_a_padding_by_nothing_is_a_new_tensor(mode):
    def run(module):
        x = module.ones(1, 2, 3)
        module.nn.functional.pad(x, (0, 0), mode=mode).mul_(2)
        return x.tolist()

    ours, theirs = both(run)
    assert ours == theirs


def test_entr_has_pytorchs_derivatives_at_both_zeros_and_beyond():
    def run(module):
        x = module.tensor([0.0, -0.0, 0.5, -1.0, float("inf")], requires_grad=True)
        y = module.special.entr(x)
        (g,) = module.autograd.grad(y.sum(), x, create_graph=True)
        (h,) = module.autograd.grad(g.sum(), x)
        return str([y.tolist(), [round(v, 5) for v in g.tolist()], h.tolist()]), y.grad_fn.name(), repr(y)

    ours, theirs = both(run)
    assert ours == theirs


@pytest.mark.parametrize("function", ["(a**3).sum()", "(a**2).sum()", "a.sum() * 3", "a.exp().sum()"])
def test_a_hessian_forward_over_reverse_is_on_the_tape_inside(function):
    def run(module):
        hessian = module.autograd.functional.hessian
        h = hessian(
            lambda a: eval(function, {"a": a}), module.tensor([1.0, 2.0]), vectorize=True,
            outer_jacobian_strategy="forward-mode",
        )  # fmt: skip
        return h.requires_grad, h.is_leaf, [[round(v, 4) for v in row] for row in h.tolist()]

    ours, theirs = both(run)
    assert ours == theirs


def test_whether_a_ctx_materializes_gradients_is_set_and_not_read():
    def run(module):
        seen = []

        class Two(module.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                seen.append(hasattr(ctx, "materialize_grads"))
                if len(seen) == 1:
                    ctx.materialize_grads = False
                return x * 2, x * 3

            @staticmethod
            def backward(ctx, g, h):
                seen.append(h is None)
                return g * 2

        for _ in range(2):  # a ctx that is used again is as new
            Two.apply(module.ones(2, requires_grad=True))[0].sum().backward()
        return seen

    ours, theirs = both(run)
    assert ours == theirs


@pytest.mark.parametrize("bound", [1e300, float("inf")])
@pytest.mark.parametrize("loss", ["smooth_l1_loss(x, 3 - x, beta=b)", "huber_loss(x, 3 - x, delta=b)"])
def test_a_bound_may_be_more_than_the_dtype_holds(loss, bound):
    def run(module):
        x = module.tensor([1.0, 9.0], requires_grad=True)
        return eval(f"F.{loss}", {"F": module.nn.functional, "x": x, "b": bound}).item()

    ours, theirs = both(run)
    assert ours == theirs
