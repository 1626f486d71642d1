# Made by tools/make_stubs.py from the package itself.
from builtins import bool as _bool
from builtins import float as _float
from builtins import int as _int
from collections.abc import Iterator, Sequence
from typing import Any, Optional, Union, overload

_Number = Union[_bool, _int, _float]
_Ints = Union[_int, Sequence[_int]]
from brisk.optim import adadelta as adadelta
from brisk.optim import adafactor as adafactor
from brisk.optim import adagrad as adagrad
from brisk.optim import adam as adam
from brisk.optim import adamax as adamax
from brisk.optim import adamw as adamw
from brisk.optim import asgd as asgd
from brisk.optim import lbfgs as lbfgs
from brisk.optim import lr_scheduler as lr_scheduler
from brisk.optim import muon as muon
from brisk.optim import nadam as nadam
from brisk.optim import optimizer as optimizer
from brisk.optim import radam as radam
from brisk.optim import rmsprop as rmsprop
from brisk.optim import rprop as rprop
from brisk.optim import sgd as sgd
from brisk.optim import sparse_adam as sparse_adam
from brisk.optim import swa_utils as swa_utils
from brisk.optim.asgd import ASGD as ASGD
from brisk.optim.adadelta import Adadelta as Adadelta
from brisk.optim.adafactor import Adafactor as Adafactor
from brisk.optim.adagrad import Adagrad as Adagrad
from brisk.optim.adam import Adam as Adam
from brisk.optim.adamw import AdamW as AdamW
from brisk.optim.adamax import Adamax as Adamax
from brisk.optim.lbfgs import LBFGS as LBFGS
from brisk.optim.muon import Muon as Muon
from brisk.optim.nadam import NAdam as NAdam
from brisk.optim.optimizer import Optimizer as Optimizer
from brisk.optim.radam import RAdam as RAdam
from brisk.optim.rmsprop import RMSprop as RMSprop
from brisk.optim.rprop import Rprop as Rprop
from brisk.optim.sgd import SGD as SGD
from brisk.optim.sparse_adam import SparseAdam as SparseAdam
