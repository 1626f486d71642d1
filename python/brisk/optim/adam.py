"""Adam: steps of a size of their own for each element."""

from brisk._C._optim import adam_step
from brisk.optim.optimizer import Optimizer, at_least_zero, check_betas, loss_of, no_differentiable, number

__all__ = ["Adam"]


class Adam(Optimizer):
    """Steps along the running mean of the gradient over the root of the running mean of its square."""

    _old_options = {
        "amsgrad": False, "maximize": False, "foreach": None, "capturable": False, "differentiable": False,
        "fused": None, "decoupled_weight_decay": False,
    }  # fmt: skip

    def __init__(
        self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False, *, foreach=None,
        maximize=False, capturable=False, differentiable=False, fused=None, decoupled_weight_decay=False,
    ):  # fmt: skip
        at_least_zero(learning__rate=lr, epsilon__value=eps)
        check_betas(betas)
        at_least_zero(weight_decay__value=weight_decay)
        no_differentiable(differentiable)
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad, "maximize":
            maximize, "foreach": foreach, "capturable": capturable, "differentiable": differentiable, "fused":
            fused, "decoupled_weight_decay": decoupled_weight_decay,
        }  # fmt: skip
        super().__init__(params, defaults)

    def step(self, closure=None):
        """Moves the parameters once."""
        loss = loss_of(closure)
        for g in self.param_groups:
            beta1, beta2 = g["betas"]
            adam_step(
                g["params"], self.state, number(g["lr"]), number(beta1), number(beta2), g["eps"], g["weight_decay"],
                g["decoupled_weight_decay"], g["amsgrad"], g["maximize"],
            )  # fmt: skip
        return loss
