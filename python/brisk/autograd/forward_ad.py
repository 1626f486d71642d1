"""Forward mode, which brisk does not have: torch.func.jvp and jacfwd give its results by the reverse pass."""

__all__ = ["dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]


def _refuse(*args, **kwargs):
    raise NotImplementedError(
        "brisk has no forward-mode differentiation (torch.autograd.forward_ad): use torch.func.jvp or jacfwd, "
        "which give the same results"
    )


dual_level = enter_dual_level = exit_dual_level = make_dual = unpack_dual = _refuse
