"""Every loss is PyTorch's: values, gradients, errors and the texts of the modules, for every reduction."""

import re
import warnings

import numpy as np
import pytest

from tests.torch.compare import REF, SUT, Raised, check_same, outcome, tensor_of

# Names of the inputs: x, y, z scores (4, 5), p, q probabilities in (0, 1), s image scores (2, 5, 3, 2), c classes (4),
# i classes with ignored ones, k image classes, v a vector (5), w class weights, o targets of 1 and -1, u (4),
# b targets of 0 and 1, n counts, m multi-label targets. Each row gets a reduction.
ROWS = """
mse_loss(x, y)
mse_loss(x, v)
mse_loss(x, y, weight=p)
l1_loss(x, y)
l1_loss(x, y, weight=p)
smooth_l1_loss(x, y)
smooth_l1_loss(x, y, beta=0.3)
smooth_l1_loss(x, y, beta=0)
smooth_l1_loss(x, y, beta=-1)
smooth_l1_loss(x, x)
huber_loss(x, y)
huber_loss(x, y, delta=0.3)
huber_loss(x, y, delta=0)
huber_loss(x, y, weight=p)
cross_entropy(x, c)
cross_entropy(x, c, w)
cross_entropy(x, i)
cross_entropy(x, i, w)
cross_entropy(x, c, ignore_index=2)
cross_entropy(x, c, w, ignore_index=2, label_smoothing=0.2)
cross_entropy(x, i, label_smoothing=0.2)
cross_entropy(x, c, label_smoothing=0.3)
cross_entropy(x, c, label_smoothing=1.3)
cross_entropy(x, p)
cross_entropy(x, p, w)
cross_entropy(x, p, w, label_smoothing=0.1)
cross_entropy(x, p, ignore_index=1)
cross_entropy(s, k)
cross_entropy(s, k, w, label_smoothing=0.1)
cross_entropy(s, s.softmax(1))
cross_entropy(v, c[0])
cross_entropy(v.detach(), c[:1], w)
cross_entropy(v, c[0], label_smoothing=0.2)
cross_entropy(v, v.softmax(0))
cross_entropy(x, c[:3])
cross_entropy(x, c.int())
cross_entropy(x, c.float())
cross_entropy(x, c.to(torch.uint8))
cross_entropy(x, c + 3)
cross_entropy(x, -c - 1)
cross_entropy(x, c, w[:3])
cross_entropy(x, c, w.double() if x.dtype == torch.float32 else w.float())
cross_entropy(x, c.unsqueeze(1))
cross_entropy(s, c)
cross_entropy(s, k[:, :2])
cross_entropy(s[:, :, 0], k[:, 0])
cross_entropy(x[:0], c[:0])
nll_loss(x.log_softmax(1), c)
nll_loss(x, i)
nll_loss(x, i, w)
nll_loss(x, i[1:2].expand(4))
nll_loss(x, c, w, ignore_index=1)
nll_loss(s, k, w)
nll_loss(v, c[0])
nll_loss(v, c)
nll_loss(x[0, 0], c)
binary_cross_entropy(p, q)
binary_cross_entropy(p, q, w)
binary_cross_entropy(p, b)
binary_cross_entropy(b.detach().requires_grad_(), b)
binary_cross_entropy(b.detach().requires_grad_(), 1 - b)
binary_cross_entropy(x, q)
binary_cross_entropy(p, v)
binary_cross_entropy(p, q.long())
binary_cross_entropy_with_logits(x, q)
binary_cross_entropy_with_logits(x * 50, b)
binary_cross_entropy_with_logits(x, q, w)
binary_cross_entropy_with_logits(x, q, pos_weight=w)
binary_cross_entropy_with_logits(x, q, b, pos_weight=w)
binary_cross_entropy_with_logits(x, q, p)
binary_cross_entropy(p, q, p)
binary_cross_entropy_with_logits(x, v)
kl_div(x, p)
kl_div(x, b)
kl_div(x, y, log_target=True)
kl_div(x, c)
poisson_nll_loss(x, n)
poisson_nll_loss(p, n, log_input=False)
poisson_nll_loss(x, n, full=True)
gaussian_nll_loss(x, y, p)
gaussian_nll_loss(x, y, p, full=True)
gaussian_nll_loss(x, y, u.abs())
gaussian_nll_loss(x, y, 0.5)
gaussian_nll_loss(x, y, x - 9)
gaussian_nll_loss(x, y, v[:2].abs())
cosine_embedding_loss(x, y, o)
cosine_embedding_loss(x, y, o, margin=0.3)
cosine_embedding_loss(v, x[0], o[0])
cosine_embedding_loss(x, y, o[0])
cosine_embedding_loss(x, y, x)
margin_ranking_loss(x, y, x.sign())
margin_ranking_loss(x, y, x.sign(), margin=0.5)
margin_ranking_loss(x, v, x.sign())
hinge_embedding_loss(x, y.sign())
hinge_embedding_loss(x, y.sign(), margin=2)
hinge_embedding_loss(x, b)
multi_margin_loss(x, c)
multi_margin_loss(x, c, p=2, margin=0.5, weight=w)
multi_margin_loss(x, c, p=3)
multi_margin_loss(v, c[0])
multi_margin_loss(x, c[:2])
multi_margin_loss(x, c + 4)
multilabel_margin_loss(x, m)
multilabel_margin_loss(v, m[0])
multilabel_margin_loss(x, m[:, :2])
multilabel_margin_loss(x, m + 3)
multilabel_soft_margin_loss(x, b)
multilabel_soft_margin_loss(x, b, w)
soft_margin_loss(x, y.sign())
soft_margin_loss(x, y.detach().sign())
triplet_margin_loss(x, y, z)
triplet_margin_loss(x, y, z, margin=0.3, p=1, swap=True)
triplet_margin_loss(v, x[0], x[1])
triplet_margin_loss(x, v, z)
triplet_margin_loss(x, y, z, margin=0)
triplet_margin_with_distance_loss(x, y, z, distance_function=lambda a, b: (a - b).abs().sum(-1), swap=True)
triplet_margin_with_distance_loss(x, y, z)
ctc_loss(t.log_softmax(2), l, (6, 5, 6), (2, 1, 3))
ctc_loss(t.log_softmax(2), l, torch.tensor([6, 6, 6]), torch.tensor([3, 3, 0]), blank=4)
ctc_loss(t.log_softmax(2), l[0], (6, 6, 6), (1, 1, 1))
ctc_loss(t[:, 0].log_softmax(1), l[0], torch.tensor(6), torch.tensor(3))
ctc_loss(t.log_softmax(2), l, (2, 5, 6), (3, 1, 3), zero_infinity=True)
ctc_loss(t.log_softmax(2), l, (7, 5, 6), (3, 1, 3))
ctc_loss(t.log_softmax(2), l, (6, 5), (3, 1, 3))
ctc_loss(t.log_softmax(2), l, (6, 5, 5), (4, 1, 3))
ctc_loss(t.log_softmax(2), l, (6, 5, 5), (3, 1, 3), blank=5)
""".strip().splitlines()


