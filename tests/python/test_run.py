"""`brisk run` against `python`: a program must not be able to tell them apart, but by what `import torch` gives."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest


def write(directory, files):
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))


def execute(command, directory, **extra):
    env = {k: v for k, v in os.environ.items() if k != "BRISK_AS_TORCH"}
    extra.setdefault("preexec_fn", lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))  # ignored in the background
    return subprocess.run(command, cwd=directory, env=env, capture_output=True, text=True, timeout=60, **extra)


def brisk_run(*args, directory):
    return execute([sys.executable, "-m", "brisk", "run", *args], directory)


# Programs that do not import torch: standard output, standard error and exit code must be those of python.
PROGRAMS = {
    "prints_its_surroundings": """
        import sys
        print(__name__, __file__, __package__, __spec__, type(__loader__).__name__, __doc__)
        print(sys.argv, sys.path[0], sys.modules["__main__"].__dict__ is globals())
        print(sorted(k for k in globals()))
        """,
    "raises": """
        def f(x):
            return 1 / x
        f(0)
        """,
    "raises_from_another_error": """
        try:
            {}["key"]
        except KeyError as e:
            raise RuntimeError("second") from e
        """,
    "has_a_syntax_error": """
        x = 1
        y = = 2
        """,
    "exits_with_a_number": "import sys; sys.exit(7)",
    "exits_with_a_text": "import sys; sys.exit('no input')",
    "exits_with_nothing": "raise SystemExit",
    "runs_exit_functions": """
        import atexit
        atexit.register(print, "bye")
        raise ValueError("x")
        """,
    "has_its_own_excepthook": """
        import sys
        sys.excepthook = lambda kind, value, tb: print("hook", kind.__name__, value, tb.tb_lineno)
        raise ValueError("mine")
        """,
    "is_interrupted": """
        import os, signal
        os.kill(os.getpid(), signal.SIGINT)
        while True:
            pass
        """,
    "uses_future_annotations": """
        from __future__ import annotations
        def f(x: Unknown): return x
        print(f.__annotations__)
        """,
    "pickles_its_own_class": """
        import pickle
        class A:
            pass
        print(type(pickle.loads(pickle.dumps(A()))))
        """,
    "imports_its_neighbour": "import neighbour; print(neighbour.value)",
    "is_told_to_spawn": """
        import multiprocessing as mp
        def work(x):
            return x + 1
        if __name__ == "__main__":
            with mp.get_context("spawn").Pool(1) as pool:
                print(pool.map(work, [1, 2]))
        """,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_script_runs_as_under_python(tmp_path, name):
    write(tmp_path, {"sub/program.py": PROGRAMS[name], "sub/neighbour.py": "value = 42"})
    expected = execute([sys.executable, "sub/program.py", "-x", "--y=1"], tmp_path)
    got = brisk_run("sub/program.py", "-x", "--y=1", directory=tmp_path)
    assert (got.stdout, got.stderr, got.returncode) == (expected.stdout, expected.stderr, expected.returncode)


@pytest.mark.parametrize("module", ["package", "package.inner", "plain"])
def test_a_module_runs_as_under_python(tmp_path, module):
    text = """
        import sys
        print(__name__, __file__, __package__, __spec__.name, sys.argv, sys.path[0])
        def f():
            raise ValueError("x")
        f()
        """
    files = ("package/__init__.py", ""), ("package/__main__.py", text), ("package/inner.py", text), ("plain.py", text)
    write(tmp_path, dict(files))
    expected = execute([sys.executable, "-m", module, "-a"], tmp_path)
    got = brisk_run("-m", module, "-a", directory=tmp_path)
    assert (got.stdout, got.returncode) == (expected.stdout, expected.returncode)
    # python shows two frames of runpy above the program's; ours shows none
    assert got.stderr.splitlines()[1:] == expected.stderr.splitlines()[-len(got.stderr.splitlines()) + 1 :]
    assert "_run.py" not in got.stderr and "runpy" not in got.stderr


def test_a_directory_with_main_runs_as_under_python(tmp_path):
    program = "import sys, other; print(__name__, sys.argv, sys.path[0])"
    write(tmp_path, {"app/__main__.py": program, "app/other.py": ""})
    expected = execute([sys.executable, "app"], tmp_path)
    got = brisk_run("app", directory=tmp_path)
    assert (got.stdout, got.stderr, got.returncode) == (expected.stdout, expected.stderr, expected.returncode)


@pytest.mark.parametrize("arguments", [["missing.py"], ["-m", "no_such_module"]])
def test_a_missing_program_gives_pythons_message_and_code(tmp_path, arguments):
    expected = execute([sys.executable, *arguments], tmp_path)
    got = brisk_run(*arguments, directory=tmp_path)
    assert (got.stdout, got.stderr, got.returncode) == (expected.stdout, expected.stderr, expected.returncode)


CHECK = """
    import importlib.util
    import brisk, torch, torch.nn.functional as F
    from torch import nn
    assert torch is brisk and nn is brisk.nn and F is brisk.nn.functional
    assert torch.__spec__.name == "brisk" and F.__spec__.name == "brisk.nn.functional"
    assert importlib.util.find_spec("torch.no_such_thing") is None
    try:
        import torch.no_such_thing
    except ModuleNotFoundError as e:
        assert e.name == "torch.no_such_thing" and "torch.no_such_thing" in str(e)
    else:
        raise AssertionError
    print("same")
    """


def test_torch_and_its_submodules_are_brisk(tmp_path):
    write(tmp_path, {"check.py": CHECK})
    got = brisk_run("check.py", directory=tmp_path)
    assert (got.stdout, got.stderr) == ("same\n", "")


def test_install_does_the_same_in_a_running_process(tmp_path):
    write(tmp_path, {"check.py": "import brisk; brisk.install(); brisk.install()" + textwrap.dedent(CHECK)})
    got = execute([sys.executable, "check.py"], tmp_path)
    assert (got.stdout, got.stderr) == ("same\n", "")


def test_install_refuses_when_another_torch_is_loaded(tmp_path):
    write(tmp_path, {"torch.py": "", "late.py": "import sys, torch, brisk; brisk.install()"})
    got = execute([sys.executable, "late.py"], tmp_path)
    assert got.returncode == 1 and "before the first `import torch`" in got.stderr


def test_without_install_torch_is_not_brisk(tmp_path):
    write(tmp_path, {"plain.py": "import brisk, sys; assert 'torch' not in sys.modules; print('apart')"})
    assert execute([sys.executable, "plain.py"], tmp_path).stdout == "apart\n"


def test_a_program_can_ask_which_pytorch_it_can_count_on(tmp_path):
    program = """
        import torch
        from torch.torch_version import TorchVersion
        v = torch.__version__
        print(v, isinstance(v, TorchVersion), v >= "1.8", v >= (2, 9), v < "2.14", v == "2.13", torch.version.cuda)
        print(TorchVersion("2.13.0") == (2, 13), TorchVersion("2.10") > "2.9", TorchVersion("2.0rc1") < "2.0")
        """
    write(tmp_path, {"program.py": program})
    got = brisk_run("program.py", directory=tmp_path)
    assert got.stdout == "2.13.0+brisk True True True True False None\nTrue True True\n", got.stderr


def test_a_child_process_resolves_torch_too(tmp_path):
    parent = """
        import subprocess, sys
        print(subprocess.run([sys.executable, "check.py"], capture_output=True, text=True).stdout, end="")
        """
    write(tmp_path, {"check.py": CHECK, "parent.py": parent})
    got = brisk_run("parent.py", directory=tmp_path)
    assert (got.stdout, got.stderr) == ("same\n", "")


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_workers_of_multiprocessing_resolve_torch_too(tmp_path, method):
    program = f"""
        import multiprocessing as mp
        def work(_):
            import brisk, torch
            return torch is brisk
        if __name__ == "__main__":
            with mp.get_context({method!r}).Pool(2) as pool:
                print(pool.map(work, range(3)))
        """
    write(tmp_path, {"program.py": program})
    got = brisk_run("program.py", directory=tmp_path)
    assert (got.stdout, got.stderr) == ("[True, True, True]\n", "")


# --- NumPy's import ---------------------------------------------------------------------------------------------------

HAS_IT = "import sys; print('num' + 'py' in sys.modules)"
MODULE = "def array(x):\n    return x.numpy()\n"
PARTS = {
    "a_program_that_does_not_mention_it": ({"main.py": f"import torch\n{HAS_IT}"}, "False"),
    "a_program_that_does": ({"main.py": f"import torch\n{HAS_IT}\ntorch.ones(2).numpy()"}, "True"),
    "a_module_that_does_and_imports_torch": (
        {"main.py": f"import part\n{HAS_IT}", "part.py": f"import torch\n{MODULE}"},
        "True",
    ),
    "a_module_that_does_and_does_not": (
        {"main.py": f"import part\nimport torch\n{HAS_IT}", "part.py": MODULE},
        "False",
    ),
}


@pytest.mark.parametrize("name", PARTS)
def test_numpy_is_imported_with_torch_for(name, tmp_path):
    files, expected = PARTS[name]
    write(tmp_path, files)
    assert brisk_run("main.py", directory=tmp_path).stdout == expected + "\n"
    write(tmp_path, {k: v.replace("import torch", "import brisk as torch") for k, v in files.items()})
    assert execute([sys.executable, "main.py"], tmp_path).stdout == expected + "\n"
