"""Optimizers and schedules of their learning rates."""

from brisk._missing import finder
from brisk.optim import lr_scheduler, swa_utils
from brisk.optim.adadelta import Adadelta
from brisk.optim.adafactor import Adafactor
from brisk.optim.adagrad import Adagrad
from brisk.optim.adam import Adam
from brisk.optim.adamax import Adamax
from brisk.optim.adamw import AdamW
from brisk.optim.asgd import ASGD
from brisk.optim.lbfgs import LBFGS
from brisk.optim.muon import Muon
from brisk.optim.nadam import NAdam
from brisk.optim.optimizer import Optimizer
from brisk.optim.radam import RAdam
from brisk.optim.rmsprop import RMSprop
from brisk.optim.rprop import Rprop
from brisk.optim.sgd import SGD
from brisk.optim.sparse_adam import SparseAdam

__all__ = [
    "ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "LBFGS", "Muon", "NAdam", "Optimizer",
    "RAdam", "RMSprop", "Rprop", "SGD", "SparseAdam", "lr_scheduler", "swa_utils",
]  # fmt: skip

__getattr__ = finder(__name__)
