# Each target sets up what it needs in .venv; the only requirement is Python 3.11 or newer.
PYTHON ?= python3
BIN := .venv/bin
ARGS ?=
SOAK_MINUTES ?= 30

# Tests start hundreds of processes, and those start faster from compiled modules.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test exhaustive mutants check bench docs clean

demo: .venv/base ## the service, on generated data, until Ctrl-C (ARGS=--once: until it has answered)
	$(BIN)/sfumato demo $(ARGS)

test: .venv/dev ## every test, on all cores
	$(BIN)/pytest -n auto --dist worksteal $(ARGS)

exhaustive: .venv/clickhouse ## every test with more repeats, the mutants and a soak: three hours on two idle cores
	EXHAUSTIVE=1 $(BIN)/pytest -n auto --dist worksteal $(ARGS)
	$(BIN)/python -m tests.mutants
	$(BIN)/python -m benchmarks soak --store postgresql --workers 2 --minutes $(SOAK_MINUTES)

mutants: .venv/dev ## break the code on purpose, one place at a time: the named test has to notice
	$(BIN)/python -m tests.mutants $(ARGS)

check: .venv/dev ## the gate: format, lint, types, layers, fast tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -n auto --dist worksteal -m "not slow" $(ARGS)

bench: .venv/dev ## measure, side by side, and write benchmarks/RESULTS.md
	$(BIN)/python -m benchmarks $(ARGS)

docs: .venv/dev ## write the reference pages and the pictures, build the site into build/docs, then run every example
	$(BIN)/python docs/reference.py
	PYTHONPATH=. $(BIN)/python docs/pictures.py
	$(BIN)/sphinx-build -q -W --keep-going -d build/doctrees -c docs . build/docs
	$(BIN)/pytest tests/test_docs.py

clean:
	rm -rf .venv build

.venv/base: pyproject.toml constraints.txt
	test -d .venv || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[client,service]'
	@touch $@

# 700 MB for the tests of ClickHouse, which say how to get it where it cannot be had.
.venv/clickhouse: .venv/dev
	-$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[clickhouse]' && touch $@

.venv/dev: .venv/base
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@
