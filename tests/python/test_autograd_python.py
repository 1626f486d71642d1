"""Custom functions, transforms and checkpoints: what PyTorch cannot be asked."""

import functools
import gc
import re
import subprocess
import sys
import warnings
import weakref
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs" / "AUTOGRAD.md"


def exp_function(torch, saved):
    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y if saved == "output" else x)
            Exp.last = weakref.ref(ctx)
            return y

        @staticmethod
        def backward(ctx, grad):
            (t,) = ctx.saved_tensors
            return grad * (t if saved == "output" else t.exp())

    return Exp


def keeps_its_output(torch, how):
    """A function whose ctx holds the output of its own call, on the tape."""

    class Keeps(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.y = x * 2
            ctx.all = [ctx.y] if how == "list" else None
            ctx.y = ctx.y if how == "attribute" else None
            Keeps.last = weakref.ref(ctx)
            return ctx.y if how == "attribute" else ctx.all[0]

        @staticmethod
        def backward(ctx, grad):
            return 2 * grad

    return Keeps


@pytest.mark.parametrize("how", ["attribute", "list"])
@pytest.mark.parametrize("walked", [False, True])
def test_an_output_that_its_own_ctx_holds_is_found_by_the_garbage_collector(torch, how, walked):
    keeps = keeps_its_output(torch, how)
    y = keeps.apply(torch.ones(3, requires_grad=True))
    if walked:
        y.sum().backward()
    gc.collect()
    assert keeps.last() is not None
    del y
    gc.collect()
    assert keeps.last() is None


def step_inside_of_backward(torch, p):
    optimizer = torch.optim.SGD([p], lr=0.1)
    p.register_post_accumulate_grad_hook(lambda p: optimizer.step())


def scaled_by_itself(torch, p):
    p.register_hook(lambda g: g * p.detach())


@pytest.mark.parametrize("hooked", [step_inside_of_backward, scaled_by_itself])
@pytest.mark.parametrize("parameter", [False, True])
def test_a_leaf_that_its_own_hook_holds_is_found_by_the_garbage_collector(torch, hooked, parameter):
    p = torch.nn.Parameter(torch.ones(3)) if parameter else torch.ones(3, requires_grad=True)
    hooked(torch, p)
    loss, gone = p.square().sum(), weakref.ref(p)
    del p
    gc.collect()
    assert gone() is not None  # the tape leads there
    loss.backward()
    assert gone().grad is not None
    del loss
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("saved", ["input", "output"])
def test_a_tape_that_nobody_walks_is_freed_with_its_last_tensor(torch, saved):
    exp = exp_function(torch, saved)
    x = torch.ones(3, requires_grad=True)
    gc.disable()
    try:
        y = exp.apply(x)
        assert exp.last() is not None
        del y
        assert exp.last() is None
    finally:
        gc.enable()


def test_backward_sees_what_was_saved_although_it_was_written_to(torch):
    exp = exp_function(torch, "input")
    x = torch.zeros(3, requires_grad=True)
    h = x * 1
    y = exp.apply(h)
    with torch.no_grad():
        h += 5
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0, 1.0]


def test_a_function_is_not_to_be_made_into_an_object(torch):
    exp = exp_function(torch, "input")
    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        made = exp()
    with pytest.raises(RuntimeError, match="Legacy autograd function"):
        made(torch.ones(2))


def test_vmap_may_branch_on_values(torch):
    def relu(x):
        return x if x > 0 else x * 0

    assert torch.func.vmap(relu)(torch.tensor([-1.0, 2.0])).tolist() == [0.0, 2.0]


def test_vmap_of_no_examples_has_the_sizes_of_one(torch):
    assert torch.func.vmap(lambda x: x @ x)(torch.ones(0, 3, 3)).shape == (0, 3, 3)


