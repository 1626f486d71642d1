"""Adafactor: Adam's step sizes from the mean squares of rows and columns, which take far less memory."""

from brisk import _C
from brisk.optim.optimizer import PerParameter, number

__all__ = ["Adafactor"]


class Adafactor(PerParameter):
    """Of a matrix, the mean square of an element is taken to be that of its row times that of its column, over that of
    all; steps are relative to the size of the parameter, and clipped at d."""

    _old_options = {"foreach": None, "maximize": False}

    def __init__(
        self, params, lr=1e-2, beta2_decay=-0.8, eps=(None, 1e-3), d=1.0, weight_decay=0.0, *, foreach=None,
        maximize=False,
    ):  # fmt: skip
        if isinstance(lr, _C.Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not lr >= 0.0:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        if not beta2_decay <= 0.0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        for i, name in enumerate(("epsilon1", "epsilon2")):
            if eps[i] is not None and not eps[i] >= 0.0:
                raise ValueError(f"{name} should be >= 0 but is: {eps[i]}")
        if not d >= 1.0:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        if not weight_decay >= 0.0:
            raise ValueError(f"weight_decay should be >= 0 but is: {weight_decay}")
        defaults = {
            "lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _init_state(self, p, state, group):
        super()._init_state(p, state, group)
        if p.dim() > 1:
            state["row_var"] = _C.zeros((*p.shape[:-1], 1), dtype=p.dtype)
            state["col_var"] = _C.zeros((*p.shape[:-2], 1, p.shape[-1]), dtype=p.dtype)
        else:
            state["variance"] = _C.zeros_like(p).detach()

    @staticmethod
    def _decayed(p, grad, group):
        return grad  # the weights shrink in _update, after their size was taken

    def _update(self, p, grad, state, group):
        t, lr, (eps1, eps2) = state["step"].item(), number(group["lr"]), group["eps"]
        eps1 = _C.finfo(p.dtype).eps if eps1 is None else eps1
        size = max(eps2, p.norm(2).item() / p.numel() ** 0.5) * min(lr, 1 / t**0.5)
        if group["weight_decay"] != 0:
            p.mul_(1 - lr * group["weight_decay"])
        fresh = t ** group["beta2_decay"]
        if p.dim() > 1:
            rows, columns = state["row_var"], state["col_var"]
            rows.lerp_(grad.square().mean(-1, keepdim=True), fresh)
            columns.lerp_(grad.square().mean(-2, keepdim=True), fresh)
            mean_square = (rows @ columns) / rows.mean(-2, keepdim=True).clamp(min=eps1)
        else:
            mean_square = state["variance"].lerp_(grad.square(), fresh)
        update = mean_square.clamp(min=eps1 * eps1).rsqrt() * grad
        clip = max(1.0, update.norm(2).item() / (update.numel() ** 0.5 * group["d"]))
        p.add_(update, alpha=-size / clip)
