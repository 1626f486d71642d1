# Front doors. The build itself is Meson's (meson.build); everything here happens in build/ and .venv/.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BUILD := build/release
ASAN_VENV := .venv-asan
TORCH := torch==2.13.0
PROGRAMS ?= 20000
SECONDS ?= 60
C_SOURCES = $(shell find include src python tests examples -name '*.[ch]')
PYTEST := -m pytest -q -p no:cacheprovider

.DEFAULT_GOAL := help
.PHONY: help install demo test test-c test-python test-torch fuzz fuzz-files bench asan lint format stubs clean

help:
	@echo 'make demo        build, then run the programs of examples/ as written'
	@echo 'make test        C tests and Python tests (no PyTorch needed)'
	@echo 'make test-torch  tests against PyTorch 2.13 as the oracle'
	@echo 'make fuzz        random programs against PyTorch (PROGRAMS=20000 of them)'
	@echo 'make fuzz-files  broken files, with clang and libFuzzer (SECONDS=60)'
	@echo 'make bench       ratios against PyTorch and NumPy (CASE=pattern selects)'
	@echo 'make asan        all tests under AddressSanitizer and UBSan'
	@echo 'make lint        formatting, ruff, and where there is clang a build with it and tests of its kernels'
	@echo 'make stubs       write the type stubs again, after a public name has changed'
	@echo 'make format      rewrite the sources as lint wants them'
	@echo 'make install     build and install into .venv (activate it to use brisk)'
	@echo 'make clean       remove build/ and the virtual environments'

# --- the environment ---------------------------------------------------------------------------------------------

