"""Modules behave as PyTorch's: programs of a few lines run with both, and everything they note must agree."""

import pytest

from tests.torch.compare import REF, SUT, Raised, check_same, outcome

PROGRAMS = {
    "attributes find their tables": """
        m = nn.Linear(3, 2)
        note(m.weight is m._parameters['weight'], 'weight' in m.__dict__, hasattr(m, 'nothing'), 'bias' in dir(m))
        m.extra = 3
        m.buf = torch.ones(2)
        note(m.extra, 'buf' in m._buffers, list(m.__dict__)[-2:])
        m.register_buffer('kept', torch.zeros(2)); m.register_buffer('not_kept', torch.zeros(2), persistent=False)
        m.kept = torch.ones(2)
        note(list(m.state_dict()), list(m._buffers), m.kept)
        del m.weight
        note(hasattr(m, 'weight'), list(m._parameters))
        m.bias = None
        note(m.bias, list(m.named_parameters()))
        m.child = nn.ReLU(); m.child = nn.Parameter(torch.zeros(1)); note(list(m._modules), list(m._parameters))
    """,
    "a parameter cannot become a number": "m = nn.Linear(3, 2)\nm.weight = 3",
    "a parameter cannot become a tensor": "m = nn.Linear(3, 2)\nm.weight = torch.ones(2, 3)",
    "a child cannot become a number": "m = nn.Sequential(nn.ReLU())\nsetattr(m, '0', 3)",
    "a buffer cannot become a number": "m = nn.Module()\nm.register_buffer('b', torch.ones(1))\nm.b = 3",
    "a missing attribute": "nn.Linear(3, 2).nothing",
    "assignment before __init__": """
        class M(nn.Module):
            def __init__(self): self.x = nn.Linear(2, 2)
        M()
    """,
    "a parameter before __init__": """
        class M(nn.Module):
            def __init__(self): self.x = nn.Parameter(torch.ones(2))
        M()
    """,
    "no forward": "nn.Module()(1)",
    "names with dots": "nn.Module().add_module('a.b', nn.ReLU())",
    "an empty name": "nn.Module().register_parameter('', None)",
    "a name that exists": "nn.Linear(2, 2).register_buffer('forward', None)",
    "a leaf is wanted": "nn.Module().register_parameter('a', torch.ones(2))",
    "no module": "nn.Module().add_module('a', 3)",
    "too many arguments": "class M(nn.Module): pass\nM(3)",
    "own getattr": """
        class Wrap(nn.Module):
            def __init__(self, inner):
                super().__init__()
                self.inner = inner
            def __getattr__(self, name):
                try: return super().__getattr__(name)
                except AttributeError: return getattr(self.inner, name)
        w = Wrap(nn.Linear(3, 2))
        note(w.in_features, w.weight.shape, hasattr(w, 'nothing'), type(w.inner).__name__)
    """,
    "a call replaced after calls": """
        class M(nn.Linear): pass
        torch.manual_seed(0)
        m, x = M(2, 2), torch.ones(1, 2)
        note(m(x), m(input=x))
        M.__call__ = lambda self, x: nn.Linear.__call__(self, x) + 1
        note(m(x))
        del M.__call__
        note(m(x))
        m.forward = lambda x: x - 1
        note(m(x), m(x=x))
        del m.forward
        note(m(x))
        m.weight.data.zero_(); m.bias = None
        note(m(x), len(list(m.parameters())))
        m._parameters = {'weight': nn.Parameter(torch.ones(2, 2)), 'bias': None}
        note(m(x))
        hook = m.register_forward_hook(lambda m, a, y: y * 3)
        note(m(x))
        hook.remove()
        note(m(x))
        m.nothing = 1; note(m.nothing); del m.nothing; note(hasattr(m, 'nothing'))
    """,
    "a layer's forward takes its input by name": """
        import inspect
        m = nn.Linear(2, 3); x = torch.ones(1, 2)
        note((m.forward(input=x) == m(x)).all(), (nn.Linear.forward(m, x) == m(x)).all(), m.forward.__name__)
        note(list(inspect.signature(nn.Tanh.forward).parameters), list(inspect.signature(m.forward).parameters))
        class Twice(nn.Linear):
            def forward(self, x): return super().forward(super().forward(x))
        t, F = Twice(2, 2), nn.functional
        note((t(x) == F.linear(F.linear(x, t.weight, t.bias), t.weight, t.bias)).all())
    """,
    "a layer's forward wants an input": "nn.Linear(2, 2).forward()",
    "a layer's forward wants one input": "nn.Linear(2, 2)(torch.ones(1, 2), 3)",
    "a layer's forward knows one name": "nn.Tanh()(torch.ones(1, 2), other=3)",
    "own setattr and call": """
        class M(nn.Linear):
            def __setattr__(self, name, value): super().__setattr__(name, value); names.append(name)
            def __call__(self, x): return super().__call__(x) + 1
        names = []
        torch.manual_seed(0)
        m = M(2, 2)
        note(m(torch.ones(1, 2)), 'weight' in names)
    """,
    "forward may be replaced": """
        m = nn.Linear(3, 2)
        m.forward = lambda x: x + 1
        note(m(torch.ones(2)))
    """,
    "a mixin may come first": """
        class Mixin:
            def hello(self): return self.word
        class First(Mixin, nn.Module): pass
        class Last(nn.Module, Mixin): pass
        for kind in (First, Last):
            m = kind(); m.word = 'hello'; m.layer = nn.Linear(1, 1)
            note(m.hello(), list(m.state_dict()), len(m.__dict__))
    """,
    "properties": """
        class M(nn.Module):
            @property
            def size(self): return 5
        m = M(); note(m.size)
    """,
    "iteration and sharing": """
        shared = nn.Linear(2, 2)
        m = nn.ModuleDict({'a': shared, 'b': nn.Sequential(shared, nn.ReLU(), nn.Linear(2, 1))})
        note([n for n, _ in m.named_parameters()], [n for n, _ in m.named_modules()], len(list(m.modules())))
        note([n for n, _ in m.named_parameters(remove_duplicate=False)], [n for n, _ in m.named_children()])
        note([n for n, _ in m.named_parameters(prefix='p')], list(m.state_dict()))
        note(len(list(m.parameters(recurse=False))))
        note(repr(m))
        note(m.get_submodule('b.2').out_features, m.get_parameter('b.2.weight').shape)
    """,
    "get_submodule of nothing": "nn.Sequential(nn.ReLU()).get_submodule('3')",
    "get_parameter of a module": "nn.Sequential(nn.ReLU()).get_parameter('0')",
    "train, apply, requires_grad_, zero_grad": """
        torch.manual_seed(0)
        m = nn.Sequential(nn.Linear(2, 3), nn.Dropout(), nn.Sequential(nn.Linear(3, 1)))
        note([x.training for x in m.eval().modules()], [x.training for x in m.train().modules()])
        seen = []
        m.apply(lambda x: seen.append(type(x).__name__)); note(seen)
        m[0].requires_grad_(False); note([p.requires_grad for p in m.parameters()])
        m(torch.ones(4, 2)).sum().backward()
        note([p.grad is None for p in m.parameters()])
        m.zero_grad(set_to_none=False); note([p.grad for p in m.parameters()])
        m.zero_grad(); note([p.grad for p in m.parameters()])
    """,
    "train wants a bool": "nn.ReLU().train(3)",
    "dtypes": """
        torch.manual_seed(0)
        m = nn.BatchNorm1d(3)
        w = m.weight
        note(m.double().weight.dtype, m.num_batches_tracked.dtype, m.weight is w, m.half().running_mean.dtype)
        note(m.to(torch.float32).weight.dtype, m.to('cpu').bias.dtype, m.to(torch.zeros(1).double()).bias.dtype)
        note(m.float().type(torch.float64).weight.dtype, m.cpu() is m)
    """,
    "an integer dtype": "nn.Linear(2, 2).to(torch.int64)",
    "no GPU": "nn.Linear(2, 2).cuda()",
    "state goes round": """
        torch.manual_seed(0)
        a = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)); b = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
        note(b.load_state_dict(a.state_dict()), b[0].weight, b.state_dict()._metadata)
        state = a.state_dict(); del state['0.bias']; state['new'] = torch.ones(1)
        note(b.load_state_dict(state, strict=False))
        note(list(a.state_dict(prefix='x.')), a.state_dict()['0.weight'].requires_grad,
             a.state_dict(keep_vars=True)['0.weight'].requires_grad)
        c = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)); c.load_state_dict(a.state_dict(), assign=True)
        note(c[0].weight.data_ptr() == a[0].weight.data_ptr(), type(c[0].weight).__name__, c[0].weight.requires_grad)
    """,
    "state with wrong names": """
        state = nn.Linear(2, 3).state_dict(); state['x'] = state.pop('bias')
        nn.Linear(2, 3).load_state_dict(state)
    """,
    "state with wrong sizes": """
        nn.Sequential(nn.Linear(2, 3)).load_state_dict(nn.Sequential(nn.Linear(2, 4)).state_dict())
    """,
    "state that is none": "nn.Linear(2, 3).load_state_dict(3)",
    "state hooks": """
        m = nn.Sequential(nn.Linear(1, 1)); seen = []
        m.register_state_dict_pre_hook(lambda *a: seen.append(('pre', a[1:])))
        m.register_state_dict_post_hook(lambda mod, state, prefix, meta: seen.append((list(state), prefix)))
        m.register_load_state_dict_pre_hook(lambda mod, state, prefix, *rest: seen.append(len(state)))
        m.register_load_state_dict_post_hook(lambda mod, keys: keys.missing_keys.clear())
        state = m.state_dict(); del state['0.bias']
        note(m.load_state_dict(state), seen)
    """,
    "extra state": """
        class M(nn.Module):
            def get_extra_state(self): return 5
            def set_extra_state(self, s): self.got = s
        m = M(); note(dict(m.state_dict())); m.load_state_dict(m.state_dict()); note(m.got)
    """,
    "forward hooks": """
        m = nn.Linear(1, 1, bias=False); m.weight.data.fill_(2.); seen = []
        a = m.register_forward_pre_hook(lambda mod, args: (args[0] + 1,))
        b = m.register_forward_hook(lambda mod, args, out: seen.append(args[0].item()) or out * 10)
        c = m.register_forward_hook(lambda mod, args, out: seen.append(out.item()), prepend=True)
        note(m(torch.ones(1)), seen)
        b.remove(); note(m(torch.ones(1)), seen); a.remove(); c.remove(); note(m(torch.ones(1)), seen)
        d = m.register_forward_pre_hook(lambda mod, args, kw: (args, {'input': kw['input'] * 3}), with_kwargs=True)
        e = m.register_forward_hook(lambda mod, args, kw, out: seen.append(sorted(kw)), with_kwargs=True)
        note(m(input=torch.ones(1)), seen)
    """,
    "hooks that are always called": """
        class M(nn.Module):
            def forward(self, x): raise ValueError('no')
        m = M(); seen = []
        m.register_forward_hook(lambda mod, args, out: seen.append(out), always_call=True)
        m.register_forward_hook(lambda mod, args, out: seen.append('not'))
        try: m(1)
        except ValueError as e: seen.append(str(e))
        note(seen)
    """,
    "backward hooks": """
        m = nn.Linear(2, 1, bias=False); m.weight.data.copy_(torch.tensor([[2., 3.]])); seen = []
        m.register_full_backward_hook(lambda mod, gi, go: seen.append((gi, go)))
        m.register_full_backward_pre_hook(lambda mod, go: (go[0] * 2,))
        x = torch.ones(1, 2, requires_grad=True)
        m(x).sum().backward()
        note(x.grad, m.weight.grad, seen)
    """,
    "a backward hook that replaces": """
        m = nn.Linear(2, 1, bias=False); m.weight.data.fill_(1.)
        m.register_full_backward_hook(lambda mod, gi, go: (gi[0] * 5,))
        x = torch.ones(1, 2, requires_grad=True)
        m(x).sum().backward()
        note(x.grad, m.weight.grad)
    """,
    "sequences": """
        torch.manual_seed(0)
        s = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
        note(repr(s[1:]), repr(s[-1]), len(s), [type(x).__name__ for x in s])
        s.append(nn.Tanh()); s.insert(1, nn.Sigmoid()); s.extend([nn.ReLU()]); note(repr(s))
        del s[0]; note(repr(s), list(s.state_dict())); s[0] = nn.Identity(); note(repr(s + nn.Sequential(nn.ELU())))
        note(repr(s * 2), repr(s.pop(0)))
    """,
    "a sequence with names": """
        from collections import OrderedDict
        s = nn.Sequential(OrderedDict([('fc', nn.Linear(2, 2)), ('act', nn.ReLU())]))
        note(repr(s), list(s.state_dict()))
    """,
    "an index too far": "nn.Sequential(nn.ReLU())[3]",
    "lists": """
        m = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)] + [nn.ReLU()])
        note(repr(m), len(m), repr(m[1:3]), [n for n, _ in m.named_parameters()])
        m.append(nn.Tanh()); m.insert(0, nn.ELU()); m += [nn.GELU()]; note(repr(m))
        del m[0]; note(repr(m + [nn.SELU()]))
    """,
    "a list is not called": "nn.ModuleList([nn.ReLU()])(torch.ones(1))",
    "dictionaries": """
        m = nn.ModuleDict({'a': nn.ReLU(), 'b': nn.Linear(1, 1)}); m['c'] = nn.Tanh()
        note(repr(m), list(m.keys()), 'a' in m, len(m), repr(m.pop('a'))); m.update([('d', nn.ELU())]); note(repr(m))
    """,
    "lists of parameters": """
        p = nn.ParameterList([nn.Parameter(torch.ones(2)), torch.zeros(3, 1)]); p.append(nn.Parameter(torch.ones(1)))
        note(repr(p), len(p), [n for n, _ in p.named_parameters()], p[-1], [x.shape for x in p[:2]])
    """,
    "dictionaries of parameters": """
        p = nn.ParameterDict({'b': nn.Parameter(torch.ones(2)), 'a': torch.zeros(3)}); p['c'] = torch.ones(1)
        note(repr(p), list(p.keys()), [n for n, _ in p.named_parameters()], 'a' in p, p.pop('a'), len(p), p.get('z', 4))
    """,
    "lazy": """
        torch.manual_seed(0)
        m = nn.LazyLinear(3); note(repr(m), repr(m.weight), m.weight.requires_grad)
        y = m(torch.ones(2, 4)); note(y, repr(m), type(m).__name__, m.weight.shape, m._forward_pre_hooks)
    """,
    "copies and pickles": """
        import copy, pickle
        torch.manual_seed(0)
        m = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.LSTM(3, 2))
        c = copy.deepcopy(m); note(c[0].weight, c[0].weight is m[0].weight, repr(c), c[0].weight.requires_grad)
        d = pickle.loads(pickle.dumps(m)); note(d[0].weight, repr(d), d.training, list(d.state_dict()))
        e = copy.copy(m); note(e[0] is m[0])
    """,
    "buffers": """
        m = nn.Module(); m.b = nn.Buffer(torch.ones(2)); m.c = nn.Buffer(torch.ones(1), persistent=False)
        note(list(m.state_dict()), isinstance(m.b, nn.Buffer), [n for n, _ in m.named_buffers()])
    """,
    "own text": """
        class M(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = nn.Linear(1, 1)
            def extra_repr(self): return 'one\\ntwo'
        note(repr(M()), str(nn.Sequential(M(), M())))
    """,
    "packed sequences": """
        from_ = nn.utils.rnn
        torch.manual_seed(0)
        x = torch.randn(5, 3, 2).requires_grad_()
        for kind in (nn.LSTM(2, 3, 2, bidirectional=True), nn.GRU(2, 3), nn.RNN(2, 3, bidirectional=True)):
            for lengths, ordered in (([5, 3, 2], True), ([2, 5, 1], False), (torch.tensor([3, 3, 3]), True)):
                packed = from_.pack_padded_sequence(x, lengths, enforce_sorted=ordered)
                note(packed.data, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices)
                out, state = kind(packed)
                padded, n = from_.pad_packed_sequence(out, padding_value=-1.)
                note(padded, n, state)
                x.grad = None
                padded.sum().backward()
                note(x.grad, [p.grad for p in kind.parameters()])
    """,
    "packing what is not sorted": "nn.utils.rnn.pack_padded_sequence(torch.ones(3, 2, 1), [1, 3])",
    "padding": """
        r = nn.utils.rnn
        a, b = torch.ones(3, 2), torch.zeros(1, 2)
        note(r.pad_sequence([a, b]), r.pad_sequence([a, b], batch_first=True, padding_value=7.),
             r.pad_sequence([b, a], padding_side='left'), r.pack_sequence([a, b]),
             r.unpad_sequence(r.pad_sequence([a, b]), torch.tensor([3, 1])), r.unpack_sequence(r.pack_sequence([a, b])))
    """,
    "functions": """
        torch.manual_seed(0)
        F = torch.nn.functional
        q, k, v = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 6, 4), torch.randn(2, 3, 6, 7)
        mask = torch.rand(5, 6) > 0.3
        note(F.scaled_dot_product_attention(q, k, v), F.scaled_dot_product_attention(q, k, v, is_causal=True),
             F.scaled_dot_product_attention(q, k, v, mask),
             F.scaled_dot_product_attention(q, k, v, mask.float(), scale=0.3))
        note(F.gumbel_softmax(q), F.gumbel_softmax(q, hard=True), F.pad(q, (1, 2), value=3.), F.pad(q, (1, 1, 2, -1)))
        x, i = F.max_pool2d(torch.randn(1, 2, 4, 4), 2, return_indices=True)
        note(i, F.max_unpool2d(x, i, 2), F.interpolate(torch.randn(1, 1, 3, 5), scale_factor=0.6))
    """,
    "masks of attention": """
        torch.manual_seed(0)
        m = nn.MultiheadAttention(8, 2, batch_first=True)
        x = torch.randn(2, 5, 8)
        pad = torch.tensor([[False, False, False, True, True], [False] * 5])
        causal = nn.Transformer.generate_square_subsequent_mask(5)
        note(m(x, x, x, key_padding_mask=pad), m(x, x, x, attn_mask=causal, average_attn_weights=False))
        note(m(x, x, x, key_padding_mask=pad, attn_mask=causal, need_weights=False),
             m(x, x, x, attn_mask=causal.isinf()))
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).train()
        torch.manual_seed(1); note(layer(x, src_mask=causal, src_key_padding_mask=None), causal)
    """,
}

