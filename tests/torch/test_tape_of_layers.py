"""What the tape shows of recurrent layers, step by step, against PyTorch: names, numbers of outputs, leaves, and which
functions are the same object."""

import pytest

from tests.torch.compare import REF, SUT

BATCH, FEATURES, HIDDEN = 3, 3, 4
KINDS = {
    "RNN": {"dtype": "float32"},
    "RNN with relu": {"nonlinearity": "relu", "dtype": "float64"},
    "GRU": {"dtype": "float32"},
    "LSTM": {"dtype": "float64"},
    "LSTM with projections": {"proj_size": 2, "dtype": "float32"},
}

# settings of the layer; then those of its input: steps, alone, lengths, states that are given (which of h and c require
# gradients), and what else requires gradients
SETTINGS = {
    "one step": {"steps": 1},
    "two steps": {"steps": 2},
    "many steps": {"steps": 30},
    "without biases": {"bias": False},
    "three layers": {"num_layers": 3},
    "layers with dropout": {"num_layers": 2, "dropout": 0.5},
    "both ways": {"bidirectional": True},
    "layers both ways": {"num_layers": 2, "bidirectional": True, "states": "hc"},
    "batch first": {"batch_first": True},
    "batch first, without biases": {"batch_first": True, "bias": False},
    "batch first, both ways, one step": {"batch_first": True, "bidirectional": True, "steps": 1},
    "batch first, of fixed weights": {"batch_first": True, "fixed": ["weight", "bias"]},
    "batch first, without biases, of fixed weights": {"batch_first": True, "bias": False, "fixed": ["weight"]},
    "alone": {"alone": True},
    "alone, batch first": {"alone": True, "batch_first": True, "states": "hc"},
    "alone, batch first, without biases, of fixed weights": {
        "alone": True, "batch_first": True, "bias": False, "fixed": ["weight"],
    },
    "from states": {"states": ""},
    "from states that require gradients": {"states": "hc"},
    "from one state that requires gradients": {"states": "h"},
    "from cells that require gradients alone": {"states": "c", "fixed": ["weight", "bias", "x"]},
    "of fixed weights": {"fixed": ["weight", "bias"]},
    "of fixed input": {"fixed": ["x"]},
    "by the input's weights alone": {"fixed": ["_hh", "bias", "x"]},
    "by the state's weights alone": {"fixed": ["_ih", "bias", "x"]},
    "by the input's bias alone": {"fixed": ["weight", "bias_hh", "x"]},
    "by the state's bias alone": {"fixed": ["weight", "bias_ih", "x"]},
    "packed": {"lengths": [4, 2, 1]},
    "packed, batch first": {"lengths": [4, 2, 1], "batch_first": True},
    "packed, of one step": {"lengths": [1, 1, 1], "steps": 1, "fixed": ["x"]},
    "packed, in no order": {"lengths": [2, 5, 3], "states": "hc"},
    "packed, some of equal lengths": {"lengths": [5, 5, 2], "states": "hc"},
    "packed, both ways": {"lengths": [5, 4, 1], "bidirectional": True},
    "packed, both ways, from states": {"lengths": [5, 2, 2], "bidirectional": True, "states": "hc"},
    "packed, both ways, of fixed weights": {
        "lengths": [3, 2, 2], "bidirectional": True, "states": "hc", "fixed": ["weight", "bias", "x"],
    },
    "packed, layers both ways, without biases": {
        "lengths": [5, 3, 2], "bidirectional": True, "num_layers": 2, "dropout": 0.5, "bias": False,
    },
    "packed, of equal lengths": {"lengths": [5, 5, 5]},
    "packed, of equal lengths, both ways": {"lengths": [2, 2, 2], "steps": 2, "bidirectional": True, "states": "hc"},
    "of 16 bits": {"dtype": "float16", "num_layers": 2},
    "of 16 bits, without biases": {"dtype": "float16", "bias": False, "states": "hc"},
    "of 16 bits, packed": {"dtype": "float16", "lengths": [5, 4, 1], "bidirectional": True},
}  # fmt: skip
OF_INPUT = ["steps", "alone", "lengths", "states", "fixed", "dtype"]


def results(m, kind, options):
    """The tensors that a layer gives, and the leaves it was given, by their names."""
    options = {**KINDS[kind], **options}
    steps, dtype = options.get("steps", 5), getattr(m, options["dtype"])
    fixed = options.get("fixed", [])
    settings = {k: v for k, v in options.items() if k not in OF_INPUT}
    layer = getattr(m.nn, kind.split()[0])(FEATURES, HIDDEN, dtype=dtype, **settings)
    leaves = dict(layer.named_parameters())
    sizes = (BATCH, steps) if layer.batch_first else (steps, BATCH)
    leaves["x"] = m.ones(*((steps,) if "alone" in options else sizes), FEATURES, dtype=dtype)
    for name, leaf in leaves.items():
        leaf.requires_grad_(not any(part in name for part in fixed))
    input, states = leaves["x"], None
    if "states" in options:
        rows = (layer.num_layers * (1 + layer.bidirectional),) + (() if "alone" in options else (BATCH,))
        states = [m.ones(*rows, size, dtype=dtype) for size in (layer.proj_size or HIDDEN, HIDDEN)]
        for name, state in zip("hc", states):
            leaves[name] = state.requires_grad_(name in options["states"])
        states = tuple(states) if layer.mode == "LSTM" else states[0]
    if "lengths" in options:
        lengths = m.tensor(options["lengths"])
        pack = m.nn.utils.rnn.pack_padded_sequence
        input = pack(input, lengths, layer.batch_first, enforce_sorted=options["lengths"] != [2, 5, 3])
    output, last = layer(input, states)
    tensors = [output[0] if "lengths" in options else output, *(last if layer.mode == "LSTM" else [last])]
    return tensors, leaves


