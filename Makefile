# `make demo` and `make test` need Python 3.11 and nothing else; each makes .venv when it is missing or its lock changed.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo test check bench scenario lock clean

BIN := .venv/bin
RUN_STAMP := .venv/installed
DEV_STAMP := .venv/installed-dev
CODE := src tests tools $(wildcard perf)

help:
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: $(RUN_STAMP)  ## run everything here, kill it in the middle, prove the bill
	@$(BIN)/penstock demo --drill

test: $(DEV_STAMP)  ## all tests but the long ones, under ten minutes
	@$(BIN)/pytest -m "not long and not perf" $(PYTEST)

check: $(DEV_STAMP)  ## format, lint, types, layers, unit tests, under 90 seconds
	@$(BIN)/ruff format --check --quiet $(CODE)
	@$(BIN)/ruff check --quiet $(CODE)
	@$(BIN)/mypy $(CODE)
	@$(BIN)/lint-imports
	@$(BIN)/pytest --quiet tests/unit

scenario: $(DEV_STAMP)  ## the long fault scenarios
	@$(BIN)/pytest -m long tests/scenario

bench: $(DEV_STAMP)  ## the figures of the README
	@$(BIN)/python -m perf

lock: $(DEV_STAMP)  ## renew the locked requirements
	@tools/lock

clean:  ## remove what was built here, data in .penstock excepted
	@rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist

# An install with the tests' packages holds all that the demo needs.
$(RUN_STAMP): requirements-build.txt requirements.txt pyproject.toml
	@tools/make_venv requirements.txt $@

$(DEV_STAMP): requirements-build.txt requirements.txt requirements-dev.txt pyproject.toml
	@tools/make_venv requirements-dev.txt $@
	@touch $(RUN_STAMP)
