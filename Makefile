# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.setup-stamp
# Worlds depend on the hash seed; every command of ours runs with the same one.
export PYTHONHASHSEED := 0

# Two processes, each with its half of the tests; whoever is done first takes over from the other.
PYTEST := $(BIN)/pytest -q -n 2 --dist worksteal

.PHONY: help setup demo test test-portable test-all check bench clean

help: ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet torch==2.13.0
	$(BIN)/pip install --quiet -c constraints.txt -e ".[dask,dev,video]"
# Without what they declare: tensorflow, xgboost, CUDA libraries; gym, and a pygame in the place of pygame-ce.
	$(BIN)/pip install --quiet --no-deps scml-agents==0.5.2 overcooked-ai==1.1.0
	@touch $@

setup: $(STAMP) ## make .venv with everything in it (about two minutes, 2 GB, once)

demo: setup ## run the main job end to end, small
	$(BIN)/echelon demo

check: setup ## ruff, ruff format, mypy --strict, import-linter, deptry
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/deptry src
	$(BIN)/deptry tests benchmarks experiments -e '\.venv' --ignore DEP002,DEP004 # these may import the dev extra, and need not all

test: check ## the checks and the default tests
	$(PYTEST) --durations=20

test-portable: setup ## the numeric tests again, as other processors would compute them
	ATEN_CPU_CAPABILITY=default $(PYTEST) -m "numeric and not slow"
	MKL_ENABLE_INSTRUCTIONS=SSE4_2 $(PYTEST) -m "numeric and not slow"
	MKL_ENABLE_INSTRUCTIONS=AVX2 $(PYTEST) -m "numeric and not slow"

test-all: check test-portable ## the slow tests too, and laws with many random examples
	$(PYTEST) -m "slow or not slow" --hypothesis-profile many --durations=20

bench: setup ## every benchmark, ours beside the stock tool
	for b in benchmarks/bench_*.py; do $(BIN)/python $$b || exit 1; done

clean: ## remove what can be made again
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
