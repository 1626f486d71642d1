"""The order of equal values: what sort, argsort, topk, kthvalue, mode and unique say about places is PyTorch's."""

import brisk
import numpy as np
import pytest

from tests.torch.compare import DTYPES, REF, dtype_name, tensor_of

SIZES = (2, 15, 16, 17, 33, 64, 100, 257, 1000, 5000)


def lanes(dtype, sizes, values, seed, nans=0.0):
    rng = np.random.RandomState(seed)
    data = rng.randint(0, 2 if dtype == "bool" else values, size=sizes)
    if not nans:
        return data.astype("float32" if dtype == "bfloat16" else dtype)
    return np.where(rng.rand(*np.atleast_1d(sizes)) < nans, np.nan, data).astype(
        "float32" if dtype == "bfloat16" else dtype
    )


def check(data, dtype, run):
    ours, theirs = (run(m, tensor_of(m, data, dtype)) for m in (brisk, REF))
    for a, b in zip(ours, theirs):
        assert dtype_name(a.dtype) == dtype_name(b.dtype)
        assert str(a.tolist()) == str(b.tolist()), f"{dtype} {data.shape}"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("descending", [False, True])
def test_sorts_leave_equal_values_in_pytorchs_order(dtype, descending):
    for seed, n in enumerate(SIZES):
        for values in (1, 3, 50):
            check(lanes(dtype, n, values, seed), dtype, lambda m, x: x.sort(descending=descending))
            check(lanes(dtype, n, values, seed), dtype, lambda m, x: [x.argsort(0, descending)])
            check(lanes(dtype, n, values, seed), dtype, lambda m, x: m.sort(x, stable=True, descending=descending))
    check(lanes(dtype, (40, 3), 4, 1), dtype, lambda m, x: x.sort(0, descending))
    check(lanes(dtype, (3, 40), 4, 2), dtype, lambda m, x: x.t().sort(0, descending))
    check(lanes(dtype, (30, 1), 4, 3), dtype, lambda m, x: x.expand(30, 40).sort(1, descending))


@pytest.mark.parametrize("shape", ["rising", "falling", "organ pipe", "saw", "worst"])
def test_sorts_of_orderly_data_take_pytorchs_steps(shape):
    """Also those that leave introsort no way but its heap."""
    n = 4000
    rising = np.arange(n) // 3
    data = {
        "rising": rising,
        "falling": rising[::-1].copy(),
        "organ pipe": np.minimum(rising, rising[::-1]),
        "saw": rising % 40,
        "worst": worst_case(n) // 2,
    }[shape].astype("float32")
    check(data, "float32", lambda m, x: x.sort())
    check(data, "float32", lambda m, x: x.topk(1500))
    check(data, "float32", lambda m, x: x.topk(1500, largest=False))
    check(data, "float32", lambda m, x: x.kthvalue(1700))


def worst_case(n):
    """Numbers whose medians of three are always among the least: Musser's sequence."""
    half = n // 2
    out = np.empty(n, dtype="int64")
    out[:half:2] = np.arange(1, half + 1, 2)
    out[1:half:2] = np.arange(half + 1, 2 * half, 2)
    out[half:] = 2 * np.arange(1, half + 1)
    return out


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "bool"])
@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("in_order", [False, True])
def test_topk_takes_equal_values_in_pytorchs_order(dtype, largest, in_order):
    for seed, n in enumerate(SIZES):
        for values in (1, 3, 50):
            for k in {0, 1, 2, n // 64, n // 64 + 1, n // 2, n - 1, n}:
                check(lanes(dtype, n, values, seed), dtype, lambda m, x: x.topk(k, largest=largest, sorted=in_order))
    check(lanes(dtype, (70, 3), 4, 1), dtype, lambda m, x: x.topk(20, 0, largest, in_order))


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "bool"])
def test_kthvalue_finds_the_one_of_equal_values_that_pytorch_finds(dtype):
    for seed, n in enumerate(SIZES):
        for values in (1, 3, 50):
            for k in {1, 2, n // 3 + 1, n // 2, n}:
                check(lanes(dtype, n, values, seed), dtype, lambda m, x: x.kthvalue(k))
    check(lanes(dtype, (70, 3), 4, 1), dtype, lambda m, x: x.kthvalue(20, 0))


@pytest.mark.parametrize("dtype", DTYPES)
def test_mode_finds_the_place_that_pytorch_finds(dtype):
    for seed, n in enumerate(SIZES):
        for values in (1, 3, 50):
            check(lanes(dtype, n, values, seed), dtype, lambda m, x: x.mode())
    check(lanes(dtype, (70, 3), 4, 1), dtype, lambda m, x: x.mode(0))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("nans", [0.1, 0.6, 1.0])
def test_nans_are_where_pytorch_has_them(dtype, nans):
    for seed, n in enumerate(SIZES):
        data = lanes(dtype, n, 4, seed, nans)
        check(data, dtype, lambda m, x: x.sort())
        check(data, dtype, lambda m, x: x.sort(descending=True))
        check(data, dtype, lambda m, x: x.topk(n // 2 + 1))
        check(data, dtype, lambda m, x: x.topk(n // 2 + 1, largest=False))
        check(data, dtype, lambda m, x: x.kthvalue(n // 2 + 1))
        check(data, dtype, lambda m, x: x.mode())
        check(data, dtype, lambda m, x: x.median(0))
        check(data, dtype, lambda m, x: x.nanmedian(0))
        check(data, dtype, lambda m, x: x.unique(return_inverse=True, return_counts=True))
        check(data, dtype, lambda m, x: x.unique_consecutive(return_inverse=True, return_counts=True))
