"""What works on whole rows: norms and softmax over the last dimensions, with their gradients, as PyTorch gives them."""

import brisk
import numpy as np
import pytest
import torch

FUNCTIONS = {
    "layer_norm": lambda m, x: m.nn.functional.layer_norm(x, x.shape[-1:]),
    "layer_norm over two dimensions": lambda m, x: m.nn.functional.layer_norm(x, x.shape[-2:], eps=1e-3),
    "rms_norm": lambda m, x: m.nn.functional.rms_norm(x, x.shape[-1:], eps=1e-3),
    "group_norm": lambda m, x: m.nn.functional.group_norm(x, 2),
    "instance_norm": lambda m, x: m.nn.functional.instance_norm(x),
    "softmax": lambda m, x: m.softmax(x, -1),
    "max_pool1d": lambda m, x: m.nn.functional.max_pool1d(x, 3, 2, 1),
}
# Of the tensor that is normalised: (rows..., elements), and how it is cut from a contiguous one.
LAYOUTS = {
    "contiguous": lambda t: t,
    "transposed": lambda t: t.transpose(0, 2),
    "every other element": lambda t: t[..., ::2],
    "repeated rows": lambda t: t[:1].expand(4, *t.shape[1:]),
    "long rows": lambda t: t.reshape(2, 2, -1),
}


def results(m, name, layout, dtype, data, weights):
    """The value, the gradient, and the gradient of a sum of the gradient's squares."""
    x = m.tensor(data, dtype=getattr(m, dtype), requires_grad=True)
    y = FUNCTIONS[name](m, LAYOUTS[layout](x))
    w = m.tensor(np.resize(weights, y.shape), dtype=getattr(m, dtype))
    (g,) = m.autograd.grad((y * w).sum(), x, create_graph=True)
    out = [y.detach(), g.detach()]
    if name != "max_pool1d":
        (h,) = m.autograd.grad((g * g).sum(), x)
        out.append(h)
    return [t.double().numpy() for t in out]


@pytest.mark.parametrize("dtype, tolerance", [("float32", 2e-4), ("float64", 1e-10)])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_rows_and_two_orders_of_gradients_are_pytorchs(name, layout, dtype, tolerance):
    rng = np.random.default_rng(7)
    data, weights = rng.standard_normal((6, 4, 150)), rng.standard_normal(3600)
    want = results(torch, name, layout, dtype, data, weights)
    got = results(brisk, name, layout, dtype, data, weights)
    for g, w in zip(got, want):
        np.testing.assert_allclose(g, w, rtol=tolerance, atol=tolerance * max(1, np.abs(w).max()))


@pytest.mark.parametrize("n", [1, 3, 63, 64, 65, 2047, 2048, 5000])
def test_rows_of_any_length_are_standardised(n):
    data = np.random.default_rng(n).standard_normal((3, n)).astype(np.float32) * 5 + 100
    want = torch.nn.functional.layer_norm(torch.from_numpy(data), (n,)).numpy()
    np.testing.assert_allclose(brisk.nn.functional.layer_norm(brisk.tensor(data), (n,)).numpy(), want, atol=5e-5)


@pytest.mark.parametrize(
    "row", [[float("-inf")] * 3, [float("inf"), 0, 1], [float("nan"), 0, 1], [float("-inf"), 0, 1]]
)
def test_softmax_of_infinities_and_nan_is_pytorchs(row):
    np.testing.assert_array_equal(
        brisk.softmax(brisk.tensor([row]), 1).numpy(), torch.softmax(torch.tensor([row]), 1).numpy()
    )


@pytest.mark.parametrize("window", [2, 3, 5])
def test_max_pooling_takes_the_first_of_equals_and_any_nan(window):
    data = np.random.default_rng(3).integers(0, 3, (2, 2, 15, 15)).astype(np.float32)
    data[0, 0, 4, 4] = np.nan
    found = []
    for m in (brisk, torch):
        x = m.tensor(data, requires_grad=True)
        y, at = m.nn.functional.max_pool2d(x, window, 2, return_indices=True)
        y.sum().backward()
        found.append([y.detach().numpy(), at.numpy(), x.grad.numpy()])
    for got, want in zip(*found):
        np.testing.assert_array_equal(got, want)
