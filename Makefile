# `make demo` and `make test` are all that a new user needs; both install what is missing first.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
ATTACKS ?=

.PHONY: demo docs test quick-tests test-all test-attacks check clean test-browser serve-demo test-api serve-load serve-figure

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

$(VENV)/.serve: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install --quiet -c constraints.txt -e '.[serve]'
	@touch $@ $(VENV)/.core

# Makes a small model from generated photos, and serves it until Ctrl-C; the address is printed.
serve-demo: $(VENV)/.serve
	$(BIN)/python examples/make_photos.py build/serve-demo/photos
	$(BIN)/itaml learn build/serve-demo/shapes build/serve-demo/photos/first
	@echo "photos to name and to teach are in build/serve-demo/photos/new and build/serve-demo/photos/second"
	$(BIN)/itaml serve build/serve-demo/shapes

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# mypy takes one core for a minute, so the tests start beside it.
test: $(VENV)/.dev
	@$(MAKE) --no-print-directory --jobs 2 check quick-tests

test-all: check
	$(BIN)/python -m pytest -n 2 -m ''

quick-tests: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2

# The documentation site, in build/site; open build/site/index.html. A broken link is an error.
docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "open build/site/index.html"

# The lowest versions of pyproject.toml in an environment of their own. They have builds for Python 3.11 (numpy 1.26 has none
# for 3.13), so PYTHON must be one. torch 2.4 brings 3 GB of CUDA packages on Linux: LOWEST_NEWEST=torch takes the newest instead.
# LOWEST_TESTS="tests/data" runs some tests.
LOWEST_NEWEST ?= none
LOWEST_TESTS ?= tests/cli tests/contract tests/data tests/inference tests/learners tests/memory tests/meta tests/metrics tests/models tests/modelstore tests/report tests/test_sklearn.py
.PHONY: lowest-environment test-lowest dist
lowest-environment:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || { echo "the lowest versions are tested with Python 3.11; set PYTHON=..."; exit 1; }
	$(PYTHON) -m venv $(VENV)-lowest
	$(PYTHON) tools/lowest_versions.py --extras report,pandas --newest $(LOWEST_NEWEST) > $(VENV)-lowest/constraints.txt
	$(VENV)-lowest/bin/python -m pip --disable-pip-version-check install --quiet -c $(VENV)-lowest/constraints.txt -e '.[report,pandas]' pytest pytest-xdist hypothesis

test-lowest: lowest-environment
	$(VENV)-lowest/bin/python -m pytest -n 2 -W default $(LOWEST_TESTS)

# Wheel and source distribution in dist/, checked as the package index checks them.
dist: $(VENV)/.dev
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/python -m twine check --strict dist/*

# All attacks at full size, within the hour on two cores; ATTACKS="kill_learn images" runs some. Writes
# benchmarks/results/attacks.json, from which docs/security.md is filled.
test-attacks: $(VENV)/.dev
	cd tests && OMP_NUM_THREADS=1 ../$(BIN)/python -m attacks --only "$(ATTACKS)"

# Sends 2,000 generated requests to the service and compares the answers with its OpenAPI document.
test-api: $(VENV)/.dev
	$(BIN)/python -m pytest -m '' tests/serve/test_openapi.py

# Latency, throughput, memory, swaps and kills of the service; writes benchmarks/results/serve.json.
serve-load: $(VENV)/.dev
	$(BIN)/python benchmarks/serve_load.py --output benchmarks/results/serve.json
	$(BIN)/python benchmarks/serve_kills.py --output benchmarks/results/serve.json

# Opens a report and the page of `itaml serve` in Chromium, if there is one; look at the screenshots in build/browser.
# Accessibility is checked if axe-core is in node_modules (npm install axe-core), or if ITAML_AXE names its axe.min.js.
test-browser: $(VENV)/.dev
	ITAML_SCREENSHOTS=build/browser $(BIN)/python -m pytest -m '' -rs tests/report/test_browser.py tests/serve_page

# Draws the page for the documentation again, from generated photos: docs/figures/serve-page.webp.
serve-figure: $(VENV)/.dev
	cd tests && OMP_NUM_THREADS=1 ../$(BIN)/python -m page_figure

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache
