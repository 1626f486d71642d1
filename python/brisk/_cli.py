"""The command `brisk`. Each command is a function of its arguments and returns an exit code; COMMANDS lists them."""

import platform
import sys

USAGE = """\
usage: brisk <command> ...

  run script.py [args...]     run a program as written, with `import torch` resolved to brisk
  run -m module [args...]     the same for a module
  info                        what this brisk is made of and runs on
  bench [pattern] [--json FILE] [--write FILE]
                              time ratios against PyTorch and NumPy on this machine
  --version
"""


def run(args):
    from ._run import RunError, run_module, run_script

    module = args[:1] == ["-m"]
    if len(args) < 1 + module:
        return _usage_error("run needs a script, or -m and a module")
    try:
        if module:
            run_module(args[1], args[2:])
        else:
            run_script(args[0], args[1:])
    except RunError as error:
        print(f"{sys.executable}: {error}", file=sys.stderr)
        return 1 if module else 2  # as python does
    return 0


def info(args):
    if args:
        return _usage_error("info takes no arguments")
    import numpy

    from . import _C

    facts = {
        "brisk": _version(),
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "NumPy": numpy.__version__,
        **_C.info(),
        "to another core and back": f"{_C._distance_ns():.0f} ns",
    }
    width = max(map(len, facts))
    for name, value in facts.items():
        print(f"{name:<{width}}  {value}")
    return 0


def bench(args):
    from ._bench import main

    return main(args)


def version(args):
    print(f"brisk {_version()}")
    return 0


def usage(args):
    print(USAGE, end="")
    return 0


COMMANDS = {
    "run": run,
    "info": info,
    "bench": bench,
    "--version": version,
    "--help": usage,
    "-h": usage,
    "help": usage,
}


def main(argv=None):
    args = sys.argv[1:] if argv is None else argv
    if not args:
        print(USAGE, end="", file=sys.stderr)
        return 2
    if args[0] not in COMMANDS:
        return _usage_error(f"no command {args[0]!r}")
    return COMMANDS[args[0]](args[1:])


def _version():
    from . import __version__

    return __version__


def _usage_error(message):
    print(f"brisk: {message}\n{USAGE}", end="", file=sys.stderr)
    return 2
