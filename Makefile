# Every target sets itself up: a fresh clone needs only Python 3.11+ with venv, and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# More words for the command that a target runs: make bench ARGS=--help, make live ARGS='--port 9000'.
ARGS :=
# Where bytecode is not kept, every process of the tests compiles the package anew.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo live test lint mypy pyright docs release bench audit storm compat installs lock clean

demo: $(VENV)/.installed-cli,plot
	$(BIN)/veilstream demo --out demo-output

live: $(VENV)/.installed-server
	$(BIN)/veilstream serve --demo $(ARGS)

test: lint
	$(BIN)/python -m pytest -n auto --dist loadgroup $(ARGS)

lint: $(VENV)/.installed-test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/vulture
	$(MAKE) --no-print-directory --jobs=2 mypy pyright

mypy pyright: $(VENV)/.installed-test
	$(BIN)/$@

# The site, in build/site: it can be read from the disk.
docs: $(VENV)/.installed-docs
	$(BIN)/python -m website build

# Wheel, sdist, bill of materials and sums, in dist.
release: $(VENV)/.installed-test
	$(BIN)/python -m delivery $(ARGS)

bench: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks $(ARGS)

# Finished attacks are kept in .audit: after an interruption the same command goes on, after a change it begins anew.
audit: $(VENV)/.installed-test
	OPENBLAS_NUM_THREADS=1 $(BIN)/veilstream audit --deep --out .audit --page docs/privacy.md $(ARGS)
	$(BIN)/python -m pytest -n auto tests --run-audit $(ARGS)
	$(BIN)/python -m fuzz --inputs 1000000 --seed 1 --out .fuzz $(ARGS)
	$(BIN)/python -m fuzz.bodies --bodies 1000000 $(ARGS)
	$(BIN)/python -m fuzz.requests --requests 100000 $(ARGS)

# Finished rounds are kept in .storm: after an interruption the same command goes on, after a change it begins anew.
storm: $(VENV)/.installed-test
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m storm --page docs/reliability.md $(ARGS)

# Every command of this file, every line in the documents that installs, and every extra, each in an empty environment.
installs: $(VENV)/.installed-test
	$(BIN)/python -m delivery --installs $(ARGS)

# What the image installs, with hashes, for deploy/Dockerfile.
lock: $(VENV)/.installed-test
	$(BIN)/python -m delivery --lock

# The tests against the lowest versions that pyproject.toml allows, then against every listed Python that is found.
PYTHONS ?= 3.11 3.12 3.13
compat: $(VENV)/.installed-test
	$(BIN)/uv venv --quiet --allow-existing --python $(BIN)/python build/compat/lowest
	$(BIN)/uv pip install --quiet --python build/compat/lowest --resolution lowest-direct --editable '.[test]'
	build/compat/lowest/bin/python -m pytest -q -n auto --dist loadgroup $(ARGS)
	for version in $(PYTHONS); do \
	  command -v python$$version >/dev/null && python$$version --version >/dev/null 2>&1 || { echo "python$$version: not found, left out"; continue; }; \
	  python$$version -m venv build/compat/$$version && \
	  build/compat/$$version/bin/python -m pip install --quiet --editable '.[test]' && \
	  build/compat/$$version/bin/python -m pytest -q -n auto --dist loadgroup $(ARGS) || exit 1; \
	done

$(VENV)/.created:
	$(PYTHON) -m venv $(VENV)
	touch $@

# A stamp for each set of extras, which says that this set was installed and nothing of others.
$(VENV)/.installed-%: $(VENV)/.created pyproject.toml
	$(PIP) install --editable '.[$*]'
	touch $@

clean:
	rm -rf $(VENV) build dist demo-output .audit .fuzz .storm
