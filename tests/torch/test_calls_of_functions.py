"""Calling gradient functions (`y.grad_fn(g)`), and hooks that see the gradients of their arguments, against PyTorch."""

import math

import pytest

from tests.torch.compare import REF, SUT, Raised, check_same, outcome
from tests.torch.tape_rows import LIKE_PYTORCH, TREES_LIKE_PYTORCH
from tests.torch.test_tape_names import written

# PyTorch's take a gradient for each of several results there, or it is a custom function's, or there is none
NOT_CALLED = ("svd", "use_reentrant=True", "zeta(x,")
ROUNDED_AWAY = ("T.corrcoef(x[0])",)  # nothing but roundings is left of a gradient
# where the functions inside of one of ours compute something, the first of them computes all of it; values near a pole
COMPUTED_ELSEWHERE = (
    "softsign", "rms_norm", "RMSNorm", "pairwise_distance", "pinv", "cross(x,x", "corrcoef", "vander", "circular",
    "CircularPad", "ndtr", "cholesky_solve",
)  # fmt: skip
# arguments meet further down than at the first function that computes something: these refuse a call
AT_ONCE = (
    "scaled_dot_product_attention", "RNNCell(", "GRUCell(", "LSTMCell(", "gru_cell(", "lstm_cell(", "nn.LSTM(",
    "MultiheadAttention", "TransformerEncoder", "TransformerDecoder", "F.linear(R(2,2,3).transpose(0,1)",
)  # fmt: skip


def scope(m):
    return {
        "T": m,
        "F": m.nn.functional,
        "x": (m.arange(9.0).reshape(3, 3) * 0.3 - 1.1 + m.eye(3)).requires_grad_(),
        "z": (m.arange(9.0).reshape(3, 3).flip(0) * 0.2 + 0.3).requires_grad_(),
        "i": m.tensor([0, 1]),
        "i3": m.tensor([0, 1, 2]),
        "ii": m.tensor([[0, 1, 2], [2, 1, 0]]),
        "m": m.tensor([[True, False, True]] * 3),
        "s": m.tensor(2.0, requires_grad=True),
        "R": lambda *sizes: (m.arange(float(math.prod(sizes))).reshape(sizes) * 0.3 - 1.1).requires_grad_(),
        "SET": written,
    }


def lines():
    """The lines of the tables, and once more with other tensors in the places of later arguments."""
    called = [e for e in LIKE_PYTORCH + TREES_LIKE_PYTORCH if not any(name in e for name in NOT_CALLED + AT_ONCE)]
    return list(dict.fromkeys(called + [e.replace(",x", ",z") for e in called]))


def started(m, expression):
    m.manual_seed(0)
    names = scope(m)
    y = eval(expression, names)
    return names, y, (m.arange(float(y.numel())).reshape(y.shape) * 0.1 + 0.5).to(y.dtype)


def results_of(fn):
    """How many gradients a function takes."""
    return int(str(outcome(fn)).split("expected ")[1].split()[0]) if "AccumulateGrad" not in fn.name() else 1


def called(fn, g, number=0):
    """What a function gives for the gradient of one result, as a tuple."""
    results = results_of(fn)
    answer = fn(*[g if k == number or results == 1 else None for k in range(results)])
    return answer if isinstance(answer, tuple) else (answer,)


def edge_of(m, y):
    return m.autograd.graph.get_gradient_edge(y)[:2]


def call_chain(fn, g, number=0):
    work = [(fn, number, g)]
    while work:
        fn, number, g = work.pop()
        if fn is None or g is None:
            continue
        answers = called(fn, g, number)
        assert len(answers) == len(fn.next_functions)
        work += [(*edge, answer) for edge, answer in zip(fn.next_functions, answers)]


def are_close(expression, a, b):
    short = "half" in expression or "float16" in expression
    return SUT.allclose(a, b, rtol=1e-2 if short else 1e-4, atol=1e-2 if short else 1e-5, equal_nan=True)


