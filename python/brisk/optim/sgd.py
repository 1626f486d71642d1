"""Stochastic gradient descent."""

from brisk._C._optim import sgd_step
from brisk.optim.optimizer import Optimizer, at_least_zero, loss_of, no_differentiable, number

__all__ = ["SGD"]


class SGD(Optimizer):
    """Steps along the gradient, or along its decaying sum (momentum)."""

    _old_options = {"nesterov": False, "maximize": False, "foreach": None, "differentiable": False, "fused": None}

    def __init__(
        self, params, lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False, *, maximize=False, foreach=None,
        differentiable=False, fused=None,
    ):  # fmt: skip
        at_least_zero(learning__rate=lr, momentum__value=momentum, weight_decay__value=weight_decay)
        no_differentiable(differentiable)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay, "nesterov":
            nesterov, "maximize": maximize, "foreach": foreach, "differentiable": differentiable, "fused": fused,
        }  # fmt: skip
        super().__init__(params, defaults)

    def step(self, closure=None):
        """Moves the parameters once."""
        loss = loss_of(closure)
        for g in self.param_groups:
            sgd_step(
                g["params"], self.state, number(g["lr"]), g["momentum"], g["dampening"], number(g["weight_decay"]),
                g["nesterov"], g["maximize"],
            )  # fmt: skip
        return loss
