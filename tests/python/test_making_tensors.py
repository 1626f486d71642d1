"""Making tensors, and getting numbers in and out of them."""

import copy
import gc
import pickle
import subprocess
import sys
import weakref

import numpy as np
import pytest


def test_importing_brisk_does_not_import_numpy(torch):
    code = "import sys, brisk; brisk.tensor([1.0, 2.0]).tolist(); assert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_numpy_writes_after_an_op_was_recorded_does_not_reach_its_result(torch):
    a = np.arange(4.0)
    t = torch.from_numpy(a)
    y = t * 2
    z = torch.zeros(4, dtype=torch.float64)
    z += t
    a[:] = -1
    assert y.tolist() == [0, 2, 4, 6] and z.tolist() == [0, 1, 2, 3] and t.tolist() == [-1] * 4


def test_what_is_pending_when_memory_is_exported_keeps_its_values(torch):
    x = torch.ones(4)
    y = x * 3
    a = x.numpy()
    a[:] = 7
    assert y.tolist() == [3] * 4 and x.tolist() == [7] * 4


def test_an_exported_tensor_that_was_pinned_keeps_its_pending_readers(torch):
    x = torch.ones(4)
    x.data_ptr()
    y = x + 1
    x.numpy()[:] = 9
    assert y.tolist() == [2] * 4


def test_writes_to_a_tensor_are_seen_by_its_array_at_once(torch):
    x = torch.zeros(2, 3)
    a = x.numpy()
    x[1] = 5
    assert a.tolist() == [[0, 0, 0], [5, 5, 5]]
    x.add_(1)
    assert a.tolist() == [[1, 1, 1], [6, 6, 6]]
    x.uniform_()
    assert a.tolist() == x.tolist()


def test_memory_is_ours_again_when_its_array_is_gone(torch):
    x = torch.ones(4)
    a = x.numpy()
    gone = weakref.ref(a)
    del a
    assert gone() is None
    y = x * 2
    x += 1
    assert y.tolist() == [2] * 4 and x.tolist() == [2] * 4


def test_an_array_that_only_a_tensor_holds_behaves_like_a_tensor(torch):
    t = torch.from_numpy(np.ones(1000))
    y = t * 2
    t += 1
    assert y.sum().item() == 2000 and t.sum().item() == 2000


def test_a_view_of_an_array_is_shared_although_only_the_tensor_holds_the_view(torch):
    a = np.zeros(6)
    t = torch.from_numpy(a[::2])
    y = t + 1
    a[:] = 5
    assert y.tolist() == [1, 1, 1] and t.tolist() == [5, 5, 5]


def test_the_buffer_protocol_shares_memory(torch):
    x = torch.zeros(2, 3)
    m = memoryview(x)
    m[1, 2] = 4.0
    x[0, 0] = 1
    assert m.tolist() == [[1, 0, 0], [0, 0, 4]] and x.tolist() == m.tolist()
    with pytest.raises(BufferError):
        memoryview(torch.zeros(2, requires_grad=True))


def test_dlpack_gives_back_what_it_was_given(torch):
    x = torch.arange(6)
    y = torch.from_dlpack(x)
    y[0] = 9
    assert x.tolist() == [9, 1, 2, 3, 4, 5]
    capsule = x.__dlpack__()
    del capsule  # never consumed: the export ends with it
    x += 1
    assert y.tolist() == [10, 2, 3, 4, 5, 6]


