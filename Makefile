# `make demo` and `make test` do all set-up themselves; they need Python 3.11, make and a package index.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test test-slow lint clean

$(READY): pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "simcap needs $(PYTHON); set PYTHON=/path/to/python (3.11 or newer)"; exit 3; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[cpu,dev]'
	@touch $(READY)

demo: $(READY) ## measure three small models here, then capacity on published MI300X figures and on this machine
	$(BIN)/python tools/demo.py

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/lint-imports

test: lint ## everything that must hold on each commit
	$(BIN)/pytest -m "not slow and not wheels"

test-slow: $(READY) ## proofs that take minutes
	$(BIN)/pytest -m "slow"

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache runs
