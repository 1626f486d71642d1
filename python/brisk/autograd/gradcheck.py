"""gradcheck, gradgradcheck: gradients compared with differences, for functions whose backward was written by hand.

A Jacobian has a row for each element of an input and a column for each element of an output. fast_mode compares one
number of it, v J u for random u and v. Gradients always have the dtype and the sizes of their tensors, and those of a
batch are computed one by one, so that check_grad_dtypes and check_batched_grad have nothing to find.
"""

import itertools
import warnings

from brisk import _C
from brisk._C import Tensor

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class GradcheckError(RuntimeError):
    """A gradient is not what differences say it should be."""


def _grad(*args, **kwargs):
    from brisk.autograd import grad

    return grad(*args, **kwargs)


def _tuple(x):
    return tuple(x) if isinstance(x, (tuple, list)) else (x,)


def _wanted(inputs):
    return [x for x in inputs if isinstance(x, Tensor) and x.requires_grad]


def _on_tape(outputs):
    return tuple(o for o in _tuple(outputs) if o.requires_grad)  # what is no tensor has no such attribute


def _is_float(x):
    return isinstance(x, Tensor) and x.dtype.is_floating_point


def _check_inputs(inputs):
    for k, x in enumerate(inputs):
        if not isinstance(x, Tensor) or not x.requires_grad:
            continue
        if x.dtype != _C.float64:
            warnings.warn(
                f"Input #{k} requires gradient and is not a double precision floating point or complex. This check "
                "will likely fail if all the inputs are not of double precision floating point or complex. ",
                stacklevel=4,
            )
        if any(size > 1 and stride == 0 for size, stride in zip(x.shape, x.stride())):
            raise RuntimeError(
                f"The {k}th input has a dimension with stride 0. gradcheck only supports inputs that are "
                "non-overlapping to be able to compute the numerical gradients correctly. You should call "
                ".contiguous on the input before passing it to gradcheck."
            )
    if not _wanted(inputs):
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True."
        )


# --- differences ------------------------------------------------------------------------------------------------------


def _check_alike(low, high, index, eps):
    for what, a, b in (("shape", low.shape, high.shape), ("dtype", low.dtype, high.dtype)):
        if a != b:
            where = "" if index is None else f"on index {index} "
            raise AssertionError(
                f"Expected `func` to return outputs with the same {what} when inputs are perturbed {where}by {eps}, "
                f"but got: {what}s {a} and {b}."
            )


def _difference(func, inputs, part, step, eps, index=None):
    """What a step there and back changes in each output; part: memory of an input, unseen by the tape."""

    def values():
        return [o.detach().clone() for o in _tuple(func(*inputs)) if _is_float(o)]

    before = part.clone()
    try:
        part.copy_(before - step)
        low = values()
        part.copy_(before + step)
        high = values()
    finally:
        part.copy_(before)
    for a, b in zip(low, high):
        _check_alike(a, b, index, eps)
    return [((b - a) / (2 * eps)).reshape(-1) for a, b in zip(low, high)]


def _numerical(func, inputs, x, outputs, eps):
    """The Jacobian of each floating-point output by x."""
    blocks = [o.new_zeros((x.numel(), o.numel())) for o in outputs if _is_float(o)]
    whole = x.data
    for row, index in enumerate(itertools.product(*map(range, x.shape))):
        for block, values in zip(blocks, _difference(func, inputs, whole[index], eps, eps, index)):
            block[row] = values
    return blocks


# --- by the tape ------------------------------------------------------------------------------------------------------


def _by_rows(output, wanted):
    """The Jacobian of an output by each of wanted: a backward for each of its elements."""
    blocks = [x.new_zeros((x.numel(), output.numel())) for x in wanted]
    for column in range(output.numel()):
        g = _C.zeros_like(output)
        g.view(-1)[column] = 1
        for block, d in zip(blocks, _grad([output], wanted, [g], retain_graph=True, allow_unused=True)):
            if d is not None:
                block[:, column] = d.detach().reshape(-1)
    return blocks


def _by_vector(output, wanted, v):
    """v times the same, as Jacobians of one column."""
    found = _grad([output], wanted, [v.reshape(output.shape)], retain_graph=True, allow_unused=True)
    return [_C.zeros_like(x).reshape(-1, 1) if d is None else d.detach().reshape(-1, 1) for x, d in zip(wanted, found)]


