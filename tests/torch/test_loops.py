"""Loops over time, written step by step in every way, have PyTorch's values and gradients.

The planner adds up, places and splits what such loops do; test_random_cells.py looks for what it did not think of."""

import numpy as np
import pytest

from tests.torch.compare import REF, SUT

T, B, I, H = 9, 6, 5, 8


def data(*shape, seed=0, scale=0.4):
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype("float32")


def weights(m, *shapes):
    return [m.from_numpy(data(*s, seed=k + 1)).requires_grad_(True) for k, s in enumerate(shapes)]


def plain(m, x, first=False):
    Wx, Wh, b = p = weights(m, (H, I), (H, H), (H,))
    h, outs = m.zeros(x.shape[0 if first else 1], H), []
    for t in range(x.shape[1 if first else 0]):
        h = m.tanh((x[:, t] if first else x[t]) @ Wx.t() + b + h @ Wh.t())
        outs.append(h)
    return m.stack(outs, 1 if first else 0).square().mean(), p


def batch_first(m, x):
    return plain(m, x.transpose(0, 1), True)


def one_row(m, x):
    return plain(m, x[:, :1])


def one_step(m, x):
    return plain(m, x[:1])


def reversed_time(m, x):
    return plain(m, x.flip(0))


def written_into_slices(m, x):
    Wx, Wh = p = weights(m, (I, H), (H, H))
    out = m.zeros(T + 1, B, H)
    for t in range(T):
        out[t + 1] = m.tanh(x[t] @ Wx + out[t].clone() @ Wh)
    return out.square().mean(), p


def gates(m, x):
    W, U, b = p = weights(m, (4 * H, I), (4 * H, H), (4 * H,))
    h = c = m.zeros(B, H)
    outs = []
    for xt in x:
        i, f, g, o = (xt @ W.t() + h @ U.t() + b).chunk(4, 1)
        c = m.sigmoid(f) * c + m.sigmoid(i) * m.tanh(g)
        h = m.sigmoid(o) * m.tanh(c)
        outs.append(h)
    return m.stack(outs).square().mean() + c.mean(), p


def side_by_side(m, x):
    p = weights(m, *[(H, I + H)] * 4)
    h = c = m.zeros(B, H)
    outs = []
    for t in range(T):
        i, f, g, o = (m.cat([x[t], h], 1) @ w.t() for w in p)
        c = m.sigmoid(f) * c + m.sigmoid(i) * m.tanh(g)
        h = m.sigmoid(o) * m.tanh(c)
        outs.append(h)
    return m.cat(outs).square().mean(), p


def two_layers(m, x):
    A, Bw, C, D = p = weights(m, (H, I), (H, H), (H, H), (H, H))
    h = g = m.zeros(B, H)
    outs = []
    for t in range(T):
        h = m.tanh(x[t] @ A.t() + h @ Bw.t())
        g = m.relu(h @ C.t() + g @ D.t())
        outs.append(m.cat([h, g], 1))
    return m.stack(outs, 1).square().mean(), p


def losses_in_the_loop(m, x):
    Wx, Wh, V = p = weights(m, (I, H), (H, H), (H, I))
    h, loss = m.zeros(B, H), 0
    for t in range(T - 1):
        h = m.tanh(x[t] @ Wx + h @ Wh)
        loss = loss + ((h @ V - x[t + 1]) ** 2).mean()
    return loss, p


def classes_in_the_loop(m, x):
    Wx, Wh, V = p = weights(m, (I, H), (H, H), (H, I))
    h, loss, watched = m.zeros(B, H), 0, m.zeros(T)
    for t in range(T):
        z = x[t] @ Wx + h @ Wh
        z = (z - z.mean(1, keepdim=True)) / (z.var(1, keepdim=True) + 0.1).sqrt()
        h = z.exp() / z.exp().sum(1, keepdim=True)
        watched[t] = h.detach().norm()
        loss = loss + m.nn.functional.cross_entropy(h @ V, m.arange(t, t + B) % I) / T
    return loss + watched.sum(), p


def truncated(m, x):
    Wx, Wh = p = weights(m, (I, H), (H, H))
    h, loss = m.zeros(B, H), 0
    for t in range(T):
        h = m.tanh(x[t] @ Wx + (h.detach() if t % 4 == 0 else h) @ Wh)
        loss = loss + h.sum()
    return loss, p


def fewer_and_fewer_rows(m, x):
    Wx, Wh = p = weights(m, (I, H), (H, H))
    h, outs = m.zeros(B, H), []
    for t in range(T):
        rows = max(1, B - t)
        h = m.tanh(x[t][:rows] @ Wx + h[:rows] @ Wh)
        outs.append(h.sum(0))
    return m.stack(outs).square().sum(), p


def normed(m, x):
    Wx, Wh, scale, shift = p = weights(m, (I, 2 * H), (H, 2 * H), (2 * H,), (H,))
    h, c, outs = m.zeros(B, H), m.zeros(B, H), []
    for t in range(T):
        z, a = m.nn.functional.layer_norm(x[t] @ Wx + h @ Wh, (2 * H,), scale).chunk(2, 1)
        c = m.sigmoid(z) * c + m.softmax(a, 1)
        h = m.tanh(m.nn.functional.rms_norm(c, (H,), shift, eps=1e-2))
        outs.append(h)
    return m.stack(outs).square().mean(), p


