# Made by tools/make_stubs.py from the package itself.
from builtins import bool as _bool
from builtins import float as _float
from builtins import int as _int
from collections.abc import Iterator, Sequence
from typing import Any, Optional, Union, overload

from brisk import Tensor
_Number = Union[_bool, _int, _float]
_Ints = Union[_int, Sequence[_int]]
from brisk.autograd.function import Function as Function
from brisk.nn._windows import adaptive_avg_pool1d as adaptive_avg_pool1d
from brisk.nn._windows import adaptive_avg_pool2d as adaptive_avg_pool2d
from brisk.nn._windows import adaptive_avg_pool3d as adaptive_avg_pool3d
from brisk.nn._windows import adaptive_max_pool1d as adaptive_max_pool1d
from brisk.nn._windows import adaptive_max_pool1d_with_indices as adaptive_max_pool1d_with_indices
from brisk.nn._windows import adaptive_max_pool2d as adaptive_max_pool2d
from brisk.nn._windows import adaptive_max_pool2d_with_indices as adaptive_max_pool2d_with_indices
from brisk.nn._windows import adaptive_max_pool3d as adaptive_max_pool3d
from brisk.nn._windows import adaptive_max_pool3d_with_indices as adaptive_max_pool3d_with_indices
from brisk.nn._sampling import affine_grid as affine_grid
from brisk.nn._windows import avg_pool1d as avg_pool1d
from brisk.nn._windows import avg_pool2d as avg_pool2d
from brisk.nn._windows import avg_pool3d as avg_pool3d
from brisk import batch_norm as batch_norm
from brisk import bilinear as bilinear
from brisk.nn._losses import binary_cross_entropy as binary_cross_entropy
from brisk.nn._losses import binary_cross_entropy_with_logits as binary_cross_entropy_with_logits
from brisk import celu as celu
from brisk import celu_ as celu_
from brisk.nn._windows import channel_shuffle as channel_shuffle
from brisk import conv1d as conv1d
from brisk import conv2d as conv2d
from brisk import conv3d as conv3d
from brisk import conv_tbc as conv_tbc
from brisk import conv_transpose1d as conv_transpose1d
from brisk import conv_transpose2d as conv_transpose2d
from brisk import conv_transpose3d as conv_transpose3d
from brisk.nn._losses import cosine_embedding_loss as cosine_embedding_loss
from brisk import cosine_similarity as cosine_similarity
from brisk.nn._losses import cross_entropy as cross_entropy
from brisk.nn._losses import ctc_loss as ctc_loss
from brisk import embedding_bag as embedding_bag
from brisk.nn._windows import fold as fold
from brisk.nn._sampling import fractional_max_pool2d as fractional_max_pool2d
from brisk.nn._sampling import fractional_max_pool2d_with_indices as fractional_max_pool2d_with_indices
from brisk.nn._sampling import fractional_max_pool3d as fractional_max_pool3d
from brisk.nn._sampling import fractional_max_pool3d_with_indices as fractional_max_pool3d_with_indices
from brisk.nn._losses import gaussian_nll_loss as gaussian_nll_loss
from brisk.nn._sampling import grid_sample as grid_sample
from brisk import group_norm as group_norm
from brisk import hardshrink as hardshrink
from brisk.nn._losses import hinge_embedding_loss as hinge_embedding_loss
from brisk.nn._losses import huber_loss as huber_loss
from brisk import instance_norm as instance_norm
from brisk.nn._windows import interpolate as interpolate
from brisk.nn._losses import kl_div as kl_div
from brisk.nn._losses import l1_loss as l1_loss
from brisk import layer_norm as layer_norm
from brisk.nn._windows import local_response_norm as local_response_norm
from brisk.nn._windows import lp_pool1d as lp_pool1d
from brisk.nn._windows import lp_pool2d as lp_pool2d
from brisk.nn._windows import lp_pool3d as lp_pool3d
from brisk.nn._losses import margin_ranking_loss as margin_ranking_loss
from brisk.nn._windows import max_pool1d as max_pool1d
from brisk.nn._windows import max_pool1d_with_indices as max_pool1d_with_indices
from brisk.nn._windows import max_pool2d as max_pool2d
from brisk.nn._windows import max_pool2d_with_indices as max_pool2d_with_indices
from brisk.nn._windows import max_pool3d as max_pool3d
from brisk.nn._windows import max_pool3d_with_indices as max_pool3d_with_indices
from brisk.nn._windows import max_unpool1d as max_unpool1d
from brisk.nn._windows import max_unpool2d as max_unpool2d
from brisk.nn._windows import max_unpool3d as max_unpool3d
from brisk.nn._losses import mse_loss as mse_loss
from brisk.nn._losses import multi_margin_loss as multi_margin_loss
from brisk.nn._losses import multilabel_margin_loss as multilabel_margin_loss
from brisk.nn._losses import multilabel_soft_margin_loss as multilabel_soft_margin_loss
from brisk.nn._losses import nll_loss as nll_loss
from brisk.autograd.grad_mode import no_grad as no_grad
from brisk.nn._windows import pad as pad
from brisk import pairwise_distance as pairwise_distance
from brisk import pdist as pdist
from brisk.nn._windows import pixel_shuffle as pixel_shuffle
from brisk.nn._windows import pixel_unshuffle as pixel_unshuffle
from brisk.nn._losses import poisson_nll_loss as poisson_nll_loss
from brisk import prelu as prelu
from brisk import rms_norm as rms_norm
from brisk import rrelu as rrelu
from brisk import rrelu_ as rrelu_
from brisk.nn._losses import smooth_l1_loss as smooth_l1_loss
from brisk.nn._losses import soft_margin_loss as soft_margin_loss
from brisk import threshold_ as threshold_
from brisk.nn._losses import triplet_margin_loss as triplet_margin_loss
from brisk.nn._losses import triplet_margin_with_distance_loss as triplet_margin_with_distance_loss
from brisk.nn._windows import unfold as unfold
from brisk.nn._windows import upsample as upsample
from brisk.nn._windows import upsample_bilinear as upsample_bilinear
from brisk.nn._windows import upsample_nearest as upsample_nearest
def alpha_dropout(input: Any, p: Any = ..., training: Any = ..., inplace: Any = ...) -> Any: ...
def dropout(input: Any, p: Any = ..., training: Any = ..., inplace: Any = ...) -> Any: ...
def dropout1d(input: Any, p: Any = ..., training: Any = ..., inplace: Any = ...) -> Any: ...
def dropout2d(input: Any, p: Any = ..., training: Any = ..., inplace: Any = ...) -> Any: ...
def dropout3d(input: Any, p: Any = ..., training: Any = ..., inplace: Any = ...) -> Any: ...
def elu(input: Tensor, alpha: _Number = ..., inplace: _bool = ...) -> Tensor: ...
def elu_(input: Any, *args: Any, **kwargs: Any) -> Any: ...
def embedding(input: Any, weight: Any, padding_idx: Any = ..., max_norm: Any = ..., norm_type: Any = ..., scale_grad_by_freq: Any = ..., sparse: Any = ...) -> Any: ...
def feature_alpha_dropout(input: Any, p: Any = ..., training: Any = ..., inplace: Any = ...) -> Any: ...
def gelu(input: Tensor, *, approximate: str = ...) -> Tensor: ...
def glu(input: Tensor, dim: _int = ...) -> Tensor: ...
def gumbel_softmax(logits: Any, tau: Any = ..., hard: Any = ..., eps: Any = ..., dim: Any = ...) -> Any: ...
def hardsigmoid(input: Tensor, inplace: _bool = ...) -> Tensor: ...
def hardswish(input: Tensor, inplace: _bool = ...) -> Tensor: ...
def hardtanh(input: Tensor, min_val: _Number = ..., max_val: _Number = ..., inplace: _bool = ...) -> Tensor: ...
def hardtanh_(input: Any, *args: Any, **kwargs: Any) -> Any: ...
def leaky_relu(input: Tensor, negative_slope: _Number = ..., inplace: _bool = ...) -> Tensor: ...
def leaky_relu_(input: Any, *args: Any, **kwargs: Any) -> Any: ...
def linear(input: Tensor, weight: Tensor, bias: Optional[Tensor] = ...) -> Tensor: ...
def log_softmax(input: Any, dim: Any = ..., _stacklevel: Any = ..., dtype: Any = ...) -> Any: ...
def logsigmoid(input: Tensor) -> Tensor: ...
def mish(input: Tensor, inplace: _bool = ...) -> Tensor: ...
def multi_head_attention_forward(*args: Any, **kwargs: Any) -> Any: ...
def normalize(input: Any, p: Any = ..., dim: Any = ..., eps: Any = ..., out: Any = ...) -> Any: ...
def one_hot(tensor: Any, num_classes: Any = ...) -> Any: ...
def relu(input: Tensor, inplace: _bool = ...) -> Tensor: ...
def relu6(input: Tensor, inplace: _bool = ...) -> Tensor: ...
def relu_(input: Any, *args: Any, **kwargs: Any) -> Any: ...
def scaled_dot_product_attention(query: Any, key: Any, value: Any, attn_mask: Any = ..., dropout_p: Any = ..., is_causal: Any = ..., scale: Any = ..., enable_gqa: Any = ...) -> Any: ...
def selu(input: Tensor, inplace: _bool = ...) -> Tensor: ...
def selu_(input: Any, *args: Any, **kwargs: Any) -> Any: ...
def sigmoid(input: Tensor) -> Tensor: ...
def silu(input: Tensor, inplace: _bool = ...) -> Tensor: ...
def softmax(input: Any, dim: Any = ..., _stacklevel: Any = ..., dtype: Any = ...) -> Any: ...
def softmin(input: Any, dim: Any = ..., _stacklevel: Any = ..., dtype: Any = ...) -> Any: ...
def softplus(input: Tensor, beta: _Number = ..., threshold: _Number = ...) -> Tensor: ...
def softshrink(input: Tensor, lambd: _Number = ...) -> Tensor: ...
def softsign(input: Tensor) -> Tensor: ...
def tanh(input: Tensor) -> Tensor: ...
def tanhshrink(input: Tensor) -> Tensor: ...
def threshold(input: Tensor, threshold: _Number, value: _Number, inplace: _bool = ...) -> Tensor: ...
