"""Runs every row of op_rows.py against PyTorch: over dtypes, layouts, sizes, special values and type promotion.

One case is one op. Run one with `pytest tests/torch/test_ops_table.py -k "reduction and cumsum"`.
"""

import numpy as np
import pytest

from tests.torch import op_rows
from tests.torch.compare import ATOL, DTYPES, FLOATS, REF, RTOL, In, Report, layouts_of, outcome

INDEX_NAMES = "ijk"
COMPILED = {}


def compiled(line):
    """The line as code, and whether it is an expression."""
    if line not in COMPILED:
        try:
            COMPILED[line] = compile(line, line, "eval"), True
        except SyntaxError:
            COMPILED[line] = compile(line, line, "exec"), False
    return COMPILED[line]


def run_line(m, line, **names):
    code, is_expression = compiled(line)
    scope = {"torch": m, "F": m.nn.functional, "np": np, **names}
    if is_expression:
        return eval(code, scope)
    exec(code, scope)
    return scope["x"]


def parse_inputs(text, dtype, layout="contiguous", domain="any", seed=0):
    """The inputs of a row: a dict of name to In."""
    inputs = {}
    for word in text.split():
        name, _, shape = word.partition(":")
        shape, _, bound = shape.partition("<")
        shape = () if shape == "()" else tuple(int(n) for n in shape.split(","))
        own = layout if layout in layouts_of(shape) else "contiguous"
        kind, values = dtype, domain
        if name in INDEX_NAMES:
            kind, values = "int64", "<" + bound
        elif name == "b":
            kind = "bool"
        elif name == "p":
            values = "positive"
        inputs[name] = In(shape, kind, own, values, seed=(name, seed))
    return inputs


def check_line(report, line, inputs, **how):
    names = list(inputs)

    def run(m, *tensors):
        return run_line(m, line, **dict(zip(names, tensors)))

    return report.check(run, line, list(inputs.values()), **how)


def writes(line):
    """Whether the line writes to x, which then must not overlap itself (PyTorch leaves that undefined)."""
    return not compiled(line)[1] or "_(" in line or "out=x" in line


OVERLAPPING = ("expanded", "expanded_last", "as_strided")


def run_row(row, layouts=True, **how):
    report = Report()
    how = {**how, **row.how}
    for text in row.inputs:
        x = text.split()[0].partition(":")[2].partition("<")[0]
        shape = () if x == "()" else tuple(int(n) for n in x.split(","))
        for line in row.lines:
            for layout in layouts_of(shape) if layouts else ("contiguous",):
                if layout in OVERLAPPING and (writes(line) or not row.overlapping):
                    continue
                for dtype in row.dtypes or DTYPES:
                    check_line(report, line, parse_inputs(text, dtype, layout, row.domain), **how)
    report.finish()


def by_name(rows):
    return pytest.mark.parametrize("row", rows, ids=lambda row: row.name)


# --- elementwise ------------------------------------------------------------------------------------------------------

SIZES = [(), (0,), (1,), (7,), (17,), (1023,), (1025,), (3, 5), (2, 3, 4), (0, 3)]
UNARY_OPS = [(name, domain) for domain, names in op_rows.UNARY.items() for name in names.split()]


def unary_lines(name):
    """The forms in which PyTorch has the op."""
    if hasattr(REF, name):
        yield f"torch.{name}(x)"
        if outcome(lambda: getattr(REF, name)(REF.ones(2), out=REF.empty(0))).__class__ is REF.Tensor:
            yield f"torch.{name}(x, out=torch.empty_like(x))"
            yield f"torch.{name}(x, out=torch.empty(x.shape, dtype=torch.float64))"
            yield f"torch.{name}(x, out=torch.empty(x.shape, dtype=torch.int32))"
            yield f"torch.{name}(x, out=torch.empty(0, dtype=x.dtype))"
    else:
        yield f"F.{name}(x)"
    if hasattr(REF.Tensor, name):
        yield f"x.{name}()"
    if hasattr(REF.Tensor, name + "_"):
        yield f"x.{name}_()"


def special_domain(name, dtype):
    """Without what PyTorch computes in one way in vectors and in another in their tails."""
    if name in ("signbit", "copysign") and dtype == "bfloat16":
        return "special without nan"  # whose sign that decides
    if name in SCALED and dtype == "float16":
        return "special without inf"  # which a rounded product overflows to
    return "special"


def precision(line, dtype):
    """What is computed in a narrow dtype has no more digits in a wide out."""
    dtype = dtype if dtype in FLOATS else "float32"
    return {"rtol": RTOL[dtype], "atol": ATOL[dtype]} if "dtype=torch.float64" in line else {}


