# Made by tools/make_stubs.py from the package itself.
from builtins import bool as _bool
from builtins import float as _float
from builtins import int as _int
from collections.abc import Iterator, Sequence
from typing import Any, Optional, Union, overload

_Number = Union[_bool, _int, _float]
_Ints = Union[_int, Sequence[_int]]
from brisk.autograd import anomaly_mode as anomaly_mode
from brisk.autograd import forward_ad as forward_ad
from brisk.autograd import function as function
from brisk.autograd import functional as functional
from brisk.autograd import grad_mode as grad_mode
from brisk.autograd import graph as graph
from brisk.autograd import hooks as hooks
from brisk.autograd import profiler as profiler
from brisk.autograd.function import Function as Function
from brisk.autograd.gradcheck import GradcheckError as GradcheckError
from brisk import Tensor as Tensor
from brisk.autograd.anomaly_mode import detect_anomaly as detect_anomaly
from brisk.autograd.grad_mode import enable_grad as enable_grad
from brisk.autograd.gradcheck import gradcheck as gradcheck
from brisk.autograd.gradcheck import gradgradcheck as gradgradcheck
from brisk.autograd.grad_mode import inference_mode as inference_mode
from brisk.autograd.grad_mode import no_grad as no_grad
from brisk.autograd.anomaly_mode import set_detect_anomaly as set_detect_anomaly
from brisk.autograd.grad_mode import set_grad_enabled as set_grad_enabled
from brisk.autograd.grad_mode import set_multithreading_enabled as set_multithreading_enabled
class Variable:
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def __getattr__(self, name: str) -> Any: ...
def backward(tensors: Any, grad_tensors: Any = ..., retain_graph: Any = ..., create_graph: Any = ..., grad_variables: Any = ..., inputs: Any = ...) -> Any: ...
def grad(outputs: Any, inputs: Any, grad_outputs: Any = ..., retain_graph: Any = ..., create_graph: Any = ..., only_inputs: Any = ..., allow_unused: Any = ..., is_grads_batched: Any = ..., materialize_grads: Any = ...) -> Any: ...
