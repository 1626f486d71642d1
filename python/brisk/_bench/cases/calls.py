"""Small networks: what calling layers and a training step cost where there is little to compute."""

from case import case, numbers

CALLS = 100


@case("linear_call", "`nn.Linear(16, 16)`, batch 4, no grad, per call in a chain of 100", target=15, per=CALLS)
def linear_call(torch):
    layer = torch.nn.Linear(16, 16)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(numbers(16, 16) * 0.2))
        layer.bias.copy_(torch.from_numpy(numbers(16, seed=1)))
    x = torch.from_numpy(numbers(4, 16, seed=2))

    def body():
        with torch.no_grad():
            y = x
            for _ in range(CALLS):
                y = layer(y)
        return y

    return body


@case("mlp_step", "a training step of a 4-64-64-1 MLP, batch 32, Adam", target=10)
def mlp_step(torch):
    nn = torch.nn
    model = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
    with torch.no_grad():
        for seed, p in enumerate(model.parameters()):
            p.copy_(torch.from_numpy(0.1 * numbers(*p.shape, seed=seed)))
    adam = torch.optim.Adam(model.parameters())
    x, y = torch.from_numpy(numbers(32, 4, seed=10)), torch.from_numpy(numbers(32, 1, seed=11))

    def body():
        loss = ((model(x) - y) ** 2).mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
        return loss

    return body
