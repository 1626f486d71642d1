"""First and second derivatives of every differentiable row of the op tables, against differences.

The elementwise rows test themselves: their operands come from the range that the row names. Every other node needs a
program here that reaches it; a node without one fails a test. All in float64, over contiguous, strided and broadcast
operands. How wide the differences are: central ones with h = 1e-6 are right to about 1e-9 relative."""

import zlib

import brisk
import numpy as np
import pytest
from brisk import _C

ROWS, NODES = _C._tables()
STEP, TOLERANCE = 1e-6, 2e-6


def random(name, *shape, lo=-2.0, hi=2.0):
    return np.random.RandomState(zlib.crc32(name.encode())).uniform(lo, hi, shape)


# --- the check -------------------------------------------------------------------------------------------------------


def values(t):
    return np.array(t.detach().numpy())


def weighted(outputs, salt):
    """One number of all the outputs, each element with a weight of its own."""
    total = 0
    for i, out in enumerate(outputs if isinstance(outputs, (tuple, list)) else [outputs]):
        if out.dtype.is_floating_point:
            weights = brisk.tensor(random(f"{salt}{i}", *out.shape, lo=0.5, hi=1.5))
            total = total + (out * weights).sum()
    return total


def differences(f, arrays, k):
    """df/d arrays[k], f a number of arrays."""
    slope = np.zeros_like(arrays[k])
    for at in np.ndindex(arrays[k].shape):
        moved = [a.copy() for a in arrays]
        moved[k][at] += STEP
        above = f(moved)
        moved[k][at] -= 2 * STEP
        slope[at] = (above - f(moved)) / (2 * STEP)
    return slope


def gradients(fn, arrays, smooth, create_graph=False):
    leaves = [brisk.tensor(a) for a in arrays]
    for k in smooth:
        leaves[k].requires_grad_()
    total = weighted(fn(*leaves), "first")
    found = brisk.autograd.grad(
        total, [leaves[k] for k in smooth], create_graph=create_graph, allow_unused=True, materialize_grads=True
    )
    return leaves, found


def agree(ours, numeric, what):
    assert np.all(np.isfinite(ours)), f"{what}: {ours}"
    error = np.abs(ours - numeric).max(initial=0) / max(1, np.abs(numeric).max(initial=0))
    assert error < TOLERANCE, f"{what}: off by {error:.1e}\n{ours}\n{numeric}"


def check(fn, arrays, smooth=None):
    """The first and the second derivatives of fn at arrays."""
    smooth = range(len(arrays)) if smooth is None else smooth
    _, found = gradients(fn, arrays, smooth)
    for k, g in zip(smooth, found):
        numeric = differences(lambda a: weighted(fn(*map(brisk.tensor, a)), "first").item(), arrays, k)
        agree(values(g), numeric, f"first derivative by operand {k}")

    def slope(a):
        return weighted(gradients(fn, a, smooth)[1], "second").item()

    leaves, found = gradients(fn, arrays, smooth, create_graph=True)
    total = weighted(found, "second")
    wanted = [leaves[k] for k in smooth]
    second = [None] * len(wanted)
    if total.requires_grad:
        second = brisk.autograd.grad(total, wanted, allow_unused=True)
    for k, g, x in zip(smooth, second, wanted):
        ours = np.zeros(x.shape) if g is None else values(g)
        agree(ours, differences(slope, arrays, k), f"second derivative by operand {k}")


# --- elementwise rows ------------------------------------------------------------------------------------------------

