"""torch.multiprocessing: several processes at once, tensors in messages, and memory in common with forked ones."""

import os
import signal

import brisk as torch
import pytest
from brisk import multiprocessing as mp


def double(index, queue, tensor):
    queue.put((index, tensor * 2 + index))


def refuse(index):
    if index == 1:
        raise ValueError("the second one refuses")
    signal.pause()


def vanish(index):
    os.kill(os.getpid(), signal.SIGKILL)


def learn(index, model, steps):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        x = torch.randn(8, 3)
        optimizer.zero_grad()
        (model(x) - x.sum(1, keepdim=True)).square().mean().backward()
        optimizer.step()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_tensors_pass_to_processes_and_back_through_a_queue(method):
    queue = mp.get_context(method).SimpleQueue()
    started = mp.start_processes(double, (queue, torch.arange(3.0)), nprocs=2, join=False, start_method=method)
    got = dict(queue.get() for _ in range(2))
    while not started.join():
        pass
    assert [got[i].tolist() for i in range(2)] == [[0, 2, 4], [1, 3, 5]]


def test_the_exception_of_a_process_is_raised_where_it_is_joined_and_ends_the_others():
    with pytest.raises(mp.ProcessRaisedException, match="the second one refuses") as caught:
        mp.start_processes(refuse, nprocs=2, start_method="fork")
    assert caught.value.error_index == 1


def test_a_process_that_a_signal_ended_is_named_with_it():
    with pytest.raises(mp.ProcessExitedException, match="process 0 terminated with signal SIGKILL") as caught:
        mp.start_processes(vanish, nprocs=1, start_method="fork")
    assert (caught.value.exit_code, caught.value.signal_name) == (-9, "SIGKILL")


def test_what_forked_processes_learn_is_in_the_shared_model_here():
    model = torch.nn.Linear(3, 1).share_memory()
    assert all(p.is_shared() and p.is_leaf and p.requires_grad for p in model.parameters())
    read = model(torch.ones(1, 3)) + 0
    before = read.item()
    mp.start_processes(learn, (model, 100), nprocs=2, start_method="fork")
    assert model(torch.ones(1, 3)).item() == pytest.approx(3, abs=0.05) != before
    assert model.weight.detach().numpy().sum() == pytest.approx(3, abs=0.05)


def test_a_shared_tensor_keeps_its_values_dtype_and_shape():
    for tensor in (torch.arange(6).view(2, 3).t(), torch.tensor(2.5), torch.zeros(0), torch.tensor([True, False])):
        values = tensor.tolist()
        assert not tensor.is_shared()
        dtype = tensor.dtype
        assert tensor.share_memory_() is tensor
        assert (tensor.tolist(), tensor.dtype, tensor.is_shared()) == (values, dtype, tensor.numel() > 0)


def test_a_shared_tensor_is_not_copied_into_a_message_unnoticed():
    from multiprocessing.reduction import ForkingPickler

    with pytest.raises(RuntimeError, match="forked processes only"):
        ForkingPickler.dumps(torch.ones(2).share_memory_())
