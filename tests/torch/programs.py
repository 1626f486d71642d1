"""Random programs: sequences of moves over a pool of tensors, as source lines that both libraries run.

A program is a list of steps; a step is one line of PyTorch source and a flag that says whether the whole pool is
compared after it (which forces evaluation) or not (so that recorded work piles up). Lines are generated while PyTorch
runs them, so that shapes fit most of the time; lines that raise are kept, for both libraries must raise.

What makes a comparison fair:
  - A tensor is *exact* as long as only ops with one correct answer made it (arithmetic, moves, comparisons of exact
    values): it is compared bit by bit. A function with rounding of its own (exp, sums, products) makes what it writes
    *rough*, and so do rough values what is computed from them, through memory and ops; agreement.py says how close
    they have to be. Steps such as floor, ==, sort, casts to integers magnify a last-digit difference into a visible
    one: only exact tensors go there.
  - Large values are brought back by clamp or tanh; a divisor is a constant or kept away from zero.
  - PyTorch leaves writes to self-overlapping memory, and reads of memory that the same step writes, undefined:
    programs avoid both (test_errors.py has the cases that PyTorch refuses).

Programs with gradients begin with FUNCTIONS, some custom functions; they end in a backward, often in one of a backward.
"""

import random
from dataclasses import dataclass

from tests.torch.compare import REF, Raised, dtype_name, outcome

FLOAT_NAMES = ("float32", "float32", "float32", "float64", "float16", "bfloat16")
INT_NAMES = ("int64", "int64", "int32", "int16", "int8", "uint8")
SHAPES = (
    (),
    (1,),
    (3,),
    (4,),
    (7,),
    (2, 3),
    (3, 4),
    (4, 3),
    (3, 1),
    (1, 4),
    (4, 4),
    (2, 3, 4),
    (2, 1, 3),
    (0, 3),
    (17,),
    (33,),
    (5, 7),
)
POOL = 7  # tensors alive at a time: older ones are deleted, so that liveness varies


@dataclass
class Step:
    line: str
    check: bool = False
    rounds: bool = False  # whether a function with rounding of its own is called
    rough: frozenset = frozenset()  # the variables that are not exact after this step


@dataclass
class Program:
    steps: list
    seed: int = 0

    def source(self, module="brisk"):
        """A script that stands alone: runs the lines in both libraries and shows where they part."""
        body = "\n".join(f"    {step.line!r}," for step in self.steps)
        return REPRODUCER.format(seed=self.seed, module=module, body=body)


REPRODUCER = """\
# program {seed}: runs each line in PyTorch and in {module}, and prints what differs.
import torch
import {module} as ours
lines = [
{body}
]
scopes = dict(torch=dict(torch=torch), ours=dict(torch=ours))
for line in lines:
    print(line)
    for name, scope in scopes.items():
        try:
            exec(line, scope)
        except Exception as error:
            print("   ", name, "raises", type(error).__name__, error)
for name in sorted(n for n in scopes["torch"] if n[0] == "t" and n[1:].isdigit()):
    a, b = (scope.get(name) for scope in scopes.values())
    if str(a) != str(b) or a.stride() != b.stride():
        print(name, a, a.stride(), b, b.stride(), sep="\\n")
"""


# --- generating ------------------------------------------------------------------------------------------------------


FUNCTIONS = """
class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x * x * g


class SavesItsOutput(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x.tanh()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * (1 - y * y)


class TwoByTwo(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, scale):
        ctx.save_for_backward(x, y)
        ctx.scale = scale
        return x * y, scale * x

    @staticmethod
    def backward(ctx, g, h):
        x, y = ctx.saved_tensors
        return g * y + h * ctx.scale, g * x, None


class GivesItsInput(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, g):
        return 2 * g


class MayGetNone(torch.autograd.Function):
    @staticmethod
    def forward(x, y):
        return x - y, x * y, x > y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.mark_non_differentiable(output[2])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, g, h, _):
        x, y = ctx.saved_tensors
        if h is None:
            return g, None if g is None else -g
        return (h * y, h * x) if g is None else (g + h * y, h * x - g)


class InPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        x.mul_(3)
        return x

    @staticmethod
    def backward(ctx, g):
        return 3 * g
"""