# Where one range does not serve all operands.
RANGES = {
    "pow": [(0.5, 2), (-1.5, 2.5)],
    "clamp": [(-4, 4), (-2, -1), (1, 2)],
    "cut": [(-4, 4), (-2, -1), (1, 2)],
    "softplus": [(-2, 2), (0.5, 2), (20, 21)],
    "remainder": [(0.55, 0.95), (1, 1.3)],
    "fmod": [(2.2, 2.4), (1, 1.1)],
    "elu": [(-3, 3), (0.5, 2)],
    "celu": [(-3, 3), (0.5, 2)],
    "leaky_relu": [(-3, 3), (0.1, 0.5)],
    "nextafter": [(1, 2), (3, 4)],
    "abs": [(-3, 3)],
    "relu": [(-3, 3)],
    "selu": [(-3, 3)],
    "softsign": [(-3, 3)],
    "hardswish": [(-4, 4)],
    "hardsigmoid": [(-4, 4)],
}
# By these operands nobody has a derivative:
NO_SLOPE = {"zeta": {0}, "igamma": {0}, "igammac": {0}, "heaviside": {0, 1}}  # an error says so
SMOOTH = [(number, *row) for number, row in enumerate(ROWS) if row[4]]


def operands(name, arity, lo, hi, shapes):
    ranges = RANGES.get(name, [(lo, hi)] * arity)
    return [random(f"{name}{k}", *shape, lo=a, hi=b) for k, (shape, (a, b)) in enumerate(zip(shapes, ranges))]


@pytest.mark.parametrize("number,name,arity,lo,hi,smooth", SMOOTH, ids=[row[1] for row in SMOOTH])
def test_the_derivatives_of_an_elementwise_row(number, name, arity, lo, hi, smooth):
    def row(*tensors):
        if name == "where":
            tensors = (tensors[0] > 0, *tensors[1:])
        return _C._apply_row(number, list(tensors))

    def strided(*tensors):
        return row(*[t[::2].t() if t.dim() == 2 else t[1:] for t in tensors])

    plain = operands(name, arity, lo, hi, [(2, 3)] * 3)
    for k in NO_SLOPE.get(name, ()):
        with pytest.raises(RuntimeError, match=f"derivative for .*{name}"):
            gradients(row, plain, [k])
    smooth = [k for k in smooth if k not in NO_SLOPE.get(name, ())]
    if not smooth:
        return
    check(row, plain, smooth)
    check(strided, operands(name, arity, lo, hi, [(4, 2)] * 3), smooth)
    if arity > 1:
        check(row, operands(name, arity, lo, hi, [(2, 1), (3,), ()]), smooth)
        check(row, operands(name, arity, lo, hi, [(), (1, 3), (2, 1)]), smooth)


# --- the other nodes -------------------------------------------------------------------------------------------------

I3 = brisk.eye(3, dtype=brisk.float64)
K = brisk.tensor([[0, 2, 1], [1, 1, 0]])
MASK = brisk.tensor([[True, False, True], [False, True, True]])