def taken(names):
    gradients = [names[leaf].grad for leaf in "xzs"]
    for leaf in "xzs":
        names[leaf].grad = None
    return [g if g is None or g.abs().sum() != 0 else None for g in gradients]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("expression", [e for e in lines() if e not in ROUNDED_AWAY])
def test_calls_from_a_result_to_the_leaves_give_the_gradients_of_backward(expression):
    names, y, g = started(SUT, expression)
    with SUT.no_grad():
        call_chain(y.grad_fn, g, edge_of(SUT, y)[1])
    by_hand = taken(names)
    y.backward(g)
    for ours, theirs in zip(by_hand, taken(names)):
        assert (ours is None) == (theirs is None)
        assert ours is None or are_close(expression, ours, theirs)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("expression", [e for e in lines() if not any(name in e for name in COMPUTED_ELSEWHERE)])
def test_a_call_gives_the_gradients_of_pytorch(expression):
    (_, y, g), (_, wanted, h) = started(SUT, expression), started(REF, expression)
    try:
        theirs = [None if t is None else t.clone() for t in called(wanted.grad_fn, h, edge_of(REF, wanted)[1])]
    except (TypeError, RuntimeError):  # it has several results, or leaves some of them undefined
        return
    ours = called(y.grad_fn, g, edge_of(SUT, y)[1])
    theirs = [t if fn else None for t, (fn, _) in zip(theirs, wanted.grad_fn.next_functions)]  # cat's go nowhere, too
    assert [t is None for t in ours] == [t is None for t in theirs]
    for got, want in zip(ours, theirs):
        if got is not None and got.shape == want.shape:  # operands that were repeated are added up already
            expected = SUT.tensor(want.tolist(), dtype=got.dtype).reshape(got.shape)
            assert are_close(expression, got.detach(), expected)


@pytest.mark.parametrize("expression", [
    "F.scaled_dot_product_attention(x[None],x[None],x[None])", "T.nn.GRUCell(3,2)(x)", "T.nn.LSTM(3,2)(x)[0]",
])  # fmt: skip
def test_a_call_where_arguments_meet_further_down_is_refused(expression):
    _, y, g = started(SUT, expression)
    with pytest.raises(RuntimeError, match="can't be called"):
        call_chain(y.grad_fn, g)


# --- programs


PROGRAMS = []


def program(fn):
    PROGRAMS.append(fn)
    return fn


def pair(m):
    return m.tensor([1.0, 2.0, 3.0], requires_grad=True), m.tensor([4.0, 5.0, 6.0], requires_grad=True)


@program
def a_call_gives_a_tensor_or_a_tuple_with_none_where_no_gradient_goes(m):
    x, w = pair(m)
    g = m.ones(3)
    return x.exp().grad_fn(g), (x * w).grad_fn(g), (x * 2).grad_fn(g), (x * w.detach()).grad_fn(g), (x * x).grad_fn(g)


@program
def a_call_without_a_gradient_gives_none(m):
    x, w = pair(m)
    return (x * w).grad_fn(None), x.exp().grad_fn(None)


@program
def a_call_is_on_the_tape_where_gradients_are_enabled(m):
    x, _ = pair(m)
    y = x.exp()
    g = y.grad_fn(m.ones(3))
    with m.no_grad():
        off = y.grad_fn(m.ones(3))
    return g.requires_grad, off.requires_grad, m.autograd.grad(g.sum(), x)[0]


@program
def a_call_frees_nothing_and_after_a_backward_the_values_are_gone(m):
    x, _ = pair(m)
    y, z = x.exp(), x + 1
    y.grad_fn(m.ones(3))
    y.grad_fn(m.ones(3))
    (y + z).sum().backward()
    answers = x.grad, z.grad_fn(m.ones(3))
    return answers, str(outcome(lambda: y.grad_fn(m.ones(3))))