def attends_to_itself(m, x):
    Wx, Wh = p = weights(m, (I, H), (H, H))
    h, seen = m.zeros(B, H), []
    for t in range(T):
        h = m.tanh(x[t] @ Wx + h @ Wh)
        seen.append(h)
        keys = m.stack(seen, 1)
        h = (m.softmax((keys * h.unsqueeze(1)).sum(-1), 1).unsqueeze(-1) * keys).sum(1)
    return h.square().mean(), p


FORMS = [
    plain, batch_first, one_row, one_step, reversed_time, written_into_slices, gates, side_by_side, two_layers,
    losses_in_the_loop, classes_in_the_loop, truncated, fewer_and_fewer_rows, normed, attends_to_itself,
]  # fmt: skip


def close(ours, theirs):
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=2e-4, atol=2e-6)


def gradients(m, form, x_gradient=True):
    x = m.from_numpy(data(T, B, I, scale=1)).requires_grad_(x_gradient)
    loss, parameters = form(m, x)
    loss.backward()
    return [loss] + [p.grad for p in parameters] + ([x.grad] if x_gradient else [])


@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("x_gradient", [False, True], ids=["", "x_too"])
def test_a_loop_has_the_gradients_of_pytorch(form, x_gradient):
    for ours, theirs in zip(gradients(SUT, form, x_gradient), gradients(REF, form, x_gradient), strict=True):
        close(ours, theirs)


@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.__name__)
def test_a_loop_has_the_second_derivatives_of_pytorch(form):
    def second(m):
        loss, p = form(m, m.from_numpy(data(T, B, I, scale=1)))
        first = m.autograd.grad(loss, p, create_graph=True)
        sum((g * g).sum() for g in first).backward()
        return [q.grad for q in p]

    for ours, theirs in zip(second(SUT), second(REF), strict=True):
        close(ours, theirs)


def test_gradients_add_up_over_several_backward_passes():
    def twice(m):
        x = m.from_numpy(data(T, B, I, scale=1))
        p = weights(m, (I, H), (H, H))
        for _ in range(3):
            h = m.zeros(B, H)
            for t in range(T):
                h = m.tanh(x[t] @ p[0] + h @ p[1])
            h.sum().backward(retain_graph=True)
            h.square().sum().backward()
        return [q.grad for q in p]

    for ours, theirs in zip(twice(SUT), twice(REF), strict=True):
        close(ours, theirs)


# --- layers ----------------------------------------------------------------------------------------------------------


LAYERS = {
    "RNN": {},
    "RNN_relu": {"nonlinearity": "relu"},
    "LSTM": {},
    "LSTM_projected": {"proj_size": 3, "bidirectional": True},
    "LSTM_without_bias": {"bias": False, "num_layers": 2},
    "GRU": {"bidirectional": True},
}


def over_sequence(m, kind, lengths, grad=True):
    """A recurrent layer over sequences of these lengths: its results, gradients, and gradients of gradients."""
    layer = getattr(m.nn, kind.split("_")[0])(I, H, **LAYERS[kind])
    with m.no_grad():
        for k, p in enumerate(layer.parameters()):
            p.copy_(m.from_numpy(data(*p.shape, seed=k)))
    x = m.from_numpy(data(max(lengths), len(lengths), I, seed=99)).requires_grad_(grad)
    packed = len(set(lengths)) > 1
    with m.set_grad_enabled(grad):
        given = m.nn.utils.rnn.pack_padded_sequence(x, m.tensor(lengths), enforce_sorted=False) if packed else x
        out, state = layer(given)
        found = [out.data if packed else out, *(state if isinstance(state, tuple) else [state])]
        if not grad:
            return found
        loss = sum((v * v).mean() for v in found)
        first = m.autograd.grad(loss, [x, *layer.parameters()], create_graph=True)
        return found + [*first, *m.autograd.grad(sum((g * g).sum() for g in first), [x, *layer.parameters()])]


@pytest.mark.parametrize("lengths", [[1], [4] * 3, [25], [40] * 2, [30, 30, 12, 11, 5]], ids=str)
@pytest.mark.parametrize("kind", LAYERS)
def test_a_layer_over_a_sequence_has_the_values_and_both_gradients_of_pytorch(kind, lengths):
    for ours, theirs in zip(over_sequence(SUT, kind, lengths), over_sequence(REF, kind, lengths), strict=True):
        scale = max(1e-6, float(theirs.detach().abs().max()))
        np.testing.assert_allclose(ours.detach().numpy() / scale, theirs.detach().numpy() / scale, rtol=1e-3, atol=2e-5)


@pytest.mark.parametrize("kind", LAYERS)
def test_a_layer_off_the_tape_has_the_values_of_pytorch(kind):
    lengths = [30, 30, 12, 11, 5]
    for ours, theirs in zip(
        over_sequence(SUT, kind, lengths, False), over_sequence(REF, kind, lengths, False), strict=True
    ):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-4, atol=1e-5)
