"""log_softmax along rows of every length, among them those that fill no vector."""

import brisk as torch
import numpy as np
import pytest


def by_numpy(x):
    x = x.astype(np.float64)
    top = x.max(-1, keepdims=True)
    return x - top - np.log(np.exp(x - top).sum(-1, keepdims=True))


@pytest.mark.parametrize("dtype, most", [(np.float32, 3e-7), (np.float64, 1e-15)])
def test_rows_of_every_length_match_numpy(dtype, most):
    random = np.random.default_rng(3)
    for n in [*range(1, 140), 1000, 2047, 2048, 2049, 4100, 5000]:
        x = (random.standard_normal((3, n)) * 5).astype(dtype)
        got, want = torch.from_numpy(x).log_softmax(-1).numpy(), by_numpy(x)
        assert np.abs(got - want).max() <= most * (1 + np.abs(want).max()), n


@pytest.mark.parametrize("n", [2, 7, 16, 17, 33, 64, 65, 100])
def test_one_nan_makes_a_row_nan_and_leaves_the_others(n):
    for place in (0, n // 2, n - 1):
        x = np.zeros((3, n), np.float32)
        x[1, place] = np.nan
        y = torch.from_numpy(x).log_softmax(-1).numpy()
        assert np.isnan(y[1]).all() and np.allclose(y[[0, 2]], -np.log(n))


@pytest.mark.parametrize("n", [2, 7, 16, 17, 33, 64, 65, 100])
def test_infinities_are_as_in_pytorch(n):
    x = np.zeros((3, n), np.float32)
    x[0, n - 1] = -np.inf
    x[1, 0] = np.inf
    x[2] = -np.inf
    y = torch.from_numpy(x).log_softmax(-1).numpy()
    assert y[0, n - 1] == -np.inf and np.allclose(y[0, : n - 1], -np.log(n - 1))
    assert np.isnan(y[1, 0]) and np.isnan(y[2]).all()


def test_a_row_does_not_depend_on_its_neighbours():
    x = np.random.default_rng(4).standard_normal((9, 77)).astype(np.float32)
    together = torch.from_numpy(x).log_softmax(-1).numpy()
    for i in range(9):
        assert (torch.from_numpy(x[i : i + 1].copy()).log_softmax(-1).numpy() == together[i]).all()
