"""RAdam: Adam that trusts its step sizes only once they are known well enough."""

from brisk.optim.optimizer import PerParameter, at_least_zero, check_betas, no_differentiable, number

__all__ = ["RAdam"]


class RAdam(PerParameter):
    """Momentum at first; Adam, scaled by the variance of its step sizes, when that is finite."""

    _zeros = ("exp_avg", "exp_avg_sq")
    _old_options = {
        "foreach": None, "maximize": False, "differentiable": False, "decoupled_weight_decay": False,
        "capturable": False,
    }  # fmt: skip

    def __init__(
        self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, decoupled_weight_decay=False, *,
        foreach=None, maximize=False, capturable=False, differentiable=False,
    ):  # fmt: skip
        at_least_zero(learning__rate=lr, epsilon__value=eps)
        check_betas(betas)
        at_least_zero(weight_decay__value=weight_decay)
        no_differentiable(differentiable)
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize, "foreach":
            foreach, "capturable": capturable, "decoupled_weight_decay": decoupled_weight_decay, "differentiable":
            differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _update(self, p, grad, state, group):
        t, lr, (beta1, beta2) = state["step"].item(), number(group["lr"]), group["betas"]
        state["exp_avg"].lerp_(grad, 1 - beta1)
        state["exp_avg_sq"].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        move = state["exp_avg"] / (1 - beta1**t) * lr
        known, at_most = 2 / (1 - beta2) - 1, 2 / (1 - beta2) - 1
        known -= 2 * t * beta2**t / (1 - beta2**t)  # how many gradients the mean square is worth, of at_most
        if known > 5.0:
            trust = (known - 4) * (known - 2) * at_most / ((at_most - 4) * (at_most - 2) * known)
            size = (1 - beta2**t) ** 0.5 / state["exp_avg_sq"].sqrt().add_(group["eps"])
            move = move * size * trust**0.5
        p.add_(move, alpha=-1.0)
