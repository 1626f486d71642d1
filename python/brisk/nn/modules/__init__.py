"""The modules, one file for each family."""

import sys  # noqa: I001  (Module, what others are made of, comes first)

from brisk._places import also_at
from brisk.nn.modules.module import Module
from brisk.nn.modules.activation import *  # noqa: F403
from brisk.nn.modules.adaptive import *  # noqa: F403
from brisk.nn.modules.batchnorm import *  # noqa: F403
from brisk.nn.modules.container import *  # noqa: F403
from brisk.nn.modules.conv import *  # noqa: F403
from brisk.nn.modules.dropout import *  # noqa: F403
from brisk.nn.modules.linear import *  # noqa: F403
from brisk.nn.modules.loss import *  # noqa: F403
from brisk.nn.modules.normalization import *  # noqa: F403
from brisk.nn.modules.pooling import *  # noqa: F403
from brisk.nn.modules.rnn import *  # noqa: F403
from brisk.nn.modules.shapes import *  # noqa: F403
from brisk.nn.modules.sparse import *  # noqa: F403
from brisk.nn.modules.transformer import *  # noqa: F403

__all__ = [name for name, value in globals().items() if isinstance(value, type) and issubclass(value, Module)]

also_at(
    __name__,
    {
        sys.modules[Flatten.__module__]: "channelshuffle distance flatten fold padding pixelshuffle upsampling",  # noqa: F405
        sys.modules[InstanceNorm1d.__module__]: "instancenorm",  # noqa: F405
    },
)
