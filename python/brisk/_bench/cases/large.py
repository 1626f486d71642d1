"""Large work, where a library must simply not lose: products, transposition, sums."""

from case import case, numbers


def matmul_case(n, target):
    @case(f"matmul_{n}", f"{n}x{n} matrix product", target=target)
    def matmul(torch):
        a, b = torch.from_numpy(numbers(n, n)), torch.from_numpy(numbers(n, n, seed=1))
        return lambda: a @ b

    @matmul.numpy
    def _(np):
        a, b = numbers(n, n), numbers(n, n, seed=1)
        return lambda: a @ b


matmul_case(64, target=2)
matmul_case(512, target=1)
matmul_case(2048, target=1)


@case("transpose", "4096x4096 transpose to contiguous", target=4)
def transpose(torch):
    a = torch.from_numpy(numbers(4096, 4096))
    return lambda: a.t().contiguous()


@transpose.numpy
def _(np):
    a = numbers(4096, 4096)
    return lambda: np.ascontiguousarray(a.T)


@case("sum", "sum of 1e7 elements", target=1)
def sum_(torch):
    x = torch.from_numpy(numbers(10_000_000))
    return lambda: x.sum()


@sum_.numpy
def _(np):
    x = numbers(10_000_000)
    return lambda: x.sum()
