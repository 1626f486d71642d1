"""nn.utils does what PyTorch's does: bounds of gradients, vectors of parameters, norms of weights, sequences."""

import warnings

import pytest

from tests.torch.compare import REF, SUT, check_same, outcome


def run(m, lines):
    """The value of the last line; `net` is a small network with gradients."""
    m.manual_seed(4)
    nn = m.nn
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    net(m.ones(5, 3)).pow(2).sum().backward()
    names = {"torch": m, "nn": nn, "net": net, "u": nn.utils, "rnn": nn.utils.rnn, "x": m.arange(12.0).view(4, 3),
             "par": nn.utils.parametrizations, "parametrize": nn.utils.parametrize,
             "keys": lambda: sorted(net.state_dict()), "grads": lambda: [p.grad for p in net.parameters()]}  # fmt: skip
    *before, last = lines.split("; ")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for line in before:
            exec(line, names)
        return eval(last, names)


PROGRAMS = """
n = u.clip_grad_norm_(net.parameters(), 0.5); (n, grads())
n = u.clip_grad_norm_(net.parameters(), 1e6); (n, grads())
n = u.clip_grad_norm_(net.parameters(), 0.5, norm_type=1); (n, grads())
n = u.clip_grad_norm_(net.parameters(), 0.5, norm_type=float('inf')); (n, grads())
n = u.clip_grad_norm_(net[0].weight, 0.1); (n, grads())
u.clip_grad_norm_([], 0.1)
u.clip_grad_norm_([torch.ones(2)], 0.1)
net[0].weight.grad[0, 0] = float('nan'); u.clip_grad_norm_(net.parameters(), 0.5, error_if_nonfinite=True)
net[0].weight.grad[0, 0] = float('inf'); n = u.clip_grad_norm_(net.parameters(), 0.5); (n, grads())
u.clip_grad_value_(net.parameters(), 0.1); grads()
u.get_total_norm(grads())
u.parameters_to_vector(net.parameters()).detach()
u.vector_to_parameters(torch.arange(26.0), net.parameters()); [p.detach() for p in net.parameters()]
u.vector_to_parameters([1.0], net.parameters())
u.weight_norm(net[0]); net(x).sum().backward(); (keys(), net(x).detach(), net[0].weight_g.grad)
u.weight_norm(net[0], dim=None); net(x).sum().backward(); (net[0].weight_g.detach(), net[0].weight_g.grad)
u.weight_norm(net[0], dim=1); net(x).sum().backward(); (net[0].weight_v.grad, net[0].weight_g.grad)
u.weight_norm(net[0]); u.remove_weight_norm(net[0]); (keys(), net(x).detach())
u.weight_norm(net[0]); u.weight_norm(net[0])
u.remove_weight_norm(net[0])
u.spectral_norm(net[0]); net(x).sum().backward(); (keys(), net(x).detach(), net[0].weight_orig.grad)
u.spectral_norm(net[0], n_power_iterations=3); net.eval(); net(x).detach()
u.spectral_norm(net[0]); net(x); u.remove_spectral_norm(net[0]); (keys(), net(x).detach())
u.remove_spectral_norm(net[0])
par.weight_norm(net[0]); net(x).sum().backward(); (keys(), net(x).detach(), [p.grad for p in net[0].parameters()])
par.weight_norm(net[0]); parametrize.remove_parametrizations(net[0], 'weight'); (keys(), net(x).detach())
par.spectral_norm(net[0]); net(x).sum().backward(); (keys(), [p.grad for p in net[0].parameters()])
par.spectral_norm(net[0]); net.eval(); net(x).detach()
par.weight_norm(net[0]); parametrize.is_parametrized(net[0], 'weight')
parametrize.is_parametrized(net[0])
parametrize.remove_parametrizations(net[0], 'weight')
rnn.pad_sequence([x, x[:2], x[:1]])
rnn.pad_sequence([x, x[:2], x[:1]], batch_first=True, padding_value=-1)
rnn.pad_sequence([x, x[:2]], batch_first=True, padding_side='left')
rnn.pad_sequence([x[:, 0], x[0]])
list(rnn.pack_padded_sequence(x.unsqueeze(2), [4, 2, 1]))
list(rnn.pack_padded_sequence(x.unsqueeze(2), [1, 4, 2], enforce_sorted=False))
list(rnn.pack_padded_sequence(x.unsqueeze(2), torch.tensor([3, 3, 2, 1]), batch_first=True))
rnn.pack_padded_sequence(x.unsqueeze(2), [1, 4, 2])
rnn.pack_padded_sequence(x.unsqueeze(2), [4, 2, 0])
rnn.pack_padded_sequence(x.unsqueeze(2), [4, 2])
rnn.pad_packed_sequence(rnn.pack_padded_sequence(x.unsqueeze(2), [1, 4, 2], enforce_sorted=False))
p = rnn.pack_padded_sequence(x.unsqueeze(2), [4, 3, 1]); rnn.pad_packed_sequence(p, True, 9, total_length=6)
rnn.pad_packed_sequence(rnn.pack_padded_sequence(x.unsqueeze(2), [4, 3, 1]), total_length=2)
list(rnn.pack_sequence([x, x[:2], x[:1]]))
list(rnn.pack_sequence([x[:1], x, x[:2]], enforce_sorted=False))
rnn.unpad_sequence(rnn.pad_sequence([x, x[:2]]), torch.tensor([4, 2]))
rnn.unpack_sequence(rnn.pack_sequence([x, x[:2]]))
""".strip().splitlines()


@pytest.mark.parametrize("program", PROGRAMS)
def test_it_does_what_pytorch_s_does(program):
    check_same(outcome(run, SUT, program), outcome(run, REF, program), program, strides=False, rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_no_op_modules_leave_a_training_run_as_it_is(torch):
    p = torch.ones(3, requires_grad=True)
    optimizer = torch.optim.SGD([p], lr=0.5)
    scaler = torch.amp.GradScaler()
    with torch.autocast("cuda"):
        loss = (p * p).sum()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert p.tolist() == [0, 0, 0] and scaler.get_scale() == 1.0


def test_cuda_is_not_there(torch):
    if torch is REF and torch.cuda.is_available():
        pytest.skip("this PyTorch has a GPU")
    assert not torch.cuda.is_available() and torch.cuda.device_count() == 0
    torch.cuda.manual_seed_all(1)
    torch.cuda.empty_cache()
    assert not torch.backends.mps.is_available()
    torch.backends.cudnn.deterministic = True


def test_what_is_compiled_is_the_function_itself(torch):
    if torch is REF:
        pytest.skip("PyTorch compiles")

    def double(x):
        return 2 * x

    assert torch.compile(double) is double and torch.jit.script(double) is double
    assert torch.jit.trace(double, torch.ones(1)) is double and torch.compile(fullgraph=True)(double) is double
