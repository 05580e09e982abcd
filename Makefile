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

.PHONY: conformance test lint wheel clean

conformance: $(READY)
	$(BIN)/nvfp4-conformance run $(IMPL) -n $(WORKERS) --report build/report.json --badge build/badge.svg --badge build/badge.json

test: $(READY) lint
	$(BIN)/python -m pytest -n $(WORKERS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# What people install: the wheel, in an environment of its own, used from another folder.
wheel: $(READY)
	rm -rf build/wheel && mkdir -p build/wheel
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps -w build/wheel .
	$(PYTHON) -m venv build/wheel/venv
	build/wheel/venv/bin/python -m pip install --quiet --disable-pip-version-check -c requirements.lock build/wheel/*.whl
	cd build/wheel && venv/bin/nvfp4-conformance run reference --contract FIMP-1,FIMP-2,NDOC-1,TACT,PUBL-10
	cd build/wheel && PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 venv/bin/python -m pytest -q -W error -p nvfp4 -p xdist -n 2 --nvfp4-conformance --nvfp4-impl reference --nvfp4-contract BUCK

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "This needs Python 3.11 or later; name one with: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info
