# Two commands on a fresh machine with Python 3.11 or later:
#   make conformance    the suite against the reference, in process and over JSON lines
#   make test           this project's own checks and tests
# And more of the project's own tests:
#   make test-all       also the wide matrices and long loops
#   make coverage       what the tests of `make test` reach, subprocesses included
# And two about others:
#   make flashinfer     install FlashInfer and torch in build/, a few hundred MB
#   make adapters       the suite against FlashInfer 0.6.13 and 0.7.4, and vLLM's cache file helper
# And one on a machine with an NVIDIA GPU and nvcc:
#   make gpu            build the kernels, test, run the suite on the card, and measure
# Each sets itself up in .venv the first time.

PYTHON ?= python3
WORKERS ?= 2
IMPL ?= reference
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready

WRITER := build/flashinfer-0.6.13/bin/python
FLASHINFER := build/flashinfer-0.6.13/ready build/flashinfer-0.7.4/ready
KNOWN := src/adapters/deviations

.PHONY: conformance test test-all coverage lint wheel flashinfer adapters gpu clean

# FIMP-11 needs a document that FlashInfer wrote; without one it is skipped by name.
conformance: $(READY)
	$(BIN)/nvfp4-conformance run $(IMPL) -n $(WORKERS) $$(test -e build/flashinfer-0.6.13/ready && echo --flashinfer $(WRITER)) --report build/report.json --badge build/badge.svg --badge build/badge.json

test: $(READY) lint
	$(BIN)/python -m pytest -n $(WORKERS)

test-all: $(READY) lint
	$(BIN)/python -m pytest -n $(WORKERS) --wide

coverage: $(READY)
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -n $(WORKERS) -q
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# What people install: the wheel, in an environment of its own, used from another folder.
wheel: $(READY)
	rm -rf build/wheel && mkdir -p build/wheel
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps -w build/wheel .
	$(PYTHON) -m venv build/wheel/venv
	build/wheel/venv/bin/python -m pip install --quiet --disable-pip-version-check -c requirements.lock "$$(ls build/wheel/*.whl)[suite]"
	cd build/wheel && venv/bin/nvfp4-conformance run reference --contract FIMP-1,FIMP-2,NDOC-1,TACT,PUBL-10
	cd build/wheel && PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 venv/bin/python -m pytest -q -W error -p nvfp4 -p xdist -n 2 --nvfp4-conformance --nvfp4-impl reference --nvfp4-contract BUCK

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "This needs Python 3.11 or later; name one with: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

flashinfer: $(FLASHINFER)

build/flashinfer-%/ready: benchmarks/flashinfer_env.sh pyproject.toml
	PYTHON="$(PYTHON)" sh benchmarks/flashinfer_env.sh $*

adapters: $(READY) flashinfer
	for version in 0.6.13 0.7.4; do \
	    build/flashinfer-$$version/bin/nvfp4-conformance run flashinfer -n $(WORKERS) --flashinfer $(WRITER) \
	        --deviations $(KNOWN)/flashinfer-$$version.toml --report build/flashinfer-$$version.json || exit 1; \
	done
	@if [ -n "$$NVFP4_VLLM_CACHE_HELPER" ] || $(BIN)/python -c 'import importlib.util as u, sys; sys.exit(not u.find_spec("vllm"))'; then \
	    $(BIN)/nvfp4-conformance run vllm-publication -n $(WORKERS) --deviations $(KNOWN)/vllm-0.25.0.toml --report build/vllm-0.25.0.json; \
	else \
	    echo "vllm-publication was skipped: vLLM 0.25.0 is not installed, and NVFP4_VLLM_CACHE_HELPER names no file of it"; \
	fi

# GPU_PYTHON is one that has this project, CuPy and the headers of CUTLASS; it is made if not given.
gpu: $(if $(GPU_PYTHON),,build/gpu-ready)
	$(or $(GPU_PYTHON),$(BIN)/python) benchmarks/gpu.py build/gpu $(STAGES)

build/gpu-ready: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[gpu]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps flashinfer-python==0.6.13
	@mkdir -p build && touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info
