"""Type stubs: they are what the package says about itself, name what it has, and a checker can use them."""

import ast
import importlib
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def load_tool():
    spec = importlib.util.spec_from_file_location("make_stubs", ROOT / "tools" / "make_stubs.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool


TOOL = load_tool()


def stub_path(name):
    package = hasattr(importlib.import_module(name), "__path__")
    return ROOT / "python" / (name.replace(".", "/") + ("/__init__.pyi" if package else ".pyi"))


def names_of(tree):
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.AnnAssign):
            yield node.target.id
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (a.asname for a in node.names if a.asname)


def test_the_stubs_are_what_the_tool_makes():
    done = subprocess.run([sys.executable, ROOT / "tools" / "make_stubs.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}\nrun: python tools/make_stubs.py"


@pytest.mark.parametrize("name", TOOL.MODULES)
def test_a_stub_names_what_its_module_has(name):
    tree = ast.parse(stub_path(name).read_text())
    module = importlib.import_module(name)
    inside = {n for n in names_of(tree) if not n.startswith("_")}
    there = {n for n in TOOL.public_names(module) if TOOL.entry(n, getattr(module, n), name)}
    assert inside == there


def test_the_stub_of_tensor_names_its_methods_and_attributes():
    import brisk

    tree = ast.parse(stub_path("brisk").read_text())
    tensor = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Tensor")
    assert {n for n in names_of(tensor) if not n.startswith("_")} == {
        n for n in vars(brisk.Tensor) if not n.startswith("_") and hasattr(brisk.Tensor, n)
    }


def test_every_annotation_is_a_type_that_the_stub_knows():
    for name in TOOL.MODULES:
        tree = ast.parse(stub_path(name).read_text())
        known = set(names_of(tree)) | {t.id for n in tree.body if isinstance(n, ast.Assign) for t in n.targets}
        known |= {a.asname or a.name for n in tree.body if isinstance(n, ast.ImportFrom) for a in n.names}
        known |= {"bool", "int", "float", "str", "object", "tuple"}
        for node in ast.walk(tree):
            if isinstance(node, ast.arg) and node.annotation is not None:
                used = {n.id for n in ast.walk(node.annotation) if isinstance(n, ast.Name)}
                assert used <= known, f"{name}: {used - known}"


SAMPLE = """
import brisk as torch
from brisk import nn
from brisk.utils.data import DataLoader, TensorDataset

x: torch.Tensor = torch.zeros(3, 4, dtype=torch.float32, requires_grad=True)
y: torch.Tensor = (x @ x.t() + 2 * x.sum()).view(3, 3)[0]
n: int = x.dim() + x.numel()
model = nn.Sequential(nn.Linear(4, 2), nn.ReLU())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for (batch,) in DataLoader(TensorDataset(x.detach()), batch_size=2):
    loss: torch.Tensor = nn.functional.relu(model(batch)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def check_types(path):
    command = [sys.executable, "-m", "mypy", "--no-incremental", "--follow-imports=silent", str(path)]
    return subprocess.run(command, capture_output=True, text=True, cwd=path.parent)


def test_a_type_checker_accepts_a_program_and_finds_a_mistake(tmp_path):
    pytest.importorskip("mypy")
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text(SAMPLE)
    bad.write_text(SAMPLE + "x.sum(no_such_argument=1)\n")
    done = check_types(good)
    assert done.returncode == 0, done.stdout
    assert "no_such_argument" in check_types(bad).stdout
