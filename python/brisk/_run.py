"""Runs a program as `python script.py` or `python -m module` would, with torch resolved to brisk.

The program cannot tell: argv, __main__ and its attributes, sys.path[0], tracebacks and exit codes are those of a plain
run. It happens in this process, not in a fresh interpreter, because `_compile` is where the source can be looked at.
"""

import atexit
import importlib.machinery
import importlib.util
import io
import os
import signal
import sys
import types

from ._install import install


class RunError(Exception):
    """The program could not be started; the message is for the command line."""


def run_script(path, args):
    """`python path args...`; path may also be a directory or an archive with a __main__.py."""
    install()
    if os.path.isdir(path) or path.endswith((".zip", ".pyz")):
        path_entry = os.path.abspath(path)
        _set_first_path(path_entry)
        spec = importlib.machinery.PathFinder.find_spec("__main__", [path_entry])
        if spec is None:
            raise RunError(f"can't find '__main__' module in {path!r}")
        _execute(spec.loader.get_code("__main__"), [path, *args], _module_attributes(spec))
        return
    file = os.path.abspath(path)
    try:
        with io.open_code(file) as f:
            source = f.read()
    except OSError as error:
        raise RunError(f"can't open file {file!r}: [Errno {error.errno}] {error.strerror}") from None
    _set_first_path(os.path.dirname(os.path.realpath(file)))
    loader = importlib.machinery.SourceFileLoader("__main__", file)
    attributes = {"__file__": file, "__loader__": loader, "__package__": None, "__spec__": None, "__cached__": None}
    _execute(lambda: _compile(source, file), [path, *args], attributes)


def run_module(name, args):
    """`python -m name args...`"""
    install()
    _set_first_path(os.getcwd())
    sys.argv[:] = ["-m", *args]
    spec = _find_module(name)
    _execute(lambda: _module_code(spec), [spec.origin, *args], _module_attributes(spec))


def _compile(source, file):
    return compile(source, file, "exec", dont_inherit=True)


def _module_code(spec):
    if isinstance(spec.loader, importlib.machinery.SourceFileLoader):
        return _compile(spec.loader.get_data(spec.origin), spec.origin)
    return spec.loader.get_code(spec.name)


def _find_module(name):
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        raise RunError(f"Error while finding module specification for {name!r} ({error})") from None
    if spec is None:
        raise RunError(f"No module named {name}")
    if spec.submodule_search_locations is not None:
        main = importlib.util.find_spec(name + ".__main__")
        if main is None:
            raise RunError(f"No module named {name}.__main__; {name!r} is a package and cannot be directly executed")
        return main
    return spec


def _module_attributes(spec):
    return {
        "__file__": spec.origin,
        "__loader__": spec.loader,
        "__package__": spec.parent,
        "__spec__": spec,
        "__cached__": spec.cached,
    }


def _set_first_path(directory):
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = directory


def _execute(code, argv, attributes):
    """Runs a code object, or what the function `code` returns, as __main__."""
    main = types.ModuleType("__main__")
    main.__dict__.update(attributes, __builtins__=sys.modules["builtins"])
    if sys.version_info < (3, 14):
        main.__annotations__ = {}
    sys.modules["__main__"] = main
    sys.argv[:] = argv
    interrupted = _die_of_interrupt_at_exit()
    try:
        exec(code() if callable(code) else code, main.__dict__)
    except SystemExit:
        raise
    except BaseException as error:
        # frames: this one, and `code` with _compile where a SyntaxError came from there
        traceback = error.__traceback__.tb_next
        while traceback is not None and traceback.tb_frame.f_code.co_filename == __file__:
            traceback = traceback.tb_next
        failure = error.with_traceback(traceback)
    else:
        return
    # outside the handler, so that an excepthook that raises is not chained to the program's error
    sys.last_type, sys.last_value, sys.last_traceback = type(failure), failure, traceback
    sys.excepthook(type(failure), failure, traceback)
    if isinstance(failure, KeyboardInterrupt):
        interrupted.append(True)
    sys.exit(1)


def _die_of_interrupt_at_exit():
    """A list; when it is not empty at exit, the process ends by SIGINT, as Python ends after a KeyboardInterrupt.

    Registered before the program's own exit functions, so it runs after them."""
    interrupted = []

    def die():
        if interrupted:
            sys.stdout.flush()
            sys.stderr.flush()
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)

    atexit.register(die)
    return interrupted