# name -> shapes of the operands, and a program that reaches the node
PROGRAMS = {
    "cast": ("2,3", lambda x: x.to(brisk.float64, copy=True) * x),
    "view": ("2,3", lambda x: x[1, ::2] * x[0, 1:] + x.t().reshape(6)[2]),
    "expand": ("3,1", lambda x: put(brisk.zeros(3, 2, dtype=x.dtype), lambda z: z.copy_(x * x))),
    "update": ("2,3 3", lambda x, y: put(x * 1, lambda z: z.__setitem__(1, y * y))),
    "matmul": ("2,3 3,2", lambda x, y: x @ y + brisk.nn.functional.linear(x * x, y.t() * 1, y[0] * 2)),
    "sum": ("2,3", lambda x: (x * x).sum()),
    "sum_dim": ("2,3", lambda x: (x * x).sum(1)),
    "mean": ("2,3", lambda x: (x * x).mean()),
    "mean_dim": ("2,3", lambda x: (x * x).mean(0)),
    "prod": ("2,3", lambda x: x.prod()),
    "prod_dim": ("2,3", lambda x: x.prod(1)),
    "var": ("2,3", lambda x: x.var(1)),
    "std": ("2,3", lambda x: x.std(0)),
    "max": ("2,3", lambda x: (x * x).max()),
    "min": ("2,3", lambda x: (x * x).min()),
    "amax": ("2,3", lambda x: (x * x).amax(1)),
    "amin": ("2,3", lambda x: (x * x).amin(0)),
    "norm": ("2,3", lambda x: [x.norm(p, 1) for p in (0.5, 1, 2, 3, float("inf"))]),
    "logsumexp": ("2,3", lambda x: x.logsumexp(1)),
    "median": ("2,3", lambda x: (x * x).median()),
    "softmax": ("2,3", lambda x: x.softmax(1)),
    "standardise": ("2,5", lambda x: brisk.nn.functional.layer_norm(x, (5,))),
    "standardise_back": (
        "2,5 2,5",
        lambda x, y: brisk.autograd.grad(brisk.nn.functional.layer_norm(x, (5,)), x, y, create_graph=True),
    ),
    "unit_rows": ("2,5", lambda x: brisk.nn.functional.rms_norm(x, (5,), eps=0.1)),
    "unit_rows_back": (
        "2,5 2,5",
        lambda x, y: brisk.autograd.grad(brisk.nn.functional.rms_norm(x, (5,), eps=0.1), x, y, create_graph=True),
    ),
    "softmax_back": ("2,3 2,3", lambda x, y: brisk.autograd.grad(x.softmax(1), x, y, create_graph=True)),
    "log_softmax": ("2,3", lambda x: x.log_softmax(0)),
    "binary_cross_entropy": (
        "2,3 2,3",
        lambda x, y: brisk.nn.functional.binary_cross_entropy(x.sigmoid(), y.sigmoid(), reduction="none"),
    ),
    "cumsum": ("2,3", lambda x: (x * x).cumsum(1)),
    "cumprod": ("2,3", lambda x: x.cumprod(1)),
    "logcumsumexp": ("2,3", lambda x: x.logcumsumexp(1)),
    "gather": ("2,3", lambda x: (x * x).gather(1, K)),
    "scatter": ("2,3 2,3", lambda x, y: (x * x).scatter(1, brisk.tensor([[0, 2, 1], [2, 1, 0]]), y * y)),
    "scatter_add": ("2,3 2,3", lambda x, y: (x * x).scatter_add(1, K, y * y)),
    "scatter_reduce": ("2,3 2,3", lambda x, y: [x.scatter_reduce(1, K, y, how) for how in ("prod", "amax", "amin")]),
    "index_get": ("2,3", lambda x: (x * x)[:, [0, 0, 2]]),
    "index_select": ("2,3", lambda x: (x * x).index_select(1, brisk.tensor([0, 0, 2]))),
    "embedding": ("3,2", lambda x: _C.embedding(x * x, brisk.tensor([2, 0, 2]))),
    "take": ("2,3", lambda x: (x * x).take(brisk.tensor([5, 0, 0]))),
    "index_put": ("2,3 2", lambda x, y: put(x * x, lambda z: z.__setitem__((slice(None), [2]), (y * y)[:, None]))),
    "index_add": ("2,3 2,2", lambda x, y: (x * x).index_add(1, brisk.tensor([0, 0]), y * y)),
    "index_copy": ("2,3 2,2", lambda x, y: (x * x).index_copy(1, brisk.tensor([0, 2]), y * y)),
    "index_fill": ("2,3 ()", lambda x, y: (x * x).index_fill(1, brisk.tensor([0, 2]), y * y)),
    "put": ("2,3 2", lambda x, y: put(x * x, lambda z: z.put_(brisk.tensor([0, 4]), y * y))),
    "mask_select": ("2,3", lambda x: (x * x).masked_select(MASK)),
    "mask_scatter": ("2,3 6", lambda x, y: (x * x).masked_scatter(MASK, y * y)),
    "accumulate": ("5", lambda x: slope_of((x * x).as_strided((3, 3), (1, 1)).pow(3), x)),
    "flip": ("2,3", lambda x: (x * x).flip(1)),
    "tril": ("3,3", lambda x: (x * x).tril()),
    "triu": ("3,3", lambda x: (x * x).triu(1)),
    "pick": ("2,3", lambda x: (x * x).quantile(0.4, 1)),
    "pick_max": ("2,3", lambda x: (x * x).max(1)[0]),
    "pick_min": ("2,3", lambda x: (x * x).min(1)[0]),
    "pick_cummax": ("2,3", lambda x: (x * x).cummax(1)[0]),
    "pick_cummin": ("2,3", lambda x: (x * x).cummin(1)[0]),
    "pick_sort": ("2,3", lambda x: (x * x).sort(1)[0]),
    "pick_topk": ("2,3", lambda x: (x * x).topk(2, 1)[0]),
    "pick_kthvalue": ("2,3", lambda x: (x * x).kthvalue(2, 1)[0]),
    "pick_median": ("2,3", lambda x: (x * x).median(1)[0]),
    "pick_nanmedian": ("2,3", lambda x: (x * x).nanmedian(1)[0]),
    "pick_mode": ("2,3", lambda x: (x * x).mode(1)[0]),
    "cholesky": ("3,3", lambda x: brisk.linalg.cholesky(x @ x.mT + 2 * I3)),
    "solve_triangular": (
        "3,3 3,3",
        lambda t, b: [
            brisk.linalg.solve_triangular(t + I3, b, upper=upper, left=left, unitriangular=unit)
            for upper in (False, True)
            for left in (False, True)
            for unit in (False, True)
        ],
    ),
    "lu_solve": ("3,3 3,3", lambda a, b: [brisk.linalg.solve(a + 2 * I3, b, left=left) for left in (False, True)]),
    "inverse": ("3,3", lambda x: (x + 2 * I3).inverse()),
    "det": ("3,3", lambda x: x.det()),
    "signdet": ("3,3", lambda x: (x + 2 * I3).slogdet()[0] + x.square().sum()),
    "logabsdet": ("3,3", lambda x: (x + 2 * I3).slogdet()[1]),
    "lu_factor": ("3,3", lambda x: brisk.linalg.lu_factor(x + I3)[0]),
    "qr_r": ("3,3", lambda x: brisk.linalg.qr(x + 2 * I3)[1]),
    "qr_q": ("4,3", lambda x: brisk.linalg.qr(x + brisk.eye(4, dtype=x.dtype)[:, :3] if x.shape[0] == 4 else x)),
    "place": ("2,3", lambda x: slope_of((x * x).max(1)[0].pow(2), x)),
}