@pytest.mark.parametrize("name,domain", UNARY_OPS, ids=[name for name, _ in UNARY_OPS])
def test_unary(name, domain):
    report = Report()
    for line in unary_lines(name):
        for dtype in DTYPES:
            how = precision(line, dtype)
            for shape in SIZES:
                layouts = ["contiguous"] if "out=" in line or len(shape) < 2 and shape != (17,) else layouts_of(shape)
                for layout in layouts:
                    if layout in OVERLAPPING and writes(line):
                        continue
                    x = In(shape, dtype, layout, domain)
                    check_line(report, line, {"x": x}, signed_zeros=dtype in FLOATS, **how)
            if dtype in FLOATS:
                special = special_domain(name, dtype)
                check_line(report, line, {"x": In((24,), dtype, domain=special)}, signed_zeros=True, **how)
                check_line(report, line, {"x": In((5, 8), dtype, "transposed", special)}, signed_zeros=True, **how)
    report.finish()


@by_name(op_rows.ACTIVATIONS)
def test_elementwise(row):
    run_row(row)
    report = Report()
    for line in row.lines:
        for dtype in FLOATS:
            if any(cast in line for cast in ("long", "int", "short", "//", "%")) or row.name == "casts":
                continue  # infinities have no integer value, and quotients of huge values no exact floor
            check_line(report, line, {"x": In((24,), dtype, domain=row.special)}, signed_zeros=True)
        for shape in ((1023,), (1025,)):
            check_line(report, line, {"x": In(shape, "float32", domain=row.domain)})
    report.finish()


BROADCASTS = [((3, 1), (1, 4)), ((), (3,)), ((0,), (1,)), ((5,), (5,)), ((2, 3, 4), (4,)), ((3,), (4,)), ((1025,),
              (1025,)),
              ((1023,), ()), ((2, 1, 4), (3, 1)), ((0, 3), (3,)), ((2, 3), (3, 2)), ((1, 1), (1,))]  # fmt: skip


# In PyTorch the dtype, and whether a vector or its tail is computed, decide which of two zeros is the smaller, and
# whether a 16-bit product with alpha is rounded before it is added.
TIES_OF_ZEROS = ("minimum", "maximum", "fmin", "fmax", "min_two", "max_two")
SCALED = {"add_alpha": {"atol": 1e-5}, "sub_alpha": {"atol": 1e-5}}


@pytest.mark.parametrize("name", op_rows.BINARY)
def test_binary(name):
    line, domain = op_rows.BINARY[name]
    report, how = Report(), SCALED.get(name, {})
    for a in DTYPES:
        for b in DTYPES:  # type promotion, of tensors with dimensions and without
            for xs, ys in (((2, 3), (2, 3)), ((2, 3), ()), ((), (2, 3)), ((), ())):
                check_line(report, line, {"x": In(xs, a, seed=1), "y": In(ys, b, domain=domain, seed=2)}, **how)
    for dtype in ("float32", "int64", "bool", "float64", "bfloat16"):
        for xs, ys in BROADCASTS:
            check_line(report, line, {"x": In(xs, dtype, seed=3), "y": In(ys, dtype, domain=domain, seed=4)}, **how)
        for one in layouts_of((4, 6)):
            for two in layouts_of((4, 6)):
                x, y = In((4, 6), dtype, one, seed=5), In((4, 6), dtype, two, domain, seed=6)
                check_line(report, line, {"x": x, "y": y}, **how)
    if name not in ("div_floor", "div_trunc", "floor_divide", "remainder"):
        for dtype in FLOATS:
            special = special_domain(name, dtype)
            x, y = In((24, 1), dtype, domain=special), In((24,), dtype, domain=special)
            signed_zeros = name not in ("remainder", "pow", *TIES_OF_ZEROS)
            check_line(report, line, {"x": x, "y": y}, signed_zeros=signed_zeros, **how)
    report.finish()


@pytest.mark.parametrize("name", op_rows.IN_PLACE_BINARY)
def test_in_place_binary(name):
    line = op_rows.IN_PLACE_BINARY[name]
    report = Report()
    for a in DTYPES:
        for b in DTYPES:
            if a == "uint8" and b in FLOATS and name in ("copy_", "setitem_all"):
                continue  # a negative float has no uint8 value
            for xs, ys in (((2, 3), (2, 3)), ((2, 3), ()), ((2, 3), (3,)), ((3,), (2, 3)), ((), ())):
                check_line(report, line, {"x": In(xs, a, seed=1), "y": In(ys, b, domain="nonzero", seed=2)})
    for dtype in ("float32", "int64"):
        for one in layouts_of((4, 6), overlapping=False):
            for two in layouts_of((4, 6)):
                x, y = In((4, 6), dtype, one, seed=5), In((4, 6), dtype, two, "nonzero", seed=6)
                check_line(report, line, {"x": x, "y": y})
        x, y = In((4, 6), dtype, "expanded", seed=5), In((4, 6), dtype, seed=6)
        check_line(report, line, {"x": x, "y": y})  # raises: several elements would be one memory location
    report.finish()