@program
def a_leaf_that_is_called_takes_the_gradient(m):
    x, w = pair(m)
    accumulate = (x * w).grad_fn.next_functions[0][0]
    x.register_hook(lambda g: g * 100)
    log = []
    x.register_post_accumulate_grad_hook(lambda p: log.append(p.grad.tolist()))
    answers = accumulate(m.ones(3)), accumulate(m.ones(3)), accumulate(None)
    before = x.grad.clone()
    x.grad = None
    with_tape = accumulate(w * 2), type(x.grad.grad_fn).__name__
    return answers, before, log, with_tape


@program
def a_leaf_that_is_called_takes_no_gradient_of_other_sizes(m):
    x, w = pair(m)
    accumulate = (x * w).grad_fn.next_functions[0][0]
    refused = [str(outcome(accumulate, m.ones(sizes))) for sizes in ((2,), (2, 3))]
    accumulate(m.ones(()))
    return refused, x.grad


@program
def hooks_do_not_run_in_a_call(m):
    x, w = pair(m)
    y = x * w
    log = []
    y.register_hook(lambda g: log.append(1))
    y.retain_grad()
    y.grad_fn.register_prehook(lambda gs: log.append(2))
    y.grad_fn.register_hook(lambda gi, go: log.append(3))
    return y.grad_fn(m.ones(3)), log, y.grad


