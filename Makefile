# Two commands on a fresh machine with Python 3.11 or later:
#   make conformance    the suite against the reference, in process and over JSON lines
#   make test           this project's own checks and tests
# Each sets itself up in .venv the first time.

PYTHON ?= python3
WORKERS ?= 2
IMPL ?= reference
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready

.PHONY: conformance test lint clean

conformance: $(READY)
	$(BIN)/nvfp4-conformance run $(IMPL) -n $(WORKERS) --report build/report.json --badge build/badge.svg --badge build/badge.json

test: $(READY) lint
	$(BIN)/python -m pytest -n $(WORKERS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "This needs Python 3.11 or later; name one with: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info
