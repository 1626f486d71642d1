"""Derivatives of functions as functions: they nest, and differentiate with respect to any argument.

A transform opens a level: the arguments it differentiates by get new places on the tape. What it returns stays on the
tape only where it leads to something outside the level (an argument of an outer transform, a tensor the function
captured that requires gradients); a result that depends on nothing but the level's own arguments is a plain tensor.
Forward products differentiate the reverse pass, which is linear in the vector it starts from.
"""

import contextlib
import functools

from brisk import _C
from brisk._C import Tensor
from brisk.autograd.forward_ad import Level, opened, tangents_taken
from brisk.autograd.functional import _grad, stacked, stacked_columns
from brisk.autograd.grad_mode import enable_grad
from brisk.func._runs import derivative, inside
from brisk.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_shape, tree_spec, tree_unflatten


class _Level:
    """The arguments one transform differentiates by."""

    def __init__(self, trees, caller):
        self.outer = _C.is_grad_enabled()
        self.leaves, self.structure = tree_flatten(trees)
        for t in self.leaves:
            if not isinstance(t, Tensor):
                raise ValueError(f"Thing passed to transform API must be Tensor, got {type(t)}")
            if not (t.dtype.is_floating_point or t.is_complex()):
                raise RuntimeError("only Tensors of floating point dtype can require gradients")
        self.places = [t.view_as(t) if self.outer and _C._on_tape(t) else _C._as_leaf(t.detach()) for t in self.leaves]
        self.own = [p for p in self.places if _C._is_tape_leaf(p)]

    @property
    def arguments(self):
        return tree_unflatten(self.places, self.structure)

    def passed_on(self):
        """The arguments of a function in forward mode: no leaves, whose tangents no_grad would stop."""
        return tree_unflatten([p.view_as(p) for p in self.places], self.structure)

    def for_tangents(self):
        """The function in forward mode does not see that gradients are asked for."""
        for p in self.own:
            _C._for_tangents(p)

    def leads_outside(self, tensors):
        """Whether gradients of these would reach anything but this level's arguments."""
        tensors = [t for t in tensors if isinstance(t, Tensor) and _C._on_tape(t)]
        return self.outer and bool(tensors) and _C._leads_outside(tensors, self.own)

    def leave(self, tree):
        """Results as the caller of the transform sees them."""
        return tree_map(lambda t: t if not isinstance(t, Tensor) or self.leads_outside([t]) else t.detach(), tree)

    def gradients(self, outputs, vectors=None, retain=None, create_graph=None):
        """The gradients by the places, zeros where there is none."""
        create = self.leads_outside(outputs) if create_graph is None else create_graph
        found = _grad(outputs, self.places, vectors, create, True if retain else None)
        return [_C.zeros_like(x) if g is None else g for g, x in zip(found, self.places)]


def _selected(args, argnums, caller):
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    if not numbers:
        raise RuntimeError("argnums must be non-empty")
    places = []
    for k in numbers:
        if not isinstance(k, int):
            raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(k)}")
        if not -len(args) <= k < len(args):
            raise RuntimeError(f"Got argnum={k}, but only {len(args)} positional inputs")
        places.append(k % len(args))
    if len(set(places)) != len(places):
        raise RuntimeError(f"argnums elements must be unique, got {tuple(argnums)}")
    return places


def _replaced(args, places, values):
    args = list(args)
    for k, value in zip(places, values):
        args[k] = value
    return args


def _parted(result, has_aux, caller):
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise RuntimeError(f"{caller}: output of function f should be a tuple: (output, aux) if has_aux is True")
    return result


def _as_argnums(argnums, trees):
    return trees[0] if isinstance(argnums, int) else tuple(trees)


def grad_and_value(func, argnums=0, has_aux=False):
    """A function that returns (gradient, value), or (gradient, (value, aux)) of func, whose result is one number."""
    caller = "grad_and_value(f)(*args)"

    @functools.wraps(func, updated=())
    def wrapper(*args, **kwargs):
        places = _selected(args, argnums, caller)
        level = _Level([args[k] for k in places], caller)
        with derivative():
            value, aux = _parted(inside(func, *_replaced(args, places, level.arguments), **kwargs), has_aux, caller)
            if not isinstance(value, Tensor):
                raise RuntimeError(f"{caller}: Expected f(*args) to return a Tensor, got {type(value)}")
            if value.dim() != 0:
                raise RuntimeError(
                    f"{caller}: Expected f(*args) to return a scalar Tensor, got tensor with {value.dim()} dims. Maybe "
                    "you wanted to use the vjp or jacrev APIs instead?"
                )
            gradients = tree_unflatten(level.gradients((value,)), level.structure)
        result = level.leave(_as_argnums(argnums, gradients))
        value = level.leave(value)
        return (result, (value, level.leave(aux))) if has_aux else (result, value)

    return wrapper


