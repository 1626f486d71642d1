"""NAdam: Adam with Nesterov's momentum."""

from brisk.optim.optimizer import PerParameter, at_least_zero, check_betas, counter, no_differentiable, number

__all__ = ["NAdam"]


class NAdam(PerParameter):
    """Adam that takes the next step's share of the momentum in advance, on a schedule of its own."""

    _zeros = ("exp_avg", "exp_avg_sq")
    _old_options = {
        "foreach": None, "maximize": False, "capturable": False, "differentiable": False,
        "decoupled_weight_decay": False,
    }  # fmt: skip

    def __init__(
        self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, momentum_decay=4e-3,
        decoupled_weight_decay=False, *, foreach=None, maximize=False, capturable=False, differentiable=False,
    ):  # fmt: skip
        at_least_zero(learning__rate=lr, epsilon__value=eps)
        check_betas(betas)
        at_least_zero(weight_decay__value=weight_decay, momentum_decay__value=momentum_decay)
        no_differentiable(differentiable)
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize, "foreach": foreach,
            "capturable": capturable, "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _init_state(self, p, state, group):
        super()._init_state(p, state, group)
        state["mu_product"] = counter(1.0)

    def _update(self, p, grad, state, group):
        t, lr, (beta1, beta2) = state["step"].item(), number(group["lr"]), group["betas"]
        mu = beta1 * (1.0 - 0.5 * 0.96 ** (t * group["momentum_decay"]))
        mu_next = beta1 * (1.0 - 0.5 * 0.96 ** ((t + 1) * group["momentum_decay"]))
        state["mu_product"] *= mu
        state["exp_avg"].lerp_(grad, 1 - beta1)
        state["exp_avg_sq"].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        size = state["exp_avg_sq"].div(1 - beta2**t).sqrt_().add_(group["eps"])
        product = state["mu_product"].item()
        p.addcdiv_(grad, size, value=-lr * (1.0 - mu) / (1.0 - product))
        p.addcdiv_(state["exp_avg"], size, value=-lr * mu_next / (1.0 - product * mu_next))
