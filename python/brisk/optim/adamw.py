"""AdamW: Adam whose weight decay does not go through the gradient."""

from brisk.optim.adam import Adam

__all__ = ["AdamW"]


class AdamW(Adam):
    """Adam after the parameters have been scaled down by lr * weight_decay."""

    _old_options = {**Adam._old_options, "decoupled_weight_decay": True}

    def __init__(
        self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, amsgrad=False, *, maximize=False,
        foreach=None, capturable=False, differentiable=False, fused=None,
    ):  # fmt: skip
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize, capturable=capturable,
            differentiable=differentiable, fused=fused, decoupled_weight_decay=True,
        )  # fmt: skip

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True
