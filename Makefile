# One command a task; `make` alone lists them. `make check` is all that must hold, `.ci/run` runs it.
#
# Everything happens in .venv, which is made on first use and brought up to date when a list of
# dependencies, a pin or a native source changes. Only `make clean` and you ever remove anything.

PYTHON ?= python3
NAME ?= --all
# Of the tests: one more than two cores, as a worker that waits for Ray or Spark leaves one idle.
WORKERS ?= 3
SECONDS ?= 60

# Of `test`: what is marked `slow` waits for `check`, and so do most of the drawn cases.
MARKS = not cluster and not slow
PROFILE = quick
SOME = --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder --durations 10 -m "$(MARKS)"
TRYING = HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-$(PROFILE)}
# Each worker imports all tests and each started process all of Gapless: compiled once, a third of
# that time. `make clean` removes what is compiled.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
PIN := --constraint constraints.txt
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
NATIVE := CMakeLists.txt $(shell find kernels -name '*.[ch]pp' -o -name '*.h' -o -name '*.cmake')

# The steps of `check` run in the order they are written in, also under `make -j`.
.NOTPARALLEL:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
.PHONY: help install test test-cluster check lint format types layering sanitize wheel-smoke bench
.PHONY: chaos demo fuzz clean

help: ## list these commands
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' $(MAKEFILE_LIST) | expand -t 22

install: $(VENV)/.gapless ## make .venv and install Gapless into it, editable

test: install ## run the tests, without the slow ones (HYPOTHESIS_PROFILE=long tries more examples)
	@$(TRYING) $(BIN)/pytest $(SOME)

test-cluster: install ## run the slow tests on real Ray clusters: nodes lost, processes stopped, disks full
	@$(BIN)/pytest -m cluster

check: MARKS = not cluster
check: PROFILE = gate
check: lint types layering sanitize wheel-smoke test ## all that must hold before a change is merged: the slow tests, too

lint: install ## look for mistakes, for style, and for words and phrases
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/codespell
	@$(BIN)/pytest --quiet tests/gates/test_phrasing.py

format: install ## put the code in the form that lint wants
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

types: install ## check types, strictly
	@$(BIN)/mypy

layering: install ## check who imports whom, and that the core stays pure
	@$(BIN)/pytest --quiet tests/gates/test_layering.py

sanitize: install ## test the native kernel under the address and undefined-behaviour sanitizers
	@sh scripts/sanitize.sh

wheel-smoke: install ## build sdist and wheel, try the wheel in a clean place
	@sh scripts/wheel_smoke.sh

chaos: install ## play every scenario with real faults, one after the other, and judge each: a report in chaos-runs/
	@$(BIN)/gapless chaos run --all

demo: install ## see a replica, a merger and a node die, and the output whole: two minutes
	@$(BIN)/gapless demo

bench: install ## measure: NAME=kernel for one, all of them without
	@$(BIN)/gapless bench $(NAME)

fuzz: $(VENV)/.fuzz ## throw bytes at the decoders, and rows at the doors, for SECONDS=60
	@$(BIN)/python fuzz/fuzz_decoders.py -max_total_time=$(SECONDS)

clean: ## remove what was built and cached (.venv stays)
	rm -rf build dist plots fuzz-corpus .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

# -- what those stand on --------------------------------------------------------------------------

$(BIN)/pip:
	@$(PYTHON) scripts/python_version.py
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.dependencies: pyproject.toml constraints.txt | $(BIN)/pip
	@echo "installing dependencies into $(VENV) (minutes the first time: Spark alone is 450 MB)"
	@$(PIP) install --upgrade $(PIN) pip setuptools
	@$(PIP) install $(PIN) --build-constraint constraints.txt --only-deps .
	@$(PIP) install $(PIN) --group dev
	@touch $@

# Without build isolation: the tools are in .venv already, pinned, and the next build is incremental.
$(VENV)/.gapless: $(VENV)/.dependencies $(NATIVE)
	@echo "building Gapless into $(VENV)"
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.fuzz: $(VENV)/.gapless
	@$(PIP) install $(PIN) --group fuzz
	@touch $@