_HINT_NONDETERMINISTIC = (
    "\n\n\nNOTE: If your op relies on non-deterministic operations, call gradcheck/gradgradcheck with "
    "`nondet_tol=<tol>` as a keyword argument.\n"
)


def _reentrant(compute, nondet_tol):
    """What computing it twice gives twice."""
    first, second = compute(), compute()
    for a, b in zip(first, second):
        if a.numel() and (a - b).abs().max().item() > nondet_tol:
            raise GradcheckError(
                "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times "
                "gives different values, although analytical gradient matches numerical gradient.The tolerance for "
                f"nondeterminism was {nondet_tol}." + _HINT_NONDETERMINISTIC
            )
    return first


def _duals(inputs, tangents):
    """The inputs with tangents for those that want gradients; call inside a dual level."""
    from brisk.autograd import forward_ad

    left = iter(tangents)
    return [forward_ad.make_dual(x, next(left)) if isinstance(x, Tensor) and x.requires_grad else x for x in inputs]


def _pushed(func, inputs, tangents):
    """The tangent of each floating-point output; None: it has none."""
    from brisk.autograd import forward_ad

    with forward_ad.dual_level():
        outputs = [o for o in _tuple(func(*_duals(inputs, tangents))) if _is_float(o)]
        found = [forward_ad.unpack_dual(o)[1] for o in outputs]
    return [None if t is None else t.detach() for t in found]


def _by_columns(func, inputs, k, outputs, u=None):
    """The Jacobian of each floating-point output by the k-th that wants gradients, or its product with u."""
    wanted = _wanted(inputs)
    x = wanted[k]
    directions = [u] if u is not None else _C.eye(x.numel(), dtype=x.dtype)
    blocks = [o.new_zeros((len(directions), o.numel())) for o in outputs if _is_float(o)]
    for row, direction in enumerate(directions):
        tangents = [direction.reshape(x.shape).clone() if t is x else _C.zeros_like(t) for t in wanted]
        for block, t in zip(blocks, _pushed(func, inputs, tangents)):
            if t is not None:
                block[row] = t.reshape(-1)
    return blocks


# --- comparisons ------------------------------------------------------------------------------------------------------


def _close(a, b, rtol, atol):
    common = _C.promote_types(a.dtype, b.dtype)
    return _C.allclose(a.to(common), b.to(common), rtol, atol)


def _mismatch(a, n, output, k, forward):
    mode = "computed with forward mode " if forward else ""
    return f"Jacobian {mode}mismatch for output {output} with respect to input {k},\nnumerical:{n}\nanalytical:{a}\n"


