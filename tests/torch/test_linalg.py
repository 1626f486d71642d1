"""Linear algebra against PyTorch: values, gradients, and errors about matrices that have no answer."""

import numpy as np
import pytest
import torch

from tests.torch.compare import SUT

TOLERANCE = {"float32": 2e-4, "float64": 1e-10}


def data(seed, *shape, dtype="float64"):
    return np.random.RandomState(seed).uniform(-1, 1, shape).astype(dtype)


def regular(seed, n, *batch, dtype="float64"):
    return data(seed, *batch, n, n, dtype=dtype) + 2 * np.eye(n, dtype=dtype)


def positive(seed, n, *batch, dtype="float64"):
    a = data(seed, *batch, n, n, dtype=dtype)
    return (a @ np.swapaxes(a, -1, -2) + np.eye(n, dtype=dtype)).astype(dtype)


def flat(result):
    """The tensors of a result, whatever it is packed in."""
    if isinstance(result, (torch.Tensor, SUT.Tensor)):
        return [result]
    return [t for part in result for t in flat(part)]


def outcomes(module, program, arrays, smooth):
    tensors = [module.tensor(a) for a in arrays]
    if smooth:
        for t in tensors:
            t.requires_grad_()
    results = flat(program(module, *tensors))
    values = [np.asarray(r.detach().numpy()) for r in results]
    if not smooth:
        return values, []
    total = sum((r * r.detach().cos()).sum() for r in results if r.requires_grad)
    total.backward()
    return values, [t.grad.numpy() if t.grad is not None else None for t in tensors]


def compare(program, *arrays, smooth=True):
    ours, theirs = (outcomes(m, program, arrays, smooth) for m in (SUT, torch))
    tolerance = TOLERANCE[str(arrays[0].dtype)]
    for what, mine, other in zip(("values", "gradients"), ours, theirs):
        assert len(mine) == len(other)
        for a, b in zip(mine, other):
            assert (a is None) == (b is None)
            if a is not None:
                assert a.dtype == b.dtype and a.shape == b.shape, what
                np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * (1 + np.abs(b).max(initial=0)))