INITS = """
uniform_(w) ; uniform_(w, -1, 2) ; normal_(w) ; normal_(w, 1, 0.1) ; trunc_normal_(w) ; trunc_normal_(w, std=0.02)
trunc_normal_(w, a=0.5, b=1.0) ; trunc_normal_(w, 0., 1., 2., 3.) ; constant_(w, 0.3) ; ones_(w) ; zeros_(w) ; eye_(m)
dirac_(c) ; dirac_(c, 2) ; dirac_(w) ; xavier_uniform_(w) ; xavier_uniform_(c, 2.) ; xavier_normal_(w, gain=0.5)
kaiming_uniform_(w) ; kaiming_uniform_(c, a=1) ; kaiming_normal_(w, mode='fan_out', nonlinearity='relu')
kaiming_normal_(c) ; kaiming_normal_(w, mode='x') ; orthogonal_(w) ; orthogonal_(w.t(), gain=2) ; orthogonal_(c)
orthogonal_(m) ; orthogonal_(v) ; sparse_(m, 0.5) ; sparse_(c, 0.5) ; xavier_uniform_(v) ; calculate_gain('relu')
calculate_gain('leaky_relu', 0.2) ; calculate_gain('tanh') ; calculate_gain('linear') ; calculate_gain('selu')
calculate_gain('nothing') ; normal(w) ; xavier_uniform(w) ; uniform_(w, generator=torch.Generator().manual_seed(3))
"""


