"""A layer and the batch norm after it as one layer, for evaluation; and modules made without drawing weights."""

import copy

from brisk import _C
from brisk.nn.parameter import Parameter

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights", "skip_init"]


def _fused(weight, bias, mean, var, eps, scale, shift, at):
    """Weight and bias of both layers together; `at` is the dimension of the outputs in weight."""
    bias = _C.zeros_like(mean) if bias is None else bias
    scale = _C.ones_like(mean) if scale is None else scale
    shift = _C.zeros_like(mean) if shift is None else shift
    factor = scale * (var + eps).rsqrt()
    shape = [1] * weight.dim()
    shape[at] = -1
    return weight * factor.reshape(shape), (bias - mean) * factor + shift


def _parameters(pair, weight, bias):
    return tuple(
        Parameter(t.detach(), True if source is None else source.requires_grad)
        for t, source in zip(pair, (weight, bias))
    )


def fuse_conv_bn_weights(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, transpose=False):
    """Weight and bias of a convolution that does what it and a batch norm do."""
    pair = _fused(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 1 if transpose else 0)
    return _parameters(pair, conv_w, conv_b)


def fuse_linear_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b):
    """Weight and bias of a linear layer that does what it and a batch norm do."""
    return _parameters(_fused(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 0), linear_w, linear_b)


def _fuse(layer, bn, at):
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    fused = copy.deepcopy(layer)
    pair = _fused(layer.weight, layer.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, at)
    fused.weight, fused.bias = _parameters(pair, layer.weight, layer.bias)
    return fused


def fuse_conv_bn_eval(conv, bn, transpose=False):
    """A convolution that does what conv and bn do when evaluated."""
    return _fuse(conv, bn, 1 if transpose else 0)


def fuse_linear_bn_eval(linear, bn):
    """A linear layer that does what linear and bn do when evaluated."""
    return _fuse(linear, bn, 0)


def skip_init(module_cls, *args, **kwargs):
    """A module whose parameters are not set to anything in particular; no random numbers are drawn."""
    state = _C.get_rng_state()
    module = module_cls(*args, **kwargs)
    _C.set_rng_state(state)
    return module
