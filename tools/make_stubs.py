"""Writes the type stubs of the package from what the package says about itself: `python tools/make_stubs.py`.

Functions of the extension have their signatures in their docstrings, one line for each form; Python's functions are
inspected; results are typed by calling each function with small tensors. What is defined in a Python module of the
package is named from there: editors and checkers read its source. `--check` compares instead of writing.
"""

import argparse
import contextlib
import importlib
import inspect
import io
import keyword
import pkgutil
import re
import sys
import types
import warnings
from pathlib import Path

import brisk

MODULES = ("brisk", "brisk.nn", "brisk.nn.functional", "brisk.nn.init", "brisk.optim", "brisk.autograd", "brisk.func",
           "brisk.linalg", "brisk.utils.data")  # fmt: skip

HEAD = """\
# Made by tools/make_stubs.py from the package itself.
from builtins import bool as _bool
from builtins import float as _float
from builtins import int as _int
from collections.abc import Iterator, Sequence
from typing import Any, Optional, Union, overload

"""

ALIASES = """\
_Number = Union[_bool, _int, _float]
_Ints = Union[_int, Sequence[_int]]
"""

# Types whose names are attributes too: inside a class they go by other names, as int, float and bool do everywhere,
# which are dtypes here.
SHADOWED = ("device", "dtype", "layout", "memory_format")

TYPES = {
    "Tensor": "Tensor", "Number": "_Number", "int": "_int", "bool": "_bool", "float": "_float", "str": "str",
    "object": "Any", "tuple of ints": "_Ints", "tuple of Tensors": "Sequence[Tensor]", "torch.dtype": "_dtype",
    "torch.layout": "_layout", "torch.device": "Union[_device, str, _int]", "torch.memory_format": "_memory_format",
    "torch.Generator": "Generator",
}  # fmt: skip

FREE_SIZES = {"size", "sizes", "shape", "dims", "repeats"}  # may be given as one argument for each number

OPERATORS = {
    "add": "Any", "radd": "Any", "sub": "Any", "rsub": "Any", "mul": "Any", "rmul": "Any", "truediv": "Any",
    "rtruediv": "Any", "floordiv": "Any", "rfloordiv": "Any", "mod": "Any", "rmod": "Any", "pow": "Any",
    "rpow": "Any", "matmul": "Tensor", "rmatmul": "Tensor", "and": "Any", "or": "Any", "xor": "Any", "lt": "Any",
    "le": "Any", "gt": "Any", "ge": "Any", "eq": "object", "ne": "object", "iadd": "Any", "isub": "Any", "imul": "Any",
    "itruediv": "Any", "getitem": "Any", "lshift": "Any", "rshift": "Any",
}  # fmt: skip
UNARY = {"neg": "Tensor", "pos": "Tensor", "abs": "Tensor", "invert": "Tensor", "len": "_int",
         "bool": "_bool", "float": "_float", "int": "_int", "index": "_int", "iter": "Iterator[Tensor]",
         "hash": "_int"}  # fmt: skip


# --- signatures


def parameters(text):
    """[(type, name, default or None, keyword only)] of `Tensor input, *, int dim = 0`."""
    found, only, optional = [], False, False
    for part in [p for p in text.split(", ") if p]:
        if part == "*":
            only = True
            continue
        declared, _, default = part.partition(" = ")
        kind, _, name = declared.rpartition(" ")
        optional = (optional or bool(default)) and not only  # what follows an argument with a default has one
        default = default or ("..." if optional else None)
        found.append((TYPES.get(kind, "Any"), name + ("_" if keyword.iskeyword(name) else ""), default, only))
    return found


def joined(params, first=()):
    """The text of a def's parameters."""
    parts, starred = list(first), False
    for kind, name, default, only in params:
        if only and not starred and not any(p.startswith("*") for p in parts):
            parts.append("*")
        starred = starred or only
        kind = f"Optional[{kind}]" if default == "None" and kind != "Any" else kind
        parts.append(f"{name}: {kind}" + (" = ..." if default is not None else ""))
    return ", ".join(parts)


def forms(name, doc):
    """The forms of a function of the extension, as lists of parameters."""
    lines = [line for line in (doc or "").split("\n") if line.startswith(f"{name}(") and line.rstrip().endswith(")")]
    return [parameters(line.rstrip()[len(name) + 1 : -1]) for line in lines]


def spread(form):
    """The same form with its sizes given one by one, or None."""
    positional = [p for p in form if not p[3]]
    if len(positional) == 1 and positional[0][:2] in {("_Ints", name) for name in FREE_SIZES}:
        return form[1:]
    return None


