"""PyTorch broken on purpose, to prove that the comparison notices, and PyTorch rounded otherwise, to prove that it
does not complain about what no library can promise."""

import torch
from torch.overrides import TorchFunctionMode


def name_of(func):
    return getattr(func, "__name__", "")


class Mutant(TorchFunctionMode):
    """Runs every call, then lets `change` answer something else."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return self.change(name_of(func), args, func(*args, **(kwargs or {})))


class Ulp(Mutant):
    """Harmless: functions that round may differ in the last digit or two."""

    NAMES = {"tanh", "sigmoid", "sin", "cos", "exp", "erf", "atan", "expm1", "log", "sqrt", "rsqrt", "gelu",
             "softplus", "silu",
             "sum", "mean", "matmul", "__matmul__", "softmax", "logsumexp", "var", "cumsum", "reciprocal"}  # fmt: skip

    def change(self, name, args, result):
        if name in self.NAMES and isinstance(result, torch.Tensor) and result.dtype in (torch.float32, torch.float64):
            other = result * (1 + 2 * torch.finfo(result.dtype).eps)
            return other if other.stride() == result.stride() else result
        return result


class CopiesNarrow(Mutant):
    """narrow and transpose return copies: nobody sees a write."""

    def change(self, name, args, result):
        return result.clone(memory_format=torch.preserve_format) if name in ("narrow", "transpose") else result


class StaleRead(Mutant):
    """contiguous() of a contiguous tensor should be the tensor itself."""

    def change(self, name, args, result):
        return result.clone() if name == "contiguous" else result


class WrongStrides(Mutant):
    """Arithmetic answers with contiguous memory whatever its inputs are like."""

    def change(self, name, args, result):
        return result.contiguous() if name in ("neg", "add", "mul", "sub", "tanh", "clone") else result


class WrongPromotion(Mutant):
    """Multiplying by a Python float leaves integers integers."""

    def change(self, name, args, result):
        if name in ("mul", "__rmul__") and isinstance(args[1], float) and not args[0].is_floating_point():
            return result.to(args[0].dtype)
        return result


class LastDigit(Mutant):
    """A product of tensors that is off in the last digit, as a contraction to FMA would make it."""

    def change(self, name, args, result):
        if name in ("mul", "__mul__") and isinstance(result, torch.Tensor) and result.dtype == torch.float32:
            return result * (1 + torch.finfo(result.dtype).eps)
        return result


MUTANTS = {"ulp": Ulp, "copies": CopiesNarrow, "stale": StaleRead, "strides": WrongStrides, "promotion": WrongPromotion,
           "last_digit": LastDigit}  # fmt: skip
HARMFUL = sorted(set(MUTANTS) - {"ulp"})