def slope_of(y, x):
    return brisk.autograd.grad(y.sum(), x, create_graph=True)[0]


def put(z, write):
    write(z)
    return z


def rows_under(outputs):
    """The rows that are on the tape of the outputs."""
    seen, found = set(), set()
    work = [out.grad_fn for out in (outputs if isinstance(outputs, (tuple, list)) else [outputs])]
    while work:
        fn = work.pop()
        if fn is not None and fn not in seen:
            seen.add(fn)
            found.add(fn._row)
            work += [to for to, _ in fn.next_functions]
    return found


def inputs_of(name):
    shapes = [tuple(int(n) for n in s.split(",")) if s != "()" else () for s in PROGRAMS[name][0].split()]
    return [random(f"{name}{k}", *shape, lo=0.4, hi=2) for k, shape in enumerate(shapes)]


REFUSES = {"qr_other"}  # its rule says that there is no gradient


def test_every_node_with_a_gradient_has_a_program_here():
    assert set(NODES) - REFUSES == set(PROGRAMS), set(NODES) ^ set(PROGRAMS)


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_the_program_of_a_node_reaches_it(name):
    leaves = [brisk.tensor(a).requires_grad_() for a in inputs_of(name)]
    if name != "expand":  # an operand that is repeated, which the tape does not show
        assert name in rows_under(PROGRAMS[name][1](*leaves))


def tracked(fn):
    """fn over operands that are on the tape in any case: the programs may ask for gradients themselves."""
    return lambda *tensors: fn(*[t if t.requires_grad else t.clone().requires_grad_() for t in tensors])


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_the_derivatives_of_a_node(name):
    program = tracked(PROGRAMS[name][1])
    arrays = inputs_of(name)
    check(program, arrays)
    turned = [a.T.copy() for a in arrays]
    check(lambda *t: program(*[x.t() if x.dim() == 2 else x for x in t]), turned)
    wider = [np.repeat(a, 2, axis=0) if a.ndim else a for a in arrays]
    check(lambda *t: program(*[x[::2] if x.dim() else x for x in t]), wider)
