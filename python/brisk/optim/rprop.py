"""Rprop: resilient backpropagation."""

from brisk import _C
from brisk.optim.optimizer import PerParameter, at_least_zero, no_differentiable, number

__all__ = ["Rprop"]


class Rprop(PerParameter):
    """Steps by the sign of the gradient, growing while it stays and shrinking when it turns."""

    _zeros = ("prev",)
    _old_options = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}

    def __init__(
        self, params, lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50), *, capturable=False, foreach=None,
        maximize=False, differentiable=False,
    ):  # fmt: skip
        at_least_zero(learning__rate=lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        no_differentiable(differentiable)
        defaults = {
            "lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _init_state(self, p, state, group):
        super()._init_state(p, state, group)
        state["step_size"] = _C.full_like(p.grad, number(group["lr"])).detach()

    def _update(self, p, grad, state, group):
        (shrink, grow), (smallest, largest) = group["etas"], group["step_sizes"]
        turned = grad * state["prev"]
        factor = _C.ones_like(turned).masked_fill_(turned > 0, grow).masked_fill_(turned < 0, shrink)
        state["step_size"].mul_(factor).clamp_(smallest, largest)
        grad = grad.masked_fill(turned < 0, 0.0)
        p.addcmul_(grad.sign(), state["step_size"], value=-1)
        state["prev"].copy_(grad)
