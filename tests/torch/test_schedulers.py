"""Every scheduler gives PyTorch's rates, momenta and state, epoch by epoch."""

import copy
import warnings

import pytest

from tests.torch.compare import REF, SUT, check_same, outcome

ROWS = """
LambdaLR(o, lambda e: 0.9 ** e)
LambdaLR(o, [lambda e: 0.9 ** e, lambda e: 1 / (e + 1)])
LambdaLR(o, [lambda e: 1])
MultiplicativeLR(o, lambda e: 0.95)
StepLR(o, 3)
StepLR(o, step_size=2, gamma=0.5)
MultiStepLR(o, [2, 5, 5, 9], gamma=0.3)
ConstantLR(o)
ConstantLR(o, factor=0.5, total_iters=3)
ConstantLR(o, factor=2)
LinearLR(o)
LinearLR(o, start_factor=0.2, end_factor=0.7, total_iters=7)
LinearLR(o, start_factor=0)
ExponentialLR(o, 0.9)
PolynomialLR(o, total_iters=8, power=2.0)
CosineAnnealingLR(o, 5)
CosineAnnealingLR(o, T_max=7, eta_min=0.01)
CosineAnnealingWarmRestarts(o, 4)
CosineAnnealingWarmRestarts(o, 3, T_mult=2, eta_min=0.001)
CosineAnnealingWarmRestarts(o, 0)
CyclicLR(o, 0.01, 0.2, step_size_up=3)
CyclicLR(o, 0.01, [0.2, 0.3], step_size_up=3, step_size_down=5, mode='triangular2')
CyclicLR(o, 0.01, 0.2, step_size_up=4, mode='exp_range', gamma=0.9, base_momentum=0.7)
CyclicLR(o, 0.01, 0.2, step_size_up=4, scale_fn=lambda x: 1 / x, cycle_momentum=False)
CyclicLR(o, 0.01, 0.2, mode='none')
OneCycleLR(o, 0.3, total_steps=20)
OneCycleLR(o, [0.3, 0.1], epochs=5, steps_per_epoch=4, anneal_strategy='linear')
OneCycleLR(o, 0.3, total_steps=20, three_phase=True, pct_start=0.2, cycle_momentum=False)
OneCycleLR(o, 0.3, total_steps=5)
OneCycleLR(o, 0.3)
OneCycleLR(o, 0.3, total_steps=10, anneal_strategy='x')
SequentialLR(o, [ConstantLR(o, 0.1, 2), ExponentialLR(o, 0.9)], [4])
SequentialLR(o, [LinearLR(o, total_iters=3), CosineAnnealingLR(o, 6), StepLR(o, 2)], [3, 8])
SequentialLR(o, [ConstantLR(o)], [4])
ChainedScheduler([ConstantLR(o, 0.1, 2), ExponentialLR(o, 0.9)])
ChainedScheduler([LinearLR(o), MultiStepLR(o, [2, 4])], optimizer=o)
StepLR(3, 4)
""".strip().splitlines()


def optimizer_of(m, kind="SGD"):
    p, q = m.ones(2, requires_grad=True), m.ones(3, requires_grad=True)
    options = {"momentum": 0.9} if kind == "SGD" else {}
    return getattr(m.optim, kind)([{"params": [p]}, {"params": [q], "lr": 0.05}], lr=0.1, **options)


def make(m, row, optimizer):
    return eval(row, {**vars(m.optim.lr_scheduler), "o": optimizer})


def rates(optimizer):
    return [(g["lr"], g.get("momentum"), g.get("betas")) for g in optimizer.param_groups]


def plain(state):
    return {k: [plain(s) for s in v] if k == "_schedulers" else v for k, v in state.items() if k != "_is_initial"}


def run(m, row, kind):
    optimizer = optimizer_of(m, kind)
    scheduler = make(m, row, optimizer)
    trace = [rates(optimizer)]
    for _ in range(16):
        optimizer.step()
        scheduler.step()
        trace.append((rates(optimizer), scheduler.get_last_lr()))
    state = plain(scheduler.state_dict())
    return trace, sorted((k, repr(v) if callable(v) else v) for k, v in state.items() if "lambda" not in repr(v))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize("row", ROWS)
def test_sixteen_epochs_have_pytorch_s_rates(row, kind):
    ours, theirs = outcome(run, SUT, row, kind), outcome(run, REF, row, kind)
    check_same(ours, theirs, row, rtol=1e-12, atol=1e-14)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("row", [r for r in ROWS if "lambda" not in r and "o, 0)" not in r])
def test_a_schedule_goes_on_from_its_state_dict(row):
    def resumed(m):
        optimizer = optimizer_of(m)
        first = make(m, row, optimizer)
        for _ in range(3):
            first.step()
        saved, saved_optimizer = copy.deepcopy(first.state_dict()), copy.deepcopy(optimizer.state_dict())
        other = optimizer_of(m)
        second = make(m, row, other)
        second.load_state_dict(saved)
        other.load_state_dict(saved_optimizer)
        trace = []
        for _ in range(5):
            second.step()
            trace.append(rates(other))
        return trace

    check_same(outcome(resumed, SUT), outcome(resumed, REF), row, rtol=1e-12, atol=1e-14)


METRICS = [3.0, 2.0, 2.0, 2.0, 2.0, 1.99999, 1.5, 1.6, 1.7, 1.8, 1.4, 1.4, 1.4, 1.4, 1.4, 0.1]
PLATEAUS = [
    "ReduceLROnPlateau(o, patience=1)",
    "ReduceLROnPlateau(o, 'max', patience=2, factor=0.5)",
    "ReduceLROnPlateau(o, patience=0, cooldown=2, threshold_mode='abs', threshold=0.05)",
    "ReduceLROnPlateau(o, patience=0, min_lr=[0.03, 0.04])",
    "ReduceLROnPlateau(o, factor=1.0)",
    "ReduceLROnPlateau(o, mode='x')",
    "ReduceLROnPlateau(o, threshold_mode='x')",
]


@pytest.mark.parametrize("row", PLATEAUS)
def test_a_plateau_lowers_the_rate(row):
    def follow(m):
        optimizer = optimizer_of(m)
        scheduler = make(m, row, optimizer)
        trace = []
        for metric in METRICS:
            scheduler.step(m.tensor(metric))
            trace.append((rates(optimizer), scheduler.get_last_lr()))
        return trace, list(scheduler.state_dict().items())

    check_same(outcome(follow, SUT), outcome(follow, REF), row, rtol=1e-6)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("row", ["StepLR(o, 3)", "ExponentialLR(o, 0.5)", "CosineAnnealingWarmRestarts(o, 3, 2)"])
def test_an_epoch_can_be_named(row):
    def follow(m):
        optimizer = optimizer_of(m)
        scheduler = make(m, row, optimizer)
        trace = []
        for epoch in (1, 5, 9, 2):
            scheduler.step(epoch)
            trace.append(rates(optimizer))
        return trace

    check_same(follow(SUT), follow(REF), row, rtol=1e-12)


def test_a_scheduler_that_steps_first_warns(torch):
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer_of(torch), 3)
    with pytest.warns(UserWarning, match=r"lr_scheduler.step\(\)` before `optimizer.step\(\)"):
        scheduler.step()


def test_one_that_comes_after_does_not(torch):
    optimizer = optimizer_of(torch)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.step()
        scheduler.step()
