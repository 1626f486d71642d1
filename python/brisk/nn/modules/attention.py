"""MultiheadAttention."""

import math

from brisk import _C
from brisk._C import _nn
from brisk._composed import looks_like
from brisk.nn import functional as F
from brisk.nn import init
from brisk.nn.modules.linear import NonDynamicallyQuantizableLinear
from brisk.nn.modules.module import Module
from brisk.nn.parameter import Parameter

__all__ = ["MultiheadAttention"]


def _as_added(mask, dtype, name):
    """A mask of bools (true: do not attend) as numbers to be added."""
    if mask is None:
        return None
    if mask.dtype == _C.bool:
        return _C.zeros(mask.shape, dtype=dtype).masked_fill_(mask, -math.inf)
    if not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {name} are supported")
    return mask


@looks_like("_projected_part", view=True)
def _part(joined, i, size):
    return joined.narrow(-1, i * size, size)


def _with_zeros(x, apart):
    """(N, heads, S, D) with zeros at one place more."""
    x = _C.cat([x, _C.zeros((*x.shape[:2], 1, x.shape[3]), dtype=x.dtype)], 2)
    return x if apart else x.view(x.shape)


class MultiheadAttention(Module):
    """Attention of several heads over projections of query, key and value."""

    __constants__ = ["batch_first"]

    def __init__(
        self, embed_dim, num_heads, dropout=0.0, bias=True, add_bias_kv=False, add_zero_attn=False, kdim=None,
        vdim=None, batch_first=False, device=None, dtype=None,
    ):  # fmt: skip
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and num_heads={num_heads} "
                "instead"
            )
        super().__init__()
        self.embed_dim, self.num_heads, self.dropout, self.batch_first = embed_dim, num_heads, dropout, batch_first
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")
        made = {"dtype": dtype, "device": device}
        if self._qkv_same_embed_dim:
            self.in_proj_weight = Parameter(_C.empty((3 * embed_dim, embed_dim), **made))
            for name in ("q_proj_weight", "k_proj_weight", "v_proj_weight"):
                self.register_parameter(name, None)
        else:
            self.q_proj_weight = Parameter(_C.empty((embed_dim, embed_dim), **made))
            self.k_proj_weight = Parameter(_C.empty((embed_dim, self.kdim), **made))
            self.v_proj_weight = Parameter(_C.empty((embed_dim, self.vdim), **made))
            self.register_parameter("in_proj_weight", None)
        if bias:
            self.in_proj_bias = Parameter(_C.empty(3 * embed_dim, **made))
        else:
            self.register_parameter("in_proj_bias", None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, **made)
        if add_bias_kv:
            self.bias_k = Parameter(_C.empty((1, 1, embed_dim), **made))
            self.bias_v = Parameter(_C.empty((1, 1, embed_dim), **made))
        else:
            self.bias_k = self.bias_v = None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self):
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def _projected(self, query, key, value):
        """(T, N, E) each, or those of one tensor in one."""
        if self._qkv_same_embed_dim and key is value:
            weight, bias = self.in_proj_weight, self.in_proj_bias
            q, first = [], 0 if query is key else self.embed_dim
            if first:
                w, weight = weight.split([first, 2 * first])
                b, bias = (None, None) if bias is None else bias.split([first, 2 * first])
                q = [F.linear(query, w, b)]
            joined, parts = F.linear(key, weight, bias), 3 - len(q)
            apart = self.bias_k is not None
            return q + ([_part(joined, i, self.embed_dim) for i in range(parts)] if apart else [joined] * parts)
        if self._qkv_same_embed_dim:
            weights = self.in_proj_weight.chunk(3)
        else:
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        return [F.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases)]

    def _check(self, query, key, value, key_padding_mask, attn_mask):
        if query.dim() not in (2, 3):
            raise AssertionError(
                f"query should be unbatched 2D or batched 3D tensor but received {query.dim()}-D query tensor"
            )
        if key.dim() != query.dim() or value.dim() != query.dim():
            raise AssertionError(
                f"For {'batched' if query.dim() == 3 else 'unbatched'} ({query.dim()}-D) `query`, expected `key` and "
                f"`value` to be {query.dim()}-D but found {key.dim()}-D and {value.dim()}-D tensors respectively"
            )
        if query.shape[-1] != self.embed_dim:
            raise AssertionError(f"was expecting embedding dimension of {self.embed_dim}, but got {query.shape[-1]}")

    def _mask(self, attn_mask, key_padding_mask, batch, target, source, dtype):
        """One mask to be added, over (N, heads, T, S) or broadcasting to it; None for none."""
        attn_mask = _as_added(attn_mask, dtype, "attn_mask")
        padding = _as_added(key_padding_mask, dtype, "key_padding_mask")
        if attn_mask is not None:
            if attn_mask.dim() == 2:
                if tuple(attn_mask.shape) != (target, source):
                    raise RuntimeError(
                        f"The shape of the 2D attn_mask is {attn_mask.shape}, but should be {(target, source)}."
                    )
            elif attn_mask.dim() == 3:
                wanted = (batch * self.num_heads, target, source)
                if tuple(attn_mask.shape) != wanted:
                    raise RuntimeError(f"The shape of the 3D attn_mask is {attn_mask.shape}, but should be {wanted}.")
                attn_mask = attn_mask.view(batch, self.num_heads, target, source)
            else:
                raise RuntimeError(f"attn_mask's dimension {attn_mask.dim()} is not supported")
        if padding is not None:
            if tuple(padding.shape) != (batch, source):
                raise AssertionError(
                    f"Expected key_padded_mask.shape to be {(batch, source)}, but got {tuple(padding.shape)}"
                )
            padding = padding.view(batch, 1, 1, source)
            return padding if attn_mask is None else attn_mask + padding
        return attn_mask

    def _with_learnt_key(self, k, v, attn_mask, padding):
        """With the key and value of a learnt place; masks hide neither it nor the zeros that may follow."""
        if self.bias_k is not None:
            k, v = (_C.cat([t, b.repeat(1, t.shape[1], 1)]) for t, b in ((k, self.bias_k), (v, self.bias_v)))
        for _ in range((self.bias_k is not None) + self.add_zero_attn):
            attn_mask = attn_mask if attn_mask is None else F.pad(attn_mask, (0, 1))
            padding = padding if padding is None else F.pad(padding, (0, 1))
        return k, v, attn_mask, padding

    def forward(
        self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None, average_attn_weights=True,
        is_causal=False,
    ):  # fmt: skip
        """(output, weights); weights is None where they are not needed."""
        self._check(query, key, value, key_padding_mask, attn_mask)
        if is_causal and attn_mask is None:
            raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
        alone = query.dim() == 2
        same_kv, same_q = key is value, query is key
        if alone or self.batch_first:
            move = (lambda x: x.unsqueeze(1)) if alone else (lambda x: x.transpose(1, 0))
            query = move(query)
            key = query if same_q else move(key)
            value = key if same_kv else move(value)
        if alone and key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
        target, batch = query.shape[:2]
        q, k, v = self._projected(query, key, value)
        attn_mask = _as_added(attn_mask, q.dtype, "attn_mask")
        padding = _as_added(key_padding_mask, q.dtype, "key_padding_mask")
        k, v, attn_mask, padding = self._with_learnt_key(k, v, attn_mask, padding)
        mask = self._mask(attn_mask, padding, batch, target, k.shape[0] + self.add_zero_attn, q.dtype)
        parts = (q is k) + (k is v) + 1
        q = _nn._heads(q, self.num_heads, 0, parts if q is k else 1, need_weights)
        apart = need_weights or self.add_zero_attn
        k = _nn._heads(k, self.num_heads, max(parts - 2, 0), parts, apart)
        v = _nn._heads(v, self.num_heads, parts - 1, parts, apart)
        if self.add_zero_attn:
            k, v = _with_zeros(k, need_weights), _with_zeros(v, need_weights)
        drop = self.dropout if self.training else 0.0
        weights = None
        if need_weights:
            weights = _nn._scores(q * math.sqrt(1.0 / self.head_dim), k.transpose(-2, -1), mask).softmax(-1)
            if drop > 0:
                weights = F.dropout(weights, drop)
            rows = _nn._rows_of_heads(_nn._scores(weights, v, None), True, False)
            weights = weights.view(weights.shape)
            weights = weights.mean(1) if average_attn_weights else weights
        else:
            whole = not drop and (mask is None or not mask.requires_grad)  # one function to PyTorch
            rows = _nn._rows_of_heads(F.scaled_dot_product_attention(q, k, v, mask, drop), False, whole)
        out = self.out_proj(rows).view(target, batch, self.embed_dim)
        if alone:
            return out.squeeze(1), None if weights is None else weights.squeeze(0)
        return out.transpose(1, 0) if self.batch_first else out, weights


