"""Settings of the libraries that PyTorch computes with: flags that may be set and change nothing."""

from brisk._missing import finder
from brisk.backends import cpu, cuda, cudnn, mkl, mkldnn, mps, openmp

__all__ = ["cpu", "cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp"]

__getattr__ = finder(__name__)
