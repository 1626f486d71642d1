"""brisk: tensors and autograd that are fast as written. The API follows PyTorch's."""

from brisk import _C
from brisk._C import *  # noqa: F403  (functions, dtypes and types: the rows of the extension)
from brisk._C import Tensor
from brisk._install import install
from brisk._missing import finder
from brisk._arrange import *  # noqa: F403
from brisk import _copy, _memory, _numpy_ahead, autograd, hub, linalg, nn, npy, random, safetensors, serialization
from brisk._matrices import *  # noqa: F403
from brisk._tail import *  # noqa: F403
from brisk._legacy import *  # noqa: F403
from brisk._making import *  # noqa: F403
from brisk._storage import (
    BFloat16Storage,
    BoolStorage,
    ByteStorage,
    CharStorage,
    DoubleStorage,
    FloatStorage,
    HalfStorage,
    IntStorage,
    LongStorage,
    ShortStorage,
    TypedStorage,
)
from brisk.serialization import load, save
from brisk.functional import atleast_1d, atleast_2d, atleast_3d, cdist, chain_matmul, einsum, tensordot
from brisk import func, utils
from brisk.func import vmap
from brisk.autograd import enable_grad, inference_mode, no_grad, set_grad_enabled

__version__ = "0.1.0"

# What PyTorch has both here and elsewhere.
_FUNCTIONAL = """
    adaptive_avg_pool1d avg_pool1d batch_norm bilinear celu celu_
    channel_shuffle conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d
    cosine_similarity embedding_bag group_norm hardshrink instance_norm layer_norm max_pool1d
    max_pool1d_with_indices max_pool2d max_pool3d pairwise_distance pdist pixel_shuffle pixel_unshuffle prelu rms_norm
    rrelu rrelu_ threshold_
"""
_SECOND_FORMS = """
    adaptive_max_pool1d addmv_ affine_grid_generator alias_copy as_strided_ as_strided_copy
    binary_cross_entropy_with_logits clamp_max_ clamp_min_ cond constant_pad_nd convolution cosine_embedding_loss
    ctc_loss detach_copy diagonal_copy empty_permuted
    expand_copy fill fill_ frobenius_norm gcd_ grid_sampler grid_sampler_2d grid_sampler_3d gru_cell
    hinge_embedding_loss i0 i0_ index_reduce kaiser_window kl_div lcm_ ldexp_ lstm_cell margin_ranking_loss
    native_batch_norm native_channel_shuffle native_dropout native_group_norm native_layer_norm nonzero_static
    norm_except_dim nuclear_norm permute_copy poisson_nll_loss rnn_relu_cell rnn_tanh_cell select_copy slice_copy
    split_copy split_with_sizes_copy squeeze_copy t_copy transpose_copy triplet_margin_loss unbind_copy unfold_copy
    unsafe_split_with_sizes unsqueeze_copy view_copy xlogy_ zero_
"""
_ELSEWHERE = {
    **dict.fromkeys(_FUNCTIONAL.split(), "brisk.nn.functional"),
    **dict.fromkeys(_SECOND_FORMS.split(), "brisk._second_forms"),
    "autocast": "brisk.amp",
    "GradScaler": "brisk.amp",
    "clear_autocast_cache": "brisk.amp",
    "get_autocast_dtype": "brisk.amp",
    "is_autocast_cache_enabled": "brisk.amp",
    "is_autocast_enabled": "brisk.amp",
    "get_autocast_cpu_dtype": "brisk.amp",
    "get_autocast_gpu_dtype": "brisk.amp",
    "is_autocast_cpu_enabled": "brisk.amp",
    "set_anomaly_enabled": "brisk.autograd.anomaly_mode",
    "is_anomaly_enabled": "brisk.autograd.anomaly_mode",
    "is_anomaly_check_nan_enabled": "brisk.autograd.anomaly_mode",
}

# Submodules that are imported when they are first named, so that a program which does without them starts faster.
_LATER = frozenset(
    (
        "_jit_internal",
        "accelerator",
        "amp",
        "backends",
        "compiler",
        "cuda",
        "distributed",
        "distributions",
        "jit",
        "library",
        "multiprocessing",
    )
    + ("onnx", "optim", "overrides", "profiler", "sparse", "special", "testing", "torch_version", "version")
)

__getattr__ = finder(__name__, _ELSEWHERE, _LATER)


def _check(cond, message=None):
    """A RuntimeError, of the text that the function message gives, unless cond holds."""
    if not cond:
        raise RuntimeError("Expected cond to be True, but got False." if message is None else message())


def compile(model=None, *, fullgraph=False, dynamic=None, backend="inductor", mode=None, options=None, disable=False):
    """The model itself: what it records is compiled as it runs."""
    return model if model is not None else lambda model: model


_numpy_ahead.look()
_C._warmed_up()