class Generator:
    """Writes one program. `self.scope` is PyTorch's run of the lines written so far."""

    def __init__(self, rng, length, grad=False):
        self.rng, self.length, self.grad = rng, length, grad
        self.scope = {"torch": REF}
        self.pool, self.count = [], 0
        self.rough, self.hooked = {}, {}  # storages of rough values, and of views with hooks, by address
        self.steps = []

    def program(self, seed):
        lazy = self.rng.random() < 0.5  # half of the programs are compared at the end only
        moves, weights = (GRAD_MOVES, GRAD_MOVE_WEIGHTS) if self.grad else (MOVES, MOVE_WEIGHTS)
        if self.grad:
            self.emit(FUNCTIONS)
        while len(self.steps) < self.length:
            move = self.rng.choices(moves, weights)[0] if len(self.pool) > 1 else create
            move(self)
            if not lazy and self.steps and self.rng.random() < 0.4:
                self.steps[-1].check = True
        if self.grad:
            backward(self)
        self.steps[-1].check = True
        return Program(self.steps, seed)

    # What the pool holds.

    def pick(self, want=None):
        """The name of a tensor of the pool that satisfies want, or None."""
        names = [n for n in self.pool if want is None or want(self.scope[n])]
        return self.rng.choice(names) if names else None

    def tensor(self, name):
        return self.scope[name]

    def is_rough(self, name):
        return self.tensor(name).untyped_storage().data_ptr() in self.rough

    def exact(self, want=None):
        return self.pick(lambda t: (want is None or want(t)) and t.untyped_storage().data_ptr() not in self.rough)

    # Writing lines.

    def emit(self, line, rounds=False):
        """Runs a line in PyTorch and keeps it. Whether it went well is returned."""
        error = outcome(exec, line, self.scope)
        self.steps.append(Step(line, rounds=rounds))
        self.note_rough()
        return not isinstance(error, Raised)

    def note_rough(self):
        self.steps[-1].rough = frozenset(name for name in self.pool if self.is_rough(name))

    def make(self, expression, sources=(), rounds=False, prefix="", rough=False):
        """A new tensor of the pool; rough: whatever its sources are."""
        name = f"t{self.count}"
        self.count += 1
        if not self.emit(f"{prefix}{name} = {expression}", rounds):
            return None
        if not isinstance(self.scope[name], REF.Tensor):
            return None
        self.pool.append(name)
        self.mark(name, sources, rounds or rough)
        self.moderate(name)
        if len(self.pool) > POOL:
            gone = self.rng.choice(self.pool[:-1])
            self.pool.remove(gone)
            self.emit(f"del {gone}")
        return name

    def write(self, target, line, sources=(), rounds=False):
        """A line that writes to a tensor of the pool."""
        if self.scope[target]._is_view() and self.scope[target].untyped_storage().data_ptr() in self.hooked:
            return  # docs/DIFFERENCES.md
        if self.emit(line, rounds):
            self.mark(target, sources, rounds)
            self.moderate(target)

    def mark(self, name, sources, rough):
        """A result is rough if a function that rounds made it, or if it comes from rough values."""
        tensor = self.tensor(name)
        if rough and tensor.is_floating_point() or any(self.is_rough(s) for s in sources):
            storage = tensor.untyped_storage()
            self.rough[storage.data_ptr()] = storage  # stays alive, so that no address is used twice
        self.note_rough()

    def moderate(self, name):
        """Brings large values back, in the program itself."""
        tensor = self.scope[name].detach()
        if not tensor.is_floating_point() or tensor.numel() == 0:
            return
        largest = float(tensor.abs().max())
        if not largest < 30:  # NaN too
            fix = "tanh" if largest == largest and largest < 1e4 and self.rng.random() < 0.3 else "clamp"
            call = f"torch.nan_to_num({name}).clamp(-4, 4)" if fix == "clamp" else f"{name}.tanh()"
            rough = self.is_rough(name)
            self.emit(f"{name} = {call}", rounds=fix == "tanh")
            self.mark(name, (), rough or fix == "tanh")


def is_float(t):
    return t.is_floating_point()


def has_dims(n):
    return lambda t: t.dim() >= n


def dense(t):
    """No two elements share memory, so that a write is defined; strides of zero are refused by PyTorch itself."""
    spans = sorted((st, n) for n, st in zip(t.shape, t.stride()) if n > 1)
    reach = 1
    for stride, size in spans:
        if stride < reach:
            return False
        reach = stride * (size - 1) + reach
    return True


