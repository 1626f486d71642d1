"""Functions of several results (split, unbind, aminmax, qr, ...) are one function each, as in PyTorch."""

import pytest

from tests.torch.compare import REF, SUT, check_same, outcome
from tests.torch.test_calls_of_functions import results_of, saved

VIEWS = """y.split(2); y.split(4); y.split(6); y.split([1,2,3]); y.split([2,0,4]); y.split([0,0,6]); y.split([1,3],1)
y.split(3,1); y.chunk(2,1); y.chunk(4); y.unbind(); y.unbind(1); list(y); y.t().split(2); y.t().split([3,1])
y.t().unbind(); y[None].expand(2,6,4).split(3,1); y[None].expand(2,6,4).unbind(); x.split(2); x.unbind(1); list(x)
y[:0].split([0,0]); y[:,:0].split([2,0,4]); y[:,:0].split(2); y[1:4].split(1); y[::2,1:].unbind(1)
T.unsafe_split(y,2); T.unsafe_chunk(y,3); T.unsafe_split_with_sizes(y,[2,4]); y.view(2,3,4).split(2,1)"""
SLICES = "y.tensor_split(3); y.hsplit(2); y.vsplit([1,3]); y.tensor_split([2,4],0)"
OTHERS = """T.aminmax(y); T.aminmax(y,dim=1); T.aminmax(y,dim=0,keepdim=True); T.var_mean(y); T.var_mean(y,1)
T.std_mean(y,0); T.std_mean(y); T.linalg.qr(sq); T.qr(sq); T.linalg.lu(sq)[1:]; T.split_copy(y,2); T.unbind_copy(y)
T.split_with_sizes_copy(y,[1,5])"""


def rows(text):
    return [e.strip() for e in text.replace("\n", ";").split(";")]


def started(m, expression):
    x = (m.arange(24.0).reshape(6, 4) * 0.1).requires_grad_()
    y = x * 1
    return x, list(eval(expression, {"T": m, "x": x, "y": y, "sq": y.sin()[:4] + 2 * m.eye(4)}))


def looked_at(m, expression):
    _, results = started(m, expression)
    first = results[0].grad_fn
    readers = [(r * 1).grad_fn.next_functions[0] for r in results]
    edges = [m.autograd.graph.get_gradient_edge(r)[:2] for r in results]
    return (
        [r.grad_fn is first for r in results],
        [(f is first, number) for f, number in readers + edges],
        [f.name() for f, _ in first.next_functions],
        first.name(),
    )


@pytest.mark.parametrize("expression", rows(VIEWS) + rows(OTHERS) + rows(SLICES))
def test_results_of_one_call_have_one_function(expression):
    assert looked_at(SUT, expression) == looked_at(REF, expression)


def test_results_of_two_calls_have_two_functions():
    def program(m):
        x = m.ones(4, 2, requires_grad=True)
        y = x * 1
        pairs = [(y.split(2), y.split(2)), (y.unbind(), list(y)), (m.aminmax(y), m.aminmax(y))]
        return [[a.grad_fn is b.grad_fn for a, b in zip(*pair)] for pair in pairs]

    assert program(SUT) == program(REF)


def calls(m, expression):
    _, results = started(m, expression)
    fn, count = results[0].grad_fn, len(results)
    ones = [m.ones(r.shape) * (k + 1) for k, r in enumerate(results)]
    one_each = [fn(*[ones[k] if k == at else None for k in range(count)]) for at in range(count)]
    del results[1:]
    return one_each, fn(*[None] * count), results_of(fn)


@pytest.mark.parametrize("expression", rows(VIEWS) + rows(OTHERS))
def test_a_call_takes_a_gradient_for_each_result(expression):
    ours, theirs = (outcome(calls, m, expression) for m in (SUT, REF))
    check_same(ours, theirs, expression, rtol=1e-4, atol=1e-5, strides=False)


@pytest.mark.parametrize("expression", rows(VIEWS)[:-1])
def test_a_function_of_several_views_shows_what_it_has_saved(expression):
    ours, theirs = (saved(started(m, expression)[1][-1].grad_fn) for m in (SUT, REF))
    if len(started(REF, expression)[1]) == 1:  # the dimension that one part of all is along tells nothing
        ours.pop("_saved_dim"), theirs.pop("_saved_dim")
    assert ours == theirs


HOOKED = "y.split(2); y.split([1,2,3]); y.unbind(1); list(x); x.split(4); x.split([1,5]); y.t().split(2)"


