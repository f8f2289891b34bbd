# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.setup-stamp
# Worlds depend on the hash seed; every command of ours runs with the same one.
export PYTHONHASHSEED := 0

.PHONY: help setup demo test test-all check bench clean

help: ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet torch==2.13.0
	$(BIN)/pip install --quiet -c constraints.txt -e ".[dask,dev,video]"
	$(BIN)/pip install --quiet --no-deps scml-agents==0.5.2
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
	$(BIN)/deptry tests benchmarks -e '\.venv' --ignore DEP002,DEP004 # these may import the dev extra, and need not all

test: check ## the checks and the default tests
	$(BIN)/pytest -q

test-all: check ## the slow tests too
	$(BIN)/pytest -q -m "slow or not slow"

bench: setup ## every benchmark, ours beside the stock tool
	for b in benchmarks/bench_*.py; do $(BIN)/python $$b || exit 1; done

clean: ## remove what can be made again
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
