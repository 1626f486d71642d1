"""Derivatives of functions: jacobian, hessian, and their products with vectors.

Each takes a function of tensors and the inputs to differentiate it at, a tensor or a tuple of them; results have the
nesting of the outputs, then that of the inputs. Forward products are taken by differentiating the reverse pass, which
is linear in the vector it starts from. `vectorize` is accepted: rows are recorded one by one and evaluated together.
"""

from brisk import _C
from brisk._C import Tensor
from brisk.autograd.grad_mode import enable_grad, set_grad_enabled

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

_OUTPUTS = "outputs of the user-provided function"
_NOT_STRICT = "This is not allowed in strict mode"


# --- arguments and results --------------------------------------------------------------------------------------------


def _tupled(value, what, caller):
    """(whether value was a tuple, value as a tuple of tensors)"""
    many = isinstance(value, tuple)
    tensors = value if many else (value,)
    for i, t in enumerate(tensors):
        if not isinstance(t, Tensor):
            which = f"value at index {i}" if many else f"given {what}"
            raise TypeError(
                f"The {what} given to {caller} must be either a Tensor or a tuple of Tensors but the {which} has type "
                f"{type(t)}."
            )
    return many, tensors


def _fresh(inputs, create_graph, needed=True):
    """New places on the tape for the inputs: what the function captures of them by other ways stays apart."""
    return tuple(
        x.view_as(x) if create_graph and x.requires_grad else x.detach().requires_grad_(needed) for x in inputs
    )


def _results(results, create_graph):
    if isinstance(results[0], Tensor):
        return results if create_graph else tuple(t.detach() for t in results)
    return tuple(_results(r, create_graph) for r in results)


def _as_given(many, results):
    return results if many else results[0]


def _check_vector(v, like, many):
    if len(v) != len(like):
        raise RuntimeError(
            f"v is a tuple of invalid length: should be {len(like)} but got {len(v)}."
            if many
            else "The given v should contain a single Tensor."
        )
    for i, (a, b) in enumerate(zip(v, like)):
        if a.size() != b.size():
            entry = f"Entry {i} in " if many else ""
            raise RuntimeError(f"{entry}v has invalid size: should be {b.size()} but got {a.size()}.")


def _vector(v, like, many, caller, whose):
    """v as a tuple that matches `like`; None stands for the one vector of one element."""
    if v is not None:
        v = _fresh(_tupled(v, "v", caller)[1], False, False)
        _check_vector(v, like, many)
    elif len(like) != 1 or like[0].numel() != 1:
        raise RuntimeError(f"The vector v can only be None if {whose} a single Tensor with a single element.")
    return v


def _check_on_tape(outputs, strict):
    for i, t in enumerate(outputs if strict else ()):
        if not t.requires_grad:
            raise RuntimeError(
                f"Output {i} of the user-provided function does not require gradients. The outputs must be computed in "
                "a differentiable manner from the input when running in strict mode."
            )


def _check_gradient(gradients, strict):
    """The first derivative that a second one is to be taken of."""
    for i, g in enumerate(gradients if strict else ()):
        if g is None:
            raise RuntimeError(f"The output of the user-provided function is independent of input {i}. {_NOT_STRICT}.")
        if not g.requires_grad:
            raise RuntimeError(
                "While computing the hessian, found that the jacobian of the user-provided function with respect to "
                f"input {i} is independent of the input. {_NOT_STRICT}. You should ensure that your function is twice "
                "differentiable and that the jacobian depends on the inputs (this would be violated by a linear "
                "function for example)."
            )


def _grad(outputs, inputs, vectors=None, create_graph=False, retain_graph=None):
    """autograd.grad that leaves out the outputs on no tape."""
    from brisk.autograd import _gradients_of

    vectors = (None,) * len(outputs) if vectors is None else vectors
    used = [(o, v) for o, v in zip(outputs, vectors) if o is not None and _C._on_tape(o)]
    if not used:
        return (None,) * len(inputs)
    outputs, vectors = zip(*used)
    return _gradients_of(outputs, inputs, vectors, create_graph if retain_graph is None else retain_graph, create_graph)