@program
def a_function_of_the_users_is_not_called_but_applied(m):
    class Product(m.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a * b

        @staticmethod
        def backward(ctx, g):
            a, b = ctx.saved_tensors
            return g * b, g * a

    x, w = pair(m)
    y = Product.apply(x, w)
    return str(outcome(lambda: y.grad_fn(m.ones(3)))), y.grad_fn.apply(m.ones(3))


@program
def an_index_is_called_step_by_step(m):
    x = m.arange(24.0).reshape(2, 3, 4).requires_grad_()
    answers = []
    for index in [(0, slice(1, None)), (1, slice(0, 3, 2), 0), (slice(None), 2, slice(1, 3)), (1, 2, 3)]:
        fn, g = x[index].grad_fn, m.ones(x[index].shape)
        while fn.name() != "torch::autograd::AccumulateGrad":
            g = fn(g)
            answers.append(g)
            fn = fn.next_functions[0][0]
    return answers


CALLS = ["fn()", "fn(g, g)", "fn(1.0)", "fn(grad=g)", "fn(torch.ones(2))"]


@program
def calls_that_pytorch_refuses_are_refused_in_its_words(m):
    x, w = pair(m)
    names = {"fn": (x * w).grad_fn, "g": m.ones(3), "torch": m}
    return [str(outcome(eval, call, names)) for call in CALLS]


def network_by_hand(m, by_hand):
    m.manual_seed(0)
    net = m.nn.Sequential(m.nn.Linear(3, 5), m.nn.GELU(), m.nn.LayerNorm(5), m.nn.Linear(5, 2))
    with m.no_grad():
        for p in net.parameters():
            p.copy_(m.linspace(-1.0, 1.0, p.numel()).reshape(p.shape))
    loss = m.nn.functional.cross_entropy(net(m.linspace(-2.0, 2.0, 12).reshape(4, 3)), m.tensor([0, 1, 1, 0]))
    with m.no_grad():
        call_chain(loss.grad_fn, m.tensor(1.0)) if by_hand else loss.backward()
    return [p.grad for p in net.parameters()]


def test_a_network_that_is_gone_through_by_hand_has_the_gradients_of_backward():
    for ours, theirs in zip(network_by_hand(SUT, True), network_by_hand(REF, False)):
        check_same(ours, theirs, "a parameter", rtol=1e-4, atol=1e-5)


@program
def the_gradient_of_a_bent_line_can_be_differentiated(m):
    x = m.linspace(-1, 1, 4).requires_grad_()
    net = m.nn.Linear(4, 2)
    with m.no_grad():
        net.weight.copy_(m.linspace(-1, 1, 8).reshape(2, 4))
    (g,) = m.autograd.grad(m.nn.functional.leaky_relu(net(x), 0.2).sum(), x, create_graph=True)
    g.square().sum().backward()
    (alone,) = m.autograd.grad(m.nn.functional.leaky_relu(x).sum(), x, create_graph=True)
    return x.grad, net.weight.grad, net.bias.grad, alone, m.autograd.grad(alone.sum(), x)


@program
def a_dual_tensor_gets_no_second_tangent(m):
    forward = m.autograd.forward_ad
    with forward.dual_level():
        dual = forward.make_dual(m.ones(2), m.ones(2))
        weight = forward.make_dual(m.ones(2, requires_grad=True), m.ones(2))
        refused = [str(outcome(forward.make_dual, t, m.ones(2))) for t in (dual, dual * 2)]
        return refused, forward.unpack_dual(weight * 2).tangent.tolist()


@pytest.mark.parametrize("body", PROGRAMS, ids=[p.__name__ for p in PROGRAMS])
def test_programs_that_call_functions(body):
    check_same(outcome(body, SUT), outcome(body, REF), body.__name__)


# --- hooks

HOOKED = [
    "F.cross_entropy(x,i3)",
    "F.mse_loss(x,z)",
    "F.mse_loss(x,z.detach())",
    "F.binary_cross_entropy_with_logits(x,z.sigmoid())",
    "F.huber_loss(z,x)",
    "F.linear(x,z)",
    "x.masked_fill(m,s)",
    "F.conv1d(x[None],z[:,:,None],z[0])",
    "F.layer_norm(x,(3,),z[0],z[1])",
    "T.cat([x,z])",
    "T.cat([x,x])",
    "T.stack([x,z,x])",
    "T.dot(x[0],x[0])",
    "T.addmm(x,x,z)",
    "T.addcmul(x,x,z)",
    "T.lerp(x,z,0.3)",
    "(x*1).mul_(z)",
    "[y:=x*1, y[0].mul_(z[0]), y][-1]",
    "[y:=x*1, y[0].add_(y[1]), y][-1]",
    "SET(x*1,0,z[0])",
    "F.max_pool2d(x[None],2)",
    "x.clamp(-0.5,0.5)",
    "x.roll(1,0)",
    "x[0,1:]",
    "T.softmax(x,-1)",
]


def hooked(m, expression, factor):
    names = scope(m)
    y = eval(expression, names)
    log = []

    def after(inputs, outputs):
        log.append((inputs, outputs))
        return tuple(g if g is None else g * factor for g in inputs) if factor != 1 else None

    y.grad_fn.register_prehook(lambda outputs: log.append(outputs))
    y.grad_fn.register_hook(after)
    y.backward(m.ones(y.shape), retain_graph=True)
    return log, [names[leaf].grad for leaf in "xzs"]


@pytest.mark.parametrize("factor", [1, 3])
@pytest.mark.parametrize("expression", HOOKED)
def test_hooks_of_a_function_of_several_records_see_the_gradients_of_its_arguments(expression, factor):
    ours, theirs = (outcome(hooked, m, expression, factor) for m in (SUT, REF))
    assert not isinstance(theirs, Raised)
    check_same(ours, theirs, expression, rtol=1e-4, atol=1e-6, strides=False)


@pytest.mark.parametrize("asked", ["x", "z"])
@pytest.mark.parametrize("expression", ["x*z", "x+z", "F.mse_loss(x,z)", "T.cat([x,z])", "T.where(m,x,z)", "x@z"])
def test_hooks_see_no_gradients_that_the_pass_does_not_want(expression, asked):
    def program(m):
        names, log = scope(m), []
        y = eval(expression, names)
        y.grad_fn.register_hook(lambda inputs, outputs: log.append([g is None for g in inputs]))
        m.autograd.grad(y.sum(), names[asked])
        return log

    assert program(SUT) == program(REF)


# --- set_

SETS = [
    "[y:=T.zeros(3), y.set_(w), y][-1]",
    "[y:=T.zeros(3), y.set_(w*2), y][-1]",
    "[y:=w*2, y.set_(T.ones(2)), y][-1]",
    "[y:=w*2, y.set_(), y][-1]",
    "[y:=w*2, y.set_(T.ones(4).untyped_storage(),0,(2,),(1,)), y][-1]",
]


@pytest.mark.parametrize("expression", SETS)
def test_what_set_gave_other_memory_is_on_the_tape_and_refuses_a_backward(expression):
    def program(m):
        y = eval(expression, {"T": m, "w": m.ones(3, requires_grad=True)})
        there = y.tolist(), y.requires_grad, y.grad_fn.name(), [f and f.name() for f, _ in y.grad_fn.next_functions]
        return there, str(outcome(lambda: y.sum().backward()))

    assert program(SUT) == program(REF)


# --- what a function has saved

SAVED = """x+z; x-2; x.sub(z,alpha=3); x.add(z,alpha=2); x*z; x/z; x**2; x**3; x**2.5; x**z; 2**x; x.exp(); x.sqrt()
x.sum(); x.sum(1); x.sum((0,1),keepdim=True); x.mean(); x.mean(1); x.mean(0,keepdim=True); x.max()
x.max(1)[0]; x.amax(0); x.prod()
x.prod(1); x.norm(); x.norm(dim=1); x.logsumexp(1); x.cumsum(1); x.cumprod(0); x.sort(1)[0]; x.topk(2,1)[0]
x.view(-1); x.unsqueeze(1); x[None].squeeze(); x.expand(2,3,3); x[0]; x[:,1]; x[1:]; x[:,::2]; x.select(1,2)
x.narrow(0,1,1)
x.flip(0); x.masked_fill(m,0.); T.where(m,x,z); x.clamp(0.1,0.5); x.clamp(min=0.2); x.clamp(max=2); x.tril(); x.triu(1)
x.softmax(1); x.log_softmax(0); F.relu(x); F.leaky_relu(x,0.2); F.softplus(x); F.silu(x); T.lerp(x,z,0.3); T.atan2(x,z)
T.maximum(x,z); T.bmm(x[None],z[None]); x.t(); -x; x.clone(); x.sigmoid(); x[1,2:]; x[:2,None,1]; x.clamp_min(0.2)
x.clamp_max(2); F.elu(x,1.5); F.hardtanh(x,-0.5,2); F.relu6(x)"""


def saved(fn):
    found = {name: getattr(fn, name) for name in dir(fn) if name.startswith("_saved")}
    return {name: v.detach() if hasattr(v, "detach") else v for name, v in sorted(found.items())}


@pytest.mark.parametrize("expression", [e.strip() for e in SAVED.replace("\n", ";").split(";")])
def test_a_function_shows_what_it_has_saved_numbers_too(expression):
    ours, theirs = (saved(eval(expression, scope(m)).grad_fn) for m in (SUT, REF))
    assert list(ours) == list(theirs)
    for name, value in theirs.items():
        check_same(ours[name], value, f"{expression}: {name}")


def chain(fn):
    """fn, the first that it leads to, and so on."""
    while fn is not None and fn.next_functions:
        yield fn
        fn = fn.next_functions[0][0]


INDICES = ["x[1:,0]", "x[0,1:]", "x[None,1:,2]", "x[::2,None,1]", "x[:1][:,1]", "x.unfold(0,2,1)[1,2,0]"]


@pytest.mark.parametrize("expression", INDICES)
def test_every_step_of_an_index_shows_what_it_was_called_with(expression):
    ours, theirs = (
        [(fn.name(), saved(fn)) for fn in chain(eval(expression, scope(m)).grad_fn) if "Unfold" not in fn.name()]
        for m in (SUT, REF)
    )
    assert ours == theirs
