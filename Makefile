# Holdfast: `make run` and `make test` set up what they need; both can be run again, and offline.
SHELL := /bin/bash
VENV  := .venv
BIN   := $(VENV)/bin
PYTHON ?= $(shell command -v python3.11 || command -v python3)

PLOTS := docs/models/plots/.drawn docs/explanation/plots/.drawn

SOURCES := $(shell find src native CMakeLists.txt pyproject.toml README.md -type f -not -name '*.pyc')

.PHONY: run test check native-test bench soak docs format stub clean
.DELETE_ON_ERROR:

run: $(VENV)/.built
	$(BIN)/holdfast demo

test: check native-test $(PLOTS)
	$(BIN)/python scripts/run_tests.py

check: $(VENV)/.test-deps $(VENV)/.built
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	scripts/clang-format $(BIN)/clang-format --dry-run --Werror
	$(BIN)/mypy
	scripts/thread-safety build/thread-safety

# Each native build has its own directory, so that a second run compiles nothing.
native-test: $(VENV)/.test-deps
	scripts/native-tests address,undefined thread

bench: $(VENV)/.test-deps $(VENV)/.built
	scripts/packages bench
	$(BIN)/holdfast bench all --write docs/benchmarks.md --plots docs/assets

soak: $(VENV)/.test-deps $(VENV)/.built
	$(BIN)/python -m pytest -m soak --timeout 7200 -rP  # -rP: show the counts of kills

docs: $(VENV)/.test-deps $(VENV)/.built $(PLOTS)
	$(BIN)/mkdocs build --strict

format: $(VENV)/.test-deps
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .
	scripts/clang-format $(BIN)/clang-format -i

clean:
	rm -rf $(VENV) build site $(dir $(PLOTS)) .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(VENV)/.build-deps: pyproject.toml scripts/packages
	scripts/packages build
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	scripts/pip-install $(BIN)/python build run
	touch $@

$(VENV)/.test-deps: $(VENV)/.build-deps
	scripts/packages test
	scripts/pip-install $(BIN)/python test
	test -x $(VENV)/mpich/bin/python || $(PYTHON) -m venv $(VENV)/mpich
	scripts/pip-install $(VENV)/mpich/bin/python run test-mpich
	touch $@

# Figures of the documentation are drawn by the code that they explain.
docs/models/plots/.drawn: $(VENV)/.test-deps $(shell find src/holdfast/planner -name '*.py') scripts/model_plots.py | $(VENV)/.built
	$(BIN)/python scripts/model_plots.py $(dir $@)
	touch $@

docs/explanation/plots/.drawn: $(VENV)/.test-deps $(shell find src/holdfast/replicas -name '*.py') scripts/replica_plots.py | $(VENV)/.built
	MPI4PY_RC_INITIALIZE=0 $(BIN)/python scripts/replica_plots.py $(dir $@)  # it needs no MPI, which would leave shared memory
	touch $@

$(VENV)/.built: $(VENV)/.build-deps $(SOURCES)
	$(BIN)/python -m pip install --quiet --no-build-isolation --no-deps --force-reinstall .
	touch $@

# The typed stub of the core is part of the source, so that readers and type checkers have it.
stub: $(VENV)/.built
	$(BIN)/python -m nanobind.stubgen -q -m holdfast._core -o src/holdfast/_core.pyi
