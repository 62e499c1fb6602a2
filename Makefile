# One command a task; `make` alone lists them. `make check` is all that must hold, `.ci/run` runs it.
#
# Everything happens in .venv, which is made on first use and brought up to date when a list of
# dependencies, a pin or a native source changes. Only `make clean` and you ever remove anything.

PYTHON ?= python3
NAME ?= --all
# Of the tests: one more than two cores, as a worker that waits for Ray or Spark leaves one idle.
WORKERS ?= 3
SECONDS ?= 60
MINUTES ?= 60
SEEDS ?= 300

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

.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
.PHONY: help install test test-cluster coverage tests-of check beside-the-wheel lint format types
.PHONY: layering sanitize wheel-smoke wheels bench chaos demo seeds soak fuzz hooks clean

help: ## list these commands
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' $(MAKEFILE_LIST) | expand -t 22

install: $(VENV)/.gapless ## make .venv and install Gapless into it, editable

test: install ## run the tests, without the slow ones (HYPOTHESIS_PROFILE=long tries more examples)
	@$(TRYING) $(BIN)/pytest $(SOME)

test-cluster: install ## run the slow tests on real Ray clusters: nodes lost, processes stopped, disks full
	@$(BIN)/pytest -m cluster

coverage: install ## run the tests and say what no test runs; fails below the floor in coverage_floor.txt
	@$(TRYING) $(BIN)/pytest $(SOME) --cov --cov-context=test --cov-report=
	@$(BIN)/python scripts/coverage_floor.py

tests-of: install ## after `make coverage`: which tests run FILE=merge/r3.py, or a line, FILE=merge/r3.py:120
	@$(BIN)/python scripts/tests_of.py $(FILE)

# What fails at once comes first. Then the wheel, whose demonstration mostly waits, beside all else;
# types and sanitizers have a core each until the tests take both.
check: install ## all that must hold before a change is merged: the slow tests and all cases, too
	@$(MAKE) --no-print-directory --jobs 2 lint layering
	@$(MAKE) --no-print-directory --jobs 3 wheel-smoke beside-the-wheel

beside-the-wheel: types sanitize
	@$(MAKE) --no-print-directory test MARKS="not cluster" PROFILE=gate

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

wheel-smoke: install ## build sdist and wheel, try the wheel and the demonstration in a clean place
	@sh scripts/wheel_smoke.sh

wheels: $(VENV)/.wheels ## build the sdist, and a wheel for each Python in a container of its own, into dist/
	@$(BIN)/python -c 'import scikit_build_core.build as b; b.build_sdist("dist")' >&2
	@$(BIN)/cibuildwheel --platform linux --output-dir dist

chaos: install ## play every scenario with real faults, one after the other, and judge each: a report in chaos-runs/
	@$(BIN)/gapless chaos run --all

demo: install ## see a replica, a merger and a node die, and the output whole: two minutes
	@$(BIN)/gapless demo

bench: install ## measure: NAME=kernel for one, all of them without
	@$(BIN)/gapless bench $(NAME)

seeds: install ## play SEEDS=300 simulated schedules of faults
	@$(BIN)/gapless chaos sim --seeds $(SEEDS)

soak: install ## let real faults strike at random for MINUTES=60: memory and descriptors stay flat
	@$(BIN)/gapless chaos soak --minutes $(MINUTES)

fuzz: $(VENV)/.fuzz ## throw bytes at the decoders, and rows at the doors, for SECONDS=60
	@$(BIN)/python fuzz/fuzz_decoders.py -max_total_time=$(SECONDS)

hooks: $(VENV)/.hooks ## run lint and layering before each commit, types before each push
	@$(BIN)/pre-commit install

clean: ## remove what was built and cached (.venv stays)
	rm -rf build dist plots fuzz-corpus .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache
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

$(VENV)/.fuzz $(VENV)/.hooks $(VENV)/.wheels: $(VENV)/.%: $(VENV)/.gapless
	@$(PIP) install $(PIN) --group $*
	@touch $@
