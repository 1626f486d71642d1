"""The programs of the articles that the project answers, run as they are written.

The articles are not part of the project: where they are missing, these tests are skipped.
"""

import pathlib
import re
import subprocess
import sys

import pytest

ARTICLES = pathlib.Path(__file__).resolve().parents[3] / "shared" / "seeds"


def programs(number):
    """The Python blocks of an article."""
    found = sorted(ARTICLES.glob(f"{number:03d}_*.txt")) if ARTICLES.is_dir() else []
    if not found:
        pytest.skip("the articles are not here")
    return re.findall(r"```python\n(.*?)```", found[0].read_text(encoding="utf-8", errors="replace"), re.S)


def run(tmp_path, text):
    script = tmp_path / "program.py"
    script.write_text(text, encoding="utf-8")
    done = subprocess.run([sys.executable, "-m", "brisk", "run", script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_article_002_vectorised_programs_run_unmodified(tmp_path):
    slow_add, fast_add, slow_apply, fast_apply, slow_conditional, fast_conditional = programs(2)
    setup = {}
    for name, text in (("add", slow_add), ("apply", slow_apply), ("conditional", slow_conditional)):
        # The vectorised block uses what its neighbour has defined, up to the call of the slow loop.
        setup[name] = re.sub(r"^slow_\w+_result = .*$|^slow_result = .*$", "", text, flags=re.M)
    head = "import torch\n" if "import torch" not in slow_add else ""
    check = "\nprint(tuple({}.shape))\n"
    out = run(tmp_path, head + setup["add"] + fast_add + check.format("fast_result"))
    assert out.startswith("(")
    out = run(tmp_path, "import torch\n" + setup["apply"] + fast_apply + check.format("fast_apply_result"))
    assert out == "(100, 100, 10)\n"
    out = run(
        tmp_path, "import torch\n" + setup["conditional"] + fast_conditional + check.format("fast_conditional_result")
    )
    assert out == "(1000, 1000)\n"


def test_article_002_unflatten_of_an_index_says_what_is_meant(tmp_path):
    text = programs(2)[2]
    script = tmp_path / "program.py"
    script.write_text("import torch\n" + text, encoding="utf-8")
    done = subprocess.run([sys.executable, "-m", "brisk", "run", script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert "unravel_index" in done.stderr


def test_article_003_programs_run_unmodified(tmp_path):
    naive, _, pure = programs(3)
    assert "PyTorch execution time" in run(tmp_path, naive)
    assert "Pure Python execution time" in run(tmp_path, pure)


def test_article_001_vectorised_and_einsum_functions_run_unmodified(tmp_path):
    _, fast, einsum = programs(1)
    assert run(tmp_path, fast + "\nprint(x.grad.allclose(2 * x))") == "True\n"
    assert run(tmp_path, einsum + "\nprint(tuple(x.grad.shape), tuple(y.grad.shape))") == "(100, 50) (50, 200)\n"
