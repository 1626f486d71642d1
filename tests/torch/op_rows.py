"""The op table of the comparison with PyTorch: one row per op, as the lines a PyTorch user would write.

A row names its inputs and gives lines over them; `torch` in a line is the module under comparison. A line that is an
expression is compared by its value; a line that is a statement by the tensor x after it. The runner (test_ops_table.py)
runs every line over dtypes, layouts and sizes; a row only says which inputs the op is about.

Inputs are written `x:3,4 y:4 i:6<3`: a name, a shape (`()` for none), and for index tensors the bound of their values.
Names: i, j, k are int64 indices, b is a boolean mask, p has the positive values that scales and probabilities need.
"""

from dataclasses import dataclass, field

from tests.torch.compare import DTYPES

NOT_BOOL = tuple(name for name in DTYPES if name != "bool")


@dataclass
class Row:
    name: str
    lines: list
    inputs: tuple = ("x:3,5", "x:2,3,4", "x:()", "x:0,3", "x:17")  # alternatives: each line runs with each of them
    domain: str = "any"
    dtypes: tuple = ()  # all unless told otherwise
    overlapping: bool = True  # also over expanded and self-overlapping layouts
    special: str = "special"  # the special values it is compared at
    how: dict = field(default_factory=dict)  # how results are compared


def lines(text):
    return [line.strip() for line in text.strip().split("\n") if line.strip()]


def rows(text, **common):
    """Rows from lines `name | line ; line ; line`."""
    made = []
    for line in lines(text):
        name, _, body = line.partition("|")
        made.append(Row(name.strip(), [part.strip() for part in body.split(" ; ")], **common))
    return made


# --- elementwise: one input -------------------------------------------------------------------------------------------
# name and domain; the runner adds the function, the method, out= and the in-place form where PyTorch has them.
UNARY = {
    "any": "exp expm1 sin cos tan atan sinh cosh tanh sigmoid erf erfc abs neg sign floor ceil round trunc frac square "
    "isnan isinf isfinite logical_not bitwise_not relu sgn signbit positive exp2 nan_to_num deg2rad rad2deg softsign",
    "positive": "log log1p log2 log10 sqrt rsqrt reciprocal",
    "unit": "asin acos erfinv atanh arcsin logit",
}
# (PyTorch fills a single element without a check: fill_ is compared on two.)
ACTIVATIONS = rows("""
    relu | F.relu(x) ; F.relu(x.clone(), inplace=True) ; torch.relu(x)
    leaky_relu | F.leaky_relu(x) ; F.leaky_relu(x, 0.3)
    elu | F.elu(x) ; F.elu(x, alpha=0.5)
    silu | F.silu(x)
    softplus | F.softplus(x) ; F.softplus(x, beta=2, threshold=3)
    hardtanh | F.hardtanh(x) ; F.hardtanh(x, -0.5, 2.)
    logsigmoid | F.logsigmoid(x)
    sigmoid_and_tanh | F.sigmoid(x) ; F.tanh(x) ; torch.sigmoid(x)
    relu6 | F.relu6(x)
    selu | F.selu(x)
    mish | F.mish(x)
    hardsigmoid | F.hardsigmoid(x)
    hardswish | F.hardswish(x)
    softsign | F.softsign(x)
    clamp | x.clamp(-1, 1) ; x.clamp(min=0) ; torch.clamp(x, max=2) ; x.clamp(min=0.5) ; torch.clip(x, 0, 3) \
        ; x.clone().clamp_(0, 2) ; x.clamp() ; x.clamp(max=torch.tensor(1))
    pow_scalar | x ** 2 ; x ** 3 ; x ** 0.5 ; x ** -1 ; x ** -2.0 ; x ** 0 ; 2 ** x ; 0.5 ** x ; torch.pow(x, 1.5)
    round_decimals | torch.round(x, decimals=1)
    scalar_operators | x + 1 ; 1 + x ; x - 1.5 ; 1.5 - x ; x * True ; x / 2 ; 2 / x ; x // 2 ; x % 3 ; x % -3 \
        ; x // 0.7 \
        ; -x ; +x ; abs(x) ; x == 1 ; x != 1 ; x < 0 ; x <= 0.5 ; x > 1 ; 0 >= x ; x == 'a' ; x == None ; ~x \
        ; x & 3 ; x | 1 ; x ^ 2 ; x << 1 ; x >> 1 ; 3 & x ; 1 | x ; 2 ^ x ; divmod(x, 2)
    scalar_functions | torch.add(x, 2, alpha=3) ; torch.sub(x, 2, alpha=0.5) ; torch.mul(x, 2) ; torch.div(x, 2) \
        ; torch.div(x, 2, rounding_mode='floor') ; torch.div(x, 2, rounding_mode='trunc') ; torch.rsub(x, 1) \
        ; torch.fmod(x, 2) ; torch.remainder(x, 2) ; torch.floor_divide(x, 2) ; torch.true_divide(x, 2) \
        ; torch.eq(x, 0) ; torch.gt(x, 0.5) ; x.ge(1) ; x.lt(1) ; torch.float_power(x, 2)
    scalar_in_place | x += 1 ; x -= 2 ; x *= 3 ; x /= 2 ; x //= 2 ; x %= 2 ; x **= 2 ; x += 0.5 ; x *= True ; x &= 1 \
        ; x |= 2 ; x ^= 1 ; x <<= 1 ; x >>= 1 ; x.add_(1, alpha=2) ; x.fill_(3) ; x.zero_() ; x.clamp_(min=1) \
        ; x.mul_(0.5).add_(1) ; x.fill_(torch.tensor(2.5))
    numbers_that_do_not_fit | x.clamp(max=300) ; x.clamp(min=-1e300) ; torch.clamp(x, -1, 10**6) \
        ; torch.stack([x, x]).fill_(1e30) \
        ; x.fill_(-1) ; torch.where(x > 1, x, 300) ; torch.where(x > 1, -10**9, x) ; x.masked_fill(x > 1, 300) \
        ; x.masked_fill(x > 1, torch.tensor(-300)) ; x.masked_fill_(x > 1, float('nan')) ; x.where(x > 1, 10**6)
    alpha_before_other | torch.add(x, 2, x) ; x.sub(3, x) ; x.add_(2, x)
    integer_powers_of_tensors | x.pow(2) ; x.pow(1) ; x.pow(3.0) ; x.square()
    casts | x.float() ; x.double() ; x.half() ; x.bfloat16() ; x.long() ; x.int() ; x.short() ; x.bool() \
        ; x.to(torch.float64) ; x.to(x) ; x.type(torch.float32) ; x.type_as(torch.zeros(1)) ; x.to('cpu') ; x.cpu() \
        ; x.to(x.dtype) is x ; x.to(x.dtype, copy=True) is x ; x.is_floating_point() ; x.element_size() \
        ; x.is_signed() ; x.type() ; x.to(torch.device('cpu'), torch.int32)
""")
# gelu(inf) is inf; PyTorch gives that for float64 and NaN for the other dtypes.
ACTIVATIONS += rows("gelu | F.gelu(x) ; F.gelu(x, approximate='tanh')", special="special without inf")

