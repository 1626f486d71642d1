"""ASGD: averaged stochastic gradient descent."""

from brisk.optim.optimizer import PerParameter, at_least_zero, counter, no_differentiable, number

__all__ = ["ASGD"]


class ASGD(PerParameter):
    """Gradient descent of decaying steps; the mean of the parameters since step t0 is kept as state["ax"]."""

    _zeros = ("ax",)
    _old_options = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}

    def __init__(
        self, params, lr=1e-2, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0, foreach=None, maximize=False,
        differentiable=False, capturable=False,
    ):  # fmt: skip
        at_least_zero(learning__rate=lr, weight_decay__value=weight_decay)
        no_differentiable(differentiable)
        defaults = {
            "lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _init_state(self, p, state, group):
        super()._init_state(p, state, group)
        state["eta"] = counter(number(group["lr"]))
        state["mu"] = counter(1.0)

    def _update(self, p, grad, state, group):
        t, lr, eta, mu = state["step"].item(), number(group["lr"]), state["eta"].item(), state["mu"].item()
        p.mul_(1 - group["lambd"] * eta)
        p.add_(grad, alpha=-eta)
        if mu == 1:
            state["ax"].copy_(p)
        else:
            state["ax"].add_(p.sub(state["ax"]).mul_(mu))
        state["eta"].copy_(counter(lr / ((1 + group["lambd"] * lr * t) ** group["alpha"])))
        state["mu"].copy_(counter(1 / max(1, t - group["t0"])))