def test_a_read_only_buffer_warns_once(torch):
    code = (
        "import warnings, brisk\n"
        "with warnings.catch_warnings(record=True) as found:\n"
        "    warnings.simplefilter('always')\n"
        "    a = [brisk.frombuffer(b'abcd', dtype=brisk.uint8) for _ in range(2)]\n"
        "assert len(found) == 1 and 'not writable' in str(found[0].message), found\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_views_pickled_together_share_memory_again(torch):
    x = torch.arange(4.0)
    a, b = pickle.loads(pickle.dumps((x, x[1:3])))
    b += 10
    assert a.tolist() == [0, 11, 12, 3] and b.storage_offset() == 1


def test_a_shallow_copy_shares_and_a_deep_copy_does_not(torch):
    x = torch.zeros(3)
    shallow, deep = copy.copy(x), copy.deepcopy(x)
    x += 1
    assert shallow.tolist() == [1, 1, 1] and deep.tolist() == [0, 0, 0]


def test_a_deep_copy_has_its_own_gradient_and_attributes(torch):
    x = torch.ones(2, requires_grad=True)
    (x * 3).sum().backward()
    x.note = ["a"]
    y = copy.deepcopy(x)
    y.note.append("b")
    y.grad.zero_()
    assert y.requires_grad and y.is_leaf and x.grad.tolist() == [3, 3] and x.note == ["a"] and y.note == ["a", "b"]


def test_the_state_of_a_generator_can_be_kept_and_set(torch):
    g = torch.Generator().manual_seed(5)
    state = g.get_state()
    first = torch.randn(20, generator=g).tolist()
    g.set_state(state)
    assert torch.randn(20, generator=g).tolist() == first and g.initial_seed() == 5
    with torch.random.fork_rng():
        torch.manual_seed(0)
        golden = torch.rand(3)
    assert [round(v, 4) for v in golden.tolist()] == [0.4963, 0.7682, 0.0885]


def test_random_numbers_are_drawn_when_the_call_is_made(torch):
    torch.manual_seed(3)
    a = torch.rand(4)
    torch.manual_seed(3)
    b = torch.rand(4)
    c = torch.empty(4).uniform_()
    assert a.tolist() == b.tolist() != c.tolist()


def test_a_random_fill_of_a_view_reaches_its_base_and_stops_its_gradient(torch):
    x = torch.ones(4, requires_grad=True)
    y = x * 2
    y[:2].uniform_()
    y.sum().backward()
    assert x.grad.tolist() == [0, 0, 2, 2]


def test_tril_and_triu_have_gradients(torch):
    x = torch.ones(2, 3, 3, requires_grad=True)
    (x.tril(-1) * 2 + x.triu(1)).sum().backward()
    assert x.grad[0].tolist() == [[0, 1, 1], [2, 0, 1], [2, 2, 0]]


def test_tensors_of_no_elements_can_be_made_and_read(torch):
    assert (
        torch.zeros(2, 0).tolist() == [[], []] and torch.rand(0, 3).shape == (0, 3) and torch.arange(0).tolist() == []
    )
    assert torch.zeros(2, 0).numpy().shape == (2, 0) and torch.tril(torch.zeros(0, 0)).shape == (0, 0)


def test_old_tensor_types_make_and_recognise_tensors(torch):
    assert torch.LongTensor([1, 2]).dtype is torch.int64 and torch.FloatTensor(2, 3).shape == (2, 3)
    assert isinstance(torch.zeros(1), torch.FloatTensor) and not isinstance(torch.zeros(1), torch.DoubleTensor)
    assert torch.zeros(2).type() == "torch.FloatTensor" and torch.zeros(2).type(torch.ByteTensor).dtype is torch.uint8


def test_printing_follows_the_options(torch):
    x = torch.tensor([1.23456, 2.0])
    torch.set_printoptions(precision=2)
    try:
        assert str(x) == "tensor([1.23, 2.00])"
    finally:
        torch.set_printoptions(profile="default")
    assert str(x) == "tensor([1.2346, 2.0000])" and f"{x[0]:.1f}" == "1.2"


def test_memory_can_be_seen_as_another_dtype(torch):
    x = torch.ones(2)
    bits = x.view(torch.int32)
    bits += 1 << 23
    assert x.tolist() == [2, 2] and x.view(torch.float32).data_ptr() == x.data_ptr() == bits.data_ptr()


def test_numpy_leaves_numbers_and_comparisons_to_tensors(torch):
    x = torch.ones(2)
    for y in (np.float64(2) * x, x * np.float64(2), np.float32(1) + x):
        assert y.dtype is torch.float32 and y.tolist() == [2, 2]
    assert np.exp(x * 0).tolist() == [1, 1] and isinstance(np.exp(x), torch.Tensor)
    assert (np.ones(2) == x).tolist() == [True, True] and (x < np.array([0, 2])).tolist() == [False, True]


def test_a_view_of_everything_is_no_leaf(torch):
    x = torch.ones(2, 3, requires_grad=True)
    for v in (x[:], x.view_as(x), x.squeeze()):
        assert v.requires_grad and not v.is_leaf and v.grad_fn is not None
    x[:].sum().backward()
    assert x.grad.tolist() == [[1, 1, 1]] * 2
    plain = torch.zeros(3)
    alias = plain[:].requires_grad_()
    assert alias.is_leaf and not plain.requires_grad


def test_grad_fn_leads_to_the_leaves(torch):
    x = torch.ones(2, requires_grad=True)
    y = (x * 3).sum()
    assert x.grad_fn is None and torch.ones(1).grad_fn is None
    assert y.grad_fn.name() == "SumBackward0" and y.grad_fn == y.grad_fn
    product = y.grad_fn.next_functions[0][0]
    assert product.name() == "MulBackward0" and repr(product).startswith("<MulBackward0 object at 0x")
    assert product.next_functions[0][0].name() == "torch::autograd::AccumulateGrad"
    y.backward()
    assert x.grad.tolist() == [3, 3]


def test_a_tensor_of_another_class_may_become_a_plain_one(torch):
    class Other(torch.Tensor):
        pass

    for with_attributes in (False, True):
        for _ in range(200):  # more than are kept for later: each is given back in every way there is
            x = torch.ones(2).as_subclass(Other)
            if with_attributes:
                x.note = x
            x.__class__ = torch.Tensor
            x.late = 1
            assert type(x) is torch.Tensor and x.sum().item() == 2
        del x
        gc.collect()
