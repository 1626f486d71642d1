"""L-BFGS: a quasi-Newton method that remembers the last steps instead of a matrix."""

from brisk import _C
from brisk.autograd.grad_mode import enable_grad, no_grad
from brisk.optim.optimizer import Optimizer, at_least_zero, number

__all__ = ["LBFGS"]


def _cubic_minimum(x1, f1, g1, x2, f2, g2, bounds=None):
    """Where the cubic through two points with two slopes is least, within the bounds (the points by default)."""
    low, high = bounds if bounds is not None else ((x1, x2) if x1 <= x2 else (x2, x1))
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = d1**2 - g1 * g2
    if not square >= 0:
        return (low + high) / 2.0
    d2 = square**0.5
    if x1 <= x2:
        at = x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2))
    else:
        at = x1 - (x1 - x2) * ((g1 + d2 - d1) / (g1 - g2 + 2 * d2))
    return min(max(at, low), high)


class _Point:
    """A place on the line that is searched: how far, the loss, the gradient, its slope along the line."""

    __slots__ = ("t", "loss", "grad", "slope")

    def __init__(self, t, loss, grad, slope):
        self.t, self.loss, self.grad, self.slope = t, loss, grad, slope


def _bracket(at, start, point, c1, c2, max_ls):
    """Walks on until a minimum lies between two points. Returns them, whether one is good, and the walks made."""
    before, walks = start, 0
    while walks < max_ls:
        if point.loss > start.loss + c1 * point.t * start.slope or (walks > 1 and point.loss >= before.loss):
            return [before, point], False, walks
        if abs(point.slope) <= -c2 * start.slope:
            return [point], True, walks
        if point.slope >= 0:
            return [before, point], False, walks
        bounds = (point.t + 0.01 * (point.t - before.t), point.t * 10)
        t = _cubic_minimum(before.t, before.loss, before.slope, point.t, point.loss, point.slope, bounds)
        before, point = point, at(t)
        walks += 1
    return [start, point], False, walks


def _within(low_side, high_side, t, insufficient):
    """t, kept a tenth of the bracket away from its ends if it came too close to them before."""
    high, low = max(low_side, high_side), min(low_side, high_side)
    margin = 0.1 * (high - low)
    if min(high - t, t - low) >= margin:
        return t, False
    if not (insufficient or t >= high or t <= low):
        return t, True
    return (high - margin if abs(t - high) < abs(t - low) else low + margin), False


def _zoom(at, start, bracket, walks, length, c1, c2, tolerance_change, max_ls):
    """Narrows a bracket until its better end fulfils the strong Wolfe conditions."""
    low, high = (0, 1) if bracket[0].loss <= bracket[-1].loss else (1, 0)
    insufficient = False
    while walks < max_ls:
        if abs(bracket[1].t - bracket[0].t) * length < tolerance_change:
            break
        a, b = bracket
        t = _cubic_minimum(a.t, a.loss, a.slope, b.t, b.loss, b.slope)
        t, insufficient = _within(a.t, b.t, t, insufficient)
        point = at(t)
        walks += 1
        if point.loss > start.loss + c1 * t * start.slope or point.loss >= bracket[low].loss:
            bracket[high] = point
            low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
            continue
        if abs(point.slope) <= -c2 * start.slope:
            bracket[low] = point
            break
        if point.slope * (bracket[high].t - bracket[low].t) >= 0:
            bracket[high] = bracket[low]
        bracket[low] = point
    return bracket[low]


def _strong_wolfe(evaluate, t, d, loss, grad, slope, c1=1e-4, c2=0.9, tolerance_change=1e-9, max_ls=25):
    """A step length along d at which the loss is low enough and its slope flat enough."""
    evaluations = 0

    def at(t):
        nonlocal evaluations
        evaluations += 1
        new_loss, new_grad = evaluate(t, d)
        return _Point(t, new_loss, new_grad, new_grad.dot(d).item())

    length = d.abs().max().item()
    start = _Point(0, loss, grad.clone(), slope)
    bracket, done, walks = _bracket(at, start, at(t), c1, c2, max_ls)
    best = bracket[0] if done else _zoom(at, start, bracket, walks, length, c1, c2, tolerance_change, max_ls)
    return best.loss, best.grad, best.t, evaluations


