# Every target sets up what it needs in .venv; nothing else is touched. Python 3.11 or newer, make: no third step.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
EXPORTERS := $(VENV)/.exporters
VENDOR := .vendor
WORKERS ?= 2

.PHONY: help venv exporters lock test test-all vendor-check mutants demo lint wheel clean
help:
	@echo "make demo      tune a full-size ResNet-50 on the model machine and print the table"
	@echo "make test      the tests, without the slow ones, on $(WORKERS) processes"
	@echo "make test-all  all tests, also of models that PyTorch exports, then the mutants"
	@echo "make exporters what these need: PyTorch and the transformers package, some 3 GB to fetch, 6 GB on disk"
	@echo "make vendor-check  verify HIVM texts of six networks with the vendor's compiler front half (Python 3.11 to 3.13 on x86-64; 161 MB)"
	@echo "make mutants   apply listed faults one by one; each must make a test fail"
	@echo "make lint      ruff and mypy"
	@echo "make wheel     build the wheel into dist/"
	@echo "make lock      pin what pyproject.toml asks for anew, with hashes, into locks/ (needs uv)"

venv: $(READY)

# a half-made environment has no .ready and is completed by the next run; pip takes no file whose hash is not in the lock
LOCKED := install -q --disable-pip-version-check --require-hashes --only-binary :all:
$(READY): pyproject.toml locks/dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "aoec needs Python 3.11 or newer; found " + sys.version.split()[0] + ". Use: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip $(LOCKED) -r locks/dev.txt
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(READY)

exporters: $(EXPORTERS)

$(EXPORTERS): $(READY) locks/exporters.txt
	$(BIN)/python -m pip $(LOCKED) -r locks/exporters.txt
	@touch $(EXPORTERS)

# locks of all supported Pythons and systems in one file each; versions stay where they are unless pyproject.toml or UPGRADE=1 asks for others
UV ?= uv
LOCK := $(UV) pip compile --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --no-emit-index-url $(if $(UPGRADE),-U)
lock:
	echo "setuptools>=77" | $(LOCK) --extra dev pyproject.toml - -o locks/dev.txt
	echo "setuptools>=77" | $(LOCK) --extra verify --extra completion -c locks/dev.txt pyproject.toml - -o locks/run.txt
	echo "setuptools>=77" | $(LOCK) --extra dev --extra exporters -c locks/dev.txt pyproject.toml - -o locks/exporters.txt

test: $(READY)
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -rs -m "not slow"

test-all: $(READY) $(EXPORTERS)
	HYPOTHESIS_PROFILE=random $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -rs
	$(MAKE) mutants

# the vendor's wheel has an environment of its own: it is never imported, and its dependencies are not needed
$(VENDOR)/.ready: locks/vendor.txt
	$(PYTHON) -m venv $(VENDOR)
	$(VENDOR)/bin/python -m pip $(LOCKED) -r locks/vendor.txt --no-deps
	@touch $(VENDOR)/.ready

vendor-check: $(READY) $(VENDOR)/.ready
	$(BIN)/python bench/hivm.py --check-python $(VENDOR)
	AOEC_CHECK_PYTHON=$(VENDOR)/bin/python $(BIN)/python -m pytest -q -rs tests/hivm

mutants: $(READY)
	$(BIN)/python -m tests.mutants

demo: $(READY)
	$(BIN)/aoec demo

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/python tests/laws/test_house.py
	$(BIN)/python tests/laws/prose.py

wheel: $(READY)
	$(BIN)/python -m build --wheel --no-isolation

clean:
	rm -rf $(VENV) $(VENDOR) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
