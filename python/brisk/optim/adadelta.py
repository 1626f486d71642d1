"""Adadelta."""

from brisk.optim.optimizer import PerParameter, at_least_zero, no_differentiable, number

__all__ = ["Adadelta"]


class Adadelta(PerParameter):
    """Steps whose size is that of the recent steps over that of the recent gradients."""

    _zeros = ("square_avg", "acc_delta")
    _old_options = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}

    def __init__(
        self, params, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0, foreach=None, *, capturable=False, maximize=False,
        differentiable=False,
    ):  # fmt: skip
        at_least_zero(learning__rate=lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        at_least_zero(epsilon__value=eps, weight_decay__value=weight_decay)
        no_differentiable(differentiable)
        defaults = {
            "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize, "capturable":
            capturable, "foreach": foreach, "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _update(self, p, grad, state, group):
        rho, eps, square, moved = group["rho"], group["eps"], state["square_avg"], state["acc_delta"]
        square.mul_(rho).addcmul_(grad, grad, value=1 - rho)
        delta = moved.add(eps).sqrt_().div_(square.add(eps).sqrt_()).mul_(grad)
        moved.mul_(rho).addcmul_(delta, delta, value=1 - rho)
        p.add_(delta, alpha=-number(group["lr"]))