def literal(rng, shape, name):
    if not shape:
        if name == "bool":
            return str(rng.random() < 0.5)
        if name in INT_NAMES:
            return str(rng.randint(0 if name == "uint8" else -6, 6))
        return str(rng.randint(-12, 12) / 4)
    return "[" + ", ".join(literal(rng, shape[1:], name) for _ in range(shape[0])) + "]"


def create(g):
    rng = g.rng
    name = rng.choice(("float32", rng.choice(FLOAT_NAMES), rng.choice(INT_NAMES), "bool"))
    shape = rng.choice(SHAPES)
    dtype = f"dtype=torch.{name}"
    kind = rng.random()
    leaf = ".requires_grad_()" if g.grad and name in FLOAT_NAMES and rng.random() < 0.7 else ""
    if kind < 0.6:
        data = literal(rng, shape, name)
        tail = f".reshape{shape}" if shape and 0 in shape else ""
        g.make(f"torch.tensor({data}, {dtype}){tail}{leaf}")
    elif kind < 0.75:
        g.make(f"torch.{rng.choice(('zeros', 'ones'))}({shape}, {dtype}){leaf}")
    elif kind < 0.85 and name != "bool":
        size = rng.choice((5, 12, 31, 64, 257, 1025))
        low = "" if name == "uint8" else " - 5"
        g.make(f"(torch.arange({size}) * 7 % 11{low}).to(torch.{name}){leaf}")
    elif kind < 0.92 and name in FLOAT_NAMES:
        g.make(f"torch.full({shape}, {rng.randint(-8, 8) / 4}, {dtype}){leaf}")
    else:
        g.make(f"torch.eye({rng.randint(1, 4)}, {rng.randint(1, 4)}, {dtype})")


SMOOTH = ("tanh", "sigmoid", "sin", "cos", "exp", "erf", "atan", "expm1")
EXACT_UNARY = ("neg", "square", "abs", "relu", "clone", "contiguous")
JUMPS = ("floor", "ceil", "round", "trunc", "sign", "isnan", "isinf", "isfinite", "bool", "logical_not")


# Made of other ops, with strides of their own in dimensions of one element. BENDS have kinks, which gradients show.
SMOOTH_FORMS = ("torch.nn.functional.softsign({})", "torch.sinc({}.tanh() * 2 + 2.5)", "torch.rad2deg({}) / 64",
                "torch.ldexp({}, torch.tensor(1))")  # fmt: skip
BENDS = ("torch.nn.functional.hardtanh({})", "torch.nn.functional.relu6({})", "torch.nan_to_num({})",
         "torch.nn.functional.prelu({0}, torch.full((1,), 0.25, dtype={0}.dtype))",
         "torch.nn.functional.rrelu({})", "torch.nn.functional.threshold({}, 0.5, -1)")  # fmt: skip


def composed(g):
    x = g.pick(is_float)
    if x:
        bends = not g.grad and g.rng.random() < 0.6
        g.make(g.rng.choice(BENDS if bends else SMOOTH_FORMS).format(x), (x,), rounds=True)


def unary(g):
    rng = g.rng
    kind = rng.random()
    if kind < 0.45:
        x = g.pick()
        if g.grad and is_float(g.tensor(x)) or rng.random() < 0.6:
            op = rng.choice(SMOOTH + ("neg", "square", "clone"))
            g.make(f"{x}.{op}()", (x,), rounds=op in SMOOTH)
        else:
            op = rng.choice(EXACT_UNARY)
            g.make(f"{x}.{op}()", (x,))
    elif kind < 0.6:
        x = g.pick(is_float)
        if x:
            form = rng.choice(("({}.square() + 0.5).log()", "({}.square() + 0.5).sqrt()",
                "({}.square() + 1).rsqrt()", "torch.nn.functional.gelu({})",
                               "torch.nn.functional.softplus({})", "torch.nn.functional.silu({})",
                               "1 / ({}.square() + 1)"))  # fmt: skip
            g.make(form.format(x), (x,), rounds=True)
    elif kind < 0.8:
        x = g.exact()
        if x:
            op = rng.choice(JUMPS + EXACT_UNARY)
            g.make(f"{x}.{op}()", (x,))
    else:
        x = g.pick()
        to = rng.choice(FLOAT_NAMES)
        if is_float(g.tensor(x)) and not g.is_rough(x) and rng.random() < 0.4:
            to = rng.choice(("int64", "int32", "bool"))
        g.make(f"{x}.to(torch.{to})", (x,))