def _filled(gradients, like, strict, create_graph, independent, of="jacobian"):
    """Zeros where there is no gradient; in strict mode that is an error, which `independent` words."""
    filled = []
    for i, (g, x) in enumerate(zip(gradients, like)):
        if g is None and strict:
            raise RuntimeError(f"{independent.format(i=i)}. {_NOT_STRICT}.")
        if strict and create_graph and not g.requires_grad:
            raise RuntimeError(
                f"The {of} of the user-provided function is independent of input {i}. {_NOT_STRICT} when "
                "create_graph=True."
            )
        filled.append(_C.zeros_like(x) if g is None else g)
    return tuple(filled)


def _mode(create_graph):
    return set_grad_enabled(True if create_graph else _C.is_grad_enabled())


# --- products with vectors --------------------------------------------------------------------------------------------


def vjp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(*inputs), v times the Jacobian): the gradient of v . func(*inputs)."""
    with enable_grad():
        many, inputs = _tupled(inputs, "inputs", "vjp")
        inputs = _fresh(inputs, create_graph)
        many_out, outputs = _tupled(func(*inputs), _OUTPUTS, "vjp")
        _check_on_tape(outputs, strict)
        v = _vector(v, outputs, many_out, "vjp", "the user-provided function returns")
    with _mode(create_graph):
        gradients = _grad(outputs, inputs, v, create_graph)
        independent = "The output of the user-provided function is independent of input {i}"
        product = _filled(gradients, inputs, strict, create_graph, independent)
    return _as_given(many_out, _results(outputs, create_graph)), _as_given(many, _results(product, create_graph))


def jvp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(*inputs), the Jacobian times v): how the outputs change when the inputs move along v."""
    with enable_grad():
        many, inputs = _tupled(inputs, "inputs", "jvp")
        inputs = _fresh(inputs, create_graph)
        v = _vector(v, inputs, many, "jvp", "the input to the user-provided function is")
        many_out, outputs = _tupled(func(*inputs), _OUTPUTS, "jvp")
        _check_on_tape(outputs, strict)
        probe = tuple(_C.zeros_like(o, requires_grad=True) for o in outputs)
        gradients = _grad(outputs, inputs, probe, create_graph=True)
        for i, g in enumerate(gradients if strict else ()):
            if g is None:
                raise RuntimeError(
                    f"The output of the user-provided function is independent of input {i}. {_NOT_STRICT}."
                )
            if not g.requires_grad:
                raise RuntimeError(
                    f"The gradient with respect to input {i} is independent of the inputs of the user-provided "
                    f"function. {_NOT_STRICT}."
                )
    with _mode(create_graph):
        product = _grad(gradients, probe, v, create_graph)
        independent = "The gradient with respect to the input is independent of entry {i} in the grad_outputs"
        product = _filled(product, outputs, strict, create_graph, independent)
    return _as_given(many_out, _results(outputs, create_graph)), _as_given(many_out, _results(product, create_graph))


def _second_order(func, inputs, v, create_graph, strict, caller):
    """What vhp and hvp share: the function's value and its gradient, on the tape."""
    many, inputs = _tupled(inputs, "inputs", caller)
    inputs = _fresh(inputs, create_graph)
    v = _vector(v, inputs, many, caller, "the input to the user-provided function is")
    many_out, outputs = _tupled(func(*inputs), _OUTPUTS, caller)
    _check_on_tape(outputs, strict)
    _check_scalar(many_out, outputs, caller)
    gradients = _grad(outputs, inputs, create_graph=True)
    _check_gradient(gradients, strict)
    return many, inputs, v, outputs, gradients


def _check_scalar(many, outputs, caller):
    if many or len(outputs) != 1:
        raise RuntimeError(f"The function given to {caller} should return a single Tensor")
    if outputs[0].numel() != 1:
        raise RuntimeError(f"The Tensor returned by the function given to {caller} should contain a single element")


