"""What the tape means: gradients after writes into views, detached writes, custom functions, loops, second derivatives.

Every test is one program, run in both libraries; what it returns is compared. Where PyTorch refuses to answer and brisk
may answer rightly, the test does not ask."""

import math

import numpy as np
import pytest

from tests.torch.compare import REF, SUT, Raised, check_same, outcome, tensor_of

PROGRAMS = []


def program(fn):
    PROGRAMS.append(fn)
    return fn


def leaf(m, *shape, seed=0, dtype="float32"):
    data = np.random.RandomState(seed).randn(*shape).astype(dtype)
    return tensor_of(m, data).requires_grad_()


@program
def a_write_into_a_view_is_seen_by_backward(m):
    x = leaf(m, 4, 3)
    base = x * 2
    base[1] = x[0] * 3
    base[2:, 1] *= 5
    (base * base).sum().backward()
    return x.grad, base


@program
def a_write_through_a_view_of_a_view(m):
    x = leaf(m, 4, 6)
    y = x.sin()
    v = y.t()[1:4]
    v[::2].mul_(2)
    y.diagonal().add_(1)
    (y * x).sum().backward()
    return x.grad, v, y


@program
def a_view_made_before_a_write_to_its_base_has_the_new_gradient(m):
    x = leaf(m, 5)
    y = x * 1
    v = y[1:3]
    y.mul_(x)
    (v * m.arange(2.0)).sum().backward()
    return x.grad, v


@program
def a_detached_write_changes_the_value_but_not_the_tape(m):
    x = leaf(m, 4)
    y = x * 3
    y.detach().zero_()
    z = (y + x).sum()
    z.backward()
    return x.grad, y, z


@program
def data_changes_the_value_but_not_the_tape(m):
    x = leaf(m, 4)
    y = x * 3
    y.data.fill_(2)
    (y * x.detach()).sum().backward()
    return x.grad, y


@program
def a_leaf_is_updated_under_no_grad(m):
    w = leaf(m, 3, 3)
    losses = []
    for _ in range(5):
        loss = (w @ w).tanh().sum()
        loss.backward()
        with m.no_grad():
            w -= 0.1 * w.grad
            w.grad = None
        losses.append(loss.detach())
    return losses, w, w.is_leaf


@program
def a_leaf_is_updated_through_data(m):
    w = leaf(m, 3)
    for _ in range(4):
        (w * w).sum().backward()
        w.data -= 0.1 * w.grad
        w.data.clamp_(-1, 1)
        w.grad.zero_()
    return w, w.grad


@program
def assigning_data_replaces_the_value(m):
    w = leaf(m, 3)
    held = w
    w.data = m.ones(5)
    (held * 2).sum().backward()
    return held, w.grad


@program
def an_update_of_a_leaf_between_forward_and_backward_is_refused(m):
    w = leaf(m, 3)
    y = (w * w).sum()
    with m.no_grad():
        w.mul_(2)
    y.backward()


@program
def an_update_of_a_part_of_a_leaf_is_refused(m):
    w = leaf(m, 3, 2)
    y = (w[1] * w[1]).sum()
    with m.no_grad():
        w[0] = 1
    y.backward()


@program
def an_update_through_a_detached_alias_is_refused(m):
    w = leaf(m, 3)
    y = (w * w).sum()
    w.detach().mul_(2)
    y.backward()


@program
def an_update_through_data_is_not_seen_and_its_value_is_used(m):
    w, v = leaf(m, 3), leaf(m, 2, 3, seed=1)
    y = (w * w).sum() + (w * v).sum() + (v[0] * v[0]).sum()
    w.data.mul_(2)
    v.data[0] = 5
    y.backward()
    return w.grad, v.grad, w


@program
def an_update_of_a_leaf_whose_value_no_gradient_needs(m):
    w = leaf(m, 3)
    y = (w + 1).sum() + (w * 3).sum()
    with m.no_grad():
        w.mul_(2)
    y.backward()
    z = (w * w).sum()
    z.backward()
    return w.grad, w


@program
def versions_count_the_writes(m):
    w = m.zeros(4)
    counts = [w._version]
    w.add_(1)
    w[0] = 2
    w[1:].mul_(2)
    counts.append(w._version)
    w.data.add_(1)
    counts.append(w._version)
    w.detach().add_(1)
    counts.append(w._version)
    return counts, w[0]._version


