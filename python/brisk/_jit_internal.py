"""Names of types that programs take from here for annotations."""

from typing import Any, Dict, Final, List, Optional, Tuple, Union  # noqa: F401, UP035

from brisk._missing import finder

__getattr__ = finder(__name__)