def graph(root, leaves):
    """Each function, numbered as a walk comes to it, and where it leads to."""
    numbers, found, names = {}, [], {id(leaf): name for name, leaf in leaves.items()}

    def seen(fn):
        if fn is None or hasattr(fn, "variable"):
            return fn and names.get(id(fn.variable), "a leaf")
        if fn not in numbers:
            numbers[fn] = len(numbers)
            found.append(fn)
        return fn.name(), numbers[fn]

    seen(root)
    return [(seen(fn), [(seen(f), number) for f, number in fn.next_functions]) for fn in found]


def has_steps(kind, options):
    """Whether PyTorch has steps on any processor: some have one function for an LSTM over a batch of 16 bits."""
    return kind != "LSTM" or options.get("dtype") != "float16" or "lengths" in options


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind, name", [(k, n) for k in KINDS for n in SETTINGS if has_steps(k, SETTINGS[n])])
def test_the_steps_of_a_layer_are_shown_as_pytorch_has_them(kind, name):
    shown = [
        [tensor.grad_fn and graph(tensor.grad_fn, leaves) for tensor in tensors]
        for tensors, leaves in (results(m, kind, SETTINGS[name]) for m in (SUT, REF))
    ]
    for ours, theirs in zip(*shown):
        assert ours == theirs


WRITES = {
    "all of it": lambda t: t.mul_(2),
    "a row": lambda t: t.__setitem__(0, 1),
    "a view": lambda t: t.transpose(0, 1).add_(1),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("name", ["two steps", "batch first", "both ways", "three layers", "packed"])
@pytest.mark.parametrize("kind", KINDS)
def test_writes_to_the_results_of_a_layer_are_shown_as_in_pytorch(kind, name, write):
    shown = []
    for m in (SUT, REF):
        tensors, leaves = results(m, kind, SETTINGS[name])
        for t in tensors:
            if t.dim() > 1:
                WRITES[write](t)
        shown.append([graph(t.grad_fn, leaves) for t in tensors])
    assert shown[0] == shown[1]


def test_an_lstm_over_packed_sequences_of_one_length_is_one_function_for_each_layer():
    def shown(m):
        packed = m.nn.utils.rnn.pack_padded_sequence(m.ones(4, 2, 3, requires_grad=True), m.tensor([4, 4]))
        layer = m.nn.LSTM(3, 2, 2, bidirectional=True)
        output, (h, c) = layer(packed)
        return [graph(t.grad_fn, dict(layer.named_parameters())) for t in (output[0], h, c)]

    assert shown(SUT) == shown(REF)


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_the_results_of_a_layer_lead_to_the_same_states(kind):
    for m in (SUT, REF):
        layer = getattr(m.nn, kind)(3, 2, dtype=m.float64)
        output, last = layer(m.ones(5, 2, 3, dtype=m.float64))
        h = last[0] if kind == "LSTM" else last
        states = [fn for fn, _ in output.grad_fn.next_functions]
        assert len(states) == 5
        assert h.grad_fn.next_functions[0][0] is states[-1]
        if kind == "LSTM":
            assert last[1].grad_fn.next_functions[0][0] is states[-1].next_functions[1][0].next_functions[0][0]


def test_a_walk_over_a_long_layer_meets_every_step():
    counts = []
    for m in (SUT, REF):
        output, _ = m.nn.GRU(2, 2)(m.ones(2000, 1, 2))
        work, seen = [output.grad_fn], set()
        while work:
            fn = work.pop()
            if fn is not None and fn not in seen:
                seen.add(fn)
                work.extend(f for f, _ in fn.next_functions)
        counts.append(len(seen))
    assert counts[0] == counts[1]


def test_steps_are_shown_after_a_backward_too():
    output, _ = SUT.nn.GRU(3, 2)(SUT.ones(4, 2, 3))
    before = graph(output.grad_fn, {})
    output.sum().backward()
    assert graph(output.grad_fn, {}) == before


def joined(m, lengths):
    m.manual_seed(0)
    layer = m.nn.GRU(3, 2)
    for p in layer.parameters():
        p.data.fill_(0.1)
    x = (m.arange(24.0) / 10).reshape(4, 2, 3)
    return layer(m.nn.utils.rnn.pack_padded_sequence(x, m.tensor(lengths)) if lengths else x)


@pytest.mark.parametrize("lengths", [None, [4, 2]])
def test_what_joins_the_states_of_a_layer_can_be_called_and_its_hooks_see_their_gradients(lengths):
    seen = []
    for m in (SUT, REF):
        output, last = joined(m, lengths)
        output = output[0] if lengths else output
        g = m.arange(float(output.numel())).reshape(output.shape)
        calls = [output.grad_fn(g), last.grad_fn.next_functions[0][0](g[:2])] if lengths else [output.grad_fn(g)]
        calls = [tuple(part.tolist() for part in (c if isinstance(c, tuple) else (c,))) for c in calls]
        hooked = []
        output.grad_fn.register_hook(
            lambda inner, outer, hooked=hooked: hooked.append([g.tolist() for g in inner + outer])
        )
        (output * g).sum().backward()
        seen.append((calls, hooked))
    assert seen[0] == seen[1]


def test_a_step_within_a_layer_is_not_called():
    output, _ = joined(SUT, None)
    with pytest.raises(RuntimeError, match="AddBackward0 can't be called"):
        output.grad_fn.next_functions[0][0](SUT.ones(2, 2))