class _Check:
    """One call of gradcheck: what it compares, and how closely."""

    def __init__(self, func, inputs, eps, atol, rtol, nondet_tol):
        self.func, self.inputs = func, inputs
        self.eps, self.atol, self.rtol, self.nondet_tol = eps, atol, rtol, nondet_tol
        _check_inputs(inputs)
        self.wanted = _wanted(inputs)
        self.results = _tuple(func(*inputs))
        self.outputs = _on_tape(self.results)
        floats = [o for o in self.results if _is_float(o)]
        self.taped = [k for k, o in enumerate(floats) if o.requires_grad]  # their numbers among the differences

    def numerical(self):
        """By output and input."""
        by_input = [_numerical(self.func, self.inputs, x, self.results, self.eps) for x in self.wanted]
        return [[blocks[k] for blocks in by_input] for k in self.taped], by_input

    def analytical(self, forward):
        if not forward:
            return [_reentrant(lambda o=o: _by_rows(o, self.wanted), self.nondet_tol) for o in self.outputs]
        by_input = [_by_columns(self.func, self.inputs, j, self.results) for j in range(len(self.wanted))]
        return [[blocks[k] for blocks in by_input] for k in self.taped]

    def in_full(self, forward):
        numerical, by_input = self.numerical()
        if not self.outputs:
            if any(not n.eq(0).all().item() for blocks in by_input for n in blocks):
                raise GradcheckError("Numerical gradient for function expected to be zero")
            return
        for i, (found, expected) in enumerate(zip(self.analytical(forward), numerical)):
            for j, (a, n) in enumerate(zip(found, expected)):
                if not _close(a, n, self.rtol, self.atol):
                    raise GradcheckError(_mismatch(a, n, i, j, forward))

    def vectors(self):
        """u for each input and v for each output: positive, of length 1, drawn beside the user's numbers."""
        generator = _C.Generator()

        def draw(x):
            vector = _C.rand(x.numel(), generator=generator).to(x.dtype)
            return vector / vector.norm()

        return [draw(x) for x in self.wanted], [draw(o) for o in self.outputs]

    def differences_along(self, us):
        """By input and floating-point output."""
        return [
            _difference(self.func, self.inputs, x.data, u.reshape(x.shape) * self.eps, self.eps)
            for x, u in zip(self.wanted, us)
        ]

    def fast(self, forward):
        us, vs = self.vectors()
        by_input = self.differences_along(us)
        if not self.outputs:
            if any(not _C.allclose(n, _C.zeros_like(n), self.rtol, self.nondet_tol) for row in by_input for n in row):
                raise GradcheckError("Numerical gradient for function expected to be zero")
            return
        for j, u in enumerate(us):
            pushed = _by_columns(self.func, self.inputs, j, self.results, u) if forward else None
            for i, (o, v) in enumerate(zip(self.outputs, vs)):
                n = by_input[j][self.taped[i]]
                if forward:
                    a, scale = pushed[self.taped[i]].reshape(-1), 1.0
                else:
                    block = _reentrant(lambda o=o, v=v: _by_vector(o, self.wanted, v), self.nondet_tol)[j]
                    a, n, scale = block.reshape(-1).dot(u), (v * n).sum(), v.sum().item()
                if not _close(a, n, self.rtol, self.atol * u.sum().item() * scale):
                    raise GradcheckError(_mismatch(a, n, i, j, forward) + self.in_full_text(i, j, forward))

    def in_full_text(self, i, j, forward):
        n, a = self.numerical()[0][i][j], self.analytical(forward)[i][j]
        text = (
            "\nThe above quantities relating the numerical and analytical jacobians are computed \n"
            "in fast mode. See: https://github.com/pytorch/pytorch/issues/53876 for more background \n"
            "about fast mode. Below, we recompute numerical and analytical jacobians in slow mode:\n\n"
            f"Numerical:\n {n}\nAnalytical:\n{a}\n\n"
            f"The max per-element difference (slow mode) is: {(n - a).abs().max()}.\n"
        )
        if _C.allclose(a, n, self.rtol, self.atol):
            text += (
                "Fast gradcheck failed but element-wise differences are small. This means that the\n"
                "test might've passed in slow_mode!"
            )
        return text

    def scales(self):
        """A gradient of zero gives gradients of zero."""
        found = _grad(self.outputs, self.wanted, [_C.zeros_like(o) for o in self.outputs], allow_unused=True)
        if any(g is not None and not g.eq(0).all().item() for g in found):
            raise GradcheckError("backward not multiplied by grad_output")

    def undefined(self):
        """A backward must bear that no gradient comes for its outputs: for all of them, and for each."""
        count = len(self.outputs)
        silent = [set(range(count))] + [{k} for k in range(count) if count > 1]
        for ks in silent:
            self.undefined_at(ks)

    def undefined_at(self, silent):
        from brisk.autograd.function import _Undefined

        outputs = [_Undefined.apply(o) if k in silent else o for k, o in enumerate(_on_tape(self.func(*self.inputs)))]
        hint = 'Please look at "Notes about undefined output gradients" in "tools/autograd/derivatives.yaml"'
        try:
            found = _grad(outputs, self.wanted, [_C.zeros_like(o) for o in outputs], allow_unused=True)
        except RuntimeError as error:
            _warn_of_undefined()
            raise GradcheckError(f"Expected backward function to handle undefined output grads. {hint}") from error
        if any(g is not None and not g.eq(0).all().item() for g in found):
            _warn_of_undefined()
            raise GradcheckError(
                "Expected all input grads to be undefined or zero when all output grads are undefined or zero. " + hint
            )

    def undefined_forward(self):
        """A tangent that is not there counts as one of zeros."""
        from brisk.autograd import forward_ad

        us, _ = self.vectors()
        tangents = [u.reshape(x.shape) for x, u in zip(self.wanted, us)]
        for k, x in enumerate(self.wanted):
            zeroed = _pushed(self.func, self.inputs, tangents[:k] + [_C.zeros_like(x)] + tangents[k + 1 :])
            with forward_ad.dual_level():
                duals = [x if given is x else dual for given, dual in zip(self.inputs, _duals(self.inputs, tangents))]
                outputs = [o for o in _tuple(self.func(*duals)) if _is_float(o)]
                without = [forward_ad.unpack_dual(o)[1] for o in outputs]
            for i, (a, b) in enumerate(zip(zeroed, without)):
                if a is not None and b is not None and not _C.allclose(a, b):
                    raise GradcheckError(
                        "Mismatch in tangent values for output with index: ", i, " when input: ", x,
                        " has an undefined tangent value. ", " Got: ", a, " but expected: ", b,
                    )  # fmt: skip