SQUARE = {
    "inv": lambda m, a: m.linalg.inv(a),
    "inverse": lambda m, a: a.inverse(),
    "inv_ex": lambda m, a: m.linalg.inv_ex(a),
    "det": lambda m, a: [m.det(a), m.linalg.det(a), a.det()],
    "slogdet": lambda m, a: [m.slogdet(a), m.linalg.slogdet(a)],
    "logdet": lambda m, a: m.logdet(a @ a.mT),
    "qr": lambda m, a: [m.qr(a), m.linalg.qr(a)],
    "lu_factor": lambda m, a: m.linalg.lu_factor(a),
    "lu": lambda m, a: [m.linalg.lu(a), m.lu_unpack(*m.linalg.lu_factor(a))],
    "matrix_power": lambda m, a: [m.linalg.matrix_power(a, n) for n in (-2, 0, 3)],
    "matrix_exp": lambda m, a: [m.matrix_exp(a), m.linalg.matrix_exp(2 * a)],
    "pinv": lambda m, a: [m.linalg.pinv(a), m.pinverse(a)],
    "svdvals": lambda m, a: m.linalg.svdvals(a),
    "svd of a product": lambda m, a: (lambda u, s, vh: u @ m.diag_embed(s.exp()) @ vh)(*m.linalg.svd(a)),
    "cond": lambda m, a: [m.linalg.cond(a), m.linalg.cond(a, -2)],
    "matrix_norm": lambda m, a: [m.linalg.matrix_norm(a, p) for p in ("fro", "nuc", 1, -1, 2, -2, float("inf"))],
    "matrix_rank": lambda m, a: m.linalg.matrix_rank(a),
    "multi_dot": lambda m, a: m.linalg.multi_dot([a, a, a]) if a.dim() == 2 else a,
    "trace": lambda m, a: a.trace() if a.dim() == 2 else a,
    "lu_solve": lambda m, a: m.linalg.lu_solve(*m.linalg.lu_factor(a), a, adjoint=True),
    "tensorinv": lambda m, a: m.linalg.tensorinv(a, ind=1) if a.dim() == 2 else a,
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", sorted(SQUARE))
def test_functions_of_a_square_matrix_have_pytorchs_values_and_gradients(name, dtype):
    compare(SQUARE[name], regular(1, 4, dtype=dtype), smooth=name != "matrix_rank")
    compare(SQUARE[name], regular(2, 3, 2, dtype=dtype), smooth=name != "matrix_rank")


@pytest.mark.parametrize("n", [1, 2, 17, 33, 64, 70])
def test_matrices_of_other_sizes_are_factored_as_well(n):
    compare(lambda m, a: [m.linalg.inv(a), m.linalg.slogdet(a)[1], m.linalg.qr(a)[1]], regular(3, n))
    compare(lambda m, a: m.linalg.cholesky(a), positive(4, n))


POSITIVE = {
    "cholesky": lambda m, a: [m.linalg.cholesky(a), m.cholesky(a), a.cholesky(upper=True)],
    "cholesky upper": lambda m, a: m.linalg.cholesky(a, upper=True),
    "cholesky_ex": lambda m, a: m.linalg.cholesky_ex(a),
    "cholesky_solve": lambda m, a: [
        m.cholesky_solve(a[..., :2], m.linalg.cholesky(a, upper=up), upper=up) for up in (False, True)
    ],
    "cholesky_inverse": lambda m, a: m.cholesky_inverse(m.linalg.cholesky(a)),
    "eigvalsh": lambda m, a: m.linalg.eigvalsh(a),
    "eigh of a function": lambda m, a: (lambda w, v: v @ m.diag_embed(w.log()) @ v.mT)(*m.linalg.eigh(a)),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", sorted(POSITIVE))
def test_functions_of_a_positive_definite_matrix_have_pytorchs_values_and_gradients(name, dtype):
    compare(POSITIVE[name], positive(5, 4, dtype=dtype))
    compare(POSITIVE[name], positive(6, 3, 2, dtype=dtype))


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("batches", [((), ()), ((2,), (2,)), ((5,), ()), ((), (2,)), ((3, 1), (2,))])
def test_systems_broadcast_their_batches(batches, left):
    a, b = regular(7, 3, *batches[0]), data(8, *batches[1], *((3, 2) if left else (2, 3)))
    compare(lambda m, a, b: m.linalg.solve(a, b, left=left), a, b)
    for upper in (False, True):
        for unit in (False, True):
            compare(lambda m, a, b: m.linalg.solve_triangular(a, b, upper=upper, left=left, unitriangular=unit), a, b)


def test_a_vector_is_solved_for_as_a_vector():
    compare(lambda m, a, b: m.linalg.solve(a, b), regular(9, 3), data(10, 3))
    compare(lambda m, a, b: m.linalg.solve(a, b), regular(9, 3, 2), data(10, 2, 3))


@pytest.mark.parametrize("transpose", [False, True])
def test_triangular_solve_reads_one_triangle(transpose):
    compare(lambda m, a, b: m.triangular_solve(b, a, transpose=transpose)[0], regular(11, 3), data(12, 3, 2))


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 5, 3), (2, 3, 5)])
def test_matrices_that_are_not_square(shape):
    a = data(13, *shape)
    compare(lambda m, a: m.linalg.qr(a), a)
    compare(lambda m, a: m.linalg.pinv(a), a)
    compare(lambda m, a: m.linalg.svdvals(a), a)
    compare(lambda m, a: (lambda u, s, vh: u @ m.diag_embed(s.exp()) @ vh)(*m.linalg.svd(a, full_matrices=False)), a)
    compare(lambda m, a: [m.linalg.qr(a, mode=mode)[1] for mode in ("complete", "r")], a, smooth=False)
    compare(lambda m, a: m.linalg.lu_factor(a), a, smooth=False)
    compare(lambda m, a: [m.linalg.matrix_rank(a), m.linalg.lu(a)], a, smooth=False)


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (3, 3)])
def test_least_squares(shape):
    for driver in ("gels", "gelsd"):
        compare(lambda m, a, b: list(m.linalg.lstsq(a, b, driver=driver)), data(14, *shape), data(15, shape[0], 2))
    compare(lambda m, a, b: m.linalg.lstsq(a, b)[0], data(14, *shape), data(15, shape[0], 2))
    compare(lambda m, a, b: list(m.linalg.lstsq(a, b))[1:3], data(14, *shape), data(15, shape[0], 2), smooth=False)


def test_the_complete_q_is_orthogonal_and_has_no_gradient():
    a = SUT.tensor(data(16, 5, 3)).requires_grad_()
    q, r = SUT.linalg.qr(a, mode="complete")
    assert SUT.allclose(q @ q.mT, SUT.eye(5, dtype=q.dtype)) and SUT.allclose(q @ r, a)
    with pytest.raises(RuntimeError, match="linalg.qr"):
        q.sum().backward()