def inputs(m, dtype):
    rng = np.random.default_rng(5)

    def scores(*shape):
        return tensor_of(m, rng.normal(size=shape), dtype).requires_grad_()

    def exact(values, kind=None):
        return tensor_of(m, np.asarray(values), kind or "int64")

    named = {"x": scores(4, 5), "y": scores(4, 5), "z": scores(4, 5), "s": scores(2, 5, 3, 2)}
    named |= {"v": scores(5), "u": scores(4), "t": scores(6, 3, 5)}
    named |= {name: tensor_of(m, rng.uniform(0.1, 0.9, (4, 5)), dtype).requires_grad_() for name in "pq"}
    named |= {"w": tensor_of(m, rng.uniform(0.5, 2, 5), dtype), "b": exact(rng.integers(0, 2, (4, 5)), dtype)}
    named |= {"n": exact(rng.integers(0, 5, (4, 5)), dtype), "o": exact([1, -1, 1, -1])}
    named |= {"c": exact([0, 2, 4, 1]), "i": exact([0, -100, 3, -100]), "k": exact(rng.integers(0, 5, (2, 3, 2)))}
    named |= {"m": exact([[3, 0, -1, 1, 2], [-1, 0, 0, 0, 0], [0, 1, 2, 3, 4], [2, -1, -1, -1, -1]])}
    named |= {"l": exact([[1, 2, 3], [2, 2, 1], [3, 3, 1]])}
    return named


def run(m, row, reduction, dtype):
    named = inputs(m, dtype)
    call = row[:-1] + (f", reduction={reduction!r})" if reduction else ")")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loss = eval(call, {**vars(m.nn.functional), "torch": m, **named})
    result = [loss.detach()]
    if loss.requires_grad:
        (loss / (1 + loss.detach().abs())).sum().backward()  # so that each element has a gradient of its own
        result += [t.grad for t in named.values() if t.is_leaf and t.requires_grad]
    return result


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none", "batchmean", None])
@pytest.mark.parametrize("row", ROWS)
def test_values_and_gradients_are_pytorch_s(row, reduction, dtype):
    ours, theirs = outcome(run, SUT, row, reduction, dtype), outcome(run, REF, row, reduction, dtype)
    check_same(ours, theirs, f"{row} {reduction}", strides=False, rtol=2e-5 if dtype == "float32" else 1e-11)


