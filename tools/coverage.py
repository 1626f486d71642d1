"""Compares brisk's names with PyTorch's and writes docs/COVERAGE.md.

    python tools/coverage.py [--frequencies api_frequency.csv] [--check]

Two questions: which public names of PyTorch's namespaces are there, and (with --frequencies, a table of how many
programs use each name) which of the names that programs use. What stands in COVERAGE.md outside
the marked block is left alone. --check writes nothing and fails if the block is not up to date."""

import argparse
import csv
import importlib
import inspect
import pathlib
import re
import sys
import textwrap
import types

BEGIN, END = "<!-- coverage: begin -->", "<!-- coverage: end -->"
PAGE = pathlib.Path(__file__).parent.parent / "docs" / "COVERAGE.md"
COMMON = 3  # programs that must use a name for it to be called common

NAMESPACES = (
    "torch", "torch.Tensor", "torch.nn", "torch.nn.Module", "torch.nn.functional", "torch.nn.init", "torch.nn.utils",
    "torch.nn.utils.rnn", "torch.optim", "torch.optim.lr_scheduler", "torch.distributions",
    "torch.distributions.constraints", "torch.distributions.transforms", "torch.utils.data", "torch.autograd",
    "torch.autograd.functional", "torch.linalg",
)  # fmt: skip

# Names that are out of scope: a pattern over the whole name, and why.
EXCEPTED = {
    "complex numbers": r"(torch|Tensor)\.(.*complex.*|cfloat|cdouble|chalf|angle|polar|(view_as_)?real|imag|"
    r"i?stft|resolve_conj|conj(_physical_?)?|is_conj|chalf)|torch\.(Complex\w+)|torch\.linalg\.(eig|eigvals|ldl_\w+)",
    "sparse, nested and masked storage": r".*(sparse|crow_|ccol_|col_indices|row_indices|coalesce|hspmm|smm|nested|"
    r"to_dense|dense_dim|mkldnn|_?nnz).*|torch(\.Tensor)?\.(indices|values|(s|hs)pmm|dsmm|saddmm|sspaddmm)",
    "quantised and packed integers": r".*(quant(?!ile)|fbgemm|q_scale|q_zero|q_per|qscheme|int_repr|bits\d|qint|"
    r"quint|qscale|fake_quant|observer|obs_|miopen|cudnn|rowwise|choose_q).*|torch\.(u?int[1-7]|uint(16|32|64)|float8_\w+|float4_\w+)",
    "devices other than the CPU, streams": r".*(cuda|Stream|Event|\bxpu|hpu|ipu|mtia|vulkan|metal|privateuse|"
    r"pin_memory|is_pinned|AcceleratorError|OutOfMemoryError|acquire|mps).*",
    "compilers, scripts, exporters": r"torch\.(\w*(Type|Graph|Script|Jit|JIT|Guard|Dispatch|Sym[A-Z]|sym_|Deep|"
    r"Export)\w*|parse_\w+|import_ir\w*|fork|wait|merge_\w+|unify_\w+|vitals\w*|read_vitals|set_vital|DeserializationStorageContext|"
    r"(Future|Argument|Block|Code|CompilationUnit|ErrorReport|FunctionSchema|Gradient|IODescriptor|InferredType|"
    r"Node|OperatorInfo|PyObjectType|Use|Value|Capsule|FileCheck|Const\w+|Erroring\w+|Static\w+|LiteScript\w+|"
    r"DisableTorchFunction\w*|LoggerBase|LockingLogger|NoopLogger|AggregationType|BenchmarkConfig|"
    r"BenchmarkExecutionStats|ThroughputBenchmark|ExecutionPlan|DispatchKey\w*|TracingState|Tag|PyTorchFile\w+|AnyType))",
}

# csv kinds that name attributes of something, and of what.
OWNERS = {
    "torch": "torch", "dtype": "torch", "legacy type": "torch", "context": "torch", "Tensor method": "torch.Tensor",
    "Tensor attr": "torch.Tensor", "nn.Module method": "torch.nn.Module", "optim method": "torch.optim.Optimizer",
    "optim.lr_scheduler method": "torch.optim.lr_scheduler.LRScheduler",
    "distributions method": "torch.distributions.Normal", "autograd.ctx": "torch.autograd.function.FunctionCtx",
}  # fmt: skip
# Names of the csv that are attributes of objects, or stand elsewhere than their kind says.
PLACES = {
    "torch.optim.Optimizer.param_groups": "torch.optim.Optimizer.add_param_group",
    "torch.profiler.autograd.profiler.profile": "torch.autograd.profiler.profile",
    "torch.profiler.autograd.profiler.record_function": "torch.autograd.profiler.record_function",
}
SYNTAX = {"kwarg", "operator", "indexing"}  # not names: the tests of every operation cover them
BEYOND = {
    "ops", "profiler", "distributed", "_C", "fx", "library", "onnx", "sparse", "testing", "fft", "cuda", "backends",
}  # fmt: skip


# --- names -----------------------------------------------------------------------------------------------------------


def find(path, root):
    """The object of a dotted path under `root` (torch or brisk), or None. What is None itself is found as True."""
    module, attributes = importlib.import_module(root), path.split(".")[1:]
    name, target = root, module
    for attribute in attributes:
        name = f"{name}.{attribute}"
        try:
            target = getattr(target, attribute)
        except AttributeError:
            try:
                target = importlib.import_module(name)
            except ImportError:
                return None
        except NotImplementedError:
            return None
    return True if target is None else target


