"""Dropout, of elements and of channels."""

from brisk import _C
from brisk.nn import functional as F
from brisk.nn.modules.module import Module

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


class _DropoutNd(Module):
    """`function` of the input while training."""

    function = None

    def __init__(self, p=0.5, inplace=False):
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p, self.inplace = p, inplace

    def forward(self, input):
        return type(self).function(input, self.p, self.training, self.inplace)

    def extra_repr(self):
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """Zeroes elements with probability p and divides the others by 1 - p."""

    def forward(self, input):
        return (_C.dropout_ if self.inplace else _C.dropout)(input, self.p, self.training)


class Dropout1d(_DropoutNd):
    """Dropout of the channels of sequences."""

    function = F.dropout1d


class Dropout2d(_DropoutNd):
    """Dropout of the channels of images."""

    function = F.dropout2d


class Dropout3d(_DropoutNd):
    """Dropout of the channels of volumes."""

    function = F.dropout3d


class AlphaDropout(_DropoutNd):
    """Dropout that keeps the mean and variance of what a SELU gives."""

    function = F.alpha_dropout


class FeatureAlphaDropout(_DropoutNd):
    """AlphaDropout of whole channels."""

    function = F.feature_alpha_dropout