@pytest.mark.parametrize("row", ["mse_loss(x.half(), y.half())", "cross_entropy(x.half(), c)",
                                 "binary_cross_entropy_with_logits(x.bfloat16(), q.bfloat16())"])  # fmt: skip
def test_half_precision_stays_half_precision(row):
    ours, theirs = outcome(run, SUT, row, "mean", "float32"), outcome(run, REF, row, "mean", "float32")
    check_same(ours[0], theirs[0], row, strides=False, rtol=2e-2)


def test_the_gradient_of_a_gradient_goes_through_a_loss():
    def second(m, call):
        named = inputs(m, "float64")
        loss = eval(call, {**vars(m.nn.functional), **named})
        (g,) = m.autograd.grad(loss, named["x"] if "(x" in call else named["p"], create_graph=True)
        g.pow(2).sum().backward()
        return [t.grad for t in named.values() if t.is_leaf and t.requires_grad]

    for call in ("cross_entropy(x, c)", "mse_loss(x, y)", "binary_cross_entropy(p, q)", "smooth_l1_loss(x, y)",
                 "binary_cross_entropy_with_logits(x, q)"):  # fmt: skip
        check_same(second(SUT, call), second(REF, call), call, strides=False, rtol=1e-9)


MODULES = """
MSELoss() x y
MSELoss(reduction='sum') x y
L1Loss() x y
SmoothL1Loss(beta=0.5) x y
HuberLoss(delta=0.5) x y
CrossEntropyLoss() x c
CrossEntropyLoss(torch.ones(5), label_smoothing=0.1) x c
NLLLoss(ignore_index=2) x c
NLLLoss2d() s k
BCELoss() p q
BCELoss(weight=torch.ones(5)) p q
BCEWithLogitsLoss(pos_weight=torch.ones(5)) x q
KLDivLoss(reduction='batchmean', log_target=True) x y
PoissonNLLLoss(full=True) x n
GaussianNLLLoss(eps=1e-3) x y p
CosineEmbeddingLoss(0.2) x y o
MarginRankingLoss(0.1) x y z
HingeEmbeddingLoss() x z
MultiMarginLoss(p=2) x c
MultiLabelMarginLoss() x m
MultiLabelSoftMarginLoss() x b
SoftMarginLoss() x b
TripletMarginLoss(margin=0.4, swap=True) x y z
TripletMarginWithDistanceLoss(margin=0.4) x y z
CTCLoss(zero_infinity=True) t l
""".strip().splitlines()


@pytest.mark.parametrize("row", MODULES)
def test_modules_call_their_function(row):
    def call(m):
        constructor, *names = re.split(r" (?=\S+$| \S+$)|(?<=\)) ", row, maxsplit=1)
        module = eval(constructor, {**vars(m.nn), "torch": m})
        named = inputs(m, "float32")
        args = [named[name] for name in names[0].split()]
        if "CTC" in row:
            args = [args[0].log_softmax(2), args[1], (6, 6, 6), (2, 2, 2)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loss = module(*args)
        return repr(module), list(module.state_dict()), loss.detach()

    ours, theirs = outcome(call, SUT), outcome(call, REF)
    assert not isinstance(theirs, Raised), theirs
    check_same(ours, theirs, row, strides=False, rtol=1e-5)


MESSAGES = [
    "cross_entropy(x, c + 3)",
    "cross_entropy(x, c[:3])",
    "cross_entropy(x, c.int())",
    "cross_entropy(x, c, w[:3])",
    "cross_entropy(x, c, label_smoothing=1.5)",
    "cross_entropy(x, p, ignore_index=1)",
    "cross_entropy(x, c, reduction='x')",
    "nll_loss(v, c)",
    "binary_cross_entropy(x, q)",
    "binary_cross_entropy(p, v)",
    "binary_cross_entropy_with_logits(x, v)",
    "smooth_l1_loss(x, y, beta=-1)",
    "huber_loss(x, y, delta=0)",
    "multi_margin_loss(x, c + 4)",
    "triplet_margin_loss(x, v, z)",
    "ctc_loss(t, l, (7, 5, 6), (3, 1, 3))",
    "mse_loss(c, c)",
]


@pytest.mark.parametrize("call", MESSAGES)
def test_errors_have_pytorch_s_words(call):
    def fail(m):
        return eval(call, {**vars(m.nn.functional), **inputs(m, "float32")})

    ours, theirs = outcome(fail, SUT), outcome(fail, REF)
    check_same(ours, theirs, call)
    assert str(ours.error) == str(theirs.error)


def test_sizes_that_differ_are_warned_about(torch):
    with pytest.warns(UserWarning, match="that is different to the input size"):
        torch.nn.functional.mse_loss(torch.ones(2, 3), torch.ones(3))
