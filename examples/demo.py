"""What `make demo` shows: the programs of this directory, run as written under brisk. Usage: demo.py [C_PROGRAMS]

Where PyTorch is installed each Python program also runs with it, and the times of both runs are shown; start-up is in
both. They are single runs for the eye; `make bench` is what measures.
"""

import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
BRISK = [sys.executable, "-m", "brisk", "run"]


def run(command, directory=None):
    env = {k: v for k, v in os.environ.items() if k != "BRISK_AS_TORCH"}
    start = time.perf_counter()
    result = subprocess.run([str(part) for part in command], env=env, cwd=directory, capture_output=True, text=True)
    return time.perf_counter() - start, result


def show(title, result):
    print(f"\n== {title}")
    for line in (result.stdout + result.stderr).splitlines():
        print("   " + line)


def main():
    has_torch = importlib.util.find_spec("torch") is not None
    failures = 0
    for program in sorted((HERE / "python").glob("*.py")):
        seconds, result = run([*BRISK, program])
        show(f"brisk run {program.name}   {seconds:.2f} s", result)
        failures += result.returncode != 0
        if has_torch:
            seconds, result = run([sys.executable, program])
            print(f"   (with PyTorch: {seconds:.2f} s{', failed' if result.returncode else ''})")
    for directory in sys.argv[1:]:
        for source in sorted((HERE / "c").glob("*.c")):
            with tempfile.TemporaryDirectory() as scratch:  # for those that write files
                seconds, result = run([pathlib.Path(directory).absolute() / source.stem], scratch)
            show(f"{source.stem} (C)   {seconds:.2f} s", result)
            failures += result.returncode != 0
    if not has_torch:
        print("\nPyTorch is not installed here, so there is nothing to compare with: `make bench` installs it.")
    if failures:
        print(f"\n{failures} of the programs failed")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