@program
def what_a_function_wrote_while_making_its_result_is_not_counted(m):
    x, at = m.ones(2, 3), m.tensor([[0, 1, 1]])
    row, f = m.tensor([0]), m.nn.functional
    made = [
        m.cat([x, x]), m.stack([x, x]), m.stack([x, x], 1), f.pad(x, (1, 1)), x.scatter(0, at, x),
        x.index_put((row,), x[0]), x.scatter_add(0, at, x), x.scatter_reduce(0, at, x, "mean"),
        x.index_add(0, row, x[:1]), x.masked_scatter(x > 1, x), x.index_fill(0, row, 1.0),
        x.select_scatter(x[0], 0, 0), m.diag_embed(x), m.block_diag(x, x), x.roll(1),
        m.normal(0.0, 1.0, (2,)), m.nn.GRU(3, 3)(x)[0], m.func.vmap(lambda t: t * 2)(x),
    ]  # fmt: skip
    counts = [t._version for t in made]
    made[0][0].add_(1)
    made[3].mul_(2)
    return counts, [t._version for t in made]


@program
def a_joined_tensor_is_written_to_as_any_other(m):
    a, b = leaf(m, 3), leaf(m, 3)
    y = m.cat([a, b])
    v = y[1:4]
    v.mul_(3)
    z = v.exp()
    y.add_(1)
    (z.sum() + (y * y).sum()).backward()
    return a.grad, b.grad, y, v._version


@program
def the_words_of_the_version_error(m):
    w = leaf(m, 3)
    y = (w * w).sum()
    with m.no_grad():
        w.mul_(2)
        w.mul_(2)
    try:
        y.backward()
    except RuntimeError as error:
        return str(error)


@program
def a_view_keeps_its_gradient_on_request(m):
    x = leaf(m, 4, 3)
    y = x * 2
    v, w = y[1], x[2]
    v.retain_grad()
    w.retain_grad()
    (v * v).sum().backward(retain_graph=True)
    first = v.grad.clone()
    (v * w).sum().backward()
    return first, v.grad, w.grad, x.grad, y.grad, v.retains_grad, y.retains_grad


@program
def a_view_of_all_elements_and_its_base_keep_gradients_of_their_own(m):
    x = leaf(m, 4)
    y = x * 2
    v = y.view(4)
    y.retain_grad()
    (v * v).sum().backward()
    return v.grad, y.grad, x.grad


@program
def a_view_that_keeps_its_gradient_follows_a_write_to_its_base(m):
    x = leaf(m, 4, 3)
    y = x * 2
    v = y[1]
    v.retain_grad()
    y.mul_(3)
    (v * v).sum().backward()
    return v.grad, x.grad


@program
def backward_to_inputs_that_are_no_leaves(m):
    x = leaf(m, 4)
    y = x * 2
    v = y[1:]
    z = (y * y).sum() + (v * v * v).sum()
    z.backward(inputs=[y], retain_graph=True)
    first = y.grad.clone(), x.grad
    z.backward(inputs=[v, x])
    return first, y.grad, v.grad, x.grad, y.retains_grad


@program
def what_a_copy_replaces_gets_zeros(m):
    x, y = leaf(m, 3), leaf(m, 3, seed=1)
    z = x * 2
    z[...] = y
    (z * z).sum().backward()
    w = x * 2
    first = x.grad.clone()
    w.copy_(y * y)
    w.sum().backward()
    return first, x.grad, y.grad


@program
def the_second_derivative_of_logcumsumexp(m):
    x = leaf(m, 2, 5, dtype="float64")
    y = x.logcumsumexp(1)
    (g,) = m.autograd.grad((y * y * m.arange(-2.0, 3.0)).sum(), x, create_graph=True)
    (h,) = m.autograd.grad((g * g).sum(), x)
    return g, h


def with_zeros(m):
    return tensor_of(m, np.array([[1.5, 0, 2, 0], [0, 0, 0, 3.0], [1, 2, 3, 4], [2, 0, 5, 1]])).requires_grad_()


@program
def the_second_derivative_of_prod_with_zeros(m):
    x = with_zeros(m)
    results = []
    for y in (x.prod(1), x[0].prod(), x.prod(0), x[3].prod()):
        (g,) = m.autograd.grad((y * y + 3 * y).sum(), x, create_graph=True)
        results += [g, *m.autograd.grad((g * m.arange(16.0).reshape(4, 4)).sum(), x)]
    return results


