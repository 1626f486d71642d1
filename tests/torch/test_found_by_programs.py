"""What public programs once found: ways to call that no table of operations has."""

import importlib

import pytest

from tests.torch.compare import REF, SUT, check_tensor


@pytest.mark.parametrize("arguments", [{"split_size": [2, 4]}, {"split_size": 4}, {"split_size": (1, 5), "dim": -1}])
def test_split_takes_its_sizes_by_name(arguments):
    ours, theirs = (m.arange(6.0).split(**arguments) for m in (SUT, REF))
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        check_tensor(a, b, f"split {arguments}")


PLACES = [
    ("distributions.binomial", "Binomial"),
    ("distributions.half_normal", "HalfNormal"),
    ("distributions.studentT", "StudentT"),
    ("distributions.one_hot_categorical", "OneHotCategorical"),
    ("nn.modules.padding", "ZeroPad2d"),
    ("nn.modules.distance", "CosineSimilarity"),
    ("nn.modules.instancenorm", "InstanceNorm2d"),
]


@pytest.mark.parametrize("place, name", PLACES)
def test_a_name_is_found_where_pytorch_keeps_it(place, name):
    assert hasattr(importlib.import_module(f"{REF.__name__}.{place}"), name)
    module = importlib.import_module(f"{SUT.__name__}.{place}")
    assert getattr(module, name) is getattr(importlib.import_module(f"{SUT.__name__}.{place.rpartition('.')[0]}"), name)
