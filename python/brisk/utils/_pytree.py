"""Nested dicts, lists and tuples taken apart into their leaves and put together again."""

__all__ = ["tree_flatten", "tree_leaves", "tree_map", "tree_unflatten"]

_LEAF = object()


def _parts(tree):
    """(the children, what puts children together again); None for a leaf."""
    if isinstance(tree, dict):
        keys = list(tree)
        if hasattr(tree, "default_factory"):
            return list(tree.values()), lambda c: type(tree)(tree.default_factory, zip(keys, c))
        return list(tree.values()), lambda c: type(tree)(zip(keys, c))
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return list(tree), lambda c: type(tree)(*c)
    if type(tree) in (list, tuple) or (isinstance(tree, tuple) and hasattr(tree, "n_fields")):  # max(dim=0) has two
        return list(tree), type(tree)
    return None


def tree_flatten(tree):
    """(leaves, structure)"""
    parts = _parts(tree)
    if parts is None:
        return [tree], _LEAF
    leaves, structures = [], []
    for child in parts[0]:
        inner, structure = tree_flatten(child)
        leaves += inner
        structures.append(structure)
    return leaves, (parts[1], structures)


def tree_leaves(tree):
    """The leaves, in order."""
    return tree_flatten(tree)[0]


class _Star:
    def __repr__(self):
        return "*"


def tree_shape(tree):
    """The structure as text, as the tree would be printed with stars for its leaves."""
    return repr(tree_map(lambda leaf: _Star(), tree))


def tree_spec(tree, indent=2):
    """The structure as text, in full. Trees of the same structure have the same text."""
    parts = _parts(tree)
    if parts is None:
        return "*"
    context = list(tree) if isinstance(tree, dict) else type(tree) if hasattr(tree, "_fields") else None
    children = (",\n" + " " * indent).join(tree_spec(child, indent + 2) for child in parts[0])
    return f"TreeSpec({type(tree).__name__}, {context}, [{children}])"


def _build(leaves, structure):
    if structure is _LEAF:
        return next(leaves)
    make, structures = structure
    return make([_build(leaves, s) for s in structures])


def tree_unflatten(leaves, structure):
    """What tree_flatten took apart, with other leaves."""
    return _build(iter(leaves), structure)


def tree_map(function, tree, *rest):
    """The tree with function applied to its leaves (and to those of trees of the same structure)."""
    leaves, structure = tree_flatten(tree)
    others = [tree_leaves(t) for t in rest]
    return tree_unflatten([function(*xs) for xs in zip(leaves, *others)], structure)