def row_stub(name, doc, indent, first, returns):
    """The defs of a function of the extension."""
    texts = []
    for form in forms(name, doc):
        texts.append(joined(form, first))
        if spread(form) is not None:
            size = next(p[1] for p in form)
            texts.append(joined(spread(form), (*first, f"*{size}: _int")))
    texts = list(dict.fromkeys(texts)) or [", ".join((*first, "*args: Any", "**kwargs: Any"))]
    overloaded = f"{indent}@overload\n" if len(texts) > 1 else ""
    return "".join(f"{overloaded}{indent}def {name}({text}) -> {returns}: ...\n" for text in texts)


def python_stub(name, function, indent):
    """The def of a Python function."""
    try:
        params = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return f"{indent}def {name}(*args: Any, **kwargs: Any) -> Any: ...\n"
    parts, starred = [], False
    for p in params:
        if p.kind is p.VAR_POSITIONAL:
            parts.append(f"*{p.name}: Any")
            starred = True
        elif p.kind is p.VAR_KEYWORD:
            parts.append(f"**{p.name}: Any")
        else:
            if p.kind is p.KEYWORD_ONLY and not starred:
                parts.append("*")
                starred = True
            typed = p.name if p.name in ("self", "cls") else f"{p.name}: Any"
            parts.append(typed + (" = ..." if p.default is not p.empty else ""))
    return f"{indent}def {name}({', '.join(parts)}) -> Any: ...\n"


# --- results


def type_text(value):
    """The type of a sample result, as a stub says it."""
    if isinstance(value, brisk.Tensor):
        return "Tensor"
    if type(value) is tuple and value and all(isinstance(v, brisk.Tensor) for v in value):
        return "tuple[Tensor, ...]"
    known = {bool: "_bool", int: "_int", float: "_float", str: "str", brisk.Size: "Size", brisk.dtype: "_dtype",
             brisk.device: "_device"}  # fmt: skip
    return known.get(type(value), "Any")


def samples():
    """Arguments to try, after the tensor itself."""
    x = brisk.ones(2, 2)
    i = brisk.zeros(2, 2, dtype=brisk.int64)
    return [(), (x,), (0,), (1.0,), (0, 1), (0, i), ((0, 1),), (2, 2), (i,), (brisk.ones(2, 2, dtype=brisk.bool),),
            (0, 0), (0, 0, 1), (x, x), (brisk.float32,), (brisk.ones(2),)]  # fmt: skip


def result_of(function):
    """What function(tensor, ...) gives: the one type that all its samples have."""
    found = set()
    for more in samples():
        for dtype in (brisk.float32, brisk.int64, brisk.bool):
            with contextlib.suppress(Exception):
                found.add(type_text(function(brisk.ones(2, 2).to(dtype), *more)))
    return found.pop() if len(found) == 1 else "Any"


def makes_a_tensor(forms_):
    """Factories say so by the dtype they take."""
    return any(p[0] == "_dtype" and p[3] for form in forms_ for p in form)


def returns(name, function, method):
    """The result type of a function of the extension. What changes the library's own state is not called."""
    described = forms(name, function.__doc__)
    if name in ("item", "tolist"):
        return "Any"
    if method or any(form and form[0][0] == "Tensor" for form in described):
        return result_of(function)
    return "Tensor" if makes_a_tensor(described) else "Any"


# --- classes and modules


def is_row(value):
    return type(value).__name__ in ("builtin_function", "builtin_method", "builtin_function_or_method",
                                    "method_descriptor")  # fmt: skip


def attribute_types(cls):
    """Those of a sample object."""
    sample = {brisk.Tensor: lambda: brisk.ones(2, 2), brisk.dtype: lambda: brisk.float32,
              brisk.device: lambda: brisk.device("cpu")}.get(cls)  # fmt: skip
    if sample is None:
        return {}
    known = {}
    for name in dir(cls):
        with contextlib.suppress(Exception):
            known[name] = type_text(getattr(sample(), name))
    known.update({"grad": "Optional[Tensor]", "grad_fn": "Any", "_base": "Optional[Tensor]"})
    return known


def tensor_operators():
    text = ""
    for name, other in OPERATORS.items():
        if hasattr(brisk.Tensor, f"__{name}__"):
            ignore = "  # type: ignore[override]" if name in ("eq", "ne") else ""
            text += f"    def __{name}__(self, other: {other}) -> Tensor: ...{ignore}\n"
    for name, result in UNARY.items():
        if hasattr(brisk.Tensor, f"__{name}__"):
            text += f"    def __{name}__(self) -> {result}: ...\n"
    return text + "    def __setitem__(self, key: Any, value: Any) -> None: ...\n"


