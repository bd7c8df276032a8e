# Every command that a person or CI needs. `make help` lists them.
SHELL := /bin/bash
PYTHON ?= $(shell bin/find-python)
VENV := .venv
RUN := $(VENV)/bin
ENGINES_DIR := $(or $(DRAFTHOUSE_ENGINES_DIR),.engines)

.DEFAULT_GOAL := help
.PHONY: help up demo check audit test test-fast test-fleet mutants bench models engine-vllm engine-matrix engine-update wheel install screenshots journeys docs clean

help: ## list these commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

demo: install ## from a fresh clone: a real study on this machine, its results on http://127.0.0.1:8501 (EXIT=1 stops when done)
	@$(RUN)/drafthouse demo $(if $(EXIT),--exit)

up: install ## start the broker, a worker, the ingester and the page; Ctrl-C stops them
	@$(RUN)/drafthouse up

check: install-test ## lint, types and import rules
	$(RUN)/ruff format --check .
	$(RUN)/ruff check .
	$(RUN)/mypy .
	$(RUN)/lint-imports
	@$(RUN)/python -m tests.audit --only-say

audit: install-test ## look up known vulnerabilities of what the lock files name, and fail if there is any
	@$(RUN)/python -m tests.audit

# A run starts hundreds of Python processes: without cached bytecode each would compile our modules anew.
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(RUN)/python -m pytest --dist loadscope --no-loadscope-reorder

test: install-test browser nginx models ## install what the tests need, then run all of them side by side (ARGS=... for pytest, such as ARGS="-n 0 tests/lab")
	$(PYTEST) -n 4 $(ARGS)

FAST := tests/lab tests/jobs tests/warehouse/app_db tests/warehouse/bundles tests/interchange tests/warehouse/schema tests/webapp/charts
test-fast: install-test ## while editing: the tests without an engine, a browser, services or whole pages (ARGS="tests/cli" for others)
	$(PYTEST) -n 2 -m "not engine and not browser" $(or $(ARGS),$(FAST))

test-fleet: install-test ## an hour: hosts in network namespaces (as root; else behind forwarders), every link cut, services away and full, an upgrade under load
	$(PYTEST) -n 3 -v -m fleet $(or $(ARGS),tests/fleet)

mutants: install-test ## break lab, the queue, bundles and ingest in small ways, and list what no test notices (ARGS="lab.cost*" for a part, SAMPLE=500 for a random sample)
	@$(RUN)/uv pip install --quiet --python $(VENV) --require-hashes -r tests/mutants.lock
	@$(if $(SAMPLE),$(RUN)/python -m tests.mutant_sample $(SAMPLE) $(ARGS),$(RUN)/python -m mutmut run $(ARGS) && $(RUN)/python -m mutmut results)

bench: install-test models ## compare Drafthouse with vLLM's own benchmark, as ratios
	$(RUN)/python -m benchmarks

engine-matrix: install-test engine-vllm models ## try versions of vLLM for real and write what was seen to jobs/engines/captures (VERSIONS="0.14.1 0.28.0", KEEP=1 leaves their environments)
	$(RUN)/python -m benchmarks.engine_matrix $(if $(KEEP),--keep) $(VERSIONS)
	$(RUN)/python -m jobs.engines.relied_on

engine-update: install-test engine-vllm models ## try the registry's newest vLLM and make it the default, if it does what the default does (VERSION=... for another)
	$(RUN)/python -m benchmarks.engine_matrix.update $(VERSION)

screenshots: install-test browser ## save every page, light and dark, 1280 px and wide, in screenshots/ (TO=... for another folder)
	@$(RUN)/python -m tests.webapp.screenshots --to $(or $(TO),screenshots)

icons: install-test ## make the font of the icons that the pages name anew: after a new icon, or a new Streamlit
	@PATH=$(VENV)/bin:$$PATH $(RUN)/python -m tests.webapp.icons

journeys: install-test browser ## walk ten ways of a new user through the pages, with pictures in journeys/ (TO=... for another folder)
	@$(RUN)/python -m tests.webapp.journeys --to $(or $(TO),journeys)

docs: install ## write the generated parts of docs/
	$(RUN)/python -m warehouse.schema.dictionary
	$(RUN)/python -m cli.reference
	$(RUN)/python -m interchange.docs_table
	$(RUN)/python -m jobs.engines.relied_on

install: $(VENV)/installed ## create the app's environment in .venv
install-test: $(VENV)/installed-test
engine-vllm: install ## create vLLM's environment in .engines/vllm (CPU build where there is no NVIDIA GPU; VERSION=0.31.0 puts another version beside it)
	@$(RUN)/python -m workers.engine_runtime.install vllm $(VERSION)

models: install ## install vLLM and prepare the reference models under the home, padded to a realistic cost
	@$(RUN)/drafthouse install

wheel: install ## build dist/drafthouse-*.whl, which holds all of Drafthouse
	@$(RUN)/uv build --quiet --wheel --out-dir dist .

clean: ## remove the environments; the home with its measurements stays
	rm -rf $(VENV) $(ENGINES_DIR) mutants

$(VENV)/bin/uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Drafthouse needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) --version 2>&1): install it, or say which with make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) cannot make environments: install its venv module (Debian and Ubuntu: apt install python3-venv)"; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@$(RUN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-uv.lock

$(VENV)/installed: requirements.lock pyproject.toml setup.py | $(VENV)/bin/uv
	@$(RUN)/uv pip install --quiet --python $(VENV) --require-hashes -r requirements.lock
	@$(RUN)/uv pip install --quiet --python $(VENV) --no-deps -e .
	@touch $@

# DuckDB's extension httpfs is packaged for one version of DuckDB, not ours: it has a folder of its own.
$(VENV)/installed-test: requirements-test.lock tests/httpfs.lock $(VENV)/installed
	@$(RUN)/uv pip install --quiet --python $(VENV) --compile-bytecode --require-hashes -r requirements-test.lock
	@$(RUN)/uv pip install --quiet --python $(VENV) --target $(VENV)/httpfs --require-hashes -r tests/httpfs.lock
	@touch $@

browser: install-test
	@bin/install-chromium
nginx:
	@bin/install-nginx
