"""Functions of functions: grad, vjp, jvp, jacrev, jacfwd, hessian, vmap, and modules called with other parameters."""

from brisk.func._modules import functional_call, functionalize, stack_module_state
from brisk.func._transforms import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp
from brisk.func._vmap import vmap

__all__ = [
    "functional_call", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize",
    "stack_module_state", "vjp", "vmap",
]  # fmt: skip
