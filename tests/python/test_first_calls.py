"""What an import leaves behind, and what is ready by the first call of a process."""

import os
import subprocess
import sys

import pytest

SANITIZED = "asan" in os.environ.get("LD_PRELOAD", "")


def printed(source, **environment):
    done = subprocess.run([sys.executable, "-c", source], env={**os.environ, **environment}, capture_output=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return int(done.stdout)


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="nobody tells the threads")
def test_no_thread_is_left_when_an_import_returns():
    assert printed("import os, brisk; print(len(os.listdir('/proc/self/task')))", BRISK_NUM_THREADS="2") == 1


LOOP = """
import resource
import brisk as torch
layer, state = torch.nn.Linear(64, 128), torch.nn.Linear(128, 128)
x, h, states = torch.ones(200, 1, 64), torch.zeros(1, 128), []
before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
for t in range(200):
    h = torch.tanh(layer(x[t]) + state(h))
    states.append(h)
torch.stack(states).pow(2).mean().backward()
print(resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before)
"""


@pytest.mark.skipif(SANITIZED or not sys.platform.startswith("linux"), reason="memory is another allocator's")
def test_a_first_call_finds_its_pages_touched_where_there_is_another_core():
    assert 3 * printed(LOOP, BRISK_NUM_THREADS="2") < printed(LOOP, BRISK_NUM_THREADS="1")
