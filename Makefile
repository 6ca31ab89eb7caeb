# `make demo` and `make test` do all set-up themselves; they need Python 3.11, make and a package index.
PYTHON ?= python3.11
JOBS ?= 2
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# `loadgroup`: the tests of a group share a browser, so they stay together on one worker.
PYTEST := $(BIN)/pytest -n $(JOBS) --dist loadgroup

.PHONY: help demo test test-slow test-wheels docs lint format clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(firstword $(MAKEFILE_LIST)) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

# The mark is written last, so that an installation that broke off is done again.
$(READY): pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "simcap needs $(PYTHON); set PYTHON=/path/to/python (3.11 or newer)"; exit 3; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[cpu,dev]'
	@touch $(READY)

demo: $(READY) ## measure three small models here, then two capacity curves: published MI300X figures, and this machine
	$(BIN)/python tools/demo.py

lint: $(READY) ## style, types, and who may import whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/lint-imports

format: $(READY) ## let ruff write what `lint` would complain about
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test: lint ## everything that must hold on each commit; JOBS=N tests at a time
	$(PYTEST) -m "not slow and not wheels" --durations=15 --durations-min=5
	@$(BIN)/python -m tests.docs.pages

test-slow: $(READY) ## proofs that take minutes, and the demo; a quarter of an hour
	$(PYTEST) -m slow --ignore tests/simcap/test_speed.py --durations=0 --durations-min=5
	$(BIN)/pytest -m slow tests/simcap/test_speed.py

test-wheels: $(READY) ## installs real builds of ONNX Runtime into environments of their own
	$(BIN)/pytest -m wheels

docs: $(READY) ## the documentation as a site, in site/; a warning or a dead link stops it
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean: ## remove the environment, caches and runs
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis runs site
