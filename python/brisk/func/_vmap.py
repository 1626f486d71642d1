"""vmap: a function of one example becomes a function of a batch of them.

The function is called once for each example and the results are stacked. Nothing is computed by those calls, they
record; what they record is evaluated together. So a mapped function costs its recording (well under a microsecond an
op) once per example; in return it may do what it likes: branch on values, index, draw random numbers, call transforms.
"""

import functools

from brisk._C import Tensor
from brisk.autograd.functional import stacked
from brisk.func._runs import Runs, Unlike, inside, spread
from brisk.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_spec, tree_unflatten


def _name(func):
    return getattr(func, "__name__", repr(func))


def _batch(func, in_dims, args):
    described = f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>)"
    if not isinstance(in_dims, (int, tuple, list)):
        raise ValueError(
            f"{described}: expected `in_dims` to be int or a (potentially nested) tuple matching the structure of "
            f"inputs, got: {type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"vmap({_name(func)})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap "
            "over a function with no inputs. The latter is unsupported."
        )
    leaves, structure = tree_flatten(tuple(args))
    try:
        dims = spread(tuple(in_dims) if isinstance(in_dims, list) else in_dims, tuple(args))
    except Unlike:
        raise ValueError(
            f"{described}: in_dims is not compatible with the structure of `inputs`. in_dims has structure "
            f"{tree_spec(in_dims)} but inputs has structure {tree_spec(tuple(args))}."
        ) from None
    sizes = []
    for leaf, dim in zip(leaves, dims):
        if dim is None:
            continue
        if not isinstance(leaf, Tensor):
            raise ValueError(
                f"{described}: Got in_dim={dim} for an input but the input is of type {type(leaf)}. We cannot vmap "
                "over non-Tensor arguments, please use None as the respective in_dim"
            )
        if not -leaf.dim() <= dim < leaf.dim():
            raise ValueError(
                f"{described}: Got in_dim={dim} for some input, but that input is a Tensor of dimensionality "
                f"{leaf.dim()} so expected in_dim to satisfy -{leaf.dim()} <= in_dim < {leaf.dim()}."
            )
        sizes.append(leaf.shape[dim])
    if not sizes:
        raise ValueError(f"{described}: at least one of the inputs must be mapped: all of in_dims are None")
    if len(set(sizes)) != 1:
        raise ValueError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} for the "
            "mapped dimension"
        )
    return leaves, dims, structure, sizes[0]


def _checked(func, result):
    for t in tree_leaves(result):
        if not isinstance(t, Tensor):
            raise ValueError(
                f"vmap({_name(func)}, ...): `{_name(func)}` must only return Tensors, got type {type(t)}. Did you mean "
                "to set out_dims= to None for output?"
            )
    return result


def _joined(func, results, out_dims):
    leaves, structure = tree_flatten(results[0])
    described = f"vmap({_name(func)}, ..., out_dims={out_dims})"
    if isinstance(out_dims, int) or out_dims is None:
        dims = [out_dims] * len(leaves)
    else:
        dims = list(out_dims) if isinstance(results[0], (tuple, list)) else tree_leaves(out_dims)
        if len(dims) == len(leaves):
            pass
        elif isinstance(results[0], (tuple, list)) and len(dims) == len(results[0]):
            dims = [d for dim, child in zip(dims, results[0]) for d in [dim] * len(tree_leaves(child))]
        else:
            raise ValueError(
                f"{described}(<inputs>): out_dims is not compatible with the structure of `outputs`. out_dims has "
                f"structure {tree_spec(out_dims)} but outputs has structure {tree_spec(results[0])}."
            )
    columns = zip(*(tree_leaves(r) for r in results))
    for d, t in zip(dims, leaves):
        if d is not None and not -t.dim() - 1 <= d <= t.dim():
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-t.dim() - 1}, {t.dim()}], but got {d})"
            )
    joined = [c[0] if d is None else stacked(c) for c, d in zip(columns, dims)]
    return tree_unflatten([t.movedim(0, d) if d else t for t, d in zip(joined, dims)], structure)


def _of_no_examples(func, leaves, dims, structure, out_dims, kwargs):
    """Sizes and dtypes are those of an example of zeros."""
    example = [x if d is None else x.new_zeros([n for k, n in enumerate(x.shape) if k != d % x.dim()])
               for x, d in zip(leaves, dims)]  # fmt: skip
    one = _joined(func, [_checked(func, inside(func, *tree_unflatten(example, structure), **kwargs))], out_dims)
    numbers = iter(tree_leaves(out_dims) * len(tree_leaves(one)))
    return tree_map(lambda t: t.narrow(next(numbers) or 0, 0, 0), one)


def vmap(func, in_dims=0, out_dims=0, randomness="error", *, chunk_size=None):
    """func over a dimension of its inputs: in_dims says which (None: the whole input each time), out_dims where to.

    randomness: "error", "different" (each example draws its own numbers) or "same".
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func, updated=())
    def wrapper(*args, **kwargs):
        leaves, dims, structure, size = _batch(func, in_dims, args)
        if size == 0:
            return _of_no_examples(func, leaves, dims, structure, out_dims, kwargs)
        results = Runs(leaves, dims, size, randomness).results(func, structure, kwargs)
        return _joined(func, [_checked(func, r) if out_dims is not None else r for r in results], out_dims)

    return wrapper