def vhp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(*inputs), v times the Hessian) of a function with one number as its result."""
    with enable_grad():
        many, inputs, v, outputs, gradients = _second_order(func, inputs, v, create_graph, strict, "vhp")
    with _mode(create_graph):
        product = _grad(gradients, inputs, v, create_graph)
        independent = "The jacobian of the user-provided function is independent of input {i}"
        product = _filled(product, inputs, strict, create_graph, independent, "hessian")
    return _results(outputs, create_graph)[0], _as_given(many, _results(product, create_graph))


def hvp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(*inputs), the Hessian times v); vhp gives the same for less, as a Hessian is symmetric."""
    with enable_grad():
        many, inputs, v, outputs, gradients = _second_order(func, inputs, v, create_graph, strict, "hvp")
        probe = tuple(_C.zeros_like(x, requires_grad=True) for x in inputs)
        independent = "The jacobian of the user-provided function is independent of input {i}"
        back = _filled(_grad(gradients, inputs, probe, create_graph=True), inputs, strict, True, independent, "hessian")
    with _mode(create_graph):
        product = _grad(back, probe, v, create_graph)
        independent = "The hessian of the user-provided function is independent of entry {i} in the grad_jacobian"
        product = _filled(product, inputs, strict, create_graph, independent, "hessian")
    return _results(outputs, create_graph)[0], _as_given(many, _results(product, create_graph))


# --- whole derivatives ------------------------------------------------------------------------------------------------


def stacked(tensors):
    """Along a new first dimension, the others in the order in memory that they have in the first tensor."""
    first = tensors[0]
    order = sorted(range(first.dim()), key=lambda d: -first.stride(d))
    if order == list(range(first.dim())) or 0 in first.stride():
        return _C.stack(tensors)
    back = [0] + [order.index(d) + 1 for d in range(first.dim())]
    return _C.stack([t.permute(order) for t in tensors]).permute(back)


def stacked_columns(columns, output, x):
    """A Jacobian of its columns, which stay one after the other in memory: sizes of the output, then those of x."""
    turned = stacked(columns).view((*x.shape, *output.shape))
    return turned.permute((*range(x.dim(), turned.dim()), *range(x.dim())))


def _check_strategy(strategy, what):
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(f'Expected {what} to be either "forward-mode" or "reverse-mode".')


def _row(output, j, k, inputs, strict, create_graph):
    """The gradients of element j of output k."""
    rows = _grad((output.reshape(-1)[j],), inputs, create_graph=create_graph, retain_graph=True)
    for i, g in enumerate(rows if strict else ()):
        if g is None:
            raise RuntimeError(f"Output {k} of the user-provided function is independent of input {i}. {_NOT_STRICT}.")
        if create_graph and not g.requires_grad:
            raise RuntimeError(
                f"The jacobian of the user-provided function is independent of input {i}. {_NOT_STRICT} when "
                "create_graph=True."
            )
    return tuple(_C.zeros_like(x) if g is None else g for g, x in zip(rows, inputs))


def _blocks(output, k, inputs, strict, create_graph, stack):
    """The Jacobian of one output by each input, sizes: those of the output, then those of the input."""
    rows = [_row(output, j, k, inputs, strict, create_graph) for j in range(output.numel())]
    if not rows:
        return tuple(x.new_zeros((*output.shape, *x.shape)) for x in inputs)
    return tuple(stack(column).view((*output.shape, *x.shape)) for column, x in zip(zip(*rows), inputs))


def _forward_blocks(outputs, inputs):
    """The same column by column: one product J e_i for every element of the inputs."""
    probe = tuple(_C.zeros_like(o, requires_grad=True) for o in outputs)
    gradients = _grad(outputs, inputs, probe, create_graph=True)
    by_input = []
    for x, g in zip(inputs, gradients):
        columns = [
            _filled(_row_of(g, j, probe), outputs, False, False, "") if g is not None else None
            for j in range(x.numel())
        ]
        by_input.append(
            tuple(
                o.new_zeros((*o.shape, *x.shape))
                if g is None or not columns
                else stacked_columns([c[k] for c in columns], o, x)
                for k, o in enumerate(outputs)
            )
        )
    return tuple(zip(*by_input))


