"""torch.profiler: profile and record_function (see brisk.autograd.profiler), and what goes around them."""

import enum
import os
import time

from brisk._missing import finder
from brisk.autograd import profiler as _profiler
from brisk.autograd.profiler import record_function

__all__ = [
    "ProfilerAction", "ProfilerActivity", "profile", "record_function", "schedule", "supported_activities",
    "tensorboard_trace_handler",
]  # fmt: skip


class ProfilerActivity(enum.Enum):
    """What PyTorch can watch; here it is the CPU."""

    CPU = 0
    CUDA = 1
    XPU = 2
    MTIA = 3


class ProfilerAction(enum.Enum):
    """What a schedule says of a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def supported_activities():
    """The CPU."""
    return {ProfilerActivity.CPU}


def schedule(*, wait, warmup, active, repeat=0, skip_first=0, **ignored):
    """A function from a step's number to what is done with it: `active` steps are measured, again and again."""

    def action(step):
        step -= skip_first
        cycle = wait + warmup + active
        if step < 0 or (repeat and step // cycle >= repeat) or step % cycle < wait:
            return ProfilerAction.NONE
        if step % cycle < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if step % cycle == cycle - 1 else ProfilerAction.RECORD

    return action


def tensorboard_trace_handler(dir_name, worker_name=None, use_gzip=False):
    """For on_trace_ready: writes each trace into a file of its own."""

    def handle(found):
        os.makedirs(dir_name, exist_ok=True)
        name = f"{worker_name or os.getpid()}.{time.time_ns()}.pt.trace.json"
        found.export_chrome_trace(os.path.join(dir_name, name))

    return handle


class profile(_profiler.profile):  # noqa: N801  (PyTorch's name)
    """autograd.profiler.profile with steps: `schedule` says which are measured, `on_trace_ready` gets what was."""

    def __init__(self, *, activities=None, schedule=None, on_trace_ready=None, **options):
        super().__init__(**options)
        self._action = schedule or (lambda step: ProfilerAction.RECORD)
        self._ready, self.step_num, self._on = on_trace_ready, 0, False

    def _turn(self, on):
        if on and not self._on:
            self._events.clear()
            super().__enter__()
        elif self._on and not on:
            super().__exit__(None, None, None)
            if self._ready:
                self._ready(self)
        self._on = on

    def _measures(self):
        return self._action(self.step_num) in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)

    def start(self):
        self._turn(self._measures())

    def stop(self):
        self._turn(False)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *error):
        self.stop()

    def step(self):
        """Ends a step of the program, and begins the next."""
        save = self._action(self.step_num) is ProfilerAction.RECORD_AND_SAVE
        self.step_num += 1
        self._turn(self._measures() and not save)
        self._turn(self._measures())


__getattr__ = finder(__name__)
