"""What is not there says so, and names what is near it."""

_KINDS = {
    "complex tensors": "fft complex polar view_as_complex view_as_real stft istft imag to_complex",
    "sparse tensors": "sparse_coo_tensor sparse_csr_tensor to_sparse to_sparse_coo to_sparse_csr to_sparse_csc"
    " coalesce is_coalesced sparse_mask sparse_resize_ sparse_dim dense_dim crow_indices col_indices indices values"
    " hspmm smm sspaddmm",
    "quantised tensors": "ao quantization quantize_per_tensor quantize_per_channel dequantize int_repr q_scale"
    " q_zero_point",
    "graphs of programs (a model runs as it is written)": "fx export _dynamo _inductor package",
}
_WHY = {name: kind for kind, names in _KINDS.items() for name in names.split()}


def finder(namespace, elsewhere=(), later=()):
    """A module's __getattr__: names that stand in another module, and an error for all others.

    elsewhere: {name: module}; a name found there is kept, so that it is looked up once. later: submodules that are
    imported when they are first named."""
    table = dict(elsewhere)

    def __getattr__(name):
        import importlib
        import sys

        if name in later:
            return importlib.import_module(f"{namespace}.{name}")
        if name in table:
            value = getattr(importlib.import_module(table[name]), name)
            setattr(sys.modules[namespace], name, value)
            return value
        raise AttributeError(_text(namespace, name, sys.modules[namespace], (*table, *later)))

    return __getattr__


class Absent:
    """An attribute of a class that is not there, and says why."""

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, instance, owner):
        kind, why = owner.__name__, _WHY[self.name]
        raise AttributeError(f"'{kind}' object has no attribute '{self.name}': there are no {why}")


def _text(namespace, name, module, table):
    text = f"module '{namespace}' has no attribute '{name}'"
    if name in _WHY or namespace == "brisk.sparse":
        return f"{text}: there are no {_WHY.get(name, 'sparse tensors')}"
    if name.startswith("_"):
        return text
    import difflib

    public = [n for n in (*vars(module), *table) if not n.startswith("_")]
    near = difflib.get_close_matches(name, public, 3, 0.7)
    return f"{text}; near it are: {', '.join(near)}" if near else f"{text}; docs/COVERAGE.md lists what is there"
