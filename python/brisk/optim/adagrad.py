"""Adagrad."""

from brisk import _C
from brisk.optim.optimizer import PerParameter, at_least_zero, no_differentiable, number

__all__ = ["Adagrad"]


class Adagrad(PerParameter):
    """Steps along the gradient over the root of the sum of its squares so far."""

    _old_options = {"foreach": None, "maximize": False, "differentiable": False, "fused": None}

    def __init__(
        self, params, lr=1e-2, lr_decay=0, weight_decay=0, initial_accumulator_value=0, eps=1e-10, foreach=None, *,
        maximize=False, differentiable=False, fused=None,
    ):  # fmt: skip
        at_least_zero(
            learning__rate=lr, lr_decay__value=lr_decay, weight_decay__value=weight_decay,
            initial_accumulator_value__value=initial_accumulator_value, epsilon__value=eps,
        )  # fmt: skip
        no_differentiable(differentiable)
        defaults = {
            "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay, "initial_accumulator_value":
            initial_accumulator_value, "foreach": foreach, "maximize": maximize, "differentiable": differentiable,
            "fused": fused,
        }  # fmt: skip
        super().__init__(params, defaults)
        for group in self.param_groups:
            for p in group["params"]:
                self._init_state(p, self.state[p], group)

    def share_memory(self):
        """The state moves into memory that processes forked from now on have in common with this one."""
        for state in self.state.values():
            state["step"].share_memory_()
            state["sum"].share_memory_()

    def _init_state(self, p, state, group):
        super()._init_state(p, state, group)
        state["sum"] = _C.full_like(p, group["initial_accumulator_value"]).detach()

    def _update(self, p, grad, state, group):
        lr = number(group["lr"]) / (1 + (state["step"].item() - 1) * group["lr_decay"])
        state["sum"].addcmul_(grad, grad, value=1)
        p.addcdiv_(grad, state["sum"].sqrt().add_(group["eps"]), value=-lr)