def run(m, text):
    notes = []
    lines = text.split("\n")
    indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    source = "\n".join(line[indent:] for line in lines)
    scope = {"torch": m, "nn": m.nn, "note": lambda *values: notes.append(values), "__name__": __name__}
    exec(source, scope)
    return notes


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore")
def test_a_program_notes_the_same(name):
    ours, theirs = outcome(run, SUT, PROGRAMS[name]), outcome(run, REF, PROGRAMS[name])
    check_same(ours, theirs, name, rtol=1e-4, atol=1e-5, strides=None)
    if isinstance(theirs, Raised):
        assert type(ours.error) is type(theirs.error)
        if "state with" in name or "becomes a" in name or "cannot become" in name:
            assert str(ours.error).replace("brisk", "torch") == str(theirs.error)


@pytest.mark.parametrize("line", [part.strip() for part in INITS.strip().replace("\n", " ; ").split(" ; ")])
@pytest.mark.filterwarnings("ignore")
def test_initial_values_are_those_of_pytorch(line):
    def init(m):
        m.manual_seed(4)
        tensors = {"w": m.empty(5, 7), "m": m.empty(6, 6), "c": m.empty(4, 3, 3, 2), "v": m.empty(5)}
        result = eval(line, {**vars(m.nn.init), **tensors, "torch": m})
        return result, m.rand(2)

    exact = {} if "orthogonal" in line else {"rtol": 1e-6, "atol": 0}
    check_same(outcome(init, SUT), outcome(init, REF), line, **exact)


def test_many_members_read_in_turns_are_the_right_ones_also_after_they_change():
    class Many(SUT.nn.Module):
        def __init__(self, count):
            super().__init__()
            for i in range(count):
                setattr(self, f"layer_{i}", SUT.nn.Linear(1, 1))

    for count in (2, 5, 30):
        m = Many(count)
        names = [f"layer_{i}" for i in range(count)]
        for _ in range(3):
            assert all(getattr(m, n) is m._modules[n] for n in names)
        m.layer_1 = SUT.nn.Linear(2, 2)
        del m.layer_0
        assert m.layer_1 is m._modules["layer_1"] and m.layer_1.in_features == 2 and not hasattr(m, "layer_0")
        assert all(getattr(m, n) is m._modules[n] for n in names[1:])
