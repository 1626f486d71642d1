"""torch.testing.assert_close: what passes, what fails, and with which words."""

import brisk
import numpy as np
import pytest
import torch

CASES = [
    lambda m: ((m.tensor([1.0, 2.0]), m.tensor([1.0, 2.000001])), {}),
    lambda m: ((m.tensor([1.0, 2.0, 4.0]), m.tensor([1.0, 2.5, 4.5])), {}),
    lambda m: ((m.tensor([1.0, 2.0]), m.tensor([1.0, 2.5])), {"rtol": 0, "atol": 1}),
    lambda m: ((m.tensor([1.0]), m.tensor([2.0])), {"rtol": 0.1}),
    lambda m: ((m.tensor([[1, 2], [3, 4]]), m.tensor([[1, 2], [5, 4]])), {}),
    lambda m: ((m.tensor([True, False]), m.tensor([True, True])), {}),
    lambda m: ((m.tensor([1, 2]), m.tensor([1.0, 2.0])), {}),
    lambda m: ((m.tensor([1, 2]), m.tensor([1.0, 2.0])), {"check_dtype": False}),
    lambda m: ((m.zeros(2, 3), m.zeros(3, 2)), {}),
    lambda m: ((m.zeros(2, 3), m.zeros(3, 2).t()), {}),
    lambda m: ((m.zeros(2, 3), m.zeros(3, 2).t()), {"check_stride": True}),
    lambda m: ((m.tensor([float("nan")]), m.tensor([float("nan")])), {}),
    lambda m: ((m.tensor([float("nan")]), m.tensor([float("nan")])), {"equal_nan": True}),
    lambda m: ((m.tensor(1.5), m.tensor(2.5)), {}),
    lambda m: ((1.0, 1.00000001), {}),
    lambda m: ((1.0, 2.0), {}),
    lambda m: ((1, 2), {}),
    lambda m: ((1, 1.0), {}),
    lambda m: ((True, False), {}),
    lambda m: ((None, None), {}),
    lambda m: ((None, 1.0), {}),
    lambda m: (("a", 1.0), {}),
    lambda m: ((1.0, 2.0), {"msg": "told so"}),
    lambda m: ((1.0, 2.0), {"msg": lambda text: "before: " + text}),
    lambda m: (([m.ones(1), m.ones(1)], [m.ones(1), m.zeros(1)]), {}),
    lambda m: (([1, 2], [1]), {}),
    lambda m: (({"a": [1.0, 2.0]}, {"a": [1.0, 3.0]}), {}),
    lambda m: (({"a": 1, "b": 2}, {"a": 1, "c": 2}), {}),
    lambda m: ((np.ones(2), np.ones(2)), {}),
    lambda m: ((m.ones(2, requires_grad=True), m.ones(2)), {}),
    lambda m: ((m.ones(2, dtype=m.bfloat16), m.ones(2, dtype=m.bfloat16) * 1.01), {}),
]


@pytest.mark.parametrize("case", CASES)
def test_what_is_close_and_what_is_said_when_not_are_pytorchs(case):
    def said(module):
        arguments, options = case(module)
        try:
            module.testing.assert_close(*arguments, **options)
        except Exception as error:
            return type(error), str(error)

    ours, theirs = said(brisk), said(torch)
    assert (ours and ours[0]) == (theirs and theirs[0])
    if ours and ours[0] is AssertionError:
        assert ours[1] == theirs[1]


@pytest.mark.parametrize("distance", [0, 1e-6, 3e-5, 3e-4])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_the_older_name_has_wider_tolerances(distance, dtype):
    def passes(module):
        x = module.ones(2, dtype=getattr(module, dtype))
        with pytest.warns(FutureWarning):
            try:
                module.testing.assert_allclose(x + distance, [1.0, 1.0])
            except AssertionError:
                return False
        return True

    assert passes(brisk) == passes(torch)
