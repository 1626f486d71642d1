"""Elementwise expressions, conditions and masks."""

from case import case, numbers


def expression_case(count, name, target):
    @case(name, f"`tanh(x*y + 0.5) * sigmoid(x) - y**2 * 0.1`, {count} elements", target=target)
    def expression(torch):
        x, y = torch.from_numpy(numbers(count)), torch.from_numpy(numbers(count, seed=1))
        return lambda: torch.tanh(x * y + 0.5) * torch.sigmoid(x) - y**2 * 0.1

    @expression.numpy
    def _(np):
        x, y = numbers(count), numbers(count, seed=1)
        half, tenth = np.float32(0.5), np.float32(0.1)
        return lambda: np.tanh(x * y + half) * (1 / (1 + np.exp(-x))) - y**2 * tenth

    @expression.compile
    def _(torch):
        x, y = torch.from_numpy(numbers(count)), torch.from_numpy(numbers(count, seed=1))
        f = torch.compile(lambda x, y: torch.tanh(x * y + 0.5) * torch.sigmoid(x) - y**2 * 0.1)
        return lambda: f(x, y)

    @expression.jax
    def _(jax):
        x, y = jax.numpy.asarray(numbers(count)), jax.numpy.asarray(numbers(count, seed=1))
        f = jax.jit(lambda x, y: jax.numpy.tanh(x * y + 0.5) * jax.nn.sigmoid(x) - y**2 * 0.1)
        return lambda: f(x, y)


expression_case(1_000, "expression_1e3", target=8)
expression_case(1_000_000, "expression_1e6", target=4)

COUNT = 1_000_000


@case("where", "`where(x > 0, x*2, -x)`, 1e6 elements", target=5)
def where(torch):
    x = torch.from_numpy(numbers(COUNT))
    return lambda: torch.where(x > 0, x * 2, -x)


@where.numpy
def _(np):
    x = numbers(COUNT)
    return lambda: np.where(x > 0, x * 2, -x)


@case("masks", "`r[m] = x[m]*2; r[~m] = -x[~m]`, 1e6 elements", target=5)
def masks(torch):
    x = torch.from_numpy(numbers(COUNT))

    def body():
        r = torch.empty_like(x)
        m = x > 0
        r[m] = x[m] * 2
        r[~m] = -x[~m]
        return r

    return body


@masks.numpy
def _(np):
    x = numbers(COUNT)

    def body():
        r = np.empty_like(x)
        m = x > 0
        r[m] = x[m] * 2
        r[~m] = -x[~m]
        return r

    return body
