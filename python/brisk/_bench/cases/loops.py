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


def stepped(torch, I, H):
    """A recurrent layer as its author writes it: two layers, and a loop over time."""

    class Stepped(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.Wx = linear(torch, I, H, seed=1)
            self.Wh = linear(torch, H, H, seed=3)

        def forward(self, x):
            h = torch.zeros(x.shape[1], H)
            outs = []
            for t in range(x.shape[0]):
                h = torch.tanh(self.Wx(x[t]) + self.Wh(h))
                outs.append(h)
            return torch.stack(outs)

    return Stepped()


def loop(torch, T, B, I, H):
    x, layer = torch.from_numpy(numbers(T, B, I)), stepped(torch, I, H)
    return trained(torch, lambda: layer(x), layer.Wh.weight)


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


def layer(name):
    """A recurrent layer of the library, over all steps at once."""

    def build(torch, T, B, I, H):
        x = torch.from_numpy(numbers(T, B, I))
        module = filled(torch, getattr(torch.nn, name)(I, H))
        return trained(torch, lambda: module(x)[0], module.weight_hh_l0)

    return build


def filled(torch, module):
    """The module with the same numbers in every library."""
    with torch.no_grad():
        for seed, p in enumerate(module.parameters()):
            p.copy_(torch.from_numpy(numbers(*p.shape, seed=seed) * 0.05))
    return module


KINDS = {
    "loop": (loop, "h = tanh(Wx(x[t]) + Wh(h))"),
    "rnn": (layer("RNN"), "nn.RNN"),
    "lstm": (lstm, "an LSTM of four Linears over cat([x, h])"),
    "nn_lstm": (layer("LSTM"), "nn.LSTM"),
    "gru": (gru, "a loop over nn.GRUCell"),
    "nn_gru": (layer("GRU"), "nn.GRU"),
    "light_gru": (light_gru, "a light GRU, chunk(w[t] + U h)"),
}

# (T, B, I, H): the ratios to PyTorch that are aimed at
TARGETS = {
    (100, 32, 128, 128): {"loop": 4.5, "rnn": 3, "lstm": 4, "nn_lstm": 1.35, "gru": 3.5, "nn_gru": 2.5, "light_gru": 4},
    (100, 32, 256, 256): {"loop": 2.4, "rnn": 1.9},
    (50, 64, 512, 512): {
        "loop": 1.4,
        "rnn": 1.25,
        "lstm": 2,
        "nn_lstm": 1.25,
        "gru": 1.4,
        "nn_gru": 1.25,
        "light_gru": 1.5,
    },
    (200, 1, 128, 128): {"loop": 20, "rnn": 12, "lstm": 15, "nn_lstm": 1.4, "gru": 15, "nn_gru": 12, "light_gru": 15},
    (28, 128, 32, 128): {"loop": 2.8, "rnn": 2.2},
    (1000, 16, 64, 64): {"loop": 14, "rnn": 8},
}


def add(kind, size, target):
    build, shows = KINDS[kind]
    T, B, I, H = size
    name = f"{kind}_{T}_{B}_{I}_{H}"
    made = case(name, f"{shows}; T, B, I, H = {T}, {B}, {I}, {H}, forward and backward", target=target)(
        lambda torch: build(torch, T, B, I, H)
    )
    if kind == "loop":
        made.first().layer(lambda torch: KINDS["rnn"][0](torch, T, B, I, H))


for size, targets in TARGETS.items():
    for kind, target in targets.items():
        add(kind, size, target)


@case("loop_inference_200_1_128_128", "h = tanh(Wx(x[t]) + Wh(h)) without gradients, one row", target=8)
def _(torch):
    x, layer = torch.from_numpy(numbers(200, 1, 128)), stepped(torch, 128, 128)

    def body():
        with torch.no_grad():
            return layer(x)

    return body


@case("nn_lstm_inference_200_1_128_128", "nn.LSTM without gradients, one row", target=2)
def _(torch):
    x, module = torch.from_numpy(numbers(200, 1, 128)), filled(torch, torch.nn.LSTM(128, 128))

    def body():
        with torch.no_grad():
            return module(x)[0]

    return body


@case("loop_20_lengths_16_64_64", "20 sequences of other lengths, 5 to 62, forward and backward each", target=5)
def lengths(torch):
    layer = stepped(torch, 64, 64)
    sequences = [torch.from_numpy(numbers(5 + 3 * k, 16, 64)) for k in range(20)]

    def body():
        layer.Wh.weight.grad = None
        for x in sequences:
            (layer(x) ** 2).mean().backward()
        return layer.Wh.weight.grad

    return body


lengths.first()


def classified(torch, T, B, H, symbols=32):
    """A loop that adds up the cross entropy of every step."""
    x, step = torch.from_numpy(numbers(T, B, H)), [linear(torch, H, H, seed=1), linear(torch, H, H, seed=3)]
    out, y = linear(torch, H, symbols, seed=5), (torch.arange(T * B) * 7 % symbols).reshape(T, B)

    def body():
        step[1].weight.grad = None
        h, loss = torch.zeros(B, H), 0
        for t in range(T):
            h = torch.tanh(step[0](x[t]) + step[1](h))
            loss = loss + torch.nn.functional.cross_entropy(out(h), y[t]) / T
        loss.backward()
        return step[1].weight.grad

    return body


@case("losses_1000_16_64_64", "a loop with a cross entropy in every step; T, B, I, H = 1000, 16, 64, 64", target=8)
def _(torch):
    return classified(torch, 1000, 16, 64)


@case("normed_1000_16_64_64", "a loop whose cell has a norm written by hand; T, B, I, H = 1000, 16, 64, 64", target=10)
def _(torch):
    T, B, H = 1000, 16, 64
    x, Wx, Wh = torch.from_numpy(numbers(T, B, H)), linear(torch, H, H, seed=1), linear(torch, H, H, seed=3)

    def outputs():
        h, outs = torch.zeros(B, H), []
        for t in range(T):
            z = Wx(x[t]) + Wh(h)
            d = z - z.mean(1, keepdim=True)
            h = torch.tanh(d / torch.sqrt((d * d).mean(1, keepdim=True) + 1e-5))
            outs.append(h)
        return torch.stack(outs)

    return trained(torch, outputs, Wh.weight)


@case(
    "decoder_30_32_128",
    "a decoder with attention over 30 keys, its loss in every step; 29 steps, B, H = 32, 128",
    target=3,
)
def _(torch):
    T, B, H, symbols, nn, F = 30, 32, 128, 64, torch.nn, torch.nn.functional
    keys, y = torch.from_numpy(numbers(B, 30, H)), (torch.arange(T * B) * 7 % symbols).reshape(B, T)
    of_h, of_keys, score = linear(torch, H, H, seed=1), linear(torch, H, H, seed=3), linear(torch, H, 1, seed=5)
    embed, cell = filled(torch, nn.Embedding(symbols, H)), filled(torch, nn.GRUCell(2 * H, H))
    out = linear(torch, H, symbols, seed=7)

    def body():
        cell.weight_hh.grad = None
        h, loss = torch.zeros(B, H), 0
        for t in range(T - 1):
            scores = score(torch.tanh(of_h(h).unsqueeze(1) + of_keys(keys))).squeeze(2)
            context = torch.bmm(F.softmax(scores, 1).unsqueeze(1), keys).squeeze(1)
            h = cell(torch.cat([embed(y[:, t]), context], 1), h)
            loss = loss + F.cross_entropy(out(h), y[:, t + 1])
        loss.backward()
        return cell.weight_hh.grad

    return body


def char_lstm(torch, layers, H, T, B):
    """A training step of a model over characters."""
    symbols = 65
    embed = filled(torch, torch.nn.Embedding(symbols, H))
    recurrent = filled(torch, torch.nn.LSTM(H, H, layers, batch_first=True))
    out = filled(torch, torch.nn.Linear(H, symbols))
    parameters = [*embed.parameters(), *recurrent.parameters(), *out.parameters()]
    optimizer = torch.optim.Adam(parameters, 1e-5)
    x = torch.arange(B * T).reshape(B, T) * 7 % symbols
    y = (x * 5 + 1) % symbols

    def body():
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(out(recurrent(embed(x))[0]).reshape(-1, symbols), y.reshape(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        return loss.detach()

    return body


@case("char_lstm", "a training step of a 2-layer LSTM over characters: 128 units, T = 64, B = 32, Adam", target=1.5)
def _(torch):
    return char_lstm(torch, 2, 128, 64, 32)


@case("char_lstm_small", "a training step of an LSTM over characters: 32 units, T = 20, B = 4, Adam", target=6)
def _(torch):
    return char_lstm(torch, 1, 32, 20, 4)
