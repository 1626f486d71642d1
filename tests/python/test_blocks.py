"""Regions of blocks: what runs block of rows by block of rows gives the bits of the same ops one by one."""

import os
import subprocess
import sys

import brisk
import numpy as np
import pytest
from brisk.nn import functional as F


def norm_by_hand(x, eps=1e-5):
    mean = x.mean(-1, keepdim=True)
    centred = x - mean
    return centred * (centred.square().mean(-1, keepdim=True) + eps).rsqrt()


def softmax_by_hand(x):
    e = (x - x.amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True)


def layer_norm(x, w, b):
    return F.gelu(F.layer_norm(x, x.shape[-1:], w, b))


def rms_norm(x, w, b):
    return F.rms_norm(x, x.shape[-1:], w) * 2 + b


def norm_of_two_dimensions(x, w, b):
    return F.layer_norm(x, x.shape[-2:]) * w + b


def group_norm(x, w, b):
    return F.group_norm(x.reshape(x.shape[0], 4, -1), 2).tanh().reshape(x.shape) * w


def softmax(x, w, b):
    return (x * w).softmax(-1) * b


def log_softmax(x, w, b):
    return (x * w + b).log_softmax(-1) * w


def by_hand(x, w, b):
    return norm_by_hand(x) * w + softmax_by_hand(x + b)


def two_norms(x, w, b):
    h = F.layer_norm(x, x.shape[-1:], w, b)
    return F.layer_norm(x + h.relu(), x.shape[-1:], b, w).sigmoid()


def norms_of_one(x, w, b):
    """The gradients may share what was computed of the rows, where it is the same."""
    row = x.shape[-1:]
    y = F.rms_norm(x, row) + F.layer_norm(x, row, w) + F.layer_norm(x, row, b, eps=0.1)
    return y.tanh() + F.layer_norm(x, row, w).sigmoid()


def in_place(x, w, b):
    y = F.layer_norm(x, x.shape[-1:], w, b)
    y *= 2
    y += w
    return y.exp_().var(-1, keepdim=True) * x


def extremes(x, w, b):
    y = F.layer_norm(x, x.shape[-1:]) * w
    return y - y.amax(0) + y.max() + y.std(-1, keepdim=True)


PROGRAMS = [
    layer_norm,
    rms_norm,
    norm_of_two_dimensions,
    group_norm,
    softmax,
    log_softmax,
    by_hand,
    two_norms,
    in_place,
]
PROGRAMS += [extremes, norms_of_one]
SHAPES = [(300, 512), (400, 300), (7, 64, 192), (1000, 70), (40, 2048), (24, 3000), (3, 4096, 16), (2, 100000)]


def numbers(shape, seed):
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def results(dtype):
    """Every program's value, loss and gradients, as arrays of bits."""
    for program in PROGRAMS:
        for shape in SHAPES:
            if program is group_norm and (len(shape) != 2 or shape[1] % 4):
                continue
            x, w, b = (
                brisk.from_numpy(numbers(s, i)).to(dtype).requires_grad_()
                for i, s in enumerate((shape, shape[-1:], shape[-1:]))
            )
            y = program(x, w, b)
            loss = (y * y).mean()
            loss.backward()
            for t in (y, loss, x.grad, w.grad, b.grad):
                if t is not None:
                    t = t.detach().float().numpy()
                    yield f"{program.__name__}{shape}", t.view(np.uint32)


def digest(dtype):
    import hashlib

    return [(name, hashlib.sha256(a.tobytes()).hexdigest()) for name, a in results(dtype)]


@pytest.mark.parametrize("op", ["layer_norm", "rms_norm", "softmax"])
@pytest.mark.parametrize("shape", [(7, 48), (9, 512), (5, 3000), (6, 9000)])
def test_rows_done_together_have_the_bits_of_rows_alone(op, shape):
    rows = np.random.default_rng(4).standard_normal((2, *shape), dtype=np.float32)
    ops = {
        "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
        "rms_norm": lambda x: F.rms_norm(x, x.shape[-1:]),
        "softmax": lambda x: F.softmax(x, -1),
    }

    def both(x, g):
        x = brisk.from_numpy(x.copy()).requires_grad_()
        y = ops[op](x)
        y.backward(brisk.from_numpy(g.copy()))
        return y.detach().numpy(), x.grad.numpy()

    y, gradient = both(*rows)
    for i in range(shape[0]):
        one = both(rows[0, i : i + 1], rows[1, i : i + 1])
        assert (y[i : i + 1] == one[0]).all() and (gradient[i : i + 1] == one[1]).all()


def digest_in_child(dtype, **settings):
    code = (
        f"import brisk, sys; sys.path.insert(0, {os.path.dirname(__file__)!r}); import test_blocks as t;"
        f"print(t.digest(brisk.{dtype}))"
    )
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, **settings}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return eval(done.stdout)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_blocks_give_the_bits_of_single_ops(dtype):
    whole = digest_in_child(dtype, BRISK_NUM_THREADS="2")
    single = digest_in_child(dtype, BRISK_EAGER="1", BRISK_NUM_THREADS="1")
    assert len(whole) == len(single)
    assert [a[0] for a, b in zip(whole, single) if a != b] == []
