"""Random training programs: cells in loops over time, trained for some steps, with what goes on around such loops.

A program is the source of a function of a module, `run(torch, rec)`, which both libraries run. It has one to three
models with cells made of random lines (CELLS), and some steps (STEPS): training with lengths that change, states that
are carried from one step to the next, interleaved models, exceptions that leave a loop and are caught, graphs that are
kept, penalties on gradients, inner steps on the tape, hooks, frozen weights, other threads. What it records with `rec`
is compared after every step, so that cached plans, passes that are replayed and work that was done ahead are met with
values that they have not seen.

Training magnifies roundings. A difference counts where it is larger than what PyTorch's own result moves by, when its
first numbers are moved by one rounding.
"""

import random
import traceback

import numpy as np

HEADER = """
import copy, threading
import numpy as np

def run(torch, rec, moved=0.0):
    nn, F = torch.nn, torch.nn.functional
    checkpoint = torch.utils.checkpoint.checkpoint
    torch.manual_seed({seed})
    roundings = np.random.RandomState(1)
    def X(*sizes):
        return torch.randn(*sizes, dtype=torch.float64) * torch.tensor(1 + moved * roundings.randn(*sizes))
    def P(*sizes):
        return nn.Parameter(X(*sizes) * min(0.4, 0.9 * sizes[-1] ** -0.5))
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, k):
            ctx.save_for_backward(x)
            ctx.k = k
            return x.tanh() * k
        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * ctx.k * (1 - x.tanh() ** 2), None
    class Fork(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, h):
            ctx.save_for_backward(x, h)
            ctx.set_materialize_grads(False)
            return x * h, x + h
        @staticmethod
        def backward(ctx, g, k):
            x, h = ctx.saved_tensors
            g, k = (torch.zeros_like(x) if v is None else v for v in (g, k))
            return g * h + k, g * x + k
"""

# What a cell does with x, h and c of B rows and H columns, a memory M of B by 3 by H, and weights p.
CELLS = (
    "h = torch.tanh(x @ p['w'] + h @ p['u'] + p['b'])",
    "z = torch.sigmoid(x @ p['w'] + h @ p['u']); h = z * h + (1 - z) * torch.tanh(x @ p['v'])",
    "i, f, g, o = F.linear(torch.cat([x, h], 1), p['gates']).chunk(4, 1); "
    "c = torch.sigmoid(f) * c + torch.sigmoid(i) * g.tanh(); h = torch.sigmoid(o) * c.tanh()",
    "h = F.layer_norm(h + x @ p['w'], h.shape[1:], p['g'], p['b'])",
    "h = F.dropout(h, 0.3, training) @ p['u'] * 0.5 + x",
    "h = torch.where(mask[:, None], torch.tanh(h @ p['u'] + x), h)",
    "past.append(h); A = torch.stack(past, 1); s = torch.softmax((A @ h.unsqueeze(2)).squeeze(2), 1); "
    "h = torch.tanh((s.unsqueeze(1) @ A).squeeze(1) + x @ p['w'])",
    "W = p['v'] + 0.1 * h.mean(0)[:, None] * x.mean(0)[None]; h = torch.tanh(x @ W + h)",
    "h = h.clone(); h[:, :2] = x[:, 1:3]; h = torch.tanh(h @ p['u'])",
    "g = torch.tanh(h @ p['u']); h = h + 0.1 * x; h += 0.2 * g; h = h * 0.8",
    "h = h[order] * 0.9 + x.index_select(0, order.flip(0)) * 0.1",
    "M = M.clone(); M[:, t % 2] = h; h = torch.tanh(M[:, :2].sum(1) @ p['u'] + x)",
    "M = torch.cat([M[:, 1:], h.unsqueeze(1)], 1); h = torch.tanh(M.mean(1) + x @ p['v'])",
    "h = Scaled.apply(h @ p['u'] + x, 0.9)",
    "e, f = Fork.apply(x, h); h = torch.tanh(e + 0.5 * f) if t % 2 else torch.tanh(f)",
    "h = cell(x, h)",
    "h, c = lstm(x, (h, c))",
    "h = torch.scatter_add(h, 1, places, x * 0.3).tanh()",
    "h = torch.gather(h, 1, places) * 0.5 + torch.tanh(x @ p['w'])",
    "h = F.embedding(tokens[:, t % 4], p['table']) * 0.5 + h * 0.5; h = h.tanh()",
    "k = h.detach() * 0.1; h = torch.tanh(h @ p['u'] + k)",
    "h = torch.stack([row.tanh() for row in h @ p['w'] + x])",
    "h = checkpoint(lambda a, b: torch.tanh(a @ p['u'] + b @ p['w']), h, x, use_reentrant=False)",
    "fast = fast * 0.9 + 0.05 * h.t() @ x; h = h * 0.9 + 0.1 * torch.tanh(x @ fast)",
    "h = torch.tanh(h + x @ p['w']); h.register_hook(lambda g: g * 0.5) if h.requires_grad else None",
)

