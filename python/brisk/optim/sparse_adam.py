"""SparseAdam needs sparse gradients, which brisk does not have."""

from brisk.optim.optimizer import Optimizer

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    """Refused: there are no sparse tensors."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, maximize=False):
        raise NotImplementedError("SparseAdam: brisk has no sparse gradients; use Adam")
