"""profile and record_function: how long the named parts of a program take.

Operations are recorded and evaluated together, so there is no time of a single one to show. What is measured is what
the program names: each record_function from its beginning to its end, and the whole. Values are computed where they are
read; a part that reads none of its own has the time it takes to record. With `evaluate=True` all that was recorded is
evaluated at the end of each part, which is another program, but shows where the time goes.
"""

import functools
import json
import os
import threading
import time

from brisk import _C

__all__ = ["profile", "record_function"]

_running = []  # the profiles that are on, innermost last


class _Event:
    """One run of a part: its name, its begin and length in microseconds, and how much of it was within other parts."""

    def __init__(self, name, begin):
        self.name = self.key = name
        self.begin, self.cpu_time_total, self.inside, self.thread = begin, 0.0, 0.0, threading.get_ident()

    @property
    def self_cpu_time_total(self):
        return self.cpu_time_total - self.inside

    cpu_time = property(lambda self: self.cpu_time_total)
    count = 1


class record_function:  # noqa: N801  (PyTorch's name)
    """A named part of a program: a context, or a decorator."""

    def __init__(self, name, args=None):
        self.name, self.args, self._event = name, args, None

    def __enter__(self):
        if _running:
            self._event = _running[-1]._begin(self.name)
        return self

    def __exit__(self, *error):
        if self._event is not None:
            self._event[0]._end(self._event[1])
            self._event = None

    def __call__(self, function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            with record_function(self.name):
                return function(*args, **kwargs)

        return wrapper


class _Average:
    """All runs of one part."""

    def __init__(self, key, events):
        self.key, self.count = key, len(events)
        self.cpu_time_total = sum(e.cpu_time_total for e in events)
        self.self_cpu_time_total = sum(e.self_cpu_time_total for e in events)
        self.cpu_time = self.cpu_time_total / max(1, self.count)


class EventList(list):
    """Events or averages, as a table."""

    @property
    def self_cpu_time_total(self):
        return sum(e.self_cpu_time_total for e in self)

    def table(self, sort_by=None, row_limit=100, max_name_column_width=55, top_level_events_only=False, **ignored):
        """A line for each, with milliseconds."""
        rows = list(self)
        if sort_by:
            by = sort_by.replace("cuda", "cpu").replace("device", "cpu")
            rows.sort(key=lambda e: getattr(e, by, 0), reverse=True)
        rows = rows if row_limit is None or row_limit < 0 else rows[:row_limit]
        width = max([len("Name"), *(min(len(e.key), max_name_column_width) for e in rows)])
        lines = [f"{'Name':{width}}  {'Self CPU':>12}  {'CPU total':>12}  {'CPU time avg':>12}  {'# of Calls':>10}"]
        lines.append("-" * len(lines[0]))
        for e in rows:
            times = (e.self_cpu_time_total, e.cpu_time_total, e.cpu_time_total / max(1, e.count))
            lines.append(
                f"{e.key[:max_name_column_width]:{width}}" + "".join(f"  {t / 1e3:9.3f} ms" for t in times)
                + f"  {e.count:10}"
            )  # fmt: skip
        return "\n".join([*lines, f"Self CPU time total: {self.self_cpu_time_total / 1e3:.3f} ms", ""])

    __str__ = table


class profile:  # noqa: N801  (PyTorch's name)
    """Measures the parts that are named within it. What else PyTorch's takes is accepted and changes nothing."""

    def __init__(self, enabled=True, *, evaluate=False, **ignored):
        self.enabled, self.evaluate, self._events, self._open = enabled, evaluate, EventList(), {}

    def _stack(self):
        return self._open.setdefault(threading.get_ident(), [])

    def _begin(self, name):
        event = _Event(name, time.perf_counter() * 1e6)
        self._stack().append(event)
        return self, event

    def _end(self, event):
        if self.evaluate:
            _C.sync()
        event.cpu_time_total = time.perf_counter() * 1e6 - event.begin
        stack = self._stack()
        while stack and stack.pop() is not event:
            pass
        if stack:
            stack[-1].inside += event.cpu_time_total
        self._events.append(event)

    def __enter__(self):
        if self.enabled:
            _running.append(self)
            self._whole = self._begin("(the whole)")[1]
        return self

    def __exit__(self, *error):
        if self.enabled:
            self._end(self._whole)
            _running.remove(self)

    @property
    def function_events(self):
        """Every run of a part."""
        return self._events

    def events(self):
        """Every run of a part."""
        return self._events

    def key_averages(self, group_by_input_shape=False, group_by_stack_n=0, **ignored):
        """One entry for each name."""
        names = dict.fromkeys(e.name for e in self._events)
        return EventList(_Average(name, [e for e in self._events if e.name == name]) for name in names)

    def total_average(self):
        """Everything as one entry."""
        return _Average("Total", self._events)

    @property
    def self_cpu_time_total(self):
        return self._events.self_cpu_time_total

    def table(self, sort_by=None, row_limit=100, **options):
        """The events as a table."""
        return self._events.table(sort_by, row_limit, **options)

    def __str__(self):
        return self.table()

    def export_chrome_trace(self, path):
        """A file that chrome://tracing and Perfetto show."""
        found = [
            {"name": e.name, "ph": "X", "ts": e.begin, "dur": e.cpu_time_total, "pid": os.getpid(), "tid": e.thread}
            for e in self._events
        ]
        with open(path, "w") as f:
            json.dump({"traceEvents": found}, f)
