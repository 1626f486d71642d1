"""Normalisation of channels over the batch (BatchNorm) or over each sample (InstanceNorm), with running statistics."""

from brisk import _C
from brisk.autograd.grad_mode import no_grad
from brisk.nn import functional as F
from brisk.nn import init
from brisk.nn.modules.lazy import LazyModuleMixin
from brisk.nn.modules.module import Module
from brisk.nn.parameter import Parameter, UninitializedBuffer, UninitializedParameter

__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d",
    "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyInstanceNorm1d",
    "LazyInstanceNorm2d", "LazyInstanceNorm3d", "SyncBatchNorm",
]  # fmt: skip


class _NormBase(Module):
    _version = 2

    def __init__(
        self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, device=None, dtype=None,
        *, bias=True,
    ):  # fmt: skip
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            if wanted:
                setattr(self, name, Parameter(_C.empty(num_features, dtype=dtype, device=device)))
            else:
                self.register_parameter(name, None)
        tracked = track_running_stats
        self.register_buffer("running_mean", _C.zeros(num_features, dtype=dtype) if tracked else None)
        self.register_buffer("running_var", _C.ones(num_features, dtype=dtype) if tracked else None)
        self.register_buffer("num_batches_tracked", _C.tensor(0, dtype=_C.int64) if tracked else None)
        self.reset_parameters()

    def reset_running_stats(self):
        """Statistics as if nothing had been seen."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self):
        """Ones and zeros, and statistics as if nothing had been seen."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def extra_repr(self):
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, *rest):
        if local_metadata.get("version") is None or local_metadata["version"] < 2:
            key = prefix + "num_batches_tracked"
            if self.track_running_stats and key not in state_dict:  # files from before it was counted
                state_dict[key] = self.num_batches_tracked
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


class _BatchNorm(_NormBase):
    dims = ()

    def _check_input_dim(self, input):
        if input.dim() not in self.dims:
            wanted = " or ".join(f"{d}D" for d in self.dims)
            raise ValueError(f"expected {wanted} input (got {input.dim()}D input)")

    def forward(self, input):
        self._check_input_dim(input)
        momentum = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # the mean of all batches so far
                momentum = 1.0 / float(self.num_batches_tracked)
        by_batch = self.training or (self.running_mean is None and self.running_var is None)
        keep = not self.training or self.track_running_stats
        return F.batch_norm(
            input,
            self.running_mean if keep else None,
            self.running_var if keep else None,
            self.weight,
            self.bias,
            by_batch,
            momentum,
            self.eps,
        )


class BatchNorm1d(_BatchNorm):
    """Of (N, C) or (N, C, L)."""

    dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Of (N, C, H, W)."""

    dims = (4,)


class BatchNorm3d(_BatchNorm):
    """Of (N, C, D, H, W)."""

    dims = (5,)


class SyncBatchNorm(_BatchNorm):
    """A BatchNorm of any dimensions: there is one process to synchronise."""

    dims = tuple(range(2, 9))

    @classmethod
    def convert_sync_batchnorm(cls, module, process_group=None):
        """The module as it is."""
        return module


class _LazyBatchNorm(LazyModuleMixin):
    def __init__(self, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, device=None, dtype=None):
        super().__init__(0, eps, momentum, False, False)
        self.affine, self.track_running_stats = affine, track_running_stats
        if affine:
            self.weight = UninitializedParameter(dtype=dtype)
            self.bias = UninitializedParameter(dtype=dtype)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(dtype=dtype)
            self.running_var = UninitializedBuffer(dtype=dtype)
            self.num_batches_tracked = _C.tensor(0, dtype=_C.int64)

    def reset_parameters(self):
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def _channels(self, input):
        return 1

    def initialize_parameters(self, input):
        if self.has_uninitialized_params():
            self.num_features = input.shape[self._channels(input)]
            with no_grad():
                for t in (self.weight, self.bias, self.running_mean, self.running_var):
                    if t is not None:
                        t.materialize((self.num_features,))
                self.reset_parameters()


class LazyBatchNorm1d(_LazyBatchNorm, BatchNorm1d):
    """A BatchNorm1d that learns its number of channels from its first input."""

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_LazyBatchNorm, BatchNorm2d):
    """A BatchNorm2d that learns its number of channels from its first input."""

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_LazyBatchNorm, BatchNorm3d):
    """A BatchNorm3d that learns its number of channels from its first input."""

    cls_to_become = BatchNorm3d


class _InstanceNorm(_NormBase):
    spatial = 0

    def __init__(
        self, num_features, eps=1e-5, momentum=0.1, affine=False, track_running_stats=False, device=None, dtype=None,
        *, bias=True,
    ):  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def forward(self, input):
        n = self.spatial
        if input.dim() not in (n + 1, n + 2):
            raise ValueError(f"expected {n + 1}D or {n + 2}D input (got {input.dim()}D input)")
        alone = input.dim() == n + 1
        x = input.unsqueeze(0) if alone else input
        if self.affine and x.shape[1] != self.num_features:
            raise ValueError(
                f"expected input's size at dim={0 if alone else 1} to match num_features ({self.num_features}), but "
                f"got: {x.shape[1]}."
            )
        by_input = self.training or not self.track_running_stats
        momentum = 0.0 if self.momentum is None else self.momentum
        y = F.instance_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias, by_input, momentum, self.eps
        )
        return y.squeeze(0) if alone else y


class InstanceNorm1d(_InstanceNorm):
    """Of (N, C, L) or (C, L)."""

    spatial = 1


class InstanceNorm2d(_InstanceNorm):
    """Of (N, C, H, W) or (C, H, W)."""

    spatial = 2


class InstanceNorm3d(_InstanceNorm):
    """Of (N, C, D, H, W) or (C, D, H, W)."""

    spatial = 3


class _LazyInstanceNorm(_LazyBatchNorm):
    def _channels(self, input):
        return input.dim() - 1 - self.spatial


class LazyInstanceNorm1d(_LazyInstanceNorm, InstanceNorm1d):
    """An InstanceNorm1d that learns its number of channels from its first input."""

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyInstanceNorm, InstanceNorm2d):
    """An InstanceNorm2d that learns its number of channels from its first input."""

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyInstanceNorm, InstanceNorm3d):
    """An InstanceNorm3d that learns its number of channels from its first input."""

    cls_to_become = InstanceNorm3d
