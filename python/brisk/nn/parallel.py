"""Models that PyTorch spreads over devices. There is one device here, so they call the model they were made of."""

from brisk.nn.modules.module import Module

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel"]


class DataParallel(Module):
    """The module itself, its parameters under the name `module` as PyTorch has them."""

    def __init__(self, module, device_ids=None, output_device=None, dim=0):
        super().__init__()
        self.dim, self.module, self.device_ids, self.output_device = dim, module, [], None

    def forward(self, *inputs, **kwargs):
        return self.module(*inputs, **kwargs)


def data_parallel(module, inputs, device_ids=None, output_device=None, dim=0, module_kwargs=None):
    """Calls the module."""
    inputs = inputs if isinstance(inputs, tuple) else () if inputs is None else (inputs,)
    return module(*inputs, **(module_kwargs or {}))


class DistributedDataParallel(Module):
    """Not there: programs of several processes need torch.distributed."""

    def __init__(self, *args, **kwargs):
        raise NotImplementedError("DistributedDataParallel is not there; DataParallel, which calls its module, is")
