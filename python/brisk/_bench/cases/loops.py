"""Loops over time as users write them, forward and backward; the result is the gradient of a recurrent weight."""

from case import case, numbers


def weight(torch, *shape, seed):
    return torch.from_numpy(numbers(*shape, seed=seed) * 0.05).requires_grad_(True)


def linear(torch, inputs, outputs, seed):
    """A layer with the same numbers in every library."""
    layer = torch.nn.Linear(inputs, outputs)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(numbers(outputs, inputs, seed=seed) * 0.05))
        layer.bias.copy_(torch.from_numpy(numbers(outputs, seed=seed + 1) * 0.05))
    return layer


def trained(torch, outputs, parameter):
    """The body: one forward and backward pass."""

    def body():
        parameter.grad = None
        (outputs() ** 2).mean().backward()
        return parameter.grad

    return body


def loop(torch, T, B, I, H):
    x = torch.from_numpy(numbers(T, B, I))
    Wx, Wh, b = weight(torch, H, I, seed=1), weight(torch, H, H, seed=2), weight(torch, H, seed=3)

    def outputs():
        h = torch.zeros(B, H)
        outs = []
        for t in range(T):
            h = torch.tanh(x[t] @ Wx.t() + b + h @ Wh.t())
            outs.append(h)
        return torch.stack(outs)

    return trained(torch, outputs, Wh)


def lstm(torch, T, B, I, H):
    x = torch.from_numpy(numbers(T, B, I))
    layers = [linear(torch, I + H, H, seed=2 * k) for k in range(4)]

    def outputs():
        h = c = torch.zeros(B, H)
        outs = []
        for t in range(T):
            both = torch.cat([x[t], h], 1)
            i, f, g, o = [layer(both) for layer in layers]
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            outs.append(h)
        return torch.stack(outs)

    return trained(torch, outputs, layers[0].weight)


def gru(torch, T, B, I, H):
    x = torch.from_numpy(numbers(T, B, I))
    cell = torch.nn.GRUCell(I, H)
    with torch.no_grad():
        for seed, p in enumerate(cell.parameters()):
            p.copy_(torch.from_numpy(numbers(*p.shape, seed=seed) * 0.05))

    def outputs():
        h = torch.zeros(B, H)
        outs = []
        for t in range(T):
            h = cell(x[t], h)
            outs.append(h)
        return torch.stack(outs)

    return trained(torch, outputs, cell.weight_hh)


def light_gru(torch, T, B, I, H):
    x = torch.from_numpy(numbers(T, B, I))
    into, U = linear(torch, I, 2 * H, seed=1), weight(torch, 2 * H, H, seed=3)

    def outputs():
        w = into(x)
        h = torch.zeros(B, H)
        outs = []
        for t in range(T):
            z, a = (w[t] + h @ U.t()).chunk(2, -1)
            z = torch.sigmoid(z)
            h = z * h + (1 - z) * torch.relu(a)
            outs.append(h)
        return torch.stack(outs)

    return trained(torch, outputs, U)


KINDS = {
    "loop": (loop, "h = tanh(x[t] @ Wx.t() + b + h @ Wh.t())"),
    "lstm": (lstm, "an LSTM of four Linears over cat([x, h])"),
    "gru": (gru, "a loop over nn.GRUCell"),
    "light_gru": (light_gru, "a light GRU, chunk(w[t] + U h)"),
}

# (T, B, I, H): the ratios to PyTorch that are aimed at
TARGETS = {
    (100, 32, 128, 128): {"loop": 4.5, "lstm": 4, "gru": 3.5, "light_gru": 4},
    (100, 32, 256, 256): {"loop": 2.4},
    (50, 64, 512, 512): {"loop": 1.4, "lstm": 2, "gru": 1.4, "light_gru": 1.5},
    (200, 1, 128, 128): {"loop": 20, "lstm": 15, "gru": 15, "light_gru": 15},
    (28, 128, 32, 128): {"loop": 2.8},
    (1000, 16, 64, 64): {"loop": 14},
}


def add(kind, size, target):
    build, shows = KINDS[kind]
    T, B, I, H = size
    name = f"{kind}_{T}_{B}_{I}_{H}"
    case(name, f"{shows}; T, B, I, H = {T}, {B}, {I}, {H}, forward and backward", target=target)(
        lambda torch: build(torch, T, B, I, H)
    )


for size, targets in TARGETS.items():
    for kind, target in targets.items():
        add(kind, size, target)
