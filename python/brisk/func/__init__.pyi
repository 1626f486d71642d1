# Made by tools/make_stubs.py from the package itself.
from builtins import bool as _bool
from builtins import float as _float
from builtins import int as _int
from collections.abc import Iterator, Sequence
from typing import Any, Optional, Union, overload

_Number = Union[_bool, _int, _float]
_Ints = Union[_int, Sequence[_int]]
from brisk.func._modules import functional_call as functional_call
from brisk.func._modules import functionalize as functionalize
from brisk.func._transforms import grad as grad
from brisk.func._transforms import grad_and_value as grad_and_value
from brisk.func._transforms import hessian as hessian
from brisk.func._transforms import jacfwd as jacfwd
from brisk.func._transforms import jacrev as jacrev
from brisk.func._transforms import jvp as jvp
from brisk.func._transforms import linearize as linearize
from brisk.func._modules import stack_module_state as stack_module_state
from brisk.func._transforms import vjp as vjp
from brisk.func._vmap import vmap as vmap
