"""torch.version: what there is, and of what there is not, None."""

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "xpu"]

from brisk import __version__

cuda = hip = xpu = None
debug, git_version = False, "Unknown"
