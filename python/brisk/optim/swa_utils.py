"""Averages of a model's weights over training."""

from copy import deepcopy
from itertools import chain

from brisk import _C
from brisk.autograd.grad_mode import no_grad
from brisk.optim.lr_scheduler import LRScheduler

__all__ = [
    "SWALR", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn", "get_swa_multi_avg_fn", "update_bn",
]  # fmt: skip


def _check_decay(decay):
    if decay < 0.0 or decay > 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def get_ema_avg_fn(decay=0.999):
    """The exponential moving average."""
    _check_decay(decay)
    return lambda average, current, count: decay * average + (1 - decay) * current


def get_ema_multi_avg_fn(decay=0.999):
    """The exponential moving average of several tensors of one dtype, in place."""
    _check_decay(decay)

    @no_grad()
    def update(averages, current, _):
        for average, now in zip(averages, current, strict=True):
            if average.is_floating_point():
                average.lerp_(now, 1 - decay)
            else:
                average.copy_(average * decay + now * (1 - decay))

    return update


def get_swa_avg_fn():
    """The mean of all so far."""
    return lambda average, current, count: average + (current - average) / (count + 1)


def get_swa_multi_avg_fn():
    """The mean of all so far, of several tensors of one dtype, in place."""

    @no_grad()
    def update(averages, current, count):
        for average, now in zip(averages, current, strict=True):
            average.lerp_(now, float(1 / (count + 1)))

    return update


def _by_dtype(averages, current):
    """Lists of both, of one dtype each."""
    found = {}
    for average, now in zip(averages, current):
        mine, theirs = found.setdefault(average.dtype, ([], []))
        mine.append(average.detach())
        theirs.append(now.detach())
    return found.values()


def _averaged_model():
    from brisk.nn import Module

    class AveragedModel(Module):
        """A copy of a model whose weights are the average of those it is updated with."""

        def __init__(self, model, device=None, avg_fn=None, multi_avg_fn=None, use_buffers=False):
            super().__init__()
            if avg_fn is not None and multi_avg_fn is not None:
                raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
            self.module = deepcopy(model)
            self.register_buffer("n_averaged", _C.tensor(0, dtype=_C.long))
            self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

        def forward(self, *args, **kwargs):
            return self.module(*args, **kwargs)

        def _weights(self, model):
            return list(chain(model.parameters(), model.buffers()) if self.use_buffers else model.parameters())

        @no_grad()
        def update_parameters(self, model):
            """Takes the model's weights into the average."""
            mine, theirs = self._weights(self.module), self._weights(model)
            if self.n_averaged.item() == 0:
                for average, current in zip(mine, theirs):
                    average.copy_(current)
            elif self.multi_avg_fn is not None:
                for averages, current in _by_dtype(mine, theirs):
                    self.multi_avg_fn(averages, current, self.n_averaged)
            else:
                fn = self.avg_fn or get_swa_avg_fn()
                for average, current in zip(mine, theirs):
                    if average.is_floating_point() or self.avg_fn:
                        average.copy_(fn(average.detach(), current.detach(), self.n_averaged))
                    else:
                        average.copy_(current)
            if not self.use_buffers:
                for average, current in zip(self.module.buffers(), model.buffers()):
                    average.copy_(current)
            self.n_averaged += 1

    AveragedModel.__module__ = __name__
    AveragedModel.__qualname__ = "AveragedModel"
    return AveragedModel


def __getattr__(name):
    """AveragedModel is made when it is asked for: modules import more than optimizers need."""
    if name != "AveragedModel":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = _averaged_model()
    return globals()[name]


@no_grad()
def update_bn(loader, model, device=None):
    """Computes the running statistics of batch normalisation afresh, over the loader's batches."""
    from brisk.nn.modules.batchnorm import _BatchNorm

    momenta = {}
    for module in model.modules():
        if isinstance(module, _BatchNorm):
            module.reset_running_stats()
            momenta[module] = module.momentum
    if not momenta:
        return
    was_training = model.training
    model.train()
    for module in momenta:
        module.momentum = None
    for batch in loader:
        model(batch[0] if isinstance(batch, (list, tuple)) else batch)
    for module, momentum in momenta.items():
        module.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Anneals the learning rate to swa_lr and keeps it there."""

    def __init__(self, optimizer, swa_lr, anneal_epochs=10, anneal_strategy="cos", last_epoch=-1):
        rates = swa_lr if isinstance(swa_lr, (list, tuple)) else [swa_lr] * len(optimizer.param_groups)
        for rate, group in zip(rates, optimizer.param_groups):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must by one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._strategy, self.anneal_epochs = anneal_strategy, anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _share(self, t):
        import math

        return (1 - math.cos(math.pi * t)) / 2 if self._strategy == "cos" else t

    def get_lr(self):
        """The rates between what they were and swa_lr."""
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before = self._share(max(0, min(1, (step - 1) / max(1, self.anneal_epochs))))
        now = self._share(max(0, min(1, step / max(1, self.anneal_epochs))))
        rates = []
        for group in self.optimizer.param_groups:
            start = group["swa_lr"] if before == 1 else (group["lr"] - before * group["swa_lr"]) / (1 - before)
            rates.append(group["swa_lr"] * now + start * (1 - now))
        return rates