def test_the_determinant_of_a_singular_matrix_has_its_adjugate_for_gradient():
    a = np.array([[1.0, 2.0, 0.5], [2.0, 4.0, 1.0], [0.0, 1.0, 3.0]])
    x = SUT.tensor(a).requires_grad_()
    x.det().backward()
    cofactors = np.array(
        [[(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(a, i, 0), j, 1)) for j in range(3)] for i in range(3)]
    )
    np.testing.assert_allclose(x.grad.numpy(), cofactors, atol=1e-8)


FAILING = {
    "inv": lambda m, t: m.linalg.inv(t([[1.0, 2.0], [2.0, 4.0]])),
    "inv of a batch": lambda m, t: m.linalg.inv(t([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]]])),
    "solve": lambda m, t: m.linalg.solve(t([[1.0, 2.0], [2.0, 4.0]]), t([1.0, 2.0])),
    "cholesky": lambda m, t: m.linalg.cholesky(t([[1.0, 2.0], [2.0, 1.0]])),
    "cholesky of a batch": lambda m, t: m.linalg.cholesky(t([[[1.0, 0.0], [0.0, 1.0]], [[-1.0, 0.0], [0.0, 1.0]]])),
    "cholesky of a NaN": lambda m, t: m.linalg.cholesky(t([[float("nan"), 2.0], [2.0, 1.0]])),
    "not square": lambda m, t: m.linalg.inv(m.ones(2, 3)),
    "one dimension": lambda m, t: m.linalg.det(m.ones(3)),
    "integers": lambda m, t: m.linalg.inv(m.ones(2, 2, dtype=m.int64)),
    "half precision": lambda m, t: m.linalg.inv(m.ones(2, 2, dtype=m.float16)),
    "two dtypes": lambda m, t: m.linalg.solve(m.eye(2), m.ones(2, dtype=m.float64)),
    "sizes that do not fit": lambda m, t: m.linalg.solve(m.eye(2), m.ones(3, 1)),
    "cross of two": lambda m, t: m.linalg.cross(m.ones(2), m.ones(2)),
}


@pytest.mark.parametrize("name", sorted(FAILING))
def test_what_has_no_answer_is_refused_on_its_line_as_pytorch_refuses_it(name):
    raised = []
    for module in (SUT, torch):
        with pytest.raises(RuntimeError) as caught:
            FAILING[name](module, module.tensor)
        raised.append((isinstance(caught.value, module.linalg.LinAlgError), str(caught.value)))
    ours, theirs = raised
    assert ours[0] == theirs[0]
    if ours[0]:
        assert ours[1] == theirs[1]


def test_after_a_refused_matrix_everything_goes_on():
    x = SUT.ones(2, 2)
    y = x * 3
    with pytest.raises(SUT.linalg.LinAlgError):
        SUT.linalg.inv(x)
    assert y.sum().item() == 12


def test_info_says_where_it_failed():
    a = [[[1.0, 2.0], [2.0, 4.0]], [[1.0, 0.0], [0.0, 1.0]]]
    for f in (lambda m: m.linalg.inv_ex(m.tensor(a)).info, lambda m: m.linalg.cholesky_ex(-m.tensor(a)).info):
        assert f(SUT).tolist() == f(torch).tolist()
        assert f(SUT).dtype == SUT.int32


def test_cross_products():
    compare(lambda m, a, b: [m.cross(a, b), m.linalg.cross(a, b), a.cross(b, dim=1)], data(17, 4, 3), data(18, 4, 3))


def test_results_are_printed_by_their_names():
    for f in (
        lambda m: repr(m.linalg.slogdet(m.eye(2))),
        lambda m: repr(m.linalg.svd(m.eye(2))),
        lambda m: repr(m.linalg.eigh(m.eye(2))),
        lambda m: repr(m.linalg.lu_factor(m.eye(2))),
    ):
        assert f(SUT) == f(torch)


def test_a_gaussian_process_learns_as_pytorchs_does():
    """Cholesky, triangular systems and a log determinant in a loop."""

    def losses(m):
        x, y = m.tensor(data(19, 8, 1)), m.tensor(data(20, 8, 1))
        scale = m.zeros(1, dtype=m.float64, requires_grad=True)
        noise = m.zeros(1, dtype=m.float64, requires_grad=True)
        optimizer = m.optim.Adam([scale, noise], lr=0.1)
        seen = []
        for _ in range(10):
            optimizer.zero_grad()
            K = (-((x - x.mT) ** 2) / scale.exp()).exp() + noise.exp() * m.eye(8, dtype=m.float64)
            L = m.linalg.cholesky(K)
            loss = (y.mT @ m.cholesky_solve(y, L)).sum() + 2 * L.diagonal().log().sum()
            loss.backward()
            optimizer.step()
            seen.append(loss.item())
        return seen

    np.testing.assert_allclose(losses(SUT), losses(torch), rtol=1e-9)