# --- elementwise: two and three inputs --------------------------------------------------------------------------------
# The line, and the domain of the second input.
BINARY = {
    "add": ("x + y", "any"), "sub": ("x - y", "any"), "mul": ("x * y", "any"), "div": ("x / y", "nonzero"),
    "div_floor": ("torch.div(x, y, rounding_mode='floor')", "nonzero"),
    "div_trunc": ("torch.div(x, y, rounding_mode='trunc')", "nonzero"),
    "floor_divide": ("x // y", "nonzero"), "remainder": ("x % y", "nonzero"), "fmod": ("torch.fmod(x, y)", "nonzero"),
    "pow": ("x.abs() ** y", "positive"), "eq": ("x == y", "any"), "ne": ("x != y", "any"), "lt": ("x < y", "any"),
    "le": ("x <= y", "any"), "gt": ("x > y", "any"), "ge": ("x >= y", "any"), "and": ("x & y", "any"),
    "or": ("x | y", "any"), "xor": ("x ^ y", "any"), "lshift": ("x << y", "unit"), "rshift": ("x >> y", "positive"),
    "logical_and": ("torch.logical_and(x, y)", "any"), "logical_or": ("torch.logical_or(x, y)", "any"),
    "logical_xor": ("torch.logical_xor(x, y)", "any"), "minimum": ("torch.minimum(x, y)", "any"),
    "maximum": ("torch.maximum(x, y)", "any"), "fmin": ("torch.fmin(x, y)", "any"), "fmax": ("torch.fmax(x, y)", "any"),
    "atan2": ("torch.atan2(x, y)", "any"), "add_alpha": ("torch.add(x, y, alpha=2)", "any"),
    "sub_alpha": ("x.sub(y, alpha=3)", "any"), "isclose": ("torch.isclose(x, y)", "any"),
    "allclose": ("torch.allclose(x, y)", "any"), "equal": ("torch.equal(x, y)", "any"),
    "min_two": ("torch.min(x, y)", "any"), "max_two": ("x.max(y)", "any"), "hypot": ("torch.hypot(x, y)", "any"),
    "where": ("torch.where(x > y, x, y)", "any"), "copysign": ("torch.copysign(x, y)", "any"),
    "xlogy": ("torch.xlogy(x, y)", "positive"), "logaddexp": ("torch.logaddexp(x, y)", "any"),
    "masked_fill_between": ("x.masked_fill(y > 0, 1)", "any"), "heaviside": ("torch.heaviside(x, y)", "any"),
}  # fmt: skip
IN_PLACE_BINARY = {
    "iadd": "x += y", "isub": "x -= y", "imul": "x *= y", "itruediv": "x /= y", "ifloordiv": "x //= y",
    "imod": "x %= y", "iand": "x &= y", "ior": "x |= y", "ixor": "x ^= y", "copy_": "x.copy_(y)",
    "add_alpha_": "x.add_(y, alpha=2)", "clamp_": "x.clamp_(min=y)", "maximum_out": "torch.maximum(x, y, out=x)",
    "eq_": "x.eq_(y)", "logical_and_": "x.logical_and_(y)", "setitem_all": "x[...] = y", "fmod_": "x.fmod_(y)",
}  # fmt: skip
TERNARY = rows(
    """
    where | torch.where(b, x, y) ; torch.where(b, x, 2) ; torch.where(b, 2.5, y) ; x.where(b, y) ; torch.where(b)
    lerp | torch.lerp(x, y, 0.3) ; torch.lerp(x, y, z) ; x.lerp(y, 0.8) ; x.lerp_(y, 0.1)
    addcmul | torch.addcmul(x, y, z) ; torch.addcmul(x, y, z, value=2) ; x.addcmul_(y, z, value=3)
    addcdiv | torch.addcdiv(x, y, z + 20) ; x.addcdiv(y, z + 20, value=0.5) ; x.addcdiv_(y, z + 20)
    masked_fill | x.masked_fill(b, 2) ; x.masked_fill(b, -float('inf')) ; x.masked_fill_(b, 1) ; x[b] = 0 \
        ; torch.masked_fill(x, b, torch.tensor(3))
    clamp_tensors | torch.clamp(x, y, y + 2) ; torch.clamp(x, min=y) ; x.clamp(max=z)
    chain | (x + y) * z - x ; torch.where(x > y, y, z) * 2 ; (x * y).to(torch.float32) + z
""",
    inputs=("x:3,5 y:3,5 z:3,5 b:3,5", "x:2,3,4 y:4 z:3,1 b:1,4", "x:() y:() z:() b:()", "x:17 y:1 z:17 b:17"),
)

