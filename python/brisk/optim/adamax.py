"""Adamax."""

from brisk import _C
from brisk.optim.optimizer import PerParameter, at_least_zero, check_betas, no_differentiable, number

__all__ = ["Adamax"]


class Adamax(PerParameter):
    """Adam with the decaying maximum of the gradient's size in place of the root of its mean square."""

    _zeros = ("exp_avg", "exp_inf")
    _old_options = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}

    def __init__(
        self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, foreach=None, *, maximize=False,
        differentiable=False, capturable=False,
    ):  # fmt: skip
        at_least_zero(learning__rate=lr, epsilon__value=eps)
        check_betas(betas)
        at_least_zero(weight_decay__value=weight_decay)
        no_differentiable(differentiable)
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "foreach": foreach, "maximize":
            maximize, "differentiable": differentiable, "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _update(self, p, grad, state, group):
        beta1, beta2 = group["betas"]
        state["exp_avg"].lerp_(grad, 1 - beta1)
        largest = _C.maximum(state["exp_inf"].mul(beta2), grad.abs().add_(group["eps"]))
        state["exp_inf"].copy_(largest)
        lr = number(group["lr"]) / (1 - beta1 ** state["step"].item())
        p.addcdiv_(state["exp_avg"], state["exp_inf"], value=-lr)