def hooked(m, expression, by, used, factor):
    x, results = started(m, expression)
    log = []
    results[0].register_hook(lambda g: log.append(("tensor", g)))

    def before(outputs):
        log.append(("before", outputs))
        return tuple(None if g is None else g * factor for g in outputs) if factor != 1 else None

    def after(inputs, outputs):
        log.append(("after", inputs, outputs))
        return tuple(g * factor for g in inputs) if factor != 1 else None

    fn = results[by].grad_fn
    fn.register_hook(after)
    fn.register_prehook(before)
    del fn
    loss = sum((results[k] * (k + 1)).sum() for k in used if k < len(results))
    for _ in range(2):
        loss.backward(retain_graph=True)
    return log, x.grad


@pytest.mark.parametrize("factor", [1, 2])
@pytest.mark.parametrize("used", [(0,), (1,), (0, 1), (1, 0, 2)], ids=str)
@pytest.mark.parametrize("by", [0, 1])
@pytest.mark.parametrize("expression", rows(HOOKED) + rows(OTHERS))
def test_hooks_run_once_and_see_the_gradients_of_all_results(expression, by, used, factor):
    ours, theirs = (outcome(hooked, m, expression, by, used, factor) for m in (SUT, REF))
    check_same(ours, theirs, expression, rtol=1e-4, atol=1e-5, strides=False)


def test_a_hook_stays_when_the_result_it_was_put_at_by_is_gone():
    def program(m):
        x, log = m.ones(4, 2, requires_grad=True), []
        a, b = (x * 1).split(2)
        b.grad_fn.register_hook(lambda inputs, outputs: log.append([g is None for g in outputs]))
        assert a.grad_fn is not None
        loss = a.sum()
        del a, b
        loss.backward()
        return log

    assert program(SUT) == program(REF)


def test_a_hook_that_was_removed_does_not_run():
    def program(m):
        x, log = m.ones(4, 2, requires_grad=True), []
        a, b = (x * 1).split(2)
        a.grad_fn.register_hook(lambda inputs, outputs: log.append("after")).remove()
        handle = b.grad_fn.register_prehook(lambda outputs: log.append("before"))
        loss = (a * 2 + b).sum()
        loss.backward(retain_graph=True)
        handle.remove()
        loss.backward()
        return log, x.grad.tolist()

    assert program(SUT) == program(REF)


def test_gradients_by_the_edges_of_one_function():
    def program(m):
        x = m.arange(6.0).reshape(3, 2).requires_grad_()
        a, b, c = (x * 1).unbind()
        loss = (a * b + c * 3).sum()
        edges = [m.autograd.graph.get_gradient_edge(t) for t in (a, b, c)]
        return [g.tolist() for g in m.autograd.grad(loss, edges)]

    assert program(SUT) == program(REF)


def graph(fn):
    """Every function under fn once, by its number, with the numbers of where it leads to."""
    numbers, order, work = {}, [], [fn]
    while work:
        fn = work.pop()
        if fn is not None and fn not in numbers:
            numbers[fn] = len(numbers)
            order.append(fn)
            work += [to for to, _ in reversed(fn.next_functions)]
    return [(fn.name(), [(numbers.get(to), number) for to, number in fn.next_functions]) for fn in order]


PROGRAMS = """T.stack([p.sum() for p in y.split(2)]); T.stack([p.sum() for p in y]); T.stack(y.unbind())
T.cat(y.split([1,2,3])); T.add(*T.aminmax(y)); T.add(*T.var_mean(y)); T.add(*y.chunk(2)); T.cat(T.linalg.qr(sq))
T.add(*T.linalg.lu(sq)[1:]); T.nn.MultiheadAttention(4,2)(z,z,z)[0]; T.nn.MultiheadAttention(4,2)(z,w,w)[0]
T.nn.MultiheadAttention(4,2)(z,z,z,need_weights=False)[0]
T.nn.MultiheadAttention(4,2,bias=False,batch_first=True)(z,z,z)[0]; T.nn.TransformerEncoderLayer(4,2,8,0.)(z)"""


@pytest.mark.parametrize("expression", rows(PROGRAMS))
def test_graphs_have_each_function_once(expression):
    def program(m):
        y = m.linspace(-1.0, 1.0, 24).reshape(6, 4).requires_grad_() * 1
        names = {"T": m, "y": y, "z": y.view(2, 3, 4), "w": y.view(2, 3, 4) * 2, "sq": y.sin()[:4] + 2 * m.eye(4)}
        return graph(eval(expression, names).grad_fn)

    assert program(SUT) == program(REF)