# --- reductions -------------------------------------------------------------------------------------------------------
REDUCTIONS = rows("""
    sum | x.sum() ; x.sum(0) ; x.sum(-1, keepdim=True) ; x.sum((0, -1)) ; torch.sum(x, dim=(0,)) \
        ; x.sum(dtype=torch.float64) \
        ; x.sum(()) ; x.sum(-1, dtype=torch.int32) ; x.sum(5) ; torch.nansum(x) ; x.sum(axis=0, keepdims=True)
    mean | x.mean() ; x.mean(0) ; x.mean(-1, keepdim=True) ; x.mean((0, -1)) ; x.mean(dtype=torch.float32)
    prod | x.prod() ; x.prod(0) ; x.prod(-1, keepdim=True) ; x.prod(dtype=torch.float64)
    var | x.var() ; x.var(0) ; x.var(-1, keepdim=True) ; x.var(unbiased=False) ; x.var(dim=0, correction=0) \
        ; torch.var_mean(x, 0) ; x.var((0, -1))
    std | x.std() ; x.std(0) ; x.std(-1, keepdim=True, unbiased=False) ; torch.std(x, correction=2) \
        ; torch.std_mean(x, -1)
    norm | x.norm() ; x.norm(1) ; x.norm(p=3) ; x.norm(float('inf')) ; x.norm(dim=0) ; x.norm(2, -1, keepdim=True) \
        ; torch.norm(x) ; torch.linalg.norm(x) ; torch.linalg.vector_norm(x, 1, dim=-1) ; x.norm(p='fro')
    max | x.max() ; x.max(0) ; x.max(-1) ; torch.max(x, -1, keepdim=True) ; x.max(0)[0] ; x.max(dim=0).values \
        ; x.max(-1).indices
    min | x.min() ; x.min(0) ; x.min(-1) ; torch.min(x, -1, keepdim=True) ; x.min(dim=0).indices
    argmax | x.argmax() ; x.argmax(0) ; x.argmax(-1, keepdim=True) ; torch.argmax(x, dim=1)
    argmin | x.argmin() ; x.argmin(0) ; x.argmin(-1, keepdim=True)
    any | x.any() ; x.any(0) ; x.any(-1, keepdim=True) ; torch.any(x > 0) ; torch.any(x, dim=(0, -1))
    all | x.all() ; x.all(0) ; x.all(-1, keepdim=True) ; torch.all(x != 0)
    amax | x.amax() ; x.amax(0) ; x.amax((0, -1)) ; torch.amax(x, -1, keepdim=True)
    amin | x.amin() ; x.amin(0) ; x.amin((0, -1)) ; torch.amin(x, -1, keepdim=True) ; torch.aminmax(x)
    logsumexp | x.logsumexp(0) ; torch.logsumexp(x, -1, keepdim=True) ; torch.logsumexp(x, (0, -1))
    softmax | x.softmax(0) ; F.softmax(x, dim=-1) ; torch.softmax(x, 0, dtype=torch.float64) ; F.softmin(x, -1)
    log_softmax | x.log_softmax(0) ; F.log_softmax(x, dim=-1) ; torch.log_softmax(x, -1, dtype=torch.float32)
    cumsum | x.cumsum(0) ; torch.cumsum(x, -1) ; x.cumsum(-1, dtype=torch.float64) ; x.cumsum_(0)
    cumprod | x.cumprod(0) ; torch.cumprod(x, -1)
    cummax | x.cummax(0) ; torch.cummin(x, -1)
    count_nonzero | x.count_nonzero() ; torch.count_nonzero(x, dim=0) ; x.count_nonzero((0, -1))
    nonzero | x.nonzero() ; torch.nonzero(x, as_tuple=True) ; x.nonzero(as_tuple=False) ; torch.argwhere(x)
    reductions_of_lazy_operands | (x * 2).sum() ; (x + 1).max() ; (x > 0).sum() ; (x == x).all() \
        ; (x * x).sum(-1).sum() \
        ; x.sum(0).max() ; (x - x.max()).sum()
""")
# Ties make the choice of an index visible; stable orders and counts need small integers.
SORTS = rows(
    """
    sort | x.sort()[0] ; torch.sort(x, stable=True, dim=0) ; torch.sort(x, descending=True)[0] \
        ; x.sort(stable=True, descending=True)
    argsort | torch.argsort(x, dim=0, stable=True) ; x.argsort(descending=True, stable=True)
    quantile | x.quantile(0.5) ; torch.quantile(x, torch.tensor([0.25, 0.9], dtype=x.dtype), dim=0)
    unique | x.unique() ; torch.unique(x, return_counts=True) ; torch.unique(x, return_inverse=True) \
        ; torch.unique(x, sorted=True, return_inverse=True, return_counts=True) ; torch.unique(x, dim=0) \
        ; torch.unique_consecutive(x)
    mode | torch.mode(x)[0] ; x.mode(0)[0]
    searchsorted | torch.searchsorted(x.flatten().sort()[0], x) ; torch.bucketize(x, torch.tensor([0., 1., 2.]))
    diff | x.diff() ; torch.diff(x, dim=0) ; x.diff(n=2)
""",
    domain="distinct",
    inputs=("x:3,5", "x:2,3,4", "x:0,3", "x:17", "x:()"),
)
# The places of equal values are in no defined order there; bool has too few values to be distinct.
SORTS += rows(
    """
    sort_distinct | x.sort() ; x.sort(0) ; torch.sort(x, -1, descending=True) ; x.argsort()
    topk | x.topk(2) ; x.topk(2, dim=0) ; torch.topk(x, 1, largest=False) ; x.topk(100) ; x.topk(0)
""",
    domain="distinct",
    inputs=("x:3,5", "x:2,3,4", "x:0,3", "x:17", "x:()"),
    dtypes=NOT_BOOL,
    overlapping=False,
)
SORTS += rows(
    "topk_values | x.topk(2)[0] ; x.topk(1, largest=False)[0] ; x.topk(2, dim=0)[0]", inputs=("x:3,5", "x:17")
)
# PyTorch needs a view of the operand's elements in one dimension.
SORTS += rows(
    "isin | torch.isin(x, torch.tensor([1, 2])) ; torch.isin(x, x[:1])",
    domain="distinct",
    inputs=("x:3,5", "x:2,3,4", "x:0,3", "x:17", "x:()"),
    how={"unless": "view size is not compatible"},
)
# PyTorch selects in memory that it takes for dense: over expanded inputs its own answers vary from run to run.
SELECTIONS = rows(
    """
    kthvalue | x.kthvalue(1) ; torch.kthvalue(x, 2, dim=0) ; x.kthvalue(9)
    median | x.median() ; x.median(0)[0] ; torch.median(x, -1, keepdim=True)[0] ; torch.nanmedian(x)
""",
    domain="distinct",
    inputs=("x:3,5", "x:2,3,4", "x:17", "x:()"),
    overlapping=False,
)
COUNTS = rows(
    """
    bincount | torch.bincount(i) ; torch.bincount(i, minlength=9) ; torch.bincount(i, p) ; i.bincount()
    one_hot | F.one_hot(i) ; F.one_hot(i, 9)
    unique_of_indices | i.unique(return_counts=True) ; (i == i[0]).sum()
    histc | torch.histc(p, 5, 0, 3) ; torch.histc(p)
""",
    inputs=("i:12<6 p:12", "i:1<2 p:1"),
    dtypes=("float32", "float64"),
)