READS = {
    "X(T, B, H)": ("for t in range(T):", "x = xs[t]"),
    "X(B, T, H)": ("for t in range(T):", "x = xs[:, t]"),
    "X(T, B, H).requires_grad_()": ("for t, x in enumerate(xs):", "pass"),
    "X(T, B, H) * 1": ("for t, x in enumerate(xs.unbind(0)):", "pass"),
    "X(T, B, H) + 0": ("for t in reversed(range(T)):", "x = xs[t]"),
}
# Before the loop, at the end of each turn, behind the loop.
ENDINGS = (
    ("outs = []", "outs.append(h)", "y = torch.stack(outs, 1) if outs else h"),
    ("outs = []", "outs.append(h * (t < lengths)[:, None])", "y = torch.cat(outs) if outs else h"),
    ("out = torch.zeros(T, B, H, dtype=h.dtype)", "out[t] = h", "y = out"),
    ("out = torch.zeros(B, T, H, dtype=h.dtype)", "out[:, t] = h", "y = out"),
    ("pass", "loss = loss + F.cross_entropy(h @ p['out'], tokens[:, 0] % 3)", "y = h"),
)

MODEL = """
H{m} = {H}
p{m} = dict(w=P({H}, {H}), u=P({H}, {H}), v=P({H}, {H}), b=P({H}), g=P({H}), table=P(5, {H}), out=P({H}, 3))
p{m}["gates"] = P(4 * {H}, 2 * {H})
cell{m}, lstm{m} = nn.GRUCell({H}, {H}).double(), nn.LSTMCell({H}, {H}).double()
all{m} = [*p{m}.values(), *cell{m}.parameters(), *lstm{m}.parameters()]
opt{m} = torch.optim.{optimizer}
carried{m}, kept{m} = None, []
def forward{m}(T, B, training=True, state=None, fails_at=None, cut=None, leaves_at=99):
    p, cell, lstm, H = p{m}, cell{m}, lstm{m}, H{m}
    xs = {xs}
    start = [torch.zeros(B, H, dtype=torch.float64) for _ in range(2)] + [torch.zeros(B, 3, H, dtype=torch.float64)]
    h, c, M = start if state is None else state
    loss, past, fast = torch.zeros((), dtype=torch.float64), [], torch.zeros(H, H, dtype=torch.float64)
    mask, order = torch.arange(B) % 2 == 0, (torch.arange(B) * 3 + 1) % B
    places, tokens = torch.randint(0, H, (B, H)), torch.randint(0, 5, (B, 4))
    lengths = torch.randint(1, T + 2, (B,))
    {before}
    {loop}
        {get}
        if t == fails_at:
            raise KeyError("on the way")
        if t >= leaves_at:
            break
        if cut and t % cut == cut - 1:
            h, c, M, past = h.detach(), c.detach(), M.detach(), [q.detach() for q in past]
        {lines}
        {turn}
    {behind}
    if y.numel():
        loss = loss + (y @ p["out"]).square().mean()
    return loss + 0.01 * p["out"].square().sum() + 0.1 * (h.sum() + c.sum() + M.mean()), y, (h, c, M)
"""
OPTIMIZERS = (
    "SGD(all{m}, lr=0.05)", "SGD(all{m}, lr=0.03, momentum=0.9, nesterov=True)", "Adam(all{m}, lr=0.003)",
    "RMSprop(all{m}, lr=0.002)",
)  # fmt: skip