def is_public(owner, name):
    """Whether PyTorch means a name for its users: its own functions and classes, in no private module."""
    if name.startswith("_") and not re.fullmatch(
        r"__(?!\w*(class|sub|init|new|reduce|doc|module|dict|weak))\w+__", name
    ):
        return False
    value = getattr(owner, name, None)
    if isinstance(value, types.ModuleType) or name in ("Any", "Optional", "Union", "Callable", "TypeVar"):
        return False
    if inspect.isclass(owner):
        return name in vars(owner) or any(name in vars(base) for base in owner.__mro__[:-1])
    if listed := getattr(owner, "__all__", None):
        return name in listed
    home = getattr(value, "__module__", None) or ""
    return callable(value) and (home.startswith("torch") or home == "")


def names_of(path):
    import torch

    owner = find(path, "torch")
    extra = dir(torch._C._VariableFunctions) if path == "torch" else []
    return sorted({n for n in [*dir(owner), *extra] if is_public(owner, n) or (n in extra and not n.startswith("_"))})


def reason(path):
    for why, pattern in EXCEPTED.items():
        if re.fullmatch(pattern, path) or re.fullmatch(pattern, path.replace("torch.Tensor.", "Tensor.")):
            return why
    return None


# --- the two comparisons ----------------------------------------------------------------------------------------------


def compare_namespace(path):
    """(there, missing names, excepted names)"""
    there, missing, excepted = 0, [], []
    for name in names_of(path):
        full = f"{path}.{name}"
        if find(full, "brisk") is not None:
            there += 1
        elif reason(full):
            excepted.append(name)
        else:
            missing.append(name)
    return there, missing, excepted


def path_of(kind, name):
    return f"{OWNERS.get(kind, f'torch.{kind}')}.{name.removeprefix('torch.')}"


def compare_programs(rows):
    """(count of common names that are there, those that are not, common ones out of scope)"""
    there, missing, beyond = 0, [], []
    for kind, name, programs in rows:
        if kind in SYNTAX:
            continue
        path = path_of(kind, name)
        if find(PLACES.get(path, path), "brisk") is not None:
            there += 1
        elif kind in BEYOND or reason(path) or find(path, "torch") is None:
            beyond.append((path, programs))
        else:
            missing.append((path, programs))
    return there, missing, beyond


def read_frequencies(file):
    with open(file, newline="") as f:
        return [(row["kind"], row["name"], int(row["programs"])) for row in csv.DictReader(f)]


# --- the page --------------------------------------------------------------------------------------------------------


def wrap(text):
    return "\n".join(textwrap.wrap(text, 118, break_long_words=False, break_on_hyphens=False))


def listed(names):
    return ", ".join(f"`{name}`" for name in names)


def namespace_section():
    import torch

    rows, lists = [], []
    for path in NAMESPACES:
        there, missing, excepted = compare_namespace(path)
        rows.append(f"| `{path}` | {there} | {len(missing)} | {len(excepted)} |")
        if missing:
            lists.append(wrap(f"**{path}**: {listed(missing)}") + "\n")
    version = torch.__version__.split("+")[0]
    return [
        f"## PyTorch {version}'s public names",
        "",
        "| namespace | there | missing | out of scope |",
        "|---|---:|---:|---:|",
        *rows,
        "",
        wrap(
            f"Out of scope: {'; '.join(EXCEPTED)}. Using such a name, or one that is missing, raises an AttributeError "
            "or NotImplementedError that names it."
        ),
        "",
        "### Missing",
        "",
        *lists,
    ]


def program_section(rows):
    common = [row for row in rows if row[2] >= COMMON]
    there, missing, beyond = compare_programs(common)
    rest_there, rest_missing, _ = compare_programs([row for row in rows if row[2] < COMMON])
    named = [f"`{path}` ({programs})" for path, programs in missing]
    return [
        f"## Names that at least {COMMON} of 229 programs use",
        "",
        f"{there} are there, {len(missing)} are missing" + (": " + ", ".join(named) if named else "") + ".",
        wrap("Out of scope: " + (", ".join(f"`{path}` ({programs})" for path, programs in beyond) or "none") + "."),
        wrap(
            "Each, and each keyword, operator and kind of index that they use as often, has a line of its own in "
            "`tests/torch/name_rows.py`, whose outcome is compared with PyTorch's."
        ),
        "",
        f"Of the names that fewer programs use, {rest_there} are there and {len(rest_missing)} are not:",
        wrap(listed(path for path, _ in rest_missing) + "."),
        "",
    ]


def write(block):
    text = PAGE.read_text() if PAGE.exists() else f"# Coverage\n\n{BEGIN}\n{END}\n"
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{block}{END}{after}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frequencies", help="a csv of kind,name,programs,occurrences")
    parser.add_argument("--check", action="store_true", help="fail if the page is not up to date")
    options = parser.parse_args()
    lines = namespace_section()
    if options.frequencies:
        lines = program_section(read_frequencies(options.frequencies)) + lines
    text = write("\n" + "\n".join(lines).rstrip() + "\n\n")
    if options.check:
        return 0 if PAGE.exists() and PAGE.read_text() == text else 1
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