# --- shape: compared with strides, offset, and by who sees a write ----------------------------------------------------
# view(dtype) stands in tests/python/test_making_tensors.py: memory of two dtypes is what brisk has not.
SHAPE = rows("""
    view | x.view(-1) ; x.view(x.shape) ; x.view(15) ; x.view(5, 3) ; x.view(1, -1) ; x.view(2, 2, 6) \
        ; x.view(-1, -1) ; x.view(7) ; x.view_as(x) ; x.view((-1,))
    reshape | x.reshape(-1) ; x.reshape(5, 3) ; torch.reshape(x, (4, -1)) ; x.reshape(1, -1, 1) ; x.reshape(()) \
        ; x.reshape_as(x) ; x.reshape(6, 4) ; x.reshape(0) ; x.t().reshape(-1)
    permute | x.permute(1, 0) ; x.permute(2, 0, 1) ; torch.permute(x, (0, 2, 1)) ; x.permute(-1, 0) \
        ; x.permute(0, 0) ; x.permute()
    transpose | x.transpose(0, 1) ; x.transpose(0, -1) ; torch.transpose(x, -1, -2) ; x.swapaxes(0, 1) \
        ; x.transpose(0, 7) \
        ; torch.swapdims(x, 0, -1)
    t | x.t() ; x.T ; x.mT ; torch.t(x) ; x.adjoint() ; x.H
    expand | x.expand(2, 3, 5) ; x.expand(4, -1, -1, -1) ; x[:1].expand(6, *x.shape[1:]) ; x.expand(4) \
        ; x.expand_as(x) \
        ; x.expand(-1, 7) ; x[..., None].expand(*x.shape, 3)
    broadcast_to | torch.broadcast_to(x, (2, 3, 5)) ; x.broadcast_to(2, *x.shape) \
        ; torch.broadcast_tensors(x, x[:1]) \
        ; torch.broadcast_shapes((2, 1), (3,))
    squeeze | x.squeeze() ; x[:1].squeeze() ; x[:1].squeeze(0) ; x.squeeze(0) ; x[..., :1].squeeze(-1) \
        ; torch.squeeze(x[:1], (0, -1)) ; x.squeeze(9)
    unsqueeze | x.unsqueeze(0) ; x.unsqueeze(-1) ; torch.unsqueeze(x, 1) ; x.unsqueeze(-2) ; x.unsqueeze(9)
    flatten | x.flatten() ; x.flatten(1) ; x.flatten(0, 1) ; torch.flatten(x, -2) ; x.ravel() ; x.flatten(2, 1)
    unflatten | x.unflatten(-1, (-1, 1)) ; x.unflatten(0, (1, -1)) ; x.unflatten(-1, (2, 2)) ; x.unflatten(1, (7, 7))
    cat | torch.cat([x, x]) ; torch.cat((x, x[:1]), 0) ; torch.cat([x, x * 2], dim=-1) ; torch.cat([x, x.double()]) \
        ; torch.cat([x.long(), x], 0) ; torch.cat([]) ; torch.cat([x, torch.zeros(0)]) ; torch.concat([x, x], 1) \
        ; torch.cat([x, x.t()]) ; torch.cat([x, x], 5) ; torch.cat(x)
    stack | torch.stack([x, x]) ; torch.stack((x, x + 1), -1) ; torch.stack([x, x], 1) ; torch.stack([x, x[:1]]) \
        ; torch.stack(list(x)) \
        ; torch.stack([]) ; torch.stack([x, x.double()])
    hstack | torch.hstack([x, x]) ; torch.hstack((x, x.long())) ; torch.column_stack([x, x])
    vstack | torch.vstack([x, x]) ; torch.dstack([x, x]) ; torch.row_stack([x, x])
    chunk | x.chunk(2) ; x.chunk(3, -1) ; torch.chunk(x, 2, 1) ; x.chunk(0) ; x.chunk(40) ; x.tensor_split(2)
    split | x.split(2) ; torch.split(x, [1, 2]) ; x.split(2, dim=-1) ; x.split([1, 1, 1], 0) ; x.split(0) \
        ; x.split([1, 1], -1) ; x.split(-1)
    unbind | x.unbind() ; torch.unbind(x, -1) ; x.unbind(1) ; tuple(x) ; list(x)
    narrow | x.narrow(0, 1, 2) ; torch.narrow(x, -1, 0, 3) ; x.narrow(0, 2, 5) ; x.narrow(1, -2, 1) \
        ; x.narrow(0, 0, 0)
    select | x.select(0, 1) ; torch.select(x, -1, -1) ; x.select(1, 0) ; x.select(0, 99)
    flip | x.flip(0) ; torch.flip(x, (0, -1)) ; x.flip([1]) ; x.flip() ; torch.fliplr(x) ; torch.flipud(x) \
        ; x.flip(0, 0)
    rot90 | torch.rot90(x) ; torch.rot90(x, 2, [0, 1])
    roll | x.roll(1) ; torch.roll(x, -2, 0) ; x.roll((1, 2), (0, 1)) ; x.roll(7, -1) ; torch.roll(x, 1, 9)
    repeat | x.repeat(2) ; x.repeat(2, 3) ; x.repeat(1, 2, 1, 2) ; x.repeat(0, 1, 1) ; x.repeat(2, 1, 1)
    tile | x.tile(2) ; torch.tile(x, (2, 2)) ; x.tile((1, 2, 1))
    repeat_interleave | x.repeat_interleave(2) ; torch.repeat_interleave(x, 3, dim=0) ; x.repeat_interleave(2, -1) \
        ; torch.repeat_interleave(x, torch.tensor([1, 0, 2]), dim=0)
    movedim | x.movedim(0, -1) ; torch.movedim(x, (0, 1), (1, 0)) ; x.moveaxis(-1, 0)
    in_place_views | x.t_() ; x.transpose_(0, -1) ; x.squeeze_() ; x.unsqueeze_(1) ; x[:1].squeeze_(0) \
        ; x.swapaxes_(0, 7)
    unfold | x.unfold(0, 2, 1) ; x.unfold(-1, 3, 2) ; x.unfold(-1, 2, 2) ; x.unfold(0, 99, 1) ; x.unfold(0, 1, 0)
    diagonal | x.diagonal() ; torch.diagonal(x, 1) ; x.diagonal(-1, 0, -1) ; x.diag() ; torch.diag(x, 1) \
        ; torch.diagonal(x, 0, 0, 0) \
        ; torch.diag_embed(x) ; torch.diagflat(x)
    trace | torch.trace(x) ; x.trace()
    as_strided | x.as_strided((2, 2), (1, 2)) ; x.as_strided((3,), (2,), 1) ; torch.as_strided(x, (2, 3), (0, 1)) \
        ; x.as_strided((100,), (1,)) ; x.as_strided((2,), (-1,))
    contiguous | x.contiguous() ; x.t().contiguous() ; x.contiguous() is x ; x.transpose(0, -1).is_contiguous()
    clone | x.clone() ; x.t().clone() ; x.clone(memory_format=torch.contiguous_format) ; torch.clone(x)
    detach | x.detach() ; x.data ; x.alias if False else x.view_as(x) ; x.requires_grad ; x.is_leaf
    tril | torch.tril(x) ; x.tril(1) ; x.tril(-1)
    triu | torch.triu(x) ; x.triu(1) ; x.triu(-2) ; x.clone().triu_()
    meshgrid | torch.meshgrid(x, x, indexing='ij') ; torch.meshgrid(x, x[:2], indexing='xy') ; torch.meshgrid([x, x])
    combinations | torch.cartesian_prod(x, x) ; torch.combinations(x)
    facts | x.shape ; x.size() ; x.size(0) ; x.size(-1) ; x.size(9) ; x.dim() ; x.ndim ; x.numel() ; x.stride() \
        ; x.stride(0) \
        ; x.storage_offset() ; x.is_contiguous() ; x.nelement() ; x.dtype ; str(x.device) ; len(x) ; x.shape[0] \
        ; x.ndimension() \
        ; x.shape.numel() ; repr(x.shape) ; x.shape == (3, 5) ; x.itemsize ; x.nbytes ; x.is_cuda \
        ; x.layout is torch.strided \
        ; x.grad ; x.grad_fn ; torch.is_tensor(x) ; torch.numel(x) ; torch.is_floating_point(x) ; x.shape + (1,) \
        ; x.shape[1:]
""")
CONSTRUCTORS = rows("""
    zeros_like | torch.zeros_like(x) ; torch.zeros_like(x, dtype=torch.int64) ; torch.zeros_like(x.t())
    ones_like | torch.ones_like(x) ; torch.ones_like(x, dtype=torch.bool)
    full_like | torch.full_like(x, 2) ; torch.full_like(x, 2.5) ; torch.full_like(x, 1, dtype=torch.float64)
    new_forms | x.new_zeros(2, 3) ; x.new_ones((2,)) ; x.new_full((2, 2), 3) ; x.new_tensor([1, 2]) \
        ; x.new_zeros(3, dtype=torch.int32) \
        ; x.new_empty(2, 3).shape ; torch.empty_like(x).stride() ; x.new(2, 3).shape ; x.new_empty((0,)).dtype
    as_tensor | torch.as_tensor(x) is x ; torch.as_tensor(x, dtype=torch.float64) ; torch.tensor(x) ; torch.asarray(x)
""")