ARITHMETIC = ("+", "-", "*")
COMPARISONS = ("<", "<=", "==", "!=", ">", ">=")


def scalar(rng):
    return rng.choice(("2", "-1", "3", "0.5", "-1.5", "True", "0.25", "0"))


def partner(g, x):
    """A second operand, mostly one that broadcasts with x."""
    if g.rng.random() < 0.1:
        return g.pick()
    shape = tuple(g.tensor(x).shape)

    def fits(t):
        return all(a == b or a == 1 or b == 1 for a, b in zip(reversed(shape), reversed(t.shape)))

    return g.pick(fits)


def binary(g):
    rng = g.rng
    x = g.pick()
    kind = rng.random()
    if kind < 0.25:
        op, s = rng.choice(ARITHMETIC + ("/",)), scalar(rng)
        if op == "/":
            g.make(f"{x} / {rng.choice(('2', '4', '-0.5'))}", (x,))
        else:
            g.make(rng.choice((f"{x} {op} {s}", f"{s} {op} {x}")), (x,))
    elif kind < 0.7:
        y = partner(g, x)
        op = rng.choice(ARITHMETIC)
        g.make(f"{x} {op} {y}", (x, y))
    elif kind < 0.8:
        y = partner(g, x)
        op = rng.choice(("torch.maximum", "torch.minimum", "torch.fmax"))
        if not g.grad:
            g.make(f"{op}({x}, {y})", (x, y))
    elif kind < 0.9:
        x, y = g.exact(), g.exact()
        if x and y:
            op = rng.choice(COMPARISONS + ("&", "|", "^"))
            g.make(f"{x} {op} {y}", (x, y))
    else:
        x = g.exact()
        if x:
            op = rng.choice(("%", "//")) if not is_float(g.tensor(x)) else "%"
            g.make(f"{x} {op} {rng.choice(('3', '2', '-2'))}", (x,))


def index(rng, n):
    return rng.randint(-n, n - 1) if n and rng.random() < 0.97 else rng.choice((n, -n - 1))


def a_slice(rng, n):
    a = rng.randint(0, n) if rng.random() < 0.7 else ""
    b = rng.randint(0, n) if rng.random() < 0.4 else ""
    step = f":{rng.choice((1, 2, 3))}" if rng.random() < 0.4 else ""
    return f"{a}:{b}{step}"


def basic_index(rng, shape):
    """A subscript of ints, slices, None and Ellipsis."""
    parts = []
    for n in shape[: rng.randint(0, len(shape))]:
        kind = rng.random()
        parts.append(str(index(rng, n)) if kind < 0.35 else a_slice(rng, n) if kind < 0.9 else ":")
    if rng.random() < 0.15:
        parts.insert(rng.randint(0, len(parts)), "None")
    if rng.random() < 0.1:
        parts.append("...")
    return ", ".join(parts) or "..."


