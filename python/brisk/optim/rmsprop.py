"""RMSprop."""

from brisk._C._optim import rmsprop_step
from brisk.optim.optimizer import Optimizer, at_least_zero, loss_of, no_differentiable, number

__all__ = ["RMSprop"]


class RMSprop(Optimizer):
    """Steps along the gradient over the root of the running mean of its square."""

    _old_options = {
        "momentum": 0, "centered": False, "foreach": None, "maximize": False, "differentiable": False,
        "capturable": False,
    }  # fmt: skip

    def __init__(
        self, params, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=False, capturable=False,
        foreach=None, maximize=False, differentiable=False,
    ):  # fmt: skip
        at_least_zero(
            learning__rate=lr, epsilon__value=eps, momentum__value=momentum, weight_decay__value=weight_decay,
            alpha__value=alpha,
        )  # fmt: skip
        no_differentiable(differentiable)
        defaults = {
            "lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered, "weight_decay":
            weight_decay, "capturable": capturable, "foreach": foreach, "maximize": maximize, "differentiable":
            differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def step(self, closure=None):
        """Moves the parameters once."""
        loss = loss_of(closure)
        for g in self.param_groups:
            rmsprop_step(
                g["params"], self.state, number(g["lr"]), g["alpha"], g["eps"], g["weight_decay"], g["momentum"],
                g["centered"], g["maximize"],
            )  # fmt: skip
        return loss