# One step of a program; {m} and {n} are models, {T} and {B} sizes, {k} a small number.
PLAIN = "opt{m}.zero_grad()\nloss, y, state = forward{m}({T}, {B})\nloss.backward()\nopt{m}.step()\nrec(loss, y)"
STEPS = (
    PLAIN,
    PLAIN,
    """
opt{m}.zero_grad(set_to_none=False)
loss, y, state = forward{m}({T}, 3, state=carried{m})
loss.backward()
carried{m} = tuple(q.detach() for q in state)
rec(nn.utils.clip_grad_norm_(all{m}, 1.0), carried{m})
opt{m}.step()""",
    "opt{m}.zero_grad()\nloss, y, state = forward{m}({T}, {B}, cut={k})\nloss.backward()\nopt{m}.step()\nrec(loss)",
    "for _ in range({k}):\n    (forward{m}({T}, {B})[0] / {k}).backward()\nopt{m}.step()",
    "with torch.no_grad():\n    rec(*forward{m}({T}, {B}, training=False))",
    """
try:
    forward{m}({T}, {B}, fails_at={k})[0].backward()
except KeyError as error:
    rec(str(error))""",
    "opt{m}.zero_grad()\nforward{m}({T}, {B}, leaves_at={k})[0].backward()\nopt{m}.step()",
    """
loss, y, state = forward{m}({T}, {B})
loss.backward(retain_graph=True)
(y.sum() + state[0].sum() + loss).backward()""",
    """
opt{m}.zero_grad()
loss = forward{m}({T}, {B})[0]
gs = torch.autograd.grad(loss, all{m}, create_graph=True, allow_unused=True)
(loss + 0.01 * sum(g.square().sum() for g in gs if g is not None)).backward()
opt{m}.step()
rec(gs)""",
    """
gs = torch.autograd.grad(forward{m}({T}, {B})[0], all{m}, allow_unused=True)
with torch.no_grad():
    for q, g in zip(all{m}, gs):
        if g is not None:
            q -= 0.02 * g
rec(gs)""",
    "kept{m} = [*kept{m}[-1:], forward{m}({T}, {B})[0]]\nkept{m}[-1].backward()\nrec(kept{m})",
    """
opt{m}.zero_grad()
one, other = forward{m}({T}, {B})[0], forward{n}({k}, {B})[0]
(one + 0.5 * other).backward()
opt{m}.step()
rec(one, other)""",
    """
loss = forward{m}({T}, {B})[0]
with torch.no_grad():
    rec(forward{n}({T}, {B}, training=False)[0])
loss.backward()""",
    """
for q in all{m}[:{k}]:
    q.requires_grad_(False)
forward{m}({T}, {B})[0].backward()
for q in all{m}:
    q.requires_grad_(True)""",
    """
seen = []
handles = [q.register_hook(lambda g, i=i: seen.append((i, g.detach().clone()))) for i, q in enumerate(all{m})]
forward{m}({T}, {B})[0].backward()
for handle in handles:
    handle.remove()
rec([i for i, _ in seen], [g for _, g in seen])""",
    """
def take(q):
    with torch.no_grad():
        q.sub_(q.grad, alpha=0.01)
    q.grad = None
handles = [q.register_post_accumulate_grad_hook(take) for q in all{m}]
forward{m}({T}, {B})[0].backward()
for handle in handles:
    handle.remove()""",
    """
first, second = forward{m}({T}, {B})[0], forward{m}({T}, {B})[0]
first.backward()
with torch.no_grad():
    for q in all{m}:
        q.mul_(0.99)
try:
    second.backward()
except RuntimeError as error:
    rec("an inplace operation" in str(error))""",
    """
opt{m}.zero_grad()
done = []
thread = threading.Thread(target=lambda: done.append(forward{m}({T}, {B})[0]))
thread.start()
thread.join()
done[0].backward()
opt{m}.step()
rec(done)""",
    """
one, y, state = forward{m}({T}, {B})
two = forward{m}({k}, {B}, state=state)[0]
(one + two).backward()
rec(one, two)""",
    """
opt{m}.zero_grad()
names, before = list(p{m}), dict(p{m})
gs = torch.autograd.grad(forward{m}({T}, {B})[0], list(p{m}.values()), create_graph=True, allow_unused=True)
p{m}.update({{name: before[name] - 0.05 * g for name, g in zip(names, gs) if g is not None}})
after = forward{m}({T}, {B})[0]
p{m}.update(before)
after.backward()
opt{m}.step()
rec(after)""",
    """
saved = copy.deepcopy(opt{m}.state_dict()), [q.detach().clone() for q in all{m}]
opt{m}.zero_grad()
forward{m}({T}, {B})[0].backward()
opt{m}.step()
rec(all{m})
opt{m}.load_state_dict(saved[0])
for q, old in zip(all{m}, saved[1]):
    q.data = old.clone()""",
)  # fmt: skip


