#!/bin/sh
# An environment with FlashInfer beside this project, in build/flashinfer-VERSION: for its adapter,
# and for benchmarks/lookup.py. FlashInfer and torch stay out of the project's own environment.
#
#   sh benchmarks/flashinfer_env.sh [VERSION]       (0.6.13; `make flashinfer` builds two)
#
# PYTHON names the interpreter (default python3). pip's own settings hold: where it would fetch a
# CUDA build of torch, name an index with CPU builds in PIP_EXTRA_INDEX_URL; any build will do.
set -eu
cd "$(dirname "$0")/.."
version=${1:-0.6.13}
home=build/flashinfer-$version
rm -f "$home/ready"
"${PYTHON:-python3}" -m venv "$home"
install() {
    "$home/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
}
install torch==2.13.0
install --constraint requirements.lock --editable '.[suite]'
# What FlashInfer requires in full brings compilers and kernels for a GPU; its tuner imports these.
install --no-deps "flashinfer-python==$version" "apache-tvm-ffi<0.2" nvidia-ml-py packaging tqdm \
    requests certifi charset-normalizer idna urllib3
FLASHINFER_WORKSPACE_BASE="$PWD/build/flashinfer-workspace" "$home/bin/python" -W ignore -c \
    'import flashinfer; print("FlashInfer", flashinfer.__version__, "is ready in build/")'
touch "$home/ready"
