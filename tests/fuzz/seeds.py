"""Writes the files that fuzz_files starts from: seeds.py DIRECTORY. The first byte of each is the format."""

import io
import os
import sys
import zipfile

import brisk
import numpy as np


def seeds():
    tensors = {"a": brisk.arange(4.0), "b": {"c": brisk.arange(4).view(2, 2)}, "n": [1, 2.5, None, "x", (True, b"y")]}
    for protocol in (2, 4):
        file = io.BytesIO()
        brisk.save(tensors, file, pickle_protocol=protocol)
        yield b"\1" + file.getvalue()
        yield b"\0" + zipfile.ZipFile(file).read("archive/data.pkl")
    yield b"\2" + brisk.safetensors.save({"a": brisk.ones(2, 3), "b": brisk.zeros(0, dtype=brisk.int8)}, {"k": "v"})
    file = io.BytesIO()
    np.save(file, np.asfortranarray(np.ones((2, 3))))
    yield b"\3" + file.getvalue()
    file = io.BytesIO()
    np.savez(file, x=np.arange(3), y=np.ones(2, "f2"))
    yield b"\4" + file.getvalue()


def main(directory):
    os.makedirs(directory, exist_ok=True)
    for i, seed in enumerate(seeds()):
        with open(os.path.join(directory, f"seed{i}"), "wb") as file:
            file.write(seed)


if __name__ == "__main__":
    main(*sys.argv[1:])