def grad(func, argnums=0, has_aux=False):
    """A function that returns the gradient of func by its arguments argnums, or (gradient, aux)."""

    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func, updated=())
    def wrapper(*args, **kwargs):
        gradient, value = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return wrapper


def _tensors(tree, caller):
    leaves, structure = tree_flatten(tree)
    if leaves in ([], [None]):
        raise RuntimeError(f"{caller}: Expected f to be a function that has non-empty output (got output = {leaves})")
    for t in leaves:
        if not isinstance(t, Tensor):
            raise RuntimeError(f"{caller}: expected f(*primals) to return only tensors, got unsupported type {type(t)}")
    return leaves, structure


def _check_floats(outputs):
    for t in outputs:
        if not t.dtype.is_floating_point:
            raise RuntimeError(
                "vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got Tensor with dtype "
                f"{t.dtype}"
            )


def _mismatch(what, k, v, t):
    if not isinstance(v, Tensor):
        return f"Expected {what} to be tensors, got {type(v)}"
    if what == "tangents":
        return (
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
            f"supported. Tensor is of size {list(t.shape)} while the given forward gradient is of size {list(v.shape)}."
        )
    return f"Mismatch in shape: grad_output[{k}] has a shape of {v.shape} and output[{k}] has a shape of {t.shape}."


def _check_like(vectors, tree, tensors, what):
    leaves = tree_leaves(vectors)
    if what == "cotangents" and tree_spec(vectors) != tree_spec(tree):
        raise RuntimeError(
            "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the function. "
            f"cotangents: {tree_shape(vectors)}, primal output: {tree_shape(tree)}"
        )
    if len(leaves) != len(tensors):
        raise RuntimeError(f"Expected {what} to have the same structure: {len(tensors)} tensors, got {len(leaves)}")
    for k, (v, t) in enumerate(zip(leaves, tensors)):
        if not isinstance(v, Tensor) or v.shape != t.shape:
            raise RuntimeError(_mismatch(what, k, v, t))
    return leaves


def vjp(func, *primals, has_aux=False):
    """(func(*primals), a function from a vector shaped as the output to its product with the Jacobian[, aux])."""
    level = _Level(primals, "vjp(f, *primals)")
    with derivative():
        out, aux = _parted(inside(func, *level.arguments), has_aux, "vjp(f, *primals)")
        outputs, _ = _tensors(out, "vjp(f, *primals)")
        _check_floats(outputs)

    def product(cotangents, retain_graph=True, create_graph=None):
        vectors = _check_like(cotangents, out, outputs, "cotangents")
        create = create_graph
        if create is None:
            create = _C.is_grad_enabled() and (level.leads_outside(outputs) or any(_C._on_tape(v) for v in vectors))
        gradients = tree_unflatten(level.gradients(outputs, tuple(vectors), retain_graph, create), level.structure)
        return level.leave(gradients)

    result = level.leave(out)
    return (result, product, level.leave(aux)) if has_aux else (result, product)


@contextlib.contextmanager
def _forward_mode():
    _C._forward_mode(True)
    try:
        with derivative():
            yield
    finally:
        _C._forward_mode(False)


def _pushed(level, outputs, tangents, create_graph, strict=False):
    """The Jacobian times tangents, for each output; strict: none may be independent of the inputs."""
    probe = tuple(_C.zeros_like(o, requires_grad=True) for o in outputs)
    with enable_grad(), tangents_taken():
        gradients = level.gradients(outputs, probe, True, True)
        found = _grad(gradients, probe, tuple(tangents), create_graph, True)
    if strict and any(t is None for t in found):
        raise RuntimeError(
            "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. This is not allowed "
            "with strict=True."
        )
    return [_C.zeros_like(o) if t is None else t for t, o in zip(found, outputs)]


def jvp(func, primals, tangents, *, strict=False, has_aux=False):
    """(func(*primals), the Jacobian times tangents[, aux])"""
    caller = "jvp(f, primals, tangents)"
    if not isinstance(primals, tuple):
        raise RuntimeError(f"{caller}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals).")
    structures = [tree_spec(tree) for tree in (primals, tangents)]
    if structures[0] != structures[1]:
        raise RuntimeError(
            f"{caller}: Expected primals and tangents to have the same python structure. For example, if primals is a "
            f"tuple of 3 tensors, tangents also must be. Got primals with structure {structures[0]} and tangents with "
            f"structure {structures[1]}"
        )
    if not tree_flatten(primals)[0]:
        raise RuntimeError(f"{caller}: Expected primals to contain at least one Tensor.")
    level = _Level(primals, caller)
    vectors = _check_like(tangents, primals, level.places, "tangents")
    level.for_tangents()
    with opened(Level(level.places, vectors)) as made, derivative():
        out, aux = _parted(inside(func, *level.passed_on()), has_aux, caller)
        outputs, structure = _tensors(out, caller)
    create = level.outer and (level.leads_outside(outputs) or any(_C._on_tape(v) for v in vectors))
    level.places, level.own = made.places, made.own()  # custom functions gave tangents to their results
    pushed = level.leave(tree_unflatten(_pushed(level, outputs, made.tangents, create, strict), structure))
    result = level.leave(out)
    return (result, pushed, level.leave(aux)) if has_aux else (result, pushed)