# --- indexing ---------------------------------------------------------------------------------------------------------
GET = """
    x[0] ; x[-1] ; x[1:] ; x[:2] ; x[::2] ; x[1:-1] ; x[5:] ; x[None] ; x[..., 0] ; x[:, 1] ; x[:, ::2]
    x[1, 2] ; x[-1, -1]
    x[..., None] ; x[None, ..., 1:] ; x[0, ...] ; x[0:0] ; x[99] ; x[0, 0, 0] ; x[(0, 1)] ; x[:, 99] ; x[...] ; x[:]
    x[[0, 2]] ; x[[0, -1], [1, 2]] ; x[[[0, 1], [1, 0]]] ; x[:, [0, 1]] ; x[[0, 1], 1:] ; x[1:, [0, 2, 1]]
    x[[0], None] ; x[[]]
    x[i] ; x[i, j] ; x[:, j] ; x[i, 0] ; x[0, j] ; x[i[:, None], j] ; x[i][:, j] ; x[..., j] ; x[i, ::2]
    x[None, i] ; x[i, None]
    x[i[:3] > 0] ; x[x > 0] ; x[b] ; x[b[:, 0]] ; x[:, b[0]] ; x[b, None] ; x[~b] ; x[torch.tensor(True)]
    x[torch.tensor(False)] ; x[True]
    x[b[:, 0], 1] ; x[[True, False, True]] ; x[i[:3].to(torch.uint8) > 0] ; x[i.int()] ; x[torch.tensor(1)]
    x[1, torch.tensor(2)]
    x[i, [1]] ; x[torch.tensor([0, 9])] ; x[[0, 9]] ; x['a'] ; x[1.0] ; x[::-1] ; x[::0] ; x[x]
    x[1:2, None, [0, 1]] ; x[slice(1, None)]
    x[b[:1]] ; x[torch.zeros(3, 5, 1, dtype=torch.bool)] ; x[np.array([0, 2])] ; x[np.int64(1)]
    x[np.array([True, False, True])] ; x[range(2)]
"""
SET = """
    x[0] = 1 ; x[-1] = y[0] ; x[1:] = 2.5 ; x[::2] = y[::2] ; x[:, 1] = 0 ; x[:, ::2] = y[:, ::2] ; x[1, 2] = 7
    x[...] = y ; x[:] = 3
    x[None] = y ; x[0] = y ; x[1] = y[0, 0] ; x[:, 0] = y[0, :3] ; x[99] = 1 ; x[1, 2] = y ; x[0:0] = 5
    x[1:2, 1:3] = y[:1, :2] ; x[0] = [1, 2, 3, 4, 5]
    x[[0, 2]] = 5 ; x[[0, 2]] = y[:2] ; x[i] = 4 ; x[k] = y ; x[k, 0] = y[:, 0] ; x[:, j[:1]] = 9
    x[0, [1, 2]] = y[0, :2] ; x[k, [0, 1, 2]] = 8
    x[x > 0] = 0 ; x[b] = y[b] ; x[b] = 3 ; x[b[:, 0]] = 1 ; x[:, b[0]] = 2 ; x[~b] = y ; x[b] = y[:1, :2]
    x[torch.tensor(True)] = 6 ; x[torch.tensor(False)] = 6
    x[torch.tensor(1)] = 2 ; x[i, j[:4]] = 1 ; x[b] += 1 ; x[1] += y[1] ; x[:, 1] *= 2 ; x[k] += y
    x[1:, 1:] -= 1 ; x[[0, 0]] += 1 ; x[i] = y
    x[0][1] = 5 ; x[1:][0] = 4 ; x[0, 0] += 1 ; x.T[1] = 3 ; x[1.5] = 0 ; x[0] = 'a' ; x[0] = None
    x[::2, ::2] = 1 ; x[np.array([0, 1])] = 5 ; x[True] = 2
"""
INDEXING = [
    Row("getitem", [p.strip() for line in lines(GET) for p in line.split(" ; ")], ("x:3,5 i:4<3 j:4<5 b:3,5",)),
    Row("getitem_of_three_dims",
        ["x[i]", "x[i, j]", "x[:, j]", "x[i, :, k]", "x[:, i, k]", "x[i, j, k]", "x[..., k]", "x[1, :, k]",
        "x[i, :, 1]", "x[:, 1, k]",
         "x[i[:, None], :, k]", "x[x > 0]", "x[0, 1]", "x[0, 1, 2]", "x[0][1][2]", "x[:, :, ::3]",
         "x[:, None, 1:, ::2]", "x[i, None, j]",
         "x[None, i, ..., k]", "x[..., 0]", "x[..., 1, :]", "x[[0, 1], ..., [0, 1]]"],
        ("x:2,3,4 i:3<2 j:3<3 k:3<4", "x:2,3,4 i:3<2 j:1<3 k:2,3<4")),
    Row("getitem_of_no_dims", ["x[()]", "x[...]", "x[None]", "x[0]", "x[True]", "x[x > 0]", "x[None, None]", "x[:]",
        "x[torch.tensor(False)]"],
        ("x:()",)),
    Row("setitem", [p.strip() for line in lines(SET) for p in line.split(" ; ")],
        ("x:3,5 y:3,5 i:4<3 j:4<5 k:3<1 b:3,5",)),
    Row("setitem_of_no_dims", ["x[()] = 1", "x[...] = 2", "x[0] = 1", "x[None] = 3", "x[True] = 4",
        "x[torch.tensor(False)] = 4"], ("x:()",)),
]  # fmt: skip
# take_along_dim without a dim: PyTorch refuses inputs that have no flat view, where we copy.
GATHERS = rows(
    """
    index_select | x.index_select(0, i) ; torch.index_select(x, -1, j) ; x.index_select(0, i.int()) \
        ; x.index_select(0, i + 9) \
        ; x.index_select(0, i.float()) ; torch.index_select(x, 0, i, out=torch.empty(0, dtype=x.dtype)) \
        ; x.index_select(0, i[:, None])
    gather | x.gather(0, k) ; torch.gather(x, 1, k) ; x.gather(1, k[:, :1]) ; x.gather(0, k + 9) \
        ; x.gather(1, k.float()) ; x.gather(0, i)
    scatter | x.scatter(0, k, y) ; x.scatter(1, k[:, :1], 2) ; torch.scatter(x, 1, k[:, :1], y) \
        ; x.scatter(0, k + 9, y) ; x.scatter(1, k.float(), y)
    scatter_ | x.scatter_(1, k[:, :1], y) ; x.scatter_(0, k[:1], y) ; x.scatter_(1, k[:, :1], 3) \
        ; x.scatter_(0, k, y.double())
    scatter_reduce | x.scatter_(0, k, y, reduce='add') ; x.scatter_(0, k[:2, :2], y, reduce='multiply') \
        ; x.scatter_(0, k, y, reduce='no') \
        ; x.scatter_reduce(0, k, y, 'sum') ; x.scatter_reduce(0, k, y, 'amax') \
        ; x.scatter_reduce(0, k, y, 'amin', include_self=False) \
        ; x.scatter_reduce_(0, k, y, 'prod') ; x.scatter_reduce(1, k[:, :2], y, 'mean')
    scatter_add_ | x.scatter_add_(0, k, y) ; x.scatter_add(1, k, y) ; x.scatter_add_(0, k[:2], y) \
        ; x.scatter_add_(0, k + 9, y)
    index_add_ | x.index_add_(0, i, y[i]) ; x.index_add(1, j, y[:, j]) ; x.index_add_(0, i, y[i], alpha=2) \
        ; x.index_add_(0, i, y)
    index_copy_ | x.index_copy_(0, i[:1], y[:1]) ; x.index_copy(1, j[:1], y[:, :1])
    index_put_ | x.index_put_((i,), y[0]) ; x.index_put_((i, j), torch.tensor(2, dtype=x.dtype)) \
        ; x.index_put_((k[:, 0], k[:, 1]), y[:, 0], accumulate=True) \
        ; x.index_put((i[:1],), y[:1]) ; x.index_put_((b,), torch.tensor(1, dtype=x.dtype))
    index_fill_ | x.index_fill_(0, i, 2) ; x.index_fill(1, j, 1.5) ; x.index_fill_(0, i + 9, 1)
    masked_select | x.masked_select(b) ; torch.masked_select(x, x > 0) ; x.masked_select(b[0]) ; x.masked_select(i)
    masked_scatter_ | x.masked_scatter_(b, y) ; x.masked_scatter(b, y) ; x.masked_scatter_(b, y[:1, :1])
    take | torch.take(x, k) ; x.take(i) ; x.take(i + 99) ; torch.take(x, -i - 1)
    put_ | x.put_(i[:1], y[0, :1]) ; x.put_(i, y.flatten()[:4], accumulate=True)
    take_along_dim | torch.take_along_dim(x, k, 0) ; x.take_along_dim(k[:, :1], 1) \
        ; x.contiguous().take_along_dim(i)
    unravel_index | torch.unravel_index(i, (2, 3)) ; torch.unravel_index(k, (4, 5)) \
        ; torch.unravel_index(i + 99, (2, 3))
    embedding | F.embedding(i, x) ; F.embedding(k, x) ; F.embedding(i + 9, x)
""",
    inputs=("x:3,5 y:3,5 i:4<3 j:4<5 k:3,5<3 b:3,5",),
)

