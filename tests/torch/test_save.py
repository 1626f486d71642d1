"""Checkpoints between brisk and PyTorch, both ways: what one writes the other reads as if it had written it itself."""

import collections
import io
import pickle

import pytest
import torch as REF

from .compare import SUT


def contents(torch):
    """One of everything that programs save."""
    base = torch.arange(24.0).reshape(4, 6)
    shared = [1, 2.5, "x", (1, (2,))]
    return collections.OrderedDict(
        base=base,
        strided=base[1:3, ::2],
        transposed=base.t(),
        parameter=torch.nn.Parameter(torch.ones(2, 3)),
        frozen=torch.nn.Parameter(torch.zeros(2), requires_grad=False),
        needs_grad=torch.ones(2, requires_grad=True),
        scalar=torch.tensor(3.5),
        empty=torch.empty(0, 3),
        **{name: torch.ones(3).to(getattr(torch, name)) for name in (
            "float16", "bfloat16", "float64", "int64", "int32", "int16", "int8", "uint8", "bool",
        )},
        size=torch.Size([1, 2]),
        dtype=torch.bfloat16,
        device=torch.device("cpu"),
        nothing=None,
        shared=shared,
        again=shared,
        items={1, 2},
        data=b"xy\xff",
        large=1 << 100,
        negative=-(1 << 70),
        small=-3,
        number=1 - 2j,
        counts=collections.Counter("aab"),
        text="é中",
        optimiser={
            "state": {0: {"step": torch.tensor(1.0), "exp_avg": torch.zeros(2)}},
            "param_groups": [{"lr": 0.1, "betas": (0.9, 0.99), "params": [0], "foreach": None, "amsgrad": False}],
        },
    )  # fmt: skip


def check_same(x, y, path="top"):
    assert type(x).__name__ == type(y).__name__, path
    if hasattr(x, "untyped_storage"):
        for fact in (
            lambda t: str(t.dtype), lambda t: tuple(t.shape), lambda t: t.stride(), lambda t: t.storage_offset(),
            lambda t: t.requires_grad, lambda t: t.is_leaf, lambda t: t.detach().double().tolist(),
        ):  # fmt: skip
            assert fact(x) == fact(y), path
    elif isinstance(x, dict):
        assert list(x) == list(y), path
        for key in x:
            check_same(x[key], y[key], f"{path}.{key}")
    elif isinstance(x, (list, tuple)):
        assert len(x) == len(y), path
        for i, (a, b) in enumerate(zip(x, y)):
            check_same(a, b, f"{path}[{i}]")
    elif type(x).__name__ in ("dtype", "device"):
        assert str(x) == str(y), path
    else:
        assert x == y, path


def written(torch, value, **options):
    file = io.BytesIO()
    torch.save(value, file, **options)
    file.seek(0)
    return file


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_brisk_reads_what_pytorch_writes(protocol):
    loaded = SUT.load(written(REF, contents(REF), pickle_protocol=protocol))
    check_same(loaded, contents(REF))
    assert loaded["shared"] is loaded["again"]


def test_brisk_reads_the_format_of_before_the_archive():
    check_same(SUT.load(written(REF, contents(REF), _use_new_zipfile_serialization=False)), contents(REF))


def test_pytorch_reads_what_brisk_writes():
    loaded = REF.load(written(SUT, contents(SUT)))
    check_same(loaded, contents(SUT))
    assert loaded["shared"] is loaded["again"]


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_brisk_reads_what_brisk_writes(protocol):
    check_same(SUT.load(written(SUT, contents(SUT), pickle_protocol=protocol)), contents(SUT))


@pytest.mark.parametrize("writer, reader", [(REF, SUT), (SUT, REF), (SUT, SUT)])
def test_tensors_that_share_memory_share_it_after_loading(writer, reader):
    loaded = reader.load(written(writer, contents(writer)))
    loaded["base"][1, 2] = 100.0
    assert loaded["strided"][0, 1].item() == 100
    assert loaded["transposed"][2, 1].item() == 100


def test_a_model_of_pytorch_keeps_its_state_dict():
    model = REF.nn.Sequential(REF.nn.Linear(3, 4), REF.nn.BatchNorm1d(4), REF.nn.LSTM(4, 2))
    loaded = SUT.load(written(REF, model.state_dict()))
    check_same(loaded, model.state_dict())
    model.load_state_dict(REF.load(written(SUT, loaded)))


def test_paths_and_file_objects_are_taken(tmp_path):
    path = tmp_path / "x.pt"
    SUT.save(SUT.ones(2), path)
    assert REF.load(str(path)).tolist() == [1, 1]
    for place in ("cpu", SUT.device("cpu"), None, {"cuda:0": "cpu"}, lambda storage, location: storage):
        assert SUT.load(str(path), map_location=place, weights_only=True, mmap=True).tolist() == [1, 1]
    with open(path, "rb") as file:
        assert SUT.load(file).tolist() == [1, 1]


ERRORS = {
    "a path that is not there": lambda t: t.load("/nowhere/x.pt"),
    "a directory that is not there": lambda t: t.save(1, "/nowhere/x.pt"),
    "no file to write": lambda t: t.save(1, 5),
    "no file to read": lambda t: t.load(5),
    "an empty file": lambda t: t.load(io.BytesIO()),
    "half an archive": lambda t: t.load(io.BytesIO(written(t, t.ones(9)).getvalue()[:200])),
    "a function": lambda t: t.save(lambda: 1, io.BytesIO()),
    "a class of the file's own": lambda t: t.load(written(t, {"x": Allowed(3)})),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_of_pytorchs_type(name):
    with pytest.raises(Exception) as ours:
        ERRORS[name](SUT)
    with pytest.raises(Exception) as theirs:
        ERRORS[name](REF)
    assert ours.type is theirs.type


class Allowed:
    def __init__(self, value):
        self.value = value


@pytest.mark.parametrize("torch", [REF, SUT])
def test_a_class_that_the_user_allows_is_loaded(torch):
    file = written(torch, {"x": Allowed(3)})
    with torch.serialization.safe_globals([Allowed]):
        assert torch.load(file)["x"].value == 3
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError):
        torch.load(file)


def test_a_whole_module_is_refused_and_the_error_says_why():
    file = written(REF, REF.nn.Linear(2, 2))
    with pytest.raises(pickle.UnpicklingError, match="never runs code"):
        SUT.load(file, weights_only=False)


@pytest.mark.parametrize("writer", [REF, SUT])
def test_a_whole_module_is_loaded_when_its_classes_are_allowed(writer):
    model = writer.nn.Sequential(writer.nn.Linear(2, 3), writer.nn.Tanh())
    nn = SUT.nn
    with SUT.serialization.safe_globals([nn.Sequential, nn.Linear, nn.Tanh]):
        loaded = SUT.load(written(writer, model), weights_only=False)
    assert repr(loaded) == repr(model)
    assert loaded(SUT.ones(1, 2))[0].tolist() == pytest.approx(model(writer.ones(1, 2))[0].tolist())
    check_same(loaded.state_dict(), model.state_dict())


def test_random_states_travel():
    REF.manual_seed(3)
    REF.randn(5)
    SUT.set_rng_state(SUT.load(written(REF, REF.get_rng_state())))
    assert SUT.rand(3).tolist() == REF.rand(3).tolist()