def factors(rng, n):
    """A shape of n elements."""
    options = [(n,), (-1,), (1, n), (n, 1), (-1, 1)]
    for a in range(2, n):
        if n % a == 0:
            options += [(a, n // a), (a, -1), (1, n // a, a)]
    return rng.choice(options)


def wider_shape(rng, shape):
    """What a tensor of this shape can be expanded to."""
    shape = (1, *shape) if rng.random() < 0.3 else shape
    return ", ".join(str(n if n != 1 else rng.choice((1, 3))) for n in shape) or "2"


def view_expression(g, x):
    rng, t = g.rng, g.tensor(x)
    d = t.dim()
    axes = list(range(d))
    rng.shuffle(axes)
    a, b = (rng.randint(-d, d - 1), rng.randint(-d, d - 1)) if d else (0, 0)
    n = t.shape[a] if d else 1
    start = rng.randint(0, n)
    forms = [
        lambda: f"{x}[{basic_index(rng, t.shape)}]",
        lambda: f"{x}[{basic_index(rng, t.shape)}]",
        lambda: f"{x}.transpose({a}, {b})",
        lambda: f"{x}.permute({', '.join(map(str, axes))})" if d else f"{x}.view(1)",
        lambda: f"{x}.reshape{factors(rng, t.numel())}",
        lambda: f"{x}.view{factors(rng, t.numel())}",
        lambda: f"{x}.expand({wider_shape(rng, t.shape)})",
        lambda: f"{x}.squeeze({rng.choice(('', str(a)))})",
        lambda: f"{x}.unsqueeze({rng.randint(-d - 1, d)})",
        lambda: f"{x}.narrow({a}, {start}, {rng.randint(0, n - start)})",
        lambda: f"{x}.diagonal({rng.choice(('', '1', '-1'))})",
        lambda: f"{x}.unfold({a}, {rng.randint(1, max(n, 1))}, {rng.randint(1, 3)})",
        lambda: f"{x}.flatten()",
        lambda: f"{x}.T" if d == 2 else f"{x}.select({a}, {index(rng, n)})",
        lambda: f"{x}.detach()",
        lambda: f"{x}.movedim({a}, {b})",
        lambda: f"torch.einsum('{'...ij->...ji' if d > 1 else '...->...'}', {x})",
    ]
    if not g.grad:  # PyTorch refuses taped writes to the results of functions that return several views
        forms += [
            lambda: f"{x}.split({rng.randint(1, 3)}, {a})[0]",
            lambda: f"{x}.chunk(2, {a})[-1]",
            lambda: f"{x}.unbind({a})[0]",
        ]
    return rng.choice(forms)()


def view(g):
    x = g.pick()
    made = g.make(view_expression(g, x), (x,))
    if made and g.rng.random() < 0.4:  # views of views
        g.make(view_expression(g, made), (made,))


def shares_memory(g, x, y):
    return g.tensor(x).untyped_storage().data_ptr() == g.tensor(y).untyped_storage().data_ptr()


def in_place(g):
    """A write to a tensor or, most of the time, through a view of it."""
    rng = g.rng
    x = g.pick(dense) or g.pick()
    t = g.tensor(x)
    if not dense(t) and 0 not in t.stride():
        return
    prefix = "with torch.no_grad(): " if g.grad and rng.random() < 0.3 else ""
    target = x
    if t.dim() and rng.random() < 0.5:
        target = f"{x}[{basic_index(rng, t.shape)}]"
    kind = rng.random()
    if kind < 0.3:
        op = rng.choice(ARITHMETIC)
        g.write(x, f"{prefix}{target} {op}= {scalar(rng)}", (x,))
    elif kind < 0.45:
        op = rng.choice(
            ("fill_(2)", "zero_()", "neg_()", "mul_(0.5)", "add_(1)", "clamp_(-1, 2)", "tanh_()", "sigmoid_()")
        )
        g.write(x, f"{prefix}{target}.{op}", (x,), rounds=op[0] in "ts")
    elif kind < 0.8:
        y = partner(g, x)
        if not y:
            return
        source = y if not shares_memory(g, x, y) or x == y and target == x else f"{y}.clone()"
        form = rng.choice(("{} += {}", "{} *= {}", "{} -= {}", "{}.copy_({})", "{}.add_({})"))
        if (
            is_float(g.tensor(y))
            and not is_float(t)
            and (g.is_rough(y) or dtype_name(t.dtype) != "int64")
            and "copy" in form
        ):
            return
        g.write(x, prefix + form.format(target, source), (x, y))
    else:
        y = partner(g, x)
        if not y or not t.dim() or (is_float(g.tensor(y)) and not is_float(t)):
            return
        source = f"{y}.clone()" if shares_memory(g, x, y) else y
        g.write(x, f"{prefix}{x}[{basic_index(rng, t.shape)}] = {rng.choice((source, scalar(rng)))}", (x, y))


def index_list(rng, n, size, distinct=False):
    if n == 0:
        return "[]"
    chosen = rng.sample(range(n), min(size, n)) if distinct else [rng.randint(-n, n - 1) for _ in range(size)]
    return str(chosen)


def advanced_get(g):
    rng = g.rng
    x = g.pick(has_dims(1))
    if not x:
        return
    t = g.tensor(x)
    kind = rng.random()
    if kind < 0.3:
        mask = g.exact(lambda m: dtype_name(m.dtype) == "bool" and m.shape == t.shape)
        if mask:
            g.make(f"{x}[{mask}]", (x, mask))
        elif not g.is_rough(x):
            g.make(f"{x}[{x} > 0]", (x,))
    elif kind < 0.6:
        g.make(f"{x}[{index_list(rng, t.shape[0], rng.randint(1, 4))}]", (x,))
    elif kind < 0.8 and t.dim() > 1:
        first, last = (index_list(rng, n, 3) for n in (t.shape[0], t.shape[-1]))
        g.make(rng.choice((f"{x}[torch.tensor({first}), ..., torch.tensor({last})]",
            f"{x}[:, {index_list(rng, t.shape[1], 2)}]",
                           f"{x}[1:, {index_list(rng, t.shape[1], 2)}]")), (x,))  # fmt: skip
    else:
        g.make(
            f"{x}.index_select(0, torch.tensor({index_list(rng, t.shape[0], 2, distinct=True)}, dtype=torch.int64))",
            (x,),
        )


def advanced_set(g):
    rng = g.rng
    x = g.pick(lambda t: t.dim() > 0 and dense(t))
    if not x:
        return
    t = g.tensor(x)
    value = rng.choice(("1", "0", "2"))
    kind = rng.random()
    if kind < 0.4 and not g.is_rough(x):
        g.write(
            x,
            f"{x}[{x} > {value}] = {rng.choice((value, '-1'))}"
            if dtype_name(t.dtype) != "uint8"
            else f"{x}[{x} > 2] = 1",
            (x,),
        )
    elif kind < 0.7:
        g.write(x, f"{x}[{index_list(rng, t.shape[0], 2)}] = {value}", (x,))
    elif kind < 0.85:
        g.write(x, f"{x}[{index_list(rng, t.shape[0], 2, distinct=True)}] += {value}", (x,))
    else:
        mask = g.exact(lambda m: dtype_name(m.dtype) == "bool" and m.shape == t.shape)
        if mask and not shares_memory(g, x, mask):
            g.write(x, f"{x}.masked_fill_({mask}, {value})", (x, mask))


def where(g):
    mask = g.exact(lambda m: dtype_name(m.dtype) == "bool")
    if mask:
        x = partner(g, mask)
        y = g.rng.choice((partner(g, mask), "1"))
        form = (
            f"torch.where({mask}, {x}, {y})"
            if g.rng.random() < 0.7
            else f"{x}.masked_fill({mask}, {g.rng.choice((1, 0))})"
        )
        g.make(form, (x, *((y,) if y != "1" else ())))


def reduction(g):
    rng = g.rng
    x = g.pick()
    t = g.tensor(x)
    floats = is_float(t)
    dim = rng.randint(-t.dim(), t.dim() - 1) if t.dim() else 0
    where_ = rng.choice(("", f"{dim}", f"{dim}, keepdim=True"))
    op = rng.choice(
        ("sum", "sum", "mean", "amax", "amin", "all", "any", "cumsum", "softmax", "logsumexp", "var", "argmax", "max")
    )
    if op in ("argmax", "max", "all", "any"):
        if g.is_rough(x) or g.grad:
            return
        x_max = f"{x}.max({dim})[0]" if where_ else f"{x}.max()"
        g.make(x_max if op == "max" else f"{x}.{op}({where_})", (x,))
    elif op in ("amax", "amin"):
        if not g.grad:
            g.make(f"{x}.{op}({where_})", (x,))
    elif op in ("cumsum", "softmax"):
        g.make(f"{x}.{op}({dim})", (x,), rounds=floats)
    elif op == "logsumexp":
        g.make(f"{x}.logsumexp({dim})", (x,), rounds=True)
    elif op == "var":
        if floats and t.numel() > 1:
            g.make(
                f"{x}.var({where_ or 'unbiased=False'})" if t.shape[dim] > 1 else f"{x}.var(unbiased=False)",
                (x,),
                rounds=True,
            )
    else:
        g.make(f"{x}.{op}({where_})", (x,), rounds=floats)


def product(g):
    x = g.pick(has_dims(1))
    if not x:
        return
    t = g.tensor(x)
    inner = t.shape[-1]
    y = g.pick(lambda u: u.dim() > 0 and u.dtype == t.dtype and u.shape[-2 if u.dim() > 1 else 0] == inner)
    if y and g.rng.random() < 0.9:
        g.make(f"{x} @ {y}", (x, y), rounds=True)
    elif t.dim() == 2:
        g.make(f"{x} @ {x}.t()", (x,), rounds=True)


def join(g):
    rng = g.rng
    x = g.pick()
    t = g.tensor(x)
    others = [n for n in g.pool if g.tensor(n).shape == t.shape]
    chosen = [x] + rng.sample(others, min(len(others), rng.randint(0, 2)))
    if rng.random() < 0.5:
        g.make(f"torch.stack([{', '.join(chosen)}], {rng.randint(-t.dim() - 1, t.dim())})", chosen)
    else:
        if rng.random() < 0.15:
            chosen.append(g.pick())
        g.make(f"torch.cat([{', '.join(chosen)}], {rng.randint(-max(t.dim(), 1), max(t.dim() - 1, 0))})", chosen)


def rearrange(g):
    rng = g.rng
    x = g.pick()
    t = g.tensor(x)
    d = t.dim()
    a = rng.randint(-d, d - 1) if d else 0
    form = rng.choice((f"{x}.flip({a})", f"{x}.roll({rng.randint(-3, 3)}, {a})",
        f"{x}.repeat({', '.join(['2'] + ['1'] * max(d - 1, 0))})",
                       f"{x}.tril()", f"{x}.repeat_interleave(2, {a})", f"{x}.contiguous()", f"{x}.clone()",
                       f"torch.zeros_like({x})"))  # fmt: skip
    if t.numel() < 2000:
        g.make(form, (x,))


def read(g):
    """Reads a value in the middle: forces evaluation, and the value steers nothing else."""
    x = g.exact(lambda t: t.numel() > 0)
    if not x:
        return
    t = g.tensor(x)
    if t.dim() and t.numel() > 1:
        g.emit(f"assert {x}.reshape(-1)[{g.rng.randint(0, t.numel() - 1)}].item() is not None")
    else:
        g.make(f"torch.tensor({x}.item())", (x,))


def on_tape(g):
    return [n for n in g.pool if g.tensor(n).requires_grad and is_float(g.tensor(n))]


def custom(g):
    """A function with a backward of its own."""
    rng = g.rng
    x = g.pick(is_float)
    if not x:
        return
    kind = rng.random()
    if kind < 0.6:
        name = rng.choice(("Cube", "SavesItsOutput", "GivesItsInput"))
        tail = ".neg()" if name == "GivesItsInput" else ""  # PyTorch forbids writes to a view that a function made
        g.make(f"{name}.apply({x}){tail}", (x,), rounds=name == "SavesItsOutput")
    elif kind < 0.85:
        y = g.pick(lambda t: t.shape == g.tensor(x).shape and t.dtype == g.tensor(x).dtype)
        if rng.random() < 0.5:
            g.make(f"TwoByTwo.apply({x}, {y}, {rng.choice(('2', '0.5'))})[{rng.randint(0, 1)}]", (x, y))
        else:
            g.make(f"MayGetNone.apply({x}, {y})[{rng.randint(0, 1)}]", (x, y))
    elif dense(g.tensor(x)) and not g.tensor(x)._is_view():
        g.write(x, f"InPlace.apply({x})", (x,))


INSIDE = ("torch.tanh({0} * {0})", "{0}.sin() * 2", "({0} * {0}).exp().neg().exp()", "{0} / ({0} * {0} + 1)")


def runs_again(g):
    """A function that runs again in backward, or inside of a transform."""
    x = g.pick(lambda t: is_float(t) and t.numel() > 0)
    if not x:
        return
    body = g.rng.choice(INSIDE).format("a")
    form = g.rng.choice(("torch.utils.checkpoint.checkpoint(lambda a: {}, {}, use_reentrant=False)",
                         "torch.func.grad(lambda a: ({}).sum())({})", "torch.func.vmap(lambda a: {})({})"))  # fmt: skip
    form += ".clone(memory_format=torch.contiguous_format)"  # docs/DIFFERENCES.md: strides of what is mapped
    if "vmap" not in form or g.tensor(x).dim():
        g.make(form.format(body, x), (x,), rounds=True)


def gradient_in_the_midst(g):
    """A gradient that is on the tape itself, and is computed with as with any other tensor."""
    names = [n for n in on_tape(g) if dtype_name(g.tensor(n).dtype) in ("float32", "float64") and g.tensor(n).is_leaf]
    if names:
        x, y = g.rng.choice(names), g.rng.choice(on_tape(g))
        loss = f"({x} * {x}.sin()).sum() + {y}.double().sum()"
        if not g.make(f"torch.autograd.grad({loss}, {x}, create_graph=True)[0]", (x, y), rounds=True):
            g.steps[-1].line = "pass"  # where PyTorch refuses, an answer is not wrong


def untaped(g):
    """A result that the tape does not see."""
    x = g.pick(is_float)
    if x:
        form = g.rng.choice(("{}.neg()", "{} * 2", "{}.detach()", "{}.clone()", "Cube.apply({})"))
        g.make(form.format(x), (x,), prefix="with torch.no_grad(): ")


def keeps_gradient(g):
    """A hook that scales a gradient, or a tensor in the middle that keeps its own."""
    names = [n for n in on_tape(g) if dense(g.tensor(n))]  # docs/DIFFERENCES.md says why
    if names:
        x = g.rng.choice(names)
        hook = f"_ = {x}.grad_fn, {x}.register_hook(lambda g: g * 0.5)"  # PyTorch crashes if it has to make the grad_fn
        keeps = g.rng.random() < 0.5
        if g.emit(f"{x}.retain_grad()" if keeps else hook) and not keeps and g.tensor(x)._is_view():
            g.hooked[g.tensor(x).untyped_storage().data_ptr()] = g.tensor(x).untyped_storage()


def early_backward(g):
    """A backward in the middle, whose gradients stay in the leaves."""
    names = on_tape(g)
    if names:
        x = g.rng.choice(names)
        if not g.emit(f"{x}.double().sum().backward(retain_graph={g.rng.random() < 0.5})", rounds=True):
            g.steps[-1].line = "pass"


def read_gradients(g, names):
    for name in names:
        if name not in g.pool:  # an earlier reading has made room
            continue
        order = "" if g.tensor(name).is_leaf else ".contiguous()"  # PyTorch's own order varies with the path taken
        g.make(f"torch.zeros(1) if {name}.grad is None else ({name}.grad + 0){order}", (name,), rough=True)


def backward(g):
    """The gradients of everything that requires them, summed into one loss; or those of the gradients."""
    names = on_tape(g)
    leaves = [n for n in names if g.tensor(n).is_leaf or g.tensor(n).retains_grad]
    if not names or not leaves:
        return
    loss = " + ".join(f"{n}.double().sum()" for n in names)
    single = all(dtype_name(g.tensor(n).dtype) in ("float32", "float64") for n in names)
    if single and g.rng.random() < 0.4:
        leaves = [n for n in leaves if g.tensor(n).is_leaf or not g.tensor(n)._backward_hooks]  # docs/DIFFERENCES.md
        inputs = ", ".join(leaves)
        good = g.emit(
            f"gs = torch.autograd.grad({loss}, [{inputs}], create_graph=True, allow_unused=True)", rounds=True
        )
        second = " + ".join(f"(0 if gs[{k}] is None else gs[{k}].double().tanh().sum())" for k in range(len(leaves)))
        loss = f"torch.zeros((), requires_grad=True) + {second}"
        if not good:
            g.steps[-1].line = "pass"
            return
    if not g.emit(f"({loss}).backward()", rounds=True):
        g.steps[-1].line = "pass"  # where PyTorch refuses, an answer is not wrong
        return
    read_gradients(g, leaves)


MOVES, MOVE_WEIGHTS = zip(
    (create, 2.2), (unary, 3), (binary, 4), (view, 4), (in_place, 5), (advanced_get, 1), (advanced_set, 1.2),
    (where, 0.6), (composed, 0.8),
    (reduction, 1.5), (product, 0.8), (join, 1), (rearrange, 0.8), (read, 0.5),
)  # fmt: skip
GRAD_MOVES = (*MOVES, custom, untaped, keeps_gradient, early_backward, runs_again, gradient_in_the_midst)
GRAD_MOVE_WEIGHTS = (*MOVE_WEIGHTS, 2, 0.8, 0.4, 0.3, 0.6, 0.5)


def generate(seed, length=None, grad=False):
    """The program of this seed; grad: surely one with gradients, else one in four is."""
    rng = random.Random(seed)
    return Generator(rng, length or rng.randint(4, 28), grad=rng.random() < 0.25 or grad).program(seed)