class LBFGS(Optimizer):
    """Steps along the product of an approximate inverse Hessian, made of the last steps, with the gradient."""

    def __init__(
        self, params, lr=1, max_iter=20, max_eval=None, tolerance_grad=1e-7, tolerance_change=1e-9, history_size=100,
        line_search_fn=None,
    ):  # fmt: skip
        at_least_zero(learning__rate=lr)
        defaults = {
            "lr": lr, "max_iter": max_iter, "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change, "history_size": history_size,
            "line_search_fn": line_search_fn,
        }  # fmt: skip
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]

    def _flat_grad(self):
        return _C.cat([(p.new_zeros(p.numel()) if p.grad is None else p.grad.reshape(-1)) for p in self._params], 0)

    def _move(self, t, direction):
        offset = 0
        for p in self._params:
            p.add_(direction[offset : offset + p.numel()].view_as(p), alpha=t)
            offset += p.numel()

    def _restore(self, values):
        for p, value in zip(self._params, values):
            p.copy_(value)

    def _direction(self, grad, state):
        """The two-loop recursion over the steps that are remembered."""
        dirs, steps, ro = state["old_dirs"], state["old_stps"], state["ro"]
        d, al = grad.neg(), [None] * len(dirs)
        for i in range(len(dirs) - 1, -1, -1):
            al[i] = steps[i].dot(d) * ro[i]
            d.add_(dirs[i], alpha=-al[i].item())
        d = d.mul(state["H_diag"])
        for i in range(len(dirs)):
            be_i = dirs[i].dot(d) * ro[i]
            d.add_(steps[i], alpha=(al[i] - be_i).item())
        return d

    def _remember(self, grad, state, history_size):
        y, s = grad.sub(state["prev_flat_grad"]), state["d"].mul(state["t"])
        ys = y.dot(s)
        if ys.item() <= 1e-10:  # not curved enough to say anything
            return
        if len(state["old_dirs"]) == history_size:
            for kept in ("old_dirs", "old_stps", "ro"):
                state[kept].pop(0)
        state["old_dirs"].append(y)
        state["old_stps"].append(s)
        state["ro"].append(1.0 / ys)
        state["H_diag"] = ys / y.dot(y)

    def step(self, closure):
        """Makes up to max_iter steps, evaluating the closure at each."""
        with no_grad():
            return self._run(lambda: self._with_grad(closure))

    @staticmethod
    def _with_grad(closure):
        with enable_grad():
            return closure()

    def _run(self, closure):
        group = self.param_groups[0]
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        orig_loss = closure()
        loss, evaluations = float(orig_loss), 1
        state["func_evals"] += 1
        grad = self._flat_grad()
        if grad.abs().max().item() <= group["tolerance_grad"]:
            return orig_loss
        lr, iterations = number(group["lr"]), 0
        while iterations < group["max_iter"]:
            iterations += 1
            state["n_iter"] += 1
            if state["n_iter"] == 1:
                state.update(d=grad.neg(), old_dirs=[], old_stps=[], ro=[], H_diag=1)
            else:
                self._remember(grad, state, group["history_size"])
                state["d"] = self._direction(grad, state)
            state["prev_flat_grad"] = grad.clone()
            prev_loss, state["prev_loss"] = loss, loss
            d = state["d"]
            t = min(1.0, 1.0 / grad.abs().sum().item()) * lr if state["n_iter"] == 1 else lr
            state["t"] = t
            slope = grad.dot(d).item()
            if slope > -group["tolerance_change"]:
                break
            loss, grad, t, made = self._search(closure, group, t, d, loss, grad, slope, iterations)
            state["t"] = t
            evaluations += made
            state["func_evals"] += made
            if iterations == group["max_iter"] or evaluations >= group["max_eval"]:
                break
            if grad.abs().max().item() <= group["tolerance_grad"]:
                break
            if d.mul(t).abs().max().item() <= group["tolerance_change"]:
                break
            if abs(loss - prev_loss) < group["tolerance_change"]:
                break
        return orig_loss

    def _search(self, closure, group, t, d, loss, grad, slope, iterations):
        """Moves along d. Returns the loss, the gradient and the length there, and how often the loss was computed."""
        if group["line_search_fn"] is None:
            self._move(t, d)
            if iterations == group["max_iter"]:
                return loss, grad, t, 0
            loss = float(closure())
            return loss, self._flat_grad(), t, 1
        if group["line_search_fn"] != "strong_wolfe":
            raise RuntimeError("only 'strong_wolfe' is supported")
        start = [p.clone() for p in self._params]

        def evaluate(t, d):
            self._move(t, d)
            new_loss = float(closure())
            new_grad = self._flat_grad()
            self._restore(start)
            return new_loss, new_grad

        loss, grad, t, made = _strong_wolfe(evaluate, t, d, loss, grad, slope)
        self._move(t, d)
        return loss, grad, t, made