def indented(text, by):
    return text.strip().replace("\n", "\n" + " " * by)


def a_model(rng, m):
    xs = rng.choice(sorted(READS))
    before, turn, behind = rng.choice(ENDINGS)
    return MODEL.format(
        m=m,
        H=rng.choice((4, 8, 16, 34)),
        optimizer=rng.choice(OPTIMIZERS).format(m=m),
        xs=xs,
        loop=READS[xs][0],
        get=READS[xs][1],
        before=before,
        turn=turn,
        behind=behind,
        lines=indented("\n".join(rng.choice(CELLS) for _ in range(rng.randint(1, 3))), 8),
    )


def generate(seed):
    """The source of the program of this seed."""
    rng = random.Random(seed)
    models = rng.choice((1, 1, 2, 3))
    parts = [a_model(rng, m) for m in range(models)]
    lengths = [rng.choice((1, 2, 5, 7))] * 3 + [rng.choice((0, 1, 3, 12))]
    favourites = rng.sample(STEPS, 3)
    for _ in range(rng.randint(5, 8)):
        m, step = rng.randrange(models), rng.choice(favourites if rng.random() < 0.75 else STEPS)
        sizes = {"T": rng.choice(lengths), "B": rng.choice((1, 3, 3, 3, 8)), "k": rng.randint(2, 3)}
        parts.append(step.format(m=m, n=rng.randrange(models), **sizes))
        parts.append(f"rec([q.grad for q in all{m}])")
    parts += [f"rec(all{m})" for m in range(models)]
    return HEADER.format(seed=seed % 2**31) + "\n".join("    " + indented(part, 4) for part in parts)


# --- running and comparing -------------------------------------------------------------------------------------------


def flat(values):
    for value in values:
        if isinstance(value, (list, tuple)):
            yield len(value)
            yield from flat(value)
        elif hasattr(value, "requires_grad"):
            yield value.requires_grad
            yield np.array(value.detach().double().numpy())
        else:
            yield value


def recorded(source, module, moved=0.0):
    """All that a program records; the last is the exception that ended it, or None."""
    found, scope = [], {}
    exec(compile(source, "a training program", "exec"), scope)
    try:
        scope["run"](module, lambda *values: found.extend(flat(values)), moved)
    except Exception as error:
        traceback.clear_frames(error.__traceback__)
        return [*found, error]
    return [*found, None]


def refused(theirs):
    """Whether PyTorch ended it where brisk answers (docs/DIFFERENCES.md)."""
    return isinstance(theirs[-1], RuntimeError) and "inplace operation" in str(theirs[-1])


def difference(ours, theirs, moved):
    """What differs, in words; None: nothing. moved: what PyTorch records when its numbers are moved by a rounding."""
    for k, (a, b) in enumerate(zip(ours, theirs)):
        if isinstance(b, Exception) or isinstance(a, Exception):
            return None if type(a) is type(b) else f"value {k}: {a!r}, but {b!r} in PyTorch"
        if not isinstance(b, np.ndarray):
            if a != b:
                return f"value {k}: {a!r}, but {b!r} in PyTorch"
            continue
        if a.shape != b.shape:
            return f"value {k}: of sizes {a.shape}, but {b.shape} in PyTorch"
        there = k < len(moved) and isinstance(moved[k], np.ndarray) and moved[k].shape == b.shape
        noise = np.abs(moved[k] - b).max(initial=0) if there else np.inf
        if not np.isfinite(noise) or np.isnan(b).any():
            return None  # whatever follows is noise
        scale = max(1e-2, np.abs(b).max(initial=0))
        if not (np.abs(a - b) <= 1e-8 * np.abs(b) + 1e-9 * scale + 30 * noise).all():
            return f"value {k}: {np.abs(a - b).max()} apart, of about {scale}"
    return None if len(ours) == len(theirs) else f"{len(ours)} values, but {len(theirs)} in PyTorch"


def failure_of(seed, sut, ref, times=2):
    """What differs in the program of this seed, run `times` times; None: nothing."""
    source = generate(seed)
    theirs = recorded(source, ref)
    if refused(theirs):
        return None
    moved = recorded(source, ref, moved=1e-15)
    for _ in range(times):
        found = difference(recorded(source, sut), theirs, moved)
        if found:
            return found
    return None