$(VENV)/ready: Makefile
	@command -v $${CC:-cc} >/dev/null 2>&1 || { \
	    echo "brisk needs a C compiler: '$${CC:-cc}' was not found (Debian: apt install gcc libc6-dev)"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
	    echo "brisk needs Python 3.10 or later; set PYTHON=..."; exit 1; }
	@$(PYTHON) -c 'import os, sys, sysconfig; \
	    sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' || { \
	    echo "Python.h of $(PYTHON) was not found (Debian: apt install python3-dev); set PYTHON=..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q meson ninja meson-python numpy pytest hypothesis ruff clang-format
	@touch $@

$(VENV)/ready-torch: $(VENV)/ready
	$(BIN)/pip install -q $(TORCH)
	@touch $@

# Borrows the packages of .venv and has a brisk of its own, the sanitized one.
$(ASAN_VENV)/ready: $(VENV)/ready
	$(PYTHON) -m venv --without-pip $(ASAN_VENV)
	@site='import sysconfig; print(sysconfig.get_path("platlib"))'; \
	    realpath "$$($(BIN)/python -c "$$site")" > "$$($(ASAN_VENV)/bin/python -c "$$site")/venv.pth"
	@touch $@

# --- build and tests ---------------------------------------------------------------------------------------------

export PATH := $(abspath $(BIN)):$(PATH)
meson := $(BIN)/python -m mesonbuild.mesonmain
asan_meson := $(ASAN_VENV)/bin/python -m mesonbuild.mesonmain
# Without both, Meson would install under /usr/local: nothing may leave the virtual environment.
into = --prefix=$(abspath $(1)) -Dpython.install_env=venv -Dwerror=true

$(BUILD)/build.ninja: $(VENV)/ready
	$(meson) setup $(BUILD) $(call into,$(VENV))

# Ninja knows what changed; an install without changes takes about a second.
install: $(BUILD)/build.ninja
	@ninja -C $(BUILD) --quiet
	@$(meson) install -C $(BUILD) --no-rebuild --only-changed --quiet --tags python-runtime
	@printf '#!%s\nimport sys\nfrom brisk._cli import main\nsys.exit(main())\n' $(abspath $(BIN))/python > $(BIN)/brisk
	@chmod +x $(BIN)/brisk

demo: install
	@ninja -C $(BUILD) --quiet $(patsubst %.c,%,$(wildcard examples/c/*.c))
	@$(BIN)/python examples/demo.py $(BUILD)/examples/c

test: test-c test-python

test-c: $(BUILD)/build.ninja
	@$(meson) test -C $(BUILD) --print-errorlogs

test-python: install
	@ninja -C $(BUILD) --quiet examples/c/training examples/c/char_lstm
	@BRISK_EXAMPLES=$(abspath $(BUILD))/examples/c $(BIN)/python $(PYTEST) tests/python

test-torch: install $(VENV)/ready-torch
	@$(BIN)/python $(PYTEST) tests/torch

fuzz: install $(VENV)/ready-torch
	@$(BIN)/python -m tests.torch.fuzz --programs $(PROGRAMS)

bench: install $(VENV)/ready-torch
	@ninja -C $(BUILD) --quiet bench/c/bench_core bench/c/bench_recurrence bench/c/bench_gates
	@$(BUILD)/bench/c/bench_core
	@$(BUILD)/bench/c/bench_recurrence
	@$(BUILD)/bench/c/bench_gates
	@$(BIN)/brisk bench $(CASE)

# --- sanitizers --------------------------------------------------------------------------------------------------

build/asan/build.ninja: $(ASAN_VENV)/ready
	$(asan_meson) setup build/asan $(call into,$(ASAN_VENV)) -Dbuildtype=debugoptimized \
	    -Db_sanitize=address,undefined -Db_lundef=false

# CPython itself leaks at exit by design, so leaks are looked for in the C tests only.
asan: build/asan/build.ninja
	@ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
	    $(asan_meson) test -C build/asan --print-errorlogs
	@$(asan_meson) install -C build/asan --only-changed --quiet --tags python-runtime
	@ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
	    LD_PRELOAD="$$($${CC:-cc} -print-file-name=libasan.so) $$($${CC:-cc} -print-file-name=libubsan.so)" \
	    PYTHONMALLOC=malloc $(ASAN_VENV)/bin/python $(PYTEST) tests/python

# A coverage-guided search for files that break a reader, from valid ones. Under AddressSanitizer, and with little memory.
build/fuzz/build.ninja: $(VENV)/ready
	CC=clang $(meson) setup build/fuzz $(call into,$(VENV)) -Dpython=false -Dbuildtype=debugoptimized \
	    -Db_sanitize=address,undefined -Db_lundef=false -Dc_args=-fsanitize=fuzzer-no-link

fuzz-files: install build/fuzz/build.ninja
	@ninja -C build/fuzz --quiet tests/fuzz/fuzz_files
	@$(BIN)/python tests/fuzz/seeds.py build/fuzz/seeds
	@mkdir -p build/fuzz/corpus
	@build/fuzz/tests/fuzz/fuzz_files -max_total_time=$(SECONDS) -max_len=4096 -rss_limit_mb=2048 -timeout=10 \
	    -artifact_prefix=build/fuzz/ -print_final_stats=1 build/fuzz/corpus build/fuzz/seeds

# --- style -------------------------------------------------------------------------------------------------------

.PHONY: lint-c lint-python lint-clang
lint: lint-c lint-python lint-clang

lint-c: $(VENV)/ready
	$(BIN)/clang-format --dry-run -Werror $(C_SOURCES)

lint-python: $(VENV)/ready
	$(BIN)/ruff check
	$(BIN)/ruff format --check

# A build with the other compiler, which warns about other things, and computes the same.
ifeq ($(shell command -v clang),)
lint-clang:
	@echo 'no clang here: its build is left out'
else
lint-clang: build/clang/build.ninja
	@ninja -C build/clang --quiet
	@$(meson) test -C build/clang --print-errorlogs test_kernels test_emit test_fuse test_reduce test_gemm
endif

build/clang/build.ninja: $(VENV)/ready
	CC=clang $(meson) setup build/clang $(call into,$(VENV))

format: $(VENV)/ready
	$(BIN)/clang-format -i $(C_SOURCES)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

stubs: install
	$(BIN)/python tools/make_stubs.py

clean:
	rm -rf build $(VENV) $(ASAN_VENV)
