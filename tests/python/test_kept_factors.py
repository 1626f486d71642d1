"""Weights that are read again and again are kept in the form that products read. Nobody may notice, whoever writes."""

import ctypes

import brisk
import numpy as np
import pytest


def by_element(w):
    w[3, 5] = 7.0


def by_slice(w):
    w[2:9] = 1.5


def in_place(w):
    w.mul_(3.0)


def through_a_view(w):
    w.t()[1] += 4.0


def by_copy(w):
    w.copy_(brisk.arange(w.numel()).reshape(w.shape) / 100.0)


def by_draw(w):
    w.uniform_()


def through_data(w):
    w.data.add_(2.0)


def through_an_array(w):
    w.numpy()[4] = -1.0


def through_an_array_later(w):
    a = w.numpy()
    product(w)
    a[4] = -1.0


def by_address(w):
    ctypes.cast(w.data_ptr(), ctypes.POINTER(ctypes.c_float))[7] = 9.0


def through_another_dtype(w):
    w.view(brisk.int32)[0, 0] = 0


def by_step(w):
    w.requires_grad_(True)
    optimizer = brisk.optim.SGD([w], 0.1)
    product(w).sum().backward()
    optimizer.step()
    w.requires_grad_(False)


def by_other_memory(w):
    w.data = brisk.full(w.shape, 2.0)


WAYS = [value for value in list(globals().values()) if callable(value) and value.__module__ == __name__]
X = brisk.linspace(-1, 1, 40 * 64).reshape(40, 64)


def product(w):
    return brisk.nn.functional.linear(X, w)


@pytest.mark.parametrize("way", WAYS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("reads", [1, 3, 4, 5, 9])
def test_a_weight_that_was_read_often_may_be_written_in_any_way(way, reads):
    w = brisk.linspace(-2, 2, 48 * 64).reshape(48, 64).clone()
    for _ in range(reads):
        before = product(w).numpy()
    way(w)
    for _ in range(3):
        after = product(w).detach().numpy()
        np.testing.assert_allclose(after, X.numpy() @ w.detach().clone().numpy().T, rtol=1e-4, atol=1e-4)
    assert not np.array_equal(before, after)


def test_a_layer_that_was_called_often_follows_its_weights():
    layer, x = brisk.nn.LSTM(16, 32), brisk.randn(9, 1, 16)
    with brisk.no_grad():
        for _ in range(8):
            before = layer(x)[0].numpy()
        layer.weight_hh_l0[:, 3] = 0.5
        layer.weight_ih_l0 *= 2
        after, twin = layer(x)[0].numpy(), brisk.nn.LSTM(16, 32)
        twin.load_state_dict(layer.state_dict())
        np.testing.assert_array_equal(after, twin(x)[0].numpy())
    assert not np.array_equal(before, after)


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 16, 24, 25, 200, 1100])
def test_layers_that_follow_each_other_give_the_same_as_often_as_they_are_called(rows):
    first, second, x = brisk.nn.Linear(64, 96), brisk.nn.Linear(96, 32, bias=False), brisk.randn(rows, 64)
    w, b, v = (p.detach().clone().numpy() for p in (first.weight, first.bias, second.weight))
    with brisk.no_grad():
        results = [second(brisk.relu(first(x))).numpy() for _ in range(8)]
    np.testing.assert_allclose(results[0], (x.numpy() @ w.T + b).clip(0) @ v.T, rtol=1e-4, atol=1e-5)
    for r in results[1:]:
        np.testing.assert_array_equal(r, results[0])
