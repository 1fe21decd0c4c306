# Every target creates .venv on demand; nothing else needs to be installed by hand.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
WORKERS ?= 2

.PHONY: help venv demo test test-slow check format bench phrases config-docs api-docs task-table map docs clean
.DEFAULT_GOAL := help

help:  ## what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

$(INSTALLED): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

venv: $(INSTALLED)  ## .venv with headway and every extra

demo: $(INSTALLED)  ## train an English-French transformer, score it, translate (about four minutes)
	$(BIN)/headway demo

# One torch thread per worker: two workers with two threads each fight over two cores.
test: $(INSTALLED)  ## the tests (under ten minutes on two cores)
	@command -v chromium > /dev/null || { test "$$(id -u)" = 0 && apt-get install -y -qq chromium > /dev/null 2>&1; } \
	  || echo "no chromium here: the page is not tried in a browser"
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS)

test-slow: $(INSTALLED)  ## the tests that take minutes or read a clock
	$(BIN)/python -m pytest -m slow

check: $(INSTALLED)  ## ruff, mypy --strict, import order
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(INSTALLED)  ## let ruff rewrite
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(INSTALLED)  ## headway against its peers, side by side
	$(BIN)/headway bench attend

phrases: $(INSTALLED)  ## write the phrases of tools/phrases into the package
	$(BIN)/python -m tools.phrases

config-docs: $(INSTALLED)  ## write docs/config.md, the list of all config keys
	$(BIN)/python tools/config_docs.py

api-docs: $(INSTALLED)  ## write docs/api.md, the Python API, from signatures and docstrings
	$(BIN)/python tools/api_docs.py

task-table: $(INSTALLED)  ## write the table of tasks and commands in docs/commands.md
	$(BIN)/python tools/task_table.py

map: $(INSTALLED)  ## draw docs/map.svg and the table of packages in docs/architecture.md, from the imports
	$(BIN)/python tools/map.py

docs: config-docs api-docs task-table map  ## write every document that is generated

clean:  ## everything that is not source
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
