"""Comparing small scripts: lines `statement; statement :: expression`, each run in both libraries.

A line without `::` is one expression. `torch` is the module under comparison, `np` NumPy, `F` torch.nn.functional."""

import copy
import io
import pickle

import numpy as np

from tests.torch.compare import Report


def evaluate(m, line):
    setup, separator, expression = line.rpartition(" :: ")
    scope = {"torch": m, "np": np, "F": m.nn.functional, "copy": copy, "pickle": pickle, "io": io}
    if separator:
        exec(setup, scope)
    return eval(expression, scope)


def lines_of(text):
    return [line.strip() for line in text.strip().split("\n") if line.strip() and not line.strip().startswith("#")]


def compare_lines(text, **how):
    report = Report()
    for line in lines_of(text):
        for part in line.rpartition(" :: ")[::2]:
            compile(part, line, "exec")  # a misspelt line must not pass as an exception that both raise
        report.check(lambda m, line=line: evaluate(m, line), line, **how)
    report.finish()
