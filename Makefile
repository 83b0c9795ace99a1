# Every target sets itself up: a fresh clone needs only Python 3.11+ with venv, and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: demo test lint bench audit clean

demo: $(VENV)/.installed
	$(BIN)/veilstream demo --out demo-output

test: lint
	$(BIN)/python -m pytest -n auto --dist loadgroup

lint: $(VENV)/.installed-test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/pyright

bench: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks

# Finished attacks are kept in .audit: after an interruption the same command goes on, after a change it begins anew.
audit: $(VENV)/.installed-test
	OPENBLAS_NUM_THREADS=1 $(BIN)/veilstream audit --deep --out .audit --page docs/privacy.md
	$(BIN)/python -m pytest -n auto tests/audit --run-audit

$(VENV)/.created:
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.installed: $(VENV)/.created pyproject.toml
	$(PIP) install --editable .
	touch $@

$(VENV)/.installed-test: $(VENV)/.created pyproject.toml
	$(PIP) install --editable '.[test]'
	touch $@ $(VENV)/.installed

$(VENV)/.installed-bench: $(VENV)/.created pyproject.toml
	$(PIP) install --editable '.[bench]'
	touch $@ $(VENV)/.installed-test $(VENV)/.installed

clean:
	rm -rf $(VENV) demo-output .audit
