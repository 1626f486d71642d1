"""gradcheck, gradgradcheck: gradients compared with differences, for functions whose backward was written by hand.

Every Jacobian is computed in full; fast_mode is accepted and checks no less. Forward mode and batched gradients are not
checked: brisk computes both by the reverse pass.
"""

import warnings

from brisk import _C
from brisk._C import Tensor
from brisk.autograd.grad_mode import no_grad

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


def _check_inputs(inputs):
    found = False
    for k, x in enumerate(inputs):
        if not isinstance(x, Tensor) or not x.requires_grad:
            continue
        found = True
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
    if not found:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True."
        )
    for x in _wanted(inputs):
        if not x.is_leaf:
            x.retain_grad()


def _outputs(func, inputs):
    return [o for o in _tuple(func(*inputs)) if isinstance(o, Tensor)]


def _numerical(func, inputs, x, eps, count):
    """By output: rows are the elements of x, columns those of the output."""
    flat = x.data  # the same memory, unseen by the tape: func sees each change
    columns = [[] for _ in range(count)]

    def values():
        with no_grad():
            return [o.detach().clone().reshape(-1) for o in _outputs(func, inputs)]

    for index in _indices(x.shape):
        before = flat[index].item()
        flat[index] = before - eps
        low = values()
        flat[index] = before + eps
        high = values()
        flat[index] = before
        for k in range(count):
            columns[k].append((high[k] - low[k]) / (2 * eps))
    return [_C.stack(c) if c else None for c in columns]


def _indices(shape):
    if not shape:
        return [()]
    rest = _indices(shape[1:])
    return [(i, *r) for i in range(shape[0]) for r in rest]


def _analytical(output, wanted, check_dtypes):
    """The same by input, from one backward for each element of the output."""
    blocks = [x.new_zeros((x.numel(), output.numel())) for x in wanted]
    for j in range(output.numel()):
        g = _C.zeros_like(output)
        g.view(-1)[j] = 1
        found = _grad([output], wanted, [g], retain_graph=True, allow_unused=True)
        for block, x, d in zip(blocks, wanted, found):
            if d is None:
                continue
            if d.shape != x.shape:
                raise GradcheckError("Analytical gradient has incorrect size")
            if check_dtypes and d.dtype != x.dtype:
                raise GradcheckError("Gradient has dtype mismatch")
            block[:, j] = d.detach().reshape(-1).to(block.dtype)
    return blocks


def _check_reentrant(output, wanted, nondet_tol, first, check_dtypes):
    again = _analytical(output, wanted, check_dtypes)
    for a, b in zip(first, again):
        if a.numel() and not ((a - b).abs().max().item() <= nondet_tol):
            raise GradcheckError(
                "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times "
                "gives different values, although analytical gradient matches numerical gradient.The tolerance for "
                f"nondeterminism was {nondet_tol}."
            )


def _compare(func, inputs, outputs, eps, atol, rtol, nondet_tol, check_dtypes):
    wanted = _wanted(inputs)
    on_tape = [k for k, o in enumerate(outputs) if o.requires_grad]
    numerical = [_numerical(func, inputs, x, eps, len(outputs)) for x in wanted]
    if not on_tape:
        for by_output in numerical:
            if any(n is not None and not n.eq(0).all().item() for n in by_output):
                raise GradcheckError("Numerical gradient for function expected to be zero")
        return
    for k in on_tape:
        blocks = _analytical(outputs[k], wanted, check_dtypes)
        _check_reentrant(outputs[k], wanted, nondet_tol, blocks, check_dtypes)
        for j, (a, by_output) in enumerate(zip(blocks, numerical)):
            n = by_output[k]
            if n is not None and not _C.allclose(a, n.to(a.dtype), rtol, atol):
                raise GradcheckError(
                    f"Jacobian mismatch for output {k} with respect to input {j},\nnumerical:{n}\nanalytical:{a}\n"
                )


def _check_scales(outputs, inputs):
    """A gradient of zero gives gradients of zero, of the inputs' sizes and dtypes."""
    wanted = _wanted(inputs)
    on_tape = [o for o in outputs if o.requires_grad]
    if not on_tape:
        return
    found = _grad(on_tape, wanted, [_C.zeros_like(o) for o in on_tape], retain_graph=True, allow_unused=True)
    for g, x in zip(found, wanted):
        if g is None:
            continue
        if not g.eq(0).all().item():
            raise GradcheckError("backward not multiplied by grad_output")
        if g.dtype != x.dtype:
            raise GradcheckError("grad is incorrect type")
        if g.shape != x.shape:
            raise GradcheckError("grad is incorrect size")


def _check_undefined(func, inputs, outputs):
    """Outputs that nothing was computed from send no gradient: backward must bear it, each alone and all together."""
    from brisk.autograd.function import _Undefined

    wanted = _wanted(inputs)

    def check(silent):
        outs = [o for o in _outputs(func, inputs) if o.requires_grad]
        if not outs:
            return
        ends = [o for k, o in enumerate(_Undefined.apply(*outs)[: len(outs)] if len(outs) > 1 else
                                        (_Undefined.apply(*outs),)) if k in silent]  # fmt: skip
        try:
            found = _grad(ends, wanted, [_C.zeros_like(e) for e in ends], allow_unused=True)
        except RuntimeError as error:
            raise GradcheckError("Expected backward function to handle undefined output grads.") from error
        if any(g is not None and not g.eq(0).all().item() for g in found):
            raise GradcheckError(
                "Expected all input grads to be undefined or zero when all output grads are undefined or zero."
            )

    count = len([o for o in outputs if o.requires_grad])
    check(set(range(count)))
    if count > 1:
        for k in range(count):
            check({k})


def gradcheck(
    func, inputs, *, eps=1e-6, atol=1e-5, rtol=1e-3, raise_exception=True, nondet_tol=0.0, check_undefined_grad=True,
    check_grad_dtypes=False, check_batched_grad=False, check_batched_forward_grad=False, check_forward_ad=False,
    check_backward_ad=True, fast_mode=False, masked=None,
):  # fmt: skip
    """Whether backward of func at inputs (double precision, requires_grad) agrees with central differences.

    Raises GradcheckError, or with raise_exception=False returns False, where it does not."""
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError("Expected at least one of check_forward_ad or check_backward_ad to be True")
    try:
        inputs = _tuple(inputs)
        _check_inputs(inputs)
        outputs = _outputs(func, inputs)
        _compare(func, inputs, outputs, eps, atol, rtol, nondet_tol, check_grad_dtypes)
        _check_scales(outputs, inputs)
        if check_undefined_grad:
            _check_undefined(func, inputs, outputs)
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
    if not (check_rev_over_rev or check_fwd_over_rev):
        raise AssertionError("Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True")
    if check_undefined_grad and not check_rev_over_rev:
        raise AssertionError("Setting check_undefined_grad=True requires check_rev_over_rev to be True")
    if check_batched_grad and not check_rev_over_rev:
        raise AssertionError("Setting check_batched_grad=True requires check_rev_over_rev to be True")
    inputs = _tuple(inputs)
    if grad_outputs is None:
        outputs = [o for o in _tuple(func(*inputs)) if isinstance(o, Tensor) and o.requires_grad]
        vectors = tuple(_start_of(o, gen_non_contig_grad_outputs) for o in outputs)
    else:
        vectors = _tuple(grad_outputs)
    count = len(vectors)

    def gradient(*args):
        args, starts = args[:-count], args[-count:]
        args = tuple(a.requires_grad_() if isinstance(x, Tensor) and x.requires_grad and a.is_leaf else a
                     for a, x in zip(args, inputs))  # fmt: skip
        outs = [o for o in _tuple(func(*args)) if isinstance(o, Tensor) and o.requires_grad]
        wanted = [a for a in args if isinstance(a, Tensor) and a.requires_grad]
        found = _grad(outs, wanted, starts, create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

    def under_grad(*args):
        from brisk.autograd.grad_mode import enable_grad

        with enable_grad():
            return gradient(*args)

    return gradcheck(
        under_grad, inputs + vectors, eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception,
        nondet_tol=nondet_tol, check_undefined_grad=check_undefined_grad, check_grad_dtypes=check_grad_dtypes,
    )  # fmt: skip


def _start_of(output, strided):
    """A random gradient for output, double precision where the output is not."""
    shape = (*output.shape, 2) if strided else tuple(output.shape)
    g = _C.randn(shape, dtype=output.dtype if output.dtype == _C.float64 else _C.float64).to(output.dtype)
    return (g[..., 0] if strided else g).requires_grad_()
