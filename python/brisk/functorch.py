"""functorch, which torch.func was before it was part of torch. `import functorch` finds this where torch is brisk."""

from brisk.func import *  # noqa: F403
from brisk.func import __all__ as _names
from brisk.func._modules import (
    combine_state_for_ensemble,
    make_functional,
    make_functional_with_buffers,
)

__all__ = [*_names, "combine_state_for_ensemble", "make_functional", "make_functional_with_buffers"]