# --- products ---------------------------------------------------------------------------------------------------------
PRODUCT_TOLERANCE = {"atol": 1e-5}


def products(text, *inputs, **common):
    return rows(text, inputs=inputs, **common)


PRODUCTS = (
    products("mm | torch.mm(x, y) ; x.mm(y) ; x @ y ; torch.mm(x, y, out=torch.empty(0, dtype=x.dtype)) \
        ; torch.mm(x, x)",
             "x:3,5 y:5,4", "x:1,1 y:1,1", "x:0,3 y:3,2", "x:3,0 y:0,2", "x:17,33 y:33,18", "x:7,130 y:130,65",
             "x:3,4 y:3,4")
    + products("bmm | torch.bmm(x, y) ; x.bmm(y) \
        ; x @ y", "x:2,3,5 y:2,5,4", "x:0,3,5 y:0,5,4", "x:2,3,0 y:2,0,4", "x:2,3,5 y:3,5,4", "x:9,4,4 y:9,4,4")
    + products("matmul | torch.matmul(x, y) ; x @ y ; x.matmul(y)",
               "x:5 y:5", "x:3,5 y:5", "x:5 y:5,4", "x:2,3,5 y:5,4", "x:2,3,5 y:5", "x:5 y:2,5,4",
               "x:2,1,3,5 y:4,5,2", "x:2,3,5 y:2,5,4", "x:3,5 y:4,5",
               "x:() y:3", "x:0 y:0", "x:3,5 y:2,5,4", "x:2,3,4,5 y:2,3,5,4", "x:2,3,5 y:3,5,2")
    + products("mv | torch.mv(x, y) ; x.mv(y)", "x:3,5 y:5", "x:3,0 y:0", "x:3,5 y:4", "x:33,129 y:129")
    + products("dot | torch.dot(x, y) ; x.dot(y) ; torch.vdot(x, y)",
               "x:5 y:5", "x:0 y:0", "x:5 y:4", "x:2,2 y:2,2")
    + products("dot_long | torch.dot(x, y) ; x.dot(y) ; torch.vdot(x, y)", "x:1025 y:1025",
               overlapping=False)  # a sum of equal numbers drifts in PyTorch, whose BLAS may add in one chain
    + products("inner | torch.inner(x, y)", "x:5 y:5", "x:0 y:0", "x:5 y:4", "x:2,2 y:2,2", "x:2,3,5 y:4,5", "x:() y:3",
               dtypes=NOT_BOOL)  # whether PyTorch refuses bool depends on strides
    + products("outer | torch.outer(x, y) ; x.outer(y) ; torch.ger(x, y)", "x:3 y:5", "x:0 y:2", "x:2,2 y:2")
    + products("addmm | torch.addmm(x, y, z) ; torch.addmm(x, y, z, beta=0.5, alpha=2) ; x.addmm(y, z, beta=0) \
        ; x.addmm_(y, z)",
               "x:3,4 y:3,5 z:5,4", "x:4 y:3,5 z:5,4", "x:3,4 y:3,0 z:0,4", "x:1,4 y:3,5 z:5,4", "x:2,2 y:3,5 z:5,4")
    + products("addmv | torch.addmv(x, y, z) \
        ; x.addmv(y, z, beta=2, alpha=3)", "x:3 y:3,5 z:5", "x:1 y:3,5 z:5", "x:4 y:3,5 z:5")
    + products("baddbmm | torch.baddbmm(x, y, z) ; torch.baddbmm(x, y, z, beta=2, alpha=3) ; x.baddbmm_(y, z)",
               "x:2,3,4 y:2,3,5 z:2,5,4", "x:3,4 y:2,3,5 z:2,5,4", "x:2,3,4 y:2,3,5 z:2,4,4")
    + products("addr | torch.addr(x, y, z) ; x.addr(y, z, beta=2)", "x:3,4 y:3 z:4")
    + products("linear | F.linear(x, y) ; F.linear(x, y, z) \
        ; F.linear(x[0], y, z)", "x:3,5 y:4,5 z:4", "x:2,3,5 y:4,5 z:4", "x:2,0,5 y:4,5 z:4", "x:3,5 y:5,4 z:4",
               "x:17,64 y:48,64 z:48")
    + products("""einsum | torch.einsum('ij,jk->ik', x, y) ; torch.einsum('ij,jk', x, y) \
        ; torch.einsum('ii->i', x) ; torch.einsum('ii', x) \
        ; torch.einsum('ij->ji', x) ; torch.einsum('ij->', x) ; torch.einsum('ij,ij->i', x, x) \
        ; torch.einsum('...j,jk->...k', x, y) \
        ; torch.einsum('i...,i...->...', x, x) ; torch.einsum('ij,kl->ijkl', x, y) \
        ; torch.einsum(x, [0, 1], y, [1, 2], [0, 2]) ; torch.einsum(x, [0, 0]) \
        ; torch.einsum('ij,jk,kl->il', x, y, x) ; torch.einsum('ij,jk->ik', x) ; torch.einsum('ij,j->i', x, y) \
        ; torch.einsum('ik,kj->ijz', x, y) \
        ; torch.einsum('bij,bjk->bik', x[None], y[None]) ; torch.einsum('ij, jk -> k i', [x, y]) \
        ; torch.einsum('ijj->ij', x[..., None].expand(-1, -1, x.shape[1])) \
        ; torch.einsum('a b, b c -> c', x, y) \
        ; torch.einsum('ij,jj->i', x, y)""", "x:4,4 y:4,4", "x:1,4 y:4,4", "x:3,4 y:4,5")
    + products("einsum_batched | torch.einsum('bhid,bhjd->bhij', x, y) ; torch.einsum('bhid,bhjd->bij', x, y) \
        ; torch.einsum('...id,...jd->...ij', x, y) \
        ; torch.einsum('bhid,bhid->bh', x, x) ; torch.einsum('b...->b', x) \
        ; torch.einsum('b...d->...', x)", "x:2,3,4,5 y:2,3,6,5", "x:2,1,4,5 y:2,3,6,5")
    + products("tensordot | torch.tensordot(x, y, 1) ; torch.tensordot(x, y, ([1], [0])) \
        ; torch.tensordot(x, x, 2) ; torch.tensordot(x, y, 0) \
        ; torch.tensordot(x, x, dims=([0, 1], [0, 1])) \
        ; torch.tensordot(x, x, ([0], [0]))", "x:3,5 y:5,4", "x:5,5 y:5,5",
               dtypes=NOT_BOOL)  # whether PyTorch refuses bool depends on strides
    + products("kron | torch.kron(x, y)", "x:2,3 y:3,2", "x:3 y:2", "x:2,2 y:3",
               how={"unless": "view size is not compatible"})  # PyTorch cannot always view its own result
    + products("cdist | torch.cdist(x, y) ; torch.cdist(x, y, p=1) ; torch.cdist(x, y, p=float('inf')) \
        ; F.pairwise_distance(x, y[:1])", "x:3,5 y:4,5", "x:2,3,5 y:2,4,5",
               "x:3,5 y:4,4")
    + products("cosine_similarity | F.cosine_similarity(x, y) \
        ; F.cosine_similarity(x, y, dim=-1)", "x:3,5 y:3,5", "x:2,3,5 y:5")
    + products("normalize | F.normalize(x) ; F.normalize(x, p=1, dim=0)", "x:3,5", "x:2,3,5")
    + products("matrix_chain | x @ y @ z ; (x @ y).t() ; x @ (y @ z) ; torch.linalg.multi_dot([x, y, z]) \
        ; torch.chain_matmul(x, y, z) ; torch.matrix_power(x @ x.t(), 3)",
               "x:3,5 y:5,4 z:4,2")
)  # fmt: skip
