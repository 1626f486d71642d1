"""Attributes that a program gives to tensors: each tensor has its own, and cycles through them are collected."""

import copy
import gc
import pickle
import weakref

import brisk
import pytest


def test_a_tensor_without_attributes_has_an_empty_dict_of_its_own():
    a, b = brisk.ones(2), brisk.ones(2)
    assert a.__dict__ == {} and a.__dict__ is not b.__dict__
    a.__dict__["label"] = "a"
    assert a.label == "a" and not hasattr(b, "label") and not hasattr(brisk.ones(2), "label")


def test_attributes_set_and_deleted_are_of_one_tensor_only():
    a, b = brisk.ones(2), brisk.ones(2)
    a.label = "a"
    assert vars(a) == {"label": "a"} and vars(b) == {}
    del a.label
    for t in (a, b):
        with pytest.raises(AttributeError):
            del t.label
        with pytest.raises(AttributeError):
            _ = t.label


def test_a_dict_may_be_replaced_but_not_by_another_kind_of_object():
    a, attributes = brisk.ones(2), {"label": "a"}
    a.__dict__ = attributes
    assert a.label == "a" and a.__dict__ is attributes
    with pytest.raises(TypeError):
        brisk.ones(2).__dict__ = 3


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))])
def test_copies_have_the_attributes_and_then_their_own(copied):
    a = brisk.ones(2)
    a.tags = ["a"]
    b = copied(a)
    assert b.tags == ["a"]
    b.other = 1
    assert not hasattr(a, "other") and not hasattr(copied(brisk.ones(2)), "tags")


@pytest.mark.parametrize("tie", [lambda t: setattr(t, "me", t), lambda t: t.__dict__.update(me=t)])
def test_a_tensor_that_holds_itself_is_collected(tie):
    gc.collect()
    a = brisk.ones(2)
    seen = weakref.ref(a)
    tie(a)
    del a
    gc.collect()
    assert seen() is None


def test_a_tensor_that_was_of_another_class_is_collected_with_its_attributes():
    class Named(brisk.Tensor):
        pass

    class Witness:
        pass

    a = brisk.ones(2).as_subclass(Named)
    assert a.__dict__ == {}
    a.witness = Witness()
    seen = weakref.ref(a.witness)
    a.__class__ = brisk.Tensor
    assert type(a) is brisk.Tensor and a.witness is seen()
    del a
    gc.collect()
    assert seen() is None


def test_an_attribute_hides_a_method_of_its_tensor_only():
    a, b = brisk.ones(2), brisk.ones(3)

    def count(t):
        return t.numel()

    assert [count(t) for t in [b] * 50] == [3] * 50
    a.numel = lambda: "hidden"
    assert [count(t) for t in (a, b, a, b)] == ["hidden", 3, "hidden", 3]