@program
def the_second_derivative_of_cumprod_with_zeros(m):
    x = with_zeros(m)
    results = []
    for y in (x.cumprod(1), x.cumprod(0)):
        (g,) = m.autograd.grad((y * m.arange(1.0, 17).reshape(4, 4)).sum(), x, create_graph=True)
        results += [g, *m.autograd.grad((g * m.arange(16.0).reshape(4, 4)).sum(), x)]
    return results


def identity_function(m):
    class Identity(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 10

    return Identity


@program
def a_custom_function_that_returns_its_input(m):
    x = leaf(m, 3)
    y = identity_function(m).apply(x)
    (y * 2).sum().backward()
    return x.grad, y, y is x, y.requires_grad


@program
def a_custom_function_with_saved_tensors_and_constants(m):
    order = []

    class Cube(m.autograd.Function):
        @staticmethod
        def forward(ctx, x, scale):
            order.append("forward")
            ctx.save_for_backward(x)
            ctx.scale = scale
            return x * x * x * scale

        @staticmethod
        def backward(ctx, g):
            order.append("backward")
            (x,) = ctx.saved_tensors
            return 3 * x * x * g * ctx.scale, None

    x = leaf(m, 3)
    y = Cube.apply(x, 2.0)
    order.append("between")
    y.sum().backward()
    return x.grad, y, order


@program
def a_custom_function_with_two_results_of_which_one_is_used(m):
    class Split(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, a, b):
            return a * 2 + b * 3

    x = leaf(m, 3)
    a, _ = Split.apply(x)
    a.sum().backward()
    return x.grad


@program
def a_custom_function_that_marks_its_input_dirty(m):
    class AddOne(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.add_(1)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 7

    x = leaf(m, 3)
    y = x * 2
    z = AddOne.apply(y)
    z.sum().backward()
    return x.grad, y, z


def rnn_parameters(m):
    return [leaf(m, 8, 6, seed=1), leaf(m, 6, 6, seed=2), leaf(m, 6, seed=3)], leaf(m, 50, 4, 8, seed=4)


@program
def a_tanh_rnn_of_fifty_steps(m):
    (wx, wh, b), x = rnn_parameters(m)
    h = m.zeros(4, 6)
    outputs = []
    for t in range(50):
        h = m.tanh(x[t] @ (0.3 * wx) + h @ (0.3 * wh) + b)
        outputs.append(h)
    loss = m.stack(outputs).pow(2).mean() + h.sum()
    loss.backward()
    return loss, x.grad, wx.grad, wh.grad, b.grad


@program
def a_recurrence_that_writes_into_one_tensor(m):
    (wx, wh, b), x = rnn_parameters(m)
    hs = m.zeros(21, 4, 6)
    for t in range(20):
        hs[t + 1] = m.tanh(x[t] @ wx * 0.2 + hs[t].clone() @ wh * 0.2 + b)
    hs.sum().backward()
    return hs, x.grad, wx.grad, wh.grad, b.grad


@program
def a_list_of_states_stacked(m):
    w = leaf(m, 4, 4)
    hs = [m.ones(2, 4)]
    for _ in range(10):
        hs.append(m.sigmoid(hs[-1] @ w))
    out = m.stack(hs, 1)
    out[:, 3].sum().backward(retain_graph=True)
    first = w.grad.clone()
    out.mean().backward()
    return first, w.grad, out


@program
def two_losses_over_a_shared_trunk(m):
    w = leaf(m, 3, 3)
    trunk = (m.ones(2, 3) @ w).tanh()
    a, b = trunk.sum(), (trunk * trunk).sum()
    a.backward(retain_graph=True)
    first = w.grad.clone()
    b.backward()
    return first, w.grad


@program
def a_second_backward_is_refused(m):
    x = leaf(m, 3)
    y = x.exp().sum()
    y.backward()
    y.backward()


@program
def a_second_backward_over_a_shared_trunk_without_saved_values_is_allowed(m):
    x = leaf(m, 3)
    y = x + 1
    a, b = y.sum(), (y * 2).sum()
    a.backward()
    b.backward()
    return x.grad


@program
def retain_graph_allows_it(m):
    x = leaf(m, 3)
    y = x.exp().sum()
    y.backward(retain_graph=True)
    y.backward(retain_graph=True)
    return x.grad


@program
def gradients_accumulate(m):
    w = leaf(m, 3)
    kept = None
    for k in range(4):
        (w * k).sum().backward()
        kept = kept if kept is not None else w.grad
    return w.grad, kept, kept is w.grad


@program
def double_backward_of_a_chain(m):
    x = leaf(m, 4, dtype="float64")
    y = (x.tanh() * x.exp()).sum()
    (g,) = m.autograd.grad(y, x, create_graph=True)
    (h,) = m.autograd.grad((g * g).sum(), x)
    return g, h


@program
def third_derivative_of_a_power(m):
    x = leaf(m, 3)
    y = (x**4).sum()
    gs = []
    for _ in range(3):
        (g,) = m.autograd.grad(y, x, create_graph=True)
        y = g.sum()
        gs.append(g)
    return gs


@program
def a_gradient_penalty(m):
    w = leaf(m, 3, 2)
    x = leaf(m, 5, 3, seed=1)
    out = (x @ w).relu().sum()
    (g,) = m.autograd.grad(out, x, create_graph=True)
    ((g.norm(dim=1) - 1) ** 2).mean().backward()
    return w.grad, x.grad


@program
def grad_of_several_inputs_and_unused_ones(m):
    x, y, z = leaf(m, 3), leaf(m, 3, seed=1), leaf(m, 3, seed=2)
    return m.autograd.grad((x * y).sum(), [x, y, z], allow_unused=True)


@program
def grad_of_an_unused_input_is_refused(m):
    x, z = leaf(m, 3), leaf(m, 3, seed=2)
    return m.autograd.grad((x * 2).sum(), [x, z])


@program
def backward_with_a_gradient_of_its_own(m):
    x = leaf(m, 2, 3)
    (x * x).backward(m.arange(6.0).reshape(2, 3))
    return x.grad


@program
def the_gradient_of_an_intermediate_value_is_kept_on_request(m):
    x = leaf(m, 3)
    y = x * 2
    y.retain_grad()
    (y * y).sum().backward()
    return y.grad, x.grad, y.is_leaf


@program
def hooks_run_in_order_and_may_replace_the_gradient(m):
    seen = []
    x = leaf(m, 3)
    y = x * 2
    y.register_hook(lambda g: seen.append(g.clone()))
    y.register_hook(lambda g: g * 10)
    x.register_hook(lambda g: seen.append(g.clone()))
    y.sum().backward()
    return x.grad, seen


@program
def requires_grad_follows_the_rules(m):
    x = leaf(m, 3)
    with m.no_grad():
        a = x * 2
    b = x.detach()
    c = x * 2
    with m.no_grad(), m.enable_grad():
        d = x * 2
    return [t.requires_grad for t in (a, b, c, d, x > 0, x.argmax(), c.long())], m.is_grad_enabled()


@program
def broadcasting_sums_the_gradient(m):
    a, b, c = leaf(m, 3, 1), leaf(m, 1, 4, seed=1), leaf(m, 4, seed=2)
    ((a + b) * c / (b * b + 1)).sum().backward()
    return a.grad, b.grad, c.grad


@program
def gradients_have_the_dtype_and_the_layout_of_their_leaf(m):
    a = leaf(m, 3, 4)
    h = tensor_of(m, np.ones((3, 4), "float16")).requires_grad_()
    (a.t().double() @ h.double()).sum().backward()
    return a.grad, h.grad


@program
def an_index_used_twice_adds_its_gradients(m):
    x = leaf(m, 5, 2)
    x[[0, 0, 3]].pow(2).sum().backward()
    return x.grad


@program
def gradients_pass_masks_gathers_and_scatters(m):
    x, y = leaf(m, 4, 5), leaf(m, 4, 5, seed=1)
    k = m.tensor([[0, 1, 2, 3, 0], [3, 2, 1, 0, 0], [1, 1, 1, 1, 1], [2, 0, 2, 0, 2]])
    z = x.gather(0, k) * y + x.scatter(0, k[:1], y[:1]) + x.scatter_add(0, k, y)
    z = z.masked_fill(m.arange(20).reshape(4, 5) % 3 == 0, 2.0)
    (z[z.detach() > 0].sum() + z.index_select(1, m.tensor([1, 1])).sum() + m.where(k > 1, x, y).pow(2).sum()).backward()
    return x.grad, y.grad


@program
def gradients_of_reductions_with_ties(m):
    x = tensor_of(m, np.array([[1, 3, 3, 0], [2, 2, 2, 2]], "float32")).requires_grad_()
    (
        x.max() + x.amax(1).sum() * 2 + x.max(0)[0].sum() * 3 + x.min(1)[0].sum() * 5 + x.sort(1)[0][:, 1].sum() * 7
    ).backward()
    return x.grad


UNARY_AT_EDGES = """abs relu sign floor sqrt clamp01 max0 hardtanh leaky_relu softplus gelu silu elu prod var norm
    cumprod logsumexp softmax"""


def apply_named(m, name, x):
    special = {
        "clamp01": lambda: x.clamp(0, 1), "max0": lambda: m.maximum(x, m.zeros(())), "prod": lambda: x.prod(0),
        "var": lambda: x.var(),
        "norm": lambda: x.norm(), "cumprod": lambda: x.cumprod(0), "logsumexp": lambda: x.logsumexp(0),
        "softmax": lambda: x.softmax(0),
        "sqrt": lambda: x.abs().sqrt(),
    }  # fmt: skip
    if name in special:
        return special[name]()
    return getattr(x, name)() if hasattr(REF.Tensor, name) else getattr(m.nn.functional, name)(x)


@pytest.mark.parametrize("name", UNARY_AT_EDGES.split())
def test_gradient_where_the_function_has_an_edge(name):
    def run(m):
        x = tensor_of(m, np.array([-2, -1, -0.5, 0, 0.5, 1, 2, 0], "float32")).requires_grad_()
        (apply_named(m, name, x) * m.arange(1.0, 9.0)).sum().backward()
        return x.grad

    check_same(outcome(run, SUT), outcome(run, REF), name)


@program
def a_write_to_a_value_that_the_tape_needs_is_refused_or_right(m):
    x = leaf(m, 3)
    y = x * 2
    z = y.sin()
    z.mul_(3)  # sin saved its input, not its result: PyTorch answers
    z.sum().backward()
    return x.grad


@program
def in_place_chains_on_an_intermediate_value(m):
    x = leaf(m, 4)
    y = x.clone()
    for _ in range(5):
        y.mul_(0.5).add_(1).sin_()
    y[1:].sigmoid_()
    y.sum().backward()
    return x.grad, y


@program
def a_swap_of_rows_through_views(m):
    x = leaf(m, 3, 2)
    y = x * 1
    v = y[0].clone()
    y[0] = y[1]
    y[1] = v
    (y * m.arange(6.0).reshape(3, 2)).sum().backward()
    return x.grad, y


@program
def freed_parts_of_a_graph_do_not_matter_to_the_rest(m):
    x = leaf(m, 3)
    a = x.exp()
    b = (a * 2).sum()
    c = (a * 3).sum()
    del a
    b.backward(retain_graph=True)
    del b
    c.backward()
    return x.grad


@program
def a_graph_of_five_thousand_steps(m):
    x = leaf(m, 2)
    y = x
    for _ in range(5000):
        y = y * 0.999 + 0.001
    y.sum().backward()
    return x.grad, y


@program
def sgd_with_momentum_by_hand(m):
    w, v = leaf(m, 3, 2), m.zeros(3, 2)
    data = tensor_of(m, np.random.RandomState(9).randn(8, 3).astype("float32"))
    for _ in range(6):
        loss = (data @ w).pow(2).mean()
        w.grad = None
        loss.backward()
        v.mul_(0.9).add_(w.grad)
        with m.no_grad():
            w.sub_(0.1 * v)
    return w, v, loss


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_autograd(fn):
    theirs = outcome(fn, REF)
    assert isinstance(theirs, Raised) == fn.__name__.endswith("refused"), f"PyTorch {theirs!r}"
    check_same(outcome(fn, SUT), theirs, fn.__name__, strides=None)


# --- parts without elements, and copies that products keep ---------------------------------------------------------


@pytest.mark.parametrize("kinds", [("float32", "float32"), ("float32", "float64"), ("float64", "float32")])
@pytest.mark.parametrize(
    "shapes",
    [[(0,)], [(0,), (0,)], [(0,), (3,)], [(3,), (0,)], [(2, 3), (0,)], [(0,), (2, 3)], [(0, 3), (2, 3)],
     [(2, 3), (0, 3)], [(0, 3), (0, 3)], [(0,), (0, 3)], [(0, 3)]],
    ids=str,
)  # fmt: skip
def test_a_part_without_elements_has_the_gradient_that_pytorch_gives_it(shapes, kinds):
    """A part of one dimension has a constant one: no second derivative goes through it."""

    def program(m):
        leaves = [m.ones(s, dtype=getattr(m, kind)).requires_grad_() for s, kind in zip(shapes, kinds, strict=False)]
        parts = [x * 2 for x in leaves]
        whole = m.cat(parts)
        names = [type(f).__name__ for f in (whole.grad_fn, *(f for f, _ in whole.grad_fn.next_functions))]
        loss = whole.double().sum() + (whole * whole * whole).double().sum()
        first = m.autograd.grad(loss, parts, create_graph=True, allow_unused=True)
        total = sum((g.double() ** 2).sum() for g in first)
        if total.requires_grad:
            total.backward()
        return (
            names,
            [(tuple(g.shape), str(g.dtype), g.requires_grad) for g in first],
            [None if x.grad is None else x.grad.tolist() for x in leaves],
        )

    assert program(SUT) == program(REF)


PRODUCTS = [
    ((2, 1, 3), (1, 2, 3, 1)), ((2, 4, 3), (5, 1, 3, 2)), ((2, 1, 4, 3), (1, 5, 3, 2)), ((4, 3), (2, 3, 2)),
    ((3,), (2, 3, 2)), ((3,), (2, 3, 1)), ((4, 3), (2, 5, 3, 2)), ((1, 2, 4, 3), (5, 1, 3, 2)), ((2, 4, 3), (3,)),
    ((2, 1, 1, 3), (2, 5, 3, 1)), ((2, 4, 3), (3, 2)), ((2, 4, 3), (2, 3, 2)), ((5, 2, 4, 3), (2, 3, 2)),
    ((5, 2, 4, 3), (1, 3, 2)), ((0, 4, 3), (2, 0, 3, 2)), ((4, 3), (1, 3, 2)), ((1, 1, 4, 3), (1, 5, 3, 2)),
    ((4, 3), (2, 3, 1)),
]  # fmt: skip


@pytest.mark.parametrize("shapes", PRODUCTS, ids=str)
def test_a_leaf_written_after_a_product_is_refused_where_pytorch_saved_no_copy_of_it(shapes):
    """PyTorch copies a factor whose batches cannot be repeated, or its rows folded, by strides."""
    turned = {"as it is": lambda t: t, "transposed": lambda t: t.mT, "first last": lambda t: t.transpose(0, -1)}

    def program(m, turn, written):
        """A leaf that `turn` gives the sizes of a factor, for both; and the gradients after a write to one of them."""
        leaves, factors = [], []
        for sizes in shapes:
            move = turn if len(sizes) > 1 else turned["as it is"]
            leaf = m.linspace(-1, 2, math.prod(sizes)).view(move(m.empty(sizes)).shape).requires_grad_()
            leaves.append(leaf)
            factors.append(move(leaf))
        product = factors[0] @ factors[1]
        with m.no_grad():
            leaves[written].mul_(3)
        (product * product).sum().backward()
        return [leaf.grad for leaf in leaves]

    for name, turn in turned.items():
        for written in (0, 1):
            ours, theirs = (outcome(program, m, turn, written) for m in (SUT, REF))
            check_same(ours, theirs, f"{name}, factor {written} written", rtol=1e-5, atol=1e-5)


WRITTEN_PRODUCTS = """
x @ x ; torch.ones(3, 2) @ x ; x @ torch.ones(2, 3) ; torch.ones(3, 2, 2) @ x ; torch.einsum('i,i->', x, x)
torch.einsum('i,j->ij', x, x) ; torch.tensordot(x, x, 1) ; torch.inner(x, x) ; torch.outer(x, x) ; x.dot(x)
X @ torch.ones(2, 3) ; X @ X ; torch.ones(2) @ X ; torch.ones(4, 2) @ X ; torch.einsum('bij,bjk->bik', X, X)
torch.nn.functional.linear(X, torch.ones(3, 2)) ; torch.nn.functional.linear(X, torch.ones(3, 2), torch.ones(3))
"""


@pytest.mark.parametrize(
    "line", [line.strip() for line in WRITTEN_PRODUCTS.replace("\n", ";").split(";") if line.strip()]
)
def test_a_product_that_is_written_to_keeps_its_gradients_of_both_orders(line):
    """It is a view of nothing: what is written to it is its own place on the tape, which second derivatives reach."""

    def program(m):
        x = m.tensor([1.0, 2.0]).requires_grad_()
        X = (m.arange(12.0).reshape(3, 2, 2) / 10).requires_grad_()
        y = eval(line, {"torch": m, "x": x, "X": X})
        y.sigmoid_()
        y.retain_grad()
        leaf = X if "X" in line else x
        (g,) = m.autograd.grad((leaf * leaf).sum() + y.sum(), [leaf], create_graph=True)
        g.tanh().sum().backward()
        return y.grad, leaf.grad

    check_same(program(SUT), program(REF), line, rtol=1e-4, atol=1e-6)
