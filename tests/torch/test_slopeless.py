"""What is on the tape although no gradient goes through it, against PyTorch: errors, zeros, and which result it is."""

import pytest

from tests.torch.compare import REF, SUT

REFUSED = [
    "T.heaviside(x,z)",
    "T.heaviside(x,z.detach())",
    "(x*1).heaviside_(z)",
    "T.bernoulli(x,0.5)",
    "T.binomial(x*0+3,z)",
    "T.detach_copy(x)",
    "T.unique(x)",
    "T.unique(x,dim=0)",
    "T.unique(x,return_inverse=True)[0]",
    "T.unique_consecutive(x)",
    "T.unique_consecutive(x,dim=1)",
    "T.histogram(x,4)[0]",
    "T.histogram(x,4)[1]",
    "T.native_channel_shuffle(x.view(1,2,1,3),2)",
]


def leaves(m):
    x = m.tensor([[0.1, 0.7, 0.3], [0.9, 0.5, 0.2]], requires_grad=True)
    z = m.tensor([[0.4, 0.3, 0.8], [0.5, 0.6, 0.1]], requires_grad=True)
    return {"T": m, "x": x, "z": z}


def refusal(y):
    try:
        y.sum().backward()
    except RuntimeError as error:
        return type(error), str(error)
    return None


@pytest.mark.parametrize("expression", REFUSED)
def test_a_backward_that_comes_to_what_has_no_derivative_is_refused_in_pytorchs_words(expression):
    outcomes = []
    for m in (SUT, REF):
        y = eval(expression, leaves(m))
        below = [f and f.name() for f, _ in y.grad_fn.next_functions]
        outcomes.append((y.requires_grad, y.output_nr, y.grad_fn.name(), below, refusal(y)))
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][-1]


@pytest.mark.parametrize("expression", REFUSED)
def test_without_a_tape_it_is_on_none(expression):
    for m in (SUT, REF):
        with m.no_grad():
            assert not eval(expression, leaves(m)).requires_grad
        given = {name: t.detach() if name in "xz" else t for name, t in leaves(m).items()}
        assert not eval(expression, given).requires_grad


def test_a_gradient_beside_what_is_refused_goes_its_way():
    for m in (SUT, REF):
        x = m.ones(3, requires_grad=True)
        m.heaviside(x, x)
        (x * 2).sum().backward()
        assert x.grad.tolist() == [2, 2, 2]


@pytest.mark.parametrize("name", ["eq_", "ne_", "lt_", "le_", "gt_", "ge_", "greater_equal_", "bernoulli_"])
def test_what_is_written_by_a_comparison_has_the_gradient_zero_for_both(name):
    gradients = []
    for m in (SUT, REF):
        of = leaves(m)
        row = m.full((3,), 0.5, requires_grad=True)
        y = getattr(of["x"] * 1, name)(row)
        plain = getattr(m.zeros(2, 3), name)(of["z"])
        (y.sum() + plain.sum()).backward()
        gradients.append([of["x"].grad.tolist(), row.grad.tolist(), of["z"].grad.tolist(), plain.requires_grad])
    assert gradients[0] == gradients[1]


def test_a_leaf_is_not_written_to_by_a_comparison():
    for m in (SUT, REF):
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
            m.ones(3, requires_grad=True).eq_(m.ones(3, requires_grad=True))


SEVERAL = ["T.aminmax(x)", "T.var_mean(x)", "x.split(1)", "x.unbind()", "T.linalg.slogdet(x@z.mT)"]
SEVERAL += ["T.linalg.qr(x)", "T.frexp(x)", "x.sort()", "T.linalg.lstsq(x.mT,z.mT,driver='gels')[:2]"]
SEVERAL += ["T.linalg.lstsq(x.mT,z.mT)[:2]", "T.triangular_solve(z.detach(),x@x.mT)"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("expression", SEVERAL)
def test_a_result_knows_which_of_its_function_it_is(expression):
    numbers = [[(t.requires_grad, t.output_nr) for t in eval(expression, leaves(m))] for m in (SUT, REF)]
    assert numbers[0] == numbers[1]
    for m in (SUT, REF):
        functions = {t.grad_fn for t in eval(expression, leaves(m)) if t.requires_grad}
        assert len(functions) == 1


def test_the_sign_of_a_determinant_passes_no_gradient_on():
    for m in (SUT, REF):
        x = m.tensor([[1.0, 2.0], [2.0, 4.5]], requires_grad=True)
        m.linalg.slogdet(x)[0].backward()
        assert x.grad is None
        sign, size = m.linalg.slogdet(x)
        (sign * size).backward()
        assert x.grad.flatten().tolist() == pytest.approx([9, -4, -4, 2], rel=1e-4)


def test_a_distance_that_counts_has_the_gradient_zero():
    gradients = []
    for m in (SUT, REF):
        of = leaves(m)
        d = m.cdist(of["x"], of["z"], p=0)
        d.sum().backward()
        gradients.append([d.tolist(), of["x"].grad.tolist(), of["z"].grad.tolist()])
    assert gradients[0] == gradients[1]


# upper, transpose, unitriangular
FORMS = [(True, False, False), (False, False, False), (True, True, False), (False, True, True)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", FORMS)
def test_a_triangular_solution_and_the_copy_of_its_matrix_have_pytorchs_gradients(form):
    results = []
    for m in (SUT, REF):
        a = (m.arange(18.0, dtype=m.float64).reshape(2, 3, 3) / 20 + m.eye(3)).requires_grad_()
        b = (m.arange(6.0, dtype=m.float64).reshape(1, 3, 2) / 7).requires_grad_()
        x, copied = m.triangular_solve(b, a, *form)
        weights = m.arange(12.0, dtype=m.float64).reshape(2, 3, 2)
        g = m.autograd.grad((x * weights).sum() + copied.square().sum(), (a, b), create_graph=True)
        h = m.autograd.grad(sum(t.square().sum() for t in g), (a, b))
        results.append([t.detach().flatten().tolist() for t in (x, copied, *g, *h)])
    for mine, theirs in zip(*results):
        assert mine == pytest.approx(theirs, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("expression", ["T.Tensor(x)", "x.new(x)", "T.FloatTensor(x)"])
def test_a_tensor_made_of_another_by_its_class_is_a_view_of_it_on_the_tape(expression):
    for m in (SUT, REF):
        of = leaves(m)
        y = eval(expression, of)
        assert y._base is of["x"]
        assert y.grad_fn.name() == "AliasBackward0"
        (y * 3).sum().backward()
        assert of["x"].grad.tolist() == [[3, 3, 3], [3, 3, 3]]


LOSSES = {
    "kl_div": "x,z",
    "hinge_embedding_loss": "x,z.sign()",
    "margin_ranking_loss": "x,z,x.sign()",
    "cosine_embedding_loss": "x,z,T.ones(2)",
    "triplet_margin_loss": "x,z,z",
    "binary_cross_entropy_with_logits": "x,z.detach()",
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_of_the_module_itself_is_not_reduced_unless_somebody_says_so(name):
    losses = [eval(f"T.{name}({LOSSES[name]})", leaves(m)) for m in (SUT, REF)]
    assert losses[0].flatten().tolist() == pytest.approx(losses[1].flatten().tolist(), rel=1e-5)
    assert losses[0].shape == losses[1].shape
