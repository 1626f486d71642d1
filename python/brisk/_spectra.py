"""Eigenvalues and singular values: NumPy computes them, the gradients are recorded here.

The gradients divide by differences of (squares of) values: where two are equal, those of the vectors are infinite, as
they are in truth. All are made of recorded operations over the results, so they can be differentiated again."""

import numpy as np

from brisk import _C
from brisk.autograd import Function

_LinAlgError = _C._LinAlgError


def _check(name, A, square=False):
    if A.dim() < 2:
        raise RuntimeError(f"linalg.{name}: The input tensor A must have at least 2 dimensions.")
    if square and A.shape[-1] != A.shape[-2]:
        rows, columns = A.shape[-2:]
        raise RuntimeError(
            f"linalg.{name}: A must be batches of square matrices, but they are {rows} by {columns} matrices"
        )
    if A.dtype not in (_C.float32, _C.float64):
        raise RuntimeError(f"linalg.{name}: Expected a floating point or complex tensor as input. Got {A.dtype}")


def _compute(name, function, A, **how):
    try:
        results = function(A.detach().numpy(), **how)
    except np.linalg.LinAlgError as error:
        raise _LinAlgError(f"linalg.{name}: The algorithm failed to converge: {error}") from None
    return [_C.from_numpy(np.array(r, order="C")) for r in results]


def _outside(values):
    """1 / (values_j - values_i), 0 on the diagonal."""
    gap = values.unsqueeze(-2) - values.unsqueeze(-1)
    same = _C.eye(values.shape[-1], dtype=_C.bool)
    return _C.where(same, _C.zeros_like(gap), 1 / _C.where(same, _C.ones_like(gap), gap))


class _LinalgEighBackward0(Function):
    @staticmethod
    def forward(ctx, A, uplo):
        values, vectors = _compute("eigh", np.linalg.eigh, A, UPLO=uplo)
        ctx.save_for_backward(values, vectors)
        ctx.set_materialize_grads(False)
        return values, vectors

    @staticmethod
    def backward(ctx, of_values, of_vectors):
        values, V = ctx.saved_tensors
        inner = 0
        if of_vectors is not None:
            inner = (V.mT @ of_vectors) * _outside(values)
        if of_values is not None:
            inner = inner + of_values.diag_embed()
        of_A = V @ inner @ V.mT
        return (of_A + of_A.mT) / 2, None  # A is symmetric, whatever was passed


def eigh(A, uplo="L"):
    _check("eigh", A, square=True)
    return _LinalgEighBackward0.apply(A, uplo.upper())


class _LinalgSvdBackward0(Function):
    @staticmethod
    def forward(ctx, A):
        U, S, Vh = _compute("svd", np.linalg.svd, A, full_matrices=False)
        ctx.save_for_backward(U, S, Vh)
        ctx.set_materialize_grads(False)
        return U, S, Vh

    @staticmethod
    def backward(ctx, of_U, of_S, of_Vh):
        U, S, Vh = ctx.saved_tensors
        wide, tall = Vh.shape[-1] > S.shape[-1], U.shape[-2] > S.shape[-1]
        inner, beside = 0, 0
        if of_S is not None:
            inner = of_S.diag_embed()
        if of_U is not None:
            turn = U.mT @ of_U
            inner = inner + (turn - turn.mT) * _outside(S * S) * S.unsqueeze(-2)
            if tall:
                beside = beside + ((of_U - U @ turn) / S.unsqueeze(-2)) @ Vh
        if of_Vh is not None:
            turn = Vh @ of_Vh.mT
            inner = inner + S.unsqueeze(-1) * (turn - turn.mT) * _outside(S * S)
            if wide:
                beside = beside + U @ ((of_Vh - turn.mT @ Vh) / S.unsqueeze(-1))
        return U @ inner @ Vh + beside


def svd(A, full_matrices):
    _check("svd", A)
    if not full_matrices or A.shape[-1] == A.shape[-2]:
        return _LinalgSvdBackward0.apply(A)
    if _C.is_grad_enabled() and A.requires_grad:
        raise RuntimeError("linalg.svd: only full_matrices=False has a gradient where a matrix is not square")
    return _compute("svd", np.linalg.svd, A, full_matrices=True)


class _LinalgPinvBackward0(Function):
    """The derivative needs no singular vectors (Golub and Pereyra 1973), so equal singular values do no harm."""

    @staticmethod
    def forward(ctx, A, tolerances):
        from brisk import linalg

        U, S, Vh = svd(A.detach(), False)
        if S.shape[-1] == 0:
            P = A.detach().mT.clone()
        else:
            kept = linalg._tolerance(A, S, *tolerances) < S
            P = Vh.mT @ (_C.where(kept, 1 / S, _C.zeros_like(S)).unsqueeze(-1) * U.mT)
        ctx.save_for_backward(A, P)
        return P

    @staticmethod
    def backward(ctx, g):
        A, P = ctx.saved_tensors
        T, turned = P.mT, g.mT
        rows, columns = A.shape[-2:]
        left = (_C.eye(rows, dtype=A.dtype) - A @ P) @ turned @ P @ T
        right = T @ P @ turned @ (_C.eye(columns, dtype=A.dtype) - P @ A)
        return left + right - T @ g @ T, None


def pinv(A, atol=None, rtol=None):
    _check("pinv", A)
    return _LinalgPinvBackward0.apply(A, (atol, rtol))  # which are no operands