def _row_of(g, j, probe):
    return _grad((g.reshape(-1)[j],), probe, retain_graph=True)


def jacobian(func, inputs, create_graph=False, strict=False, vectorize=False, strategy="reverse-mode"):
    """The Jacobian of func at inputs: J[output index, input index], nested as outputs and inputs are."""
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your function has more outputs '
            'than inputs, "forward-mode" tends to be more performant. Otherwise, prefer to use "reverse-mode".'
        )
    forward = strategy == "forward-mode"
    if forward and create_graph:
        raise NotImplementedError(
            'torch.autograd.functional.jacobian: `create_graph=True` and `strategy="forward-mode"` are not supported '
            'together (yet). Please either set `create_graph=False` or `strategy="reverse-mode"`.'
        )
    if strict and (forward or vectorize):
        other = '`strategy="forward-mode"`' if forward else "`vectorized=True`"
        raise RuntimeError(
            f"torch.autograd.functional.jacobian: `strict=True` and {other} are not supported together"
            + (" (yet). " if forward else ". ")
            + (
                'Please either set `strict=False` or `strategy="reverse-mode"`.'
                if forward
                else "Please either set `strict=False` or `vectorize=False`."
            )
        )
    if forward and not vectorize:
        raise NotImplementedError(
            "Computing Jacobian using forward-AD or forward-over-reverse Hessian isonly implemented for "
            "`vectorize=True`."
        )
    with enable_grad():
        many, inputs = _tupled(inputs, "inputs", "jacobian")
        inputs = _fresh(inputs, create_graph)
        many_out, outputs = _tupled(func(*inputs), _OUTPUTS, "jacobian")
        _check_on_tape(outputs, strict)
        if forward:
            result = _forward_blocks(outputs, inputs)
        else:
            stack = stacked if vectorize else _C.stack
            result = tuple(_blocks(o, k, inputs, strict, create_graph, stack) for k, o in enumerate(outputs))
        result = _results(result, create_graph)
    if forward:  # PyTorch's has lists there, but for one input
        result = [list(row) for row in result] if many else result
        return (result if many_out else result[0]) if many else _as_given(many_out, tuple(row[0] for row in result))
    return _as_given(many_out, tuple(_as_given(many, row) for row in result))


def hessian(
    func, inputs, create_graph=False, strict=False, vectorize=False, outer_jacobian_strategy="reverse-mode",
):  # fmt: skip
    """The Hessian of a function with one number as its result, nested as inputs are, twice."""
    many, inputs = _tupled(inputs, "inputs", "hessian")
    _check_strategy(outer_jacobian_strategy, "strategy")

    def scalar(*x):
        many_out, out = _tupled(func(*x), _OUTPUTS, "hessian")
        _check_on_tape(out, strict)
        _check_scalar(many_out, out, "hessian")
        return out[0].squeeze()

    taped = []

    def gradient(*x):
        if outer_jacobian_strategy == "forward-mode":
            x = tuple(t.requires_grad_(True) if t.is_leaf else t for t in x)
        rows = jacobian(scalar, x, create_graph=True)
        _check_gradient(rows, strict)
        taped.extend(r.requires_grad for r in rows)
        return rows

    result = jacobian(
        gradient, inputs, create_graph=create_graph, strict=strict, vectorize=vectorize,
        strategy=outer_jacobian_strategy,
    )  # fmt: skip
    if outer_jacobian_strategy == "forward-mode":  # PyTorch's is on the tape of the inputs inside
        result = [[t.requires_grad_().view_as(t) if on else t for t in row] for on, row in zip(taped, result)]
    return result if many else result[0][0]