def test_vmap_with_the_same_or_with_different_numbers(torch):
    draw = lambda x: x + torch.rand(())  # noqa: E731
    same = torch.func.vmap(draw, randomness="same")(torch.zeros(3)).tolist()
    different = torch.func.vmap(draw, randomness="different")(torch.zeros(3)).tolist()
    assert len(set(same)) == 1 and len(set(different)) == 3


def test_a_checkpoint_runs_its_function_once_more_in_backward(torch):
    from importlib import import_module

    checkpoint, calls = import_module(f"{torch.__name__}.utils.checkpoint").checkpoint, []

    def f(x):
        calls.append(torch.is_grad_enabled())
        return x.sin()

    for reentrant in (True, False):
        x = torch.ones(2, requires_grad=True)
        y = checkpoint(f, x, use_reentrant=reentrant)
        assert len(calls) == 1
        y.sum().backward()
        assert len(calls) == 2
        calls.clear()


class Scale:
    """As little of a module as functional_call needs."""

    def __init__(self, torch):
        self._parameters, self._buffers = {"w": torch.ones(2), "tied": None}, {"b": torch.zeros(2)}
        self._parameters["tied"] = self._parameters["w"]

    def named_parameters(self, remove_duplicate=True):
        return list(self._parameters.items())[: 1 if remove_duplicate else None]

    def named_buffers(self, remove_duplicate=True):
        return list(self._buffers.items())

    def __call__(self, x):
        return x * self._parameters["w"] * self._parameters["tied"] + self._buffers["b"]


def test_functional_call_puts_other_tensors_in_place_and_takes_them_out_again(torch):
    call, module, x = torch.func.functional_call, Scale(torch), torch.ones(2)
    own = module._parameters["w"]
    assert call(module, {"w": x * 3}, x).tolist() == [9.0, 9.0]
    assert call(module, {"w": x * 3}, (x,), tie_weights=False).tolist() == [3.0, 3.0]
    assert call(module, ({"w": x}, {"b": x}), x).tolist() == [2.0, 2.0]
    assert module._parameters["w"] is own and module._parameters["tied"] is own
    gradient = torch.func.grad(lambda w: call(module, {"w": w}, x).sum())(x * 3)
    assert gradient.tolist() == [6.0, 6.0]
    with pytest.raises(RuntimeError, match="Missing key"):
        call(module, {"w": x}, x, strict=True)


def test_anomaly_mode_names_a_custom_function(torch):
    class Broken(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * float("nan")

    x = torch.ones(2, requires_grad=True)
    with torch.autograd.set_detect_anomaly(True):
        y = Broken.apply(x)  # here
        named = pytest.warns(UserWarning, match="Broken.apply")
        with (
            named,
            pytest.raises(RuntimeError, match="Function 'BrokenBackward' returned nan values in its 0th output"),
        ):
            y.sum().backward()


def test_a_line_that_was_recorded_before_anomaly_mode_is_not_known(torch):
    scope = {"x": torch.tensor([-1.0], requires_grad=True)}
    exec(compile("y = x.sqrt()", "a program that is gone", "exec"), scope)
    gc.collect()
    with torch.autograd.set_detect_anomaly(True):
        unnamed = pytest.warns(UserWarning, match="No forward pass information available")
        with unnamed, pytest.raises(RuntimeError, match="nan values"):
            scope["y"].sum().backward()


def test_a_warning_of_anomaly_mode_that_is_an_error_is_raised(torch):
    with torch.autograd.set_detect_anomaly(True), warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="Error detected in SqrtBackward0"):
            torch.tensor([-1.0], requires_grad=True).sqrt().sum().backward()


def test_the_examples_of_the_page_on_gradients_run(torch):
    blocks = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.S)
    assert len(blocks) >= 5
    as_torch = "" if torch.__name__ == "torch" else f"import {torch.__name__}; {torch.__name__}.install()\n"
    for block in blocks:  # in a process of its own: there torch can be brisk
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", as_torch + block], capture_output=True, text=True)
        assert done.returncode == 0, f"{block}\n{done.stderr}"


