"""Helpers around modules."""

from brisk.nn.utils import rnn

__all__ = ["rnn"]
