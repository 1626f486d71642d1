"""Memory that others hold too: NumPy, the buffer protocol, DLPack, copies and pickles."""

import copy
import gc
import pickle

import numpy as np
import pytest


def test_numpy_shares_memory_both_ways(torch):
    a = np.zeros(4, dtype="float32")
    t = torch.from_numpy(a)
    a[0] = 1
    t[1] = 2
    t += 1
    assert t.tolist() == [2, 3, 1, 1]
    assert a.tolist() == [2, 3, 1, 1]


def test_a_tensor_given_to_numpy_shares_memory_both_ways(torch):
    t = torch.zeros(4) + 1
    a = t.numpy()
    t[0] = 5
    a[1] = 6
    t.mul_(2)
    assert t.tolist() == [10, 12, 2, 2]
    assert a.tolist() == [10, 12, 2, 2]


def test_a_value_read_from_shared_memory_is_the_value_of_that_moment(torch):
    a = np.ones(3)
    t = torch.from_numpy(a)
    y = t * 2
    a[:] = 100
    assert y.tolist() == [2, 2, 2]


def test_a_value_read_from_a_view_of_shared_memory_is_the_value_of_that_moment(torch):
    t = torch.arange(6.0).reshape(2, 3)
    a = t.numpy()
    y = t.t()[1:] + 0
    a.fill(-1)
    assert y.tolist() == [[1, 4], [2, 5]]
    assert t.tolist() == [[-1] * 3] * 2


def test_exporting_a_value_does_not_tie_other_values_to_it(torch):
    x = torch.ones(3)
    y = x.clone()
    z = x * 1
    a = y.numpy()
    a[0] = 9
    assert x.tolist() == [1, 1, 1] and z.tolist() == [1, 1, 1] and y.tolist() == [9, 1, 1]


def test_reshape_and_contiguous_share_where_pytorch_shares(torch):
    x = torch.zeros(2, 3)
    x.contiguous()[0, 0] = 1
    x.reshape(3, 2)[0, 1] = 2
    x.t().contiguous()[0, 0] = 9
    x.t().reshape(-1)[0] = 9
    assert x.tolist() == [[1, 2, 0], [0, 0, 0]]


def test_the_address_of_a_tensor_does_not_move(torch):
    x = torch.zeros(1000)
    address = x.data_ptr()
    for _ in range(50):
        x += 1
    y = x * 2
    assert x.data_ptr() == address and y.sum().item() == 100_000
    assert x[10:].data_ptr() == address + 40


def test_memory_outlives_the_tensor_that_numpy_took_it_from(torch):
    a = (torch.arange(1000.0) + 1).numpy()
    gc.collect()
    junk = [torch.zeros(1000) + 5 for _ in range(20)]
    assert a[-1] == 1000 and junk[0][0].item() == 5


def test_memory_outlives_the_array_that_a_tensor_took_it_from(torch):
    t = torch.from_numpy(np.arange(1000.0))
    gc.collect()
    junk = [np.full(1000, 5.0) for _ in range(20)]
    assert t.sum().item() == 499500 and junk[0][0] == 5


def test_dlpack_shares_memory_both_ways(torch):
    x = torch.zeros(3)
    a = np.from_dlpack(x)
    x[0] = 4
    assert a.tolist() == [4, 0, 0]
    source = np.zeros(3)
    y = torch.from_dlpack(source)
    y[1] = 7
    assert source.tolist() == [0, 7, 0]


def test_deepcopy_copies_the_value_of_the_moment(torch):
    x = torch.ones(3)
    y = x * 2
    z = copy.deepcopy(y)
    y += 1
    assert z.tolist() == [2, 2, 2] and y.tolist() == [3, 3, 3]


def test_deepcopy_keeps_who_is_who(torch):
    x = torch.zeros(4)
    a, b, c = copy.deepcopy((x, x, x[1:]))
    a[1] = 5
    assert a is b and c.tolist() == [5, 0, 0] and x.tolist() == [0, 0, 0, 0]


def test_pickle_keeps_values_strides_and_requires_grad(torch):
    x = (torch.arange(6.0).reshape(2, 3).t() * 2).detach().requires_grad_()
    y = pickle.loads(pickle.dumps(x))
    assert y.tolist() == x.tolist() and y.stride() == x.stride() == (1, 3) and y.requires_grad and y.is_leaf


def test_a_copy_of_a_tensor_that_has_a_tape_is_refused(torch):
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError):
        copy.deepcopy(x * 2)


def test_tensors_are_keys_by_identity(torch):
    x, y = torch.ones(2), torch.ones(2)
    names = {x: "x", y: "y"}
    x += 1
    assert names[x] == "x" and names[y] == "y" and len({x, y, x}) == 2


def test_assigning_data_moves_a_parameter_to_other_memory(torch):
    w = torch.nn.Parameter(torch.zeros(2))
    source = torch.ones(3)
    w.data = source
    source += 1
    assert w.tolist() == [2, 2, 2] and w.is_leaf and w.requires_grad


def test_torch_tensor_copies_and_as_tensor_does_not(torch):
    a = np.zeros(2)
    copied, shared = torch.tensor(a), torch.as_tensor(a)
    a[0] = 1
    assert copied.tolist() == [0, 0] and shared.tolist() == [1, 0]


def test_an_array_sees_what_is_written_through_another_dtype_when_the_first_tensor_is_gone(torch):
    a = np.zeros(8, dtype="uint8")
    t = torch.from_numpy(a).view(torch.float32)  # the tensor of bytes ends here; the array does not
    t.copy_(torch.ones(2))
    assert a.tolist() == [0, 0, 128, 63] * 2
    a[:] = 0
    assert t.tolist() == [0, 0]
    u = torch.from_numpy(a).view(torch.float32).view(torch.int32).view(torch.int16)
    u += 1
    assert a.tolist() == [1, 0] * 4


def test_writes_stay_at_an_address_that_was_handed_out_when_the_first_tensor_is_gone(torch):
    t = torch.zeros(2)
    address = t.data_ptr()
    t = t.view(torch.int32)
    t.copy_(torch.tensor([1, 2], dtype=torch.int32))
    assert t.data_ptr() == address
    assert t.tolist() == [1, 2]