def _warn_of_undefined():
    warnings.warn(
        "Backwards compatibility: New undefined gradient support checking feature is enabled by default, but it may "
        "break existing callers of this function. If this is true for you, you can call this function with "
        '"check_undefined_grad=False" to disable the feature',
        stacklevel=5,
    )


def gradcheck(
    func, inputs, *, eps=1e-6, atol=1e-5, rtol=1e-3, raise_exception=True, nondet_tol=0.0, check_undefined_grad=True,
    check_grad_dtypes=False, check_batched_grad=False, check_batched_forward_grad=False, check_forward_ad=False,
    check_backward_ad=True, fast_mode=False, masked=None,
):  # fmt: skip
    """Whether backward of func at inputs (double precision, requires_grad) agrees with central differences.

    Raises GradcheckError, or with raise_exception=False returns False, where it does not."""
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError("Expected at least one of check_forward_ad or check_backward_ad to be True")
    if check_batched_grad and not check_backward_ad:
        raise AssertionError("Setting check_batched_grad=True requires check_backward_ad to be True")
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError("Setting check_batched_forward_grad=True requires check_forward_ad to be True")
    try:
        check = _Check(func, _tuple(inputs), eps, atol, rtol, nondet_tol)
        compare = check.fast if fast_mode else check.in_full
        if check_backward_ad:
            compare(forward=False)
        if check_forward_ad:
            compare(forward=True)
            if check_undefined_grad:
                check.undefined_forward()
        if check_backward_ad:
            check.scales()
            if check_undefined_grad:
                check.undefined()
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func, inputs, grad_outputs=None, *, eps=1e-6, atol=1e-5, rtol=1e-3, gen_non_contig_grad_outputs=False,
    raise_exception=True, nondet_tol=0.0, check_undefined_grad=True, check_grad_dtypes=False, check_batched_grad=False,
    check_fwd_over_rev=False, check_rev_over_rev=True, fast_mode=False, masked=False,
):  # fmt: skip
    """The same for the second derivative: gradcheck of the gradient, by the inputs and by the vector it starts from."""
    if not (check_fwd_over_rev or check_rev_over_rev):
        raise AssertionError("Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True")
    if check_undefined_grad and not check_rev_over_rev:
        raise AssertionError("Setting check_undefined_grad=True requires check_rev_over_rev to be True")
    if check_batched_grad and not check_rev_over_rev:
        raise AssertionError("Setting check_batched_grad=True requires check_rev_over_rev to be True")
    inputs = _tuple(inputs)
    if grad_outputs is None:
        starts = tuple(_start_of(o, gen_non_contig_grad_outputs) for o in _on_tape(func(*inputs)))
    else:
        starts = _tuple(grad_outputs)
    given = inputs + starts
    taped = [isinstance(x, Tensor) and x.requires_grad for x in inputs]

    def gradient(*args):
        own = args[: len(inputs)]
        found = _grad(
            _on_tape(func(*own)), [x for x, on in zip(own, taped) if on], args[len(inputs) :],
            create_graph=True, allow_unused=True,
        )  # fmt: skip
        return tuple(g for g in found if g is not None)

    return gradcheck(
        gradient, given, eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception, nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad, check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad, fast_mode=fast_mode, check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev, masked=masked,
    )  # fmt: skip


def _start_of(output, strided):
    """A random gradient for output."""
    shape = (*output.shape, 2) if strided else tuple(output.shape)
    g = _C.rand(shape, dtype=output.dtype) * 2 - 1
    return (g[..., 0] if strided else g).detach().requires_grad_()