def class_stub(name, cls):
    """A type of the extension, or a Python class that has no module of its own to be read from."""
    bases = [b.__name__ for b in cls.__bases__ if b in (int, str, tuple, brisk.Tensor)]
    text = f"class {name}({', '.join(bases)}):\n" if bases else f"class {name}:\n"
    known = attribute_types(cls)
    members = {n: v for n, v in sorted(vars(cls).items()) if not n.startswith("_") and hasattr(cls, n)}
    body = ""
    if cls is not brisk.Tensor:
        body += "    def __init__(self, *args: Any, **kwargs: Any) -> None: ...\n"
        body += "    def __getattr__(self, name: str) -> Any: ...\n" if not members else ""
    for member, value in members.items():
        if is_row(value):
            result = returns(member, getattr(cls, member), True) if cls is brisk.Tensor else "Any"
            body += row_stub(member, value.__doc__, "    ", ("self",), result)
        elif isinstance(value, types.FunctionType):
            body += python_stub(member, value, "    ")
        else:
            body += f"    {member}: {known.get(member, 'Any')}\n"
    return text + body + (tensor_operators() if cls is brisk.Tensor else "")


def home_of(value, module):
    """The Python module of the package that defines value, when it is another one and has source."""
    home = getattr(value, "__module__", None)
    if not isinstance(home, str) or home == module or not home.startswith("brisk."):
        return None
    source = getattr(sys.modules.get(home), "__file__", None) or ""
    defined = getattr(sys.modules.get(home), getattr(value, "__name__", ""), None) is value
    return home if source.endswith(".py") and defined else None


def entry(name, value, module):
    """(order, text) of one public name."""
    if isinstance(value, types.ModuleType):
        if not value.__name__.startswith("brisk"):
            return None
        parent, _, last = value.__name__.rpartition(".")
        return (0, f"from {parent} import {last} as {name}\n") if parent else None
    home = home_of(value, module)
    if home == "brisk._missing":  # how a module finds names
        return None
    if home:
        return 1, f"from {home} import {value.__name__} as {name}\n"
    if module != "brisk" and getattr(brisk, name, None) is value:
        return 1, f"from brisk import {name} as {name}\n"
    if isinstance(value, type):
        return 2, class_stub(name, value)
    if is_row(value):
        return 4, row_stub(name, value.__doc__, "", (), returns(name, value, False))
    if isinstance(value, types.FunctionType):
        return 4, python_stub(name, value, "")
    kind = type(value).__name__
    kind = f"_{kind}" if kind in SHADOWED else kind if kind in ("Generator", "str") else "Any"
    return 3, f"{name}: {kind}\n"


def public_names(module):
    """What a module has: its submodules, and names that it finds when they are asked for, included."""
    for found in pkgutil.iter_modules(getattr(module, "__path__", ())):
        if not found.name.startswith("_"):
            with contextlib.suppress(ImportError):
                importlib.import_module(f"{module.__name__}.{found.name}")
    later = getattr(module, "_ELSEWHERE", ())
    return [n for n in sorted({*vars(module), *later}) if not n.startswith("_")]


def module_stub(name):
    module = importlib.import_module(name)
    entries = [e for n in public_names(module) if (e := entry(n, getattr(module, n), name))]
    body = "".join(text for _, text in sorted(entries, key=lambda e: e[0]))
    if name == "brisk":
        aliases = "".join(f"_{t} = {t}\n" for t in SHADOWED)
        return HEAD + ALIASES + aliases + "__version__: str\n" + body
    used = [t for t in ("Generator", "Tensor") if re.search(rf"\b{t}\b", body) and f"as {t}\n" not in body]
    used += [f"{t} as _{t}" for t in SHADOWED if re.search(rf"\b_{t}\b", body)]
    return HEAD + (f"from brisk import {', '.join(used)}\n" if used else "") + ALIASES + body


EXTENSION = """\
# Made by tools/make_stubs.py. What the extension gives is described where it is public.
from typing import Any

from brisk import Generator as Generator
from brisk import Size as Size
from brisk import Tensor as Tensor
from brisk import device as device
from brisk import dtype as dtype

def __getattr__(name: str) -> Any: ...
"""


def stubs():
    """{path below python/: text}"""
    made = {"brisk/_C.pyi": EXTENSION, "brisk/py.typed": ""}
    for name in MODULES:
        package = hasattr(importlib.import_module(name), "__path__")
        made[name.replace(".", "/") + ("/__init__.pyi" if package else ".pyi")] = module_stub(name)
    return made


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="say which stubs are not what the package says")
    options = parser.parse_args(arguments)
    root = Path(__file__).resolve().parents[1] / "python"
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        made = stubs()
    stale = [path for path, text in made.items() if not (root / path).exists() or (root / path).read_text() != text]
    for path in stale if not options.check else ():
        (root / path).write_text(made[path])
    for path in stale:
        print(path, "is not current" if options.check else "written")
    return 1 if stale and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