def linearize(func, *primals):
    """(func(*primals), the function that takes tangents to the Jacobian times them)"""
    level = _Level(primals, "linearize(f, *primals)")
    level.for_tangents()
    with _forward_mode():
        out = inside(func, *level.passed_on())
        outputs, structure = _tensors(out, "linearize(f, *primals)")

    def push(*tangents):
        vectors = _check_like(tangents, primals, level.places, "tangents")
        create = level.outer and level.leads_outside(outputs)
        return level.leave(tree_unflatten(_pushed(level, outputs, vectors, create), structure))

    return level.leave(out), push


def _jacobian(func, argnums, has_aux, caller, blocks, forward=False):
    """A function that returns func's Jacobian; blocks(level, outputs) gives it by output and place."""
    through = "jvp(f, primals, tangents)" if forward else "vjp(f, *primals)"  # what PyTorch calls it by

    @functools.wraps(func, updated=())
    def wrapper(*args, **kwargs):
        places = _selected(args, argnums, caller)
        level = _Level([args[k] for k in places], caller)
        if forward:
            level.for_tangents()
        with derivative():
            out, aux = _parted(inside(func, *_replaced(args, places, level.arguments), **kwargs), has_aux, through)
            outputs, structure = _tensors(out, through)
            if not forward:
                _check_floats(outputs)
            rows = [_as_argnums(argnums, tree_unflatten(row, level.structure)) for row in blocks(level, outputs)]
        result = level.leave(tree_unflatten(rows, structure))
        return (result, level.leave(aux)) if has_aux else result

    return wrapper


def _by_rows(level, outputs):
    create = level.leads_outside(outputs)
    for o in outputs:
        flat = o.reshape(-1)
        rows = [level.gradients((flat[j],), None, True, create) for j in range(flat.numel())]
        yield [
            stacked([r[k] for r in rows]).view((*o.shape, *x.shape)) if rows else x.new_zeros((*o.shape, *x.shape))
            for k, x in enumerate(level.places)
        ]


def _turned(t, first):
    """The first dimensions behind the others."""
    return t.permute((*range(first, t.dim()), *range(first)))


def _by_rows_turned(level, outputs):
    """The same, laid out in memory as if it had been computed by columns."""
    for o, row in zip(outputs, _by_rows(level, outputs)):
        yield [_turned(_turned(b, o.dim()).contiguous(), b.dim() - o.dim()) for b in row]


def _by_columns(level, outputs):
    create = level.leads_outside(outputs)
    probe = tuple(_C.zeros_like(o, requires_grad=True) for o in outputs)
    gradients = level.gradients(outputs, probe, True, True)
    columns = []  # by place: by element: by output
    for g in gradients:
        flat = g.reshape(-1)
        columns.append([_grad((flat[j],), probe, None, create, True) for j in range(flat.numel())])
    for i, o in enumerate(outputs):
        yield [
            stacked_columns([_C.zeros_like(o) if c[i] is None else c[i] for c in per_element], o, x)
            if per_element
            else o.new_zeros((*o.shape, *x.shape))
            for per_element, x in zip(columns, level.places)
        ]


def jacrev(func, argnums=0, *, has_aux=False, chunk_size=None, _preallocate_and_copy=False):
    """A function that returns the Jacobian of func by argnums, one reverse pass for each element of the output."""
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")
    return _jacobian(func, argnums, has_aux, "jacrev(f, argnums)(*args)", _by_rows)


def jacfwd(func, argnums=0, has_aux=False, *, randomness="error"):
    """The same, one pass for each element of the inputs: for few inputs and many outputs."""
    return _jacobian(func, argnums, has_aux, "jacfwd(f, argnums)(*args)", _by_columns, True)


def hessian(func, argnums=0):
    """A function that returns the Hessian of func, whose result is one number, by argnums."""
    return _jacobian(jacrev(func, argnums), argnums, False, "jacrev(f, argnums)(*args)", _by_rows_turned)
