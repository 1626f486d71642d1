"""Small work: what an operation or an element costs when there is little to compute."""

from case import case, numbers

CHAIN = 1000


@case("add_8", "`c = c + b` on 8 elements, per op in a chain of 1000", target=18, per=CHAIN)
def add_8(torch):
    b, start = torch.from_numpy(numbers(8)), torch.from_numpy(numbers(8, seed=1))

    def body():
        c = start
        for _ in range(CHAIN):
            c = c + b
        return c

    return body


@add_8.numpy
def _(np):
    b, start = numbers(8), numbers(8, seed=1)

    def body():
        c = start
        for _ in range(CHAIN):
            c = c + b
        return c

    return body


ROWS, COLUMNS = 20, 50


@case("get_item", "`a[i, j].item()`, per element", target=25, per=ROWS * COLUMNS)
def get_item(torch):
    a = torch.from_numpy(numbers(ROWS, COLUMNS)).clone()

    def body():
        total = 0.0
        for i in range(ROWS):
            for j in range(COLUMNS):
                total += a[i, j].item()
        return total

    return body


@get_item.numpy
def _(np):
    a = numbers(ROWS, COLUMNS)

    def body():
        total = 0.0
        for i in range(ROWS):
            for j in range(COLUMNS):
                total += a[i, j].item()
        return total

    return body


@case("set_item", "`a[i, j] = v`, per element", target=40, per=ROWS * COLUMNS)
def set_item(torch):
    a = torch.zeros(ROWS, COLUMNS)

    def body():
        for i in range(ROWS):
            for j in range(COLUMNS):
                a[i, j] = 1.5
        return a

    return body


@set_item.numpy
def _(np):
    a = np.zeros((ROWS, COLUMNS), dtype=np.float32)

    def body():
        for i in range(ROWS):
            for j in range(COLUMNS):
                a[i, j] = 1.5
        return a

    return body


def list_case(count, name, target):
    @case(name, f"list of {count} floats to a tensor, sin, pow 2, to NumPy", target=target)
    def to_tensor(torch):
        floats = [i * 0.1 for i in range(count)]
        return lambda: torch.pow(torch.sin(torch.tensor(floats, dtype=torch.float32)), 2).numpy()

    @to_tensor.numpy
    def _(np):
        floats = [i * 0.1 for i in range(count)]
        return lambda: np.sin(np.array(floats, dtype=np.float32)) ** 2


list_case(1_000_000, "list_1e6", target=10)
list_case(100, "list_100", target=8)