@by_name(op_rows.TERNARY)
def test_ternary(row):
    run_row(row)


SCALARS = ["2", "-3", "0", "0.5", "-1.5", "True", "False", "float('inf')", "float('nan')", "1e30", "2**40"]
SCALAR_LINES = ["x + {}", "{} + x", "x - {}", "{} - x", "x * {}", "{} * x", "x / {}", "{} / x", "x == {}", "x < {}",
                "{} >= x",
                "torch.maximum(x, torch.tensor({}))", "torch.where(x > 0, x, {})", "torch.where(x > 0, {}, 1)",
                "x.eq({})",
                "torch.full((2,), {}, dtype=x.dtype) if abs({}) < 100 else 0"]  # fmt: skip


@pytest.mark.parametrize("line", SCALAR_LINES)
def test_python_scalars_promote_as_in_pytorch(line):
    report = Report()
    for scalar in SCALARS:
        for dtype in DTYPES:
            check_line(report, line.format(scalar, scalar), {"x": In((2, 3), dtype)})
            check_line(report, line.format(scalar, scalar), {"x": In((), dtype)})
    report.finish()


# --- reductions, sorting ----------------------------------------------------------------------------------------------


@by_name(op_rows.REDUCTIONS)
def test_reduction(row):
    run_row(row, atol=2e-5)
    report = Report()
    for line in row.lines:
        # Infinities have no integer value; PyTorch's var_mean gives NaN for a mean that mean() finds.
        for dtype in () if "dtype=torch.int" in line or "var_mean" in line else FLOATS:
            check_line(report, line, {"x": In((4, 6), dtype, domain="special")}, atol=1e-4)
        for shape in ((1023,), (1025,), (65, 33), (1, 1), (3, 0)):
            check_line(report, line, {"x": In(shape, "float32")}, atol=1e-4)
            check_line(report, line, {"x": In(shape, "int64")})
            if "_(" not in line and "prod" not in line:
                check_line(report, line, {"x": In(shape, "float64", domain="ties")}, atol=1e-4)
    report.finish()


@by_name(op_rows.SORTS + op_rows.SELECTIONS)
def test_sort(row):
    run_row(row)


@by_name(op_rows.COUNTS)
def test_counts(row):
    run_row(row, layouts=False)


# --- shape ------------------------------------------------------------------------------------------------------------


@by_name(op_rows.SHAPE)
def test_shape(row):
    row.dtypes = row.dtypes or ("float32", "int64", "bool", "bfloat16")
    run_row(row, strides="exact" if row.name not in NEW_MEMORY else "effective", offset=row.name not in NEW_MEMORY)


# What allocates its result: strides along dimensions of one element mean nothing there.
NEW_MEMORY = ("cat", "stack", "hstack", "vstack", "repeat", "tile", "repeat_interleave", "roll", "flip", "rot90",
              "diagonal",
              "tril", "triu", "meshgrid", "combinations")  # fmt: skip
WRITE_AND_LOOK = """
def run(torch, x):
    y = {line}
    y = y[0] if isinstance(y, (tuple, list)) else y
    before = x.clone(), y.clone()
    if torch.is_tensor(y) and y is not x:
        try:
            y.fill_(1)
        except RuntimeError:
            return x, 'refused'
        after = x.clone(), y.clone()
        x.zero_()
        return before, after, x, y
    return y
"""


@by_name(op_rows.SHAPE)
def test_who_sees_a_write_through(row):
    """Whatever shares memory in PyTorch shares it here: written through the result, then through the input."""
    report = Report()
    for text in row.inputs:
        for line in row.lines:
            if not compiled(line)[1] or "list(" in line and "()" in text:
                continue
            scope = {}
            exec(WRITE_AND_LOOK.format(line=line), scope)
            for dtype in ("float32", "int64"):
                for layout in ("contiguous", "transposed", "stepped"):
                    inputs = parse_inputs(text, dtype, layout)
                    report.check(scope["run"], line, list(inputs.values()))
    report.finish()


@by_name(op_rows.CONSTRUCTORS)
def test_constructor_from_a_tensor(row):
    run_row(row)


# --- indexing, products -----------------------------------------------------------------------------------------------


@by_name(op_rows.INDEXING)
def test_indexing(row):
    run_row(row, offset=row.name.startswith("getitem"))


@by_name(op_rows.GATHERS)
def test_gather_and_scatter(row):
    run_row(row)


@by_name(op_rows.PRODUCTS)
def test_product(row):
    run_row(row, atol=1e-4 if row.name in ("mm", "cdist") else 2e-5, strides=None)