def _forward(
    query, key, value, embed_dim_to_check, num_heads, in_proj_weight, in_proj_bias, bias_k, bias_v, add_zero_attn,
    dropout_p, out_proj_weight, out_proj_bias, training=True, key_padding_mask=None, need_weights=True,
    attn_mask=None, use_separate_proj_weight=False, q_proj_weight=None, k_proj_weight=None, v_proj_weight=None,
    static_k=None, static_v=None, average_attn_weights=True, is_causal=False,
):  # fmt: skip
    """MultiheadAttention's forward with the weights as arguments: nn.functional.multi_head_attention_forward."""
    if static_k is not None or static_v is not None:
        raise NotImplementedError(
            "multi_head_attention_forward: static_k and static_v; project them and pass key, value"
        )
    of = MultiheadAttention.__new__(MultiheadAttention)
    Module.__init__(of)
    of.training, of.embed_dim, of.num_heads, of.head_dim = (
        training,
        query.shape[-1],
        num_heads,
        query.shape[-1] // num_heads,
    )
    of.dropout, of.batch_first, of.add_zero_attn = dropout_p, False, add_zero_attn
    of.bias_k, of.bias_v, of.in_proj_bias = bias_k, bias_v, in_proj_bias
    of._qkv_same_embed_dim, of.in_proj_weight = not use_separate_proj_weight, in_proj_weight
    of.q_proj_weight, of.k_proj_weight, of.v_proj_weight = q_proj_weight, k_proj_weight, v_proj_weight
    of.out_proj = lambda x: F.linear(x, out_proj_weight, out_proj_bias)
    return of.forward(query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal)
