# `make demo` and `make test` are all that a new user needs; both install what is missing first.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
ATTACKS ?=

.PHONY: demo docs test test-all test-attacks check clean test-browser

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "itaml needs Python 3.11 or later; set PYTHON=..."; exit 1; }
	$(PYTHON) -m venv $(VENV)

# One stamp per installation: a second call starts at once, and a changed dependency installs again.
$(VENV)/.core: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install --quiet -c constraints.txt -e .
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install --quiet -c constraints.txt -e '.[dev]'
	@touch $@ $(VENV)/.core

demo: $(VENV)/.core
	$(BIN)/itaml run digits --force
	@echo "itaml is installed in $(VENV): call it as $(BIN)/itaml, or activate the environment with: . $(BIN)/activate"

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: check
	$(BIN)/python -m pytest -n 2

test-all: check
	$(BIN)/python -m pytest -n 2 -m ''

# The documentation site, in build/site; open build/site/index.html. A broken link is an error.
docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "open build/site/index.html"

# All attacks at full size, within the hour on two cores; ATTACKS="kill_learn images" runs some. Writes
# benchmarks/results/attacks.json, from which docs/security.md is filled.
test-attacks: $(VENV)/.dev
	cd tests && OMP_NUM_THREADS=1 ../$(BIN)/python -m attacks --only "$(ATTACKS)"

# Opens a report and the page of `itaml serve` in Chromium, if there is one; look at the screenshots in build/browser.
# Accessibility is checked if axe-core is in node_modules (npm install axe-core), or if ITAML_AXE names its axe.min.js.
test-browser: $(VENV)/.dev
	ITAML_SCREENSHOTS=build/browser $(BIN)/python -m pytest -m '' -rs tests/report/test_browser.py tests/serve_page

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache
