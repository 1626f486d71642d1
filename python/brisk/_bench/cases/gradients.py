"""Forward and backward: what a gradient costs over the ops themselves."""

from case import case, numbers

MULTIPLIES = 500


def leaf(torch, *shape, seed=0):
    return torch.from_numpy(numbers(*shape, seed=seed)).requires_grad_()


def gradient_of(x, program):
    """A body that runs the program and returns the gradient it leaves in x."""

    def body():
        x.grad = None
        program().backward()
        return x.grad

    return body


@case("grad_chain", "forward and backward of 500 multiplies on 8 elements, per op", target=20, per=MULTIPLIES)
def grad_chain(torch):
    x, b = leaf(torch, 8), torch.from_numpy(1 + 0.001 * numbers(8, seed=1))

    def program():
        y = x
        for _ in range(MULTIPLIES):
            y = y * b
        return y.sum()

    return gradient_of(x, program)


CALLS = 100  # of what takes no longer than calling it from here: the harness would be a fifth of it


@case("grad_add", "`(a + 1).sum().backward()` on 8 elements, per pass of 100", target=20, per=CALLS)
def grad_add(torch):
    a = leaf(torch, 8)

    def body():
        for _ in range(CALLS):
            a.grad = None
            (a + 1).sum().backward()
        return a.grad

    return body


@case("grad_function", "a custom function x * x, forward and backward, per call of 100", target=18, per=CALLS)
def grad_function(torch):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 2 * x * g

    x = torch.ones(8, requires_grad=True)

    def program():
        y = x
        for _ in range(CALLS):
            y = Square.apply(y)
        return y.sum()

    return gradient_of(x, program)


def gates_case(count, name, shows, target):
    def gates(x, c, tanh, sigmoid):
        y = x
        for _ in range(5):
            y = tanh(y) * sigmoid(y + c)
        return y.sum()

    @case(name, shows, target=target)
    def run(torch):
        x, c = leaf(torch, count), torch.from_numpy(numbers(count, seed=1))
        return gradient_of(x, lambda: gates(x, c, torch.tanh, torch.sigmoid))

    @run.compile
    def _(torch):
        x, c = leaf(torch, count), torch.from_numpy(numbers(count, seed=1))
        f = torch.compile(lambda x, c: gates(x, c, torch.tanh, torch.sigmoid))
        return gradient_of(x, lambda: f(x, c))

    @run.jax
    def _(jax):
        x, c = jax.numpy.asarray(numbers(count)), jax.numpy.asarray(numbers(count, seed=1))
        gradient = jax.jit(jax.grad(lambda x, c: gates(x, c, jax.numpy.tanh, jax.nn.sigmoid)))
        return lambda: gradient(x, c)


gates_case(1000, "grad_gates_1e3", "five gates tanh(y) sigmoid(y + c) with gradients, 1,000 elements", target=12)
gates_case(1_000_000, "grad_gates_1e6", "the same with 1,000,000", target=3.5)


def steps(torch):
    x, c = leaf(torch, 1_000_000), torch.from_numpy(numbers(1_000_000, seed=1))

    def program():
        y = x
        for _ in range(5):
            y = torch.relu(y * 1.1 + c) + y
        return y.sum()

    return x, program


# The backward pass is to take at most 2.5 times the forward pass: a ratio of 1 / 3.5 = 0.29 to the forward alone.
@case("grad_steps_1e6", "five steps relu(1.1 y + c) + y with gradients, 1,000,000 elements", target=3)
def grad_steps_1e6(torch):
    return gradient_of(*steps(torch))


@grad_steps_1e6.forward
def _(torch):
    _, program = steps(torch)

    def body():
        with torch.no_grad():
            return program()

    return body


@case("grad_rows", "sum over 2000 rows of x[t] * 0.5, 1000 columns, with gradient", target=50)
def grad_rows(torch):
    x = leaf(torch, 2000, 1000)

    def program():
        total = 0
        for t in range(2000):
            total = total + x[t] * 0.5
        return total.sum()

    return gradient_of(x, program)


@case("grad_elements", "`s = s + a[i] * a[i]` with gradient, per element", target=25, per=2000)
def grad_elements(torch):
    a = leaf(torch, 2000)

    def program():
        s = torch.zeros(())
        for i in range(2000):
            s = s + a[i] * a[i]
        return s

    return gradient_of(a, program)


@case("grad_einsum", "a product as a custom function written with einsum, forward and backward", target=4)
def grad_einsum(torch):
    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return torch.einsum("mk,kn->mn", a, b)

        @staticmethod
        def backward(ctx, g):
            a, b = ctx.saved_tensors
            return torch.einsum("mn,kn->mk", g, b), torch.einsum("mk,mn->kn", a, g)

    a, b = leaf(torch, 96, 48), leaf(torch, 48, 192, seed=1)

    def program():
        b.grad = None
        return Product.apply(a, b).sum()

    return gradient_of(a, program)


@case("grad_norm_gelu", "layer_norm and gelu, forward and backward, 4096 x 512", target=1.5)
def grad_norm_gelu(torch):
    x, w, b = leaf(torch, 4096, 512), leaf(torch, 512, seed=1), leaf(torch, 512, seed=2)

    def program():
        w.grad = b.grad = None
        return torch.nn.functional.gelu(torch.nn.functional.layer_norm(x, (512,), w, b)).sum()

    return gradient_of(x, program)
