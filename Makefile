# Every target creates .venv on demand; nothing else needs to be installed by hand.
PYTHON ?= python3
BIN := .venv/bin
# Two stamps of .venv: with what headway itself needs, and with every tool of a developer besides.
BASE := .venv/.base
INSTALLED := .venv/.installed
PACKAGES := web/node_modules/.installed
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
BUILDER := build/venv/.installed
EPOCH = $(shell git log -1 --format=%ct)
WORKERS ?= 2

.PHONY: help venv demo test test-slow check check-page page format bench reliability phrases config-docs api-docs task-table limit-table deck-index map site docs film lock wheel \
  release sbom clean
.DEFAULT_GOAL := help

help:  ## what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

$(BASE): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "Installing headway and what it needs into .venv (PyTorch is large)."
	$(INSTALL) -e .
	@touch $@

$(INSTALLED): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "Installing headway and every tool of a developer into .venv."
	$(INSTALL) -e '.[dev]'
	@touch $@ $(BASE)

venv: $(INSTALLED)  ## .venv for developers: headway, tests, checks, peers and the extras that are tested

demo: $(BASE)  ## train an English-French transformer, score it, translate (about four minutes)
	$(BIN)/headway demo

# One torch thread per worker: two workers with two threads each fight over two cores.
test: $(INSTALLED)  ## the tests (under ten minutes on two cores)
	@command -v chromium > /dev/null || { test "$$(id -u)" = 0 && apt-get install -y -qq chromium > /dev/null 2>&1; } \
	  || echo "no chromium here: the page is not tried in a browser"
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS)

test-slow: $(INSTALLED)  ## the tests that take minutes or read a clock
	$(BIN)/python -m pytest -m slow -o faulthandler_timeout=3600

check: $(INSTALLED)  ## ruff, mypy --strict, import order; tsc, eslint and prettier where node is installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	@if ! command -v npm > /dev/null; then echo "SKIPPED: npm is not installed: the sources of the page (web/) are not checked"; \
	elif ! $(MAKE) --no-print-directory $(PACKAGES); then echo "SKIPPED: npm ci failed: the sources of the page (web/) are not checked"; \
	else $(MAKE) --no-print-directory check-page; fi

$(PACKAGES): web/package-lock.json
	cd web && npm ci --ignore-scripts --no-audit --no-fund
	@touch $@

check-page: $(PACKAGES)  ## tsc, eslint and prettier on the sources of the page; needs node
	cd web && npm run --silent check

page: $(PACKAGES)  ## build the script of the page from web/src, and put it into docs/pages; needs node
	node web/build.mjs
	$(BIN)/python web/pages.py

format: $(INSTALLED)  ## let ruff rewrite
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(INSTALLED)  ## headway against its peers, side by side
	$(BIN)/headway bench attend

reliability: $(INSTALLED)  ## the whole campaign of faults, and its report (about an hour on two cores)
	$(BIN)/headway reliability --long --out reliability.html

phrases: $(INSTALLED)  ## write the phrases of tools/phrases into the package
	$(BIN)/python -m tools.phrases

config-docs: $(INSTALLED)  ## write docs/config.md, the list of all config keys
	$(BIN)/python -m tools.config_docs

api-docs: $(INSTALLED)  ## write docs/api.md, the Python API, from signatures and docstrings
	$(BIN)/python -m tools.api_docs

limit-table: $(INSTALLED)  ## write the table of limits in docs/commands.md
	$(BIN)/python -m tools.limit_table

deck-index: $(INSTALLED)  ## write docs/decks.md, the index of the decks' slides
	$(BIN)/python -m tools.deck_index

task-table: $(INSTALLED)  ## write the table of tasks and commands in docs/commands.md
	$(BIN)/python -m tools.task_table

map: $(INSTALLED)  ## draw docs/map.svg and the table of packages in docs/architecture.md, from the imports
	$(BIN)/python -m tools.map

site: $(INSTALLED)  ## build the documentation site into build/site; a warning is an error
	$(BIN)/python -m tools.site

docs: config-docs api-docs task-table limit-table deck-index map site  ## write every document that is generated, and build the site

film: $(INSTALLED)  ## record docs/film.cast, a first contact in a terminal, and draw docs/film.svg from it
	$(BIN)/python -m tools.film

lock: $(INSTALLED)  ## write release/*.txt, the version and SHA-256 of every package, from what pip resolves
	$(BIN)/python -m tools.lock

# A release is built from the last commit alone, with the packages that release/build.txt pins; the commit's time stands in
# for the clock's, so that the same commit gives the same bytes.
$(BUILDER): release/build.txt
	rm -rf build/venv
	$(PYTHON) -m venv build/venv
	build/venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r $<
	@touch $@

wheel: $(BUILDER)  ## build dist/headway-VERSION: the wheel and the source archive of the last commit, reproducible
	rm -rf build/source dist && mkdir -p build/source
	git archive HEAD | tar -x -C build/source
	cd build/source && SOURCE_DATE_EPOCH=$(EPOCH) ../venv/bin/python -m hatchling build -d ../../dist

release: wheel  ## build twice, compare, and try the wheel in clean environments of Python 3.11 to 3.14
	SOURCE_DATE_EPOCH=$(EPOCH) build/venv/bin/python -m tools.release

sbom: $(INSTALLED) wheel  ## write dist/headway-VERSION.cdx.json, the bill of materials (CycloneDX), with the wheel's hash
	SOURCE_DATE_EPOCH=$(EPOCH) $(BIN)/python -m tools.sbom --wheel dist/headway-*.whl

clean:  ## everything that is not source
	rm -rf .venv web/node_modules build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