def test_the_class_of_a_custom_function_goes_with_its_last_use_and_the_next_one_is_not_taken_for_it(torch):
    def made(factor):
        class Times(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * factor

        assert Times.apply(torch.ones(2)).tolist() == [factor, factor]
        return weakref.ref(Times)

    for factor in range(100):
        gone = made(float(factor))
        gc.collect()
        assert gone() is None


def scale_function(torch):
    class Scale(torch.autograd.Function):
        seen = []

        @staticmethod
        def forward(ctx, x, factor):
            Scale.seen.append((sorted(vars(ctx)), ctx.saved_tensors, ctx.needs_input_grad))
            ctx.factor = factor
            ctx.save_for_backward(x)
            ctx.set_materialize_grads(False)
            ctx.needs_input_grad = "mine"
            return x * factor

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.factor, None

    return Scale


def test_a_ctx_knows_nothing_of_the_calls_before_it(torch):
    scale = scale_function(torch)
    x = torch.ones(3, requires_grad=True)
    for _ in range(5):
        x.grad = None
        scale.apply(scale.apply(x, 2.0), 3.0).sum().backward()
        assert x.grad.tolist() == [6.0, 6.0, 6.0]
    assert scale.seen == [([], (), (True, False))] * 10


def test_a_ctx_that_somebody_holds_is_not_given_to_another_call(torch):
    held = []

    class Keep(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.number = len(held)
            held.append(ctx if len(held) % 2 else ctx.__dict__)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    x = torch.ones(3, requires_grad=True)
    for _ in range(6):
        Keep.apply(x).sum().backward()
    assert [h.number if k % 2 else h["number"] for k, h in enumerate(held)] == list(range(6))


def test_the_finalizer_of_a_ctx_runs_when_its_call_is_over(torch):
    gone = []

    class Last(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.number = x.shape[0]
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    x = torch.ones(3, requires_grad=True)
    Last.apply(x).sum().backward()
    Last._backward_cls.__del__ = lambda ctx: gone.append(ctx.number)
    for n in (1, 2):
        y = Last.apply(torch.ones(n, requires_grad=True))
        assert len(gone) == n - 1
        del y
    assert gone == [1, 2]


def test_a_forward_and_a_backward_may_be_replaced_between_two_calls(torch):
    scale = scale_function(torch)
    x = torch.ones(3, requires_grad=True)
    y = scale.apply(x, 2.0)
    scale.forward = staticmethod(lambda ctx, x, factor: x * 10)
    scale.backward = staticmethod(lambda ctx, grad: (grad * 7, None))
    y.sum().backward()
    assert x.grad.tolist() == [7.0, 7.0, 7.0]
    assert scale.apply(x, 2.0).tolist() == [10.0, 10.0, 10.0]


def test_apply_leaves_the_arguments_of_its_caller_as_they_are(torch):
    scale = scale_function(torch)
    x = torch.ones(3, requires_grad=True)
    given = [x, 2.0]
    bound = scale.apply
    for call in (scale.apply, bound, lambda *a: scale.apply(*a), functools.partial(scale.apply, x)):
        args = given if not isinstance(call, functools.partial) else given[1:]
        assert call(*args).tolist() == [2.0, 2.0, 2.0]
    assert given[0] is x and given[1] == 2.0
    assert [f(2.0).tolist() for f in map(functools.partial, [scale.apply] * 2, [x] * 2)] == [[2.0] * 3] * 2


@pytest.mark.parametrize("walked", [False, True])
def test_a_chain_of_calls_of_any_length_is_freed(torch, walked):
    scale = scale_function(torch)
    x = torch.ones(2, requires_grad=True)
    y = x
    for _ in range(50000):
        y = scale.apply(y, 1.0)
    if walked:
        y.sum().backward()
        assert x.grad.tolist() == [1.0, 1.0]
    first = weakref.ref(scale.apply(x, 1.0))
    del y
    assert first() is None
