# `make run` and `make test` set up everything that they need; `make help` explains.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
CARGO := cargo
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check
LOCK = $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
  --no-emit-index-url
UV := uv
AUDIT := $(VENV)/audit/bin/pip-audit
SITE := $(VENV)/site/bin/mkdocs
WHEEL := $(VENV)/wheel/bin
# The oldest C library on which the wheel runs.
GLIBC := 2.17
PLATFORM := manylinux_$(subst .,_,$(GLIBC))_x86_64

.DEFAULT_GOAL := help
.PHONY: help run test lint check-long fuzz bench docs format licenses audit lock man wheel try-wheel site clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

run: $(READY) ## the main job: the durability study in its quick form on the embedded PostgreSQL
	$(BIN)/walproof run durability --quick --pg embedded

test: $(READY) ## every test, Rust and Python, but those marked as long, which check-long has
	$(CARGO) test --workspace --locked --quiet
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder -m "not long"

lint: $(READY) ## formatters, linters and type checkers, warnings as errors; stubs against the native module; words of the documents
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYTHONPATH=. $(BIN)/python bench/ship/prose.py
	$(BIN)/stubtest walproof._native --mypy-config-file pyproject.toml
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) check --locked --quiet --manifest-path crates/walproof-fuzz/fuzz/Cargo.toml --target-dir target

check-long: $(READY) ## long checks: property tests with many new examples, live tests on every version, decoder against pg_waldump, 100 power cuts of four versions, random kills, disturbances, file operations and changed JSON with ten seeds, faults of a watched server and a day of it, the simulated disk with a piece missing
	PROPTEST_CASES=5000 $(CARGO) test --workspace --locked --quiet
	PYTHONPATH=. $(BIN)/python bench/wal_equality.py
	WALPROOF_TEST_VERSIONS=all $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m live
	PYTHONPATH=. $(BIN)/python bench/power_cut.py --cuts 102
	for seed in 1 2 3 4 5 6 7 8 9 10; do \
	  WALPROOF_TEST_SEED=$$seed $(BIN)/python -m pytest tests/live/test_interruption.py -k random || exit 1; \
	  WALPROOF_TEST_SEED=$$seed $(BIN)/python -m pytest tests/live/long_disturbances.py || exit 1; \
	  WALPROOF_TEST_SEED=$$seed $(BIN)/python -m pytest tests/disk/test_against_plain_disk.py || exit 1; \
	  WALPROOF_TEST_SEED=$$seed $(BIN)/python -m pytest tests/cli/test_hostile_files.py tests/wal/verify/test_hostile.py || exit 1; \
	done
	PYTHONPATH=. $(BIN)/python bench/watch/faults.py --times 5
	PYTHONPATH=. $(BIN)/python bench/watch/day.py
	PYTHONPATH=. $(BIN)/python bench/watch/detection.py
	PYTHONPATH=. $(BIN)/python bench/mutants/mutants.py

fuzz: $(READY) ## fuzz each target until 30 CPU minutes found no new edge; goes on where it was stopped
	$(BIN)/python bench/fuzz.py

bench: $(READY) ## our own speed: share of time inside windows, cost of the probes, start-up, reading WAL, the simulated disk, receiving WAL (about 40 minutes)
	$(BIN)/python bench/window_share.py
	$(BIN)/python bench/probe_overhead.py
	$(BIN)/python bench/start_up.py
	PYTHONPATH=. $(BIN)/python bench/wal_speed.py
	PYTHONPATH=. $(BIN)/python bench/preload_overhead.py
	PYTHONPATH=. $(BIN)/python bench/capture_speed.py

docs: $(READY) ## write the tables of docs/metrics.md again, from the table of metrics, and docs/glossary.md from its table
	$(BIN)/python bench/metrics_page.py
	PYTHONPATH=. $(BIN)/python bench/ship/glossary.py

format: $(READY) ## rewrite sources in the project's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(CARGO) fmt --all

clean: ## remove what was built, keep results and caches
	rm -rf $(VENV) target build dist share site src/walproof/_native*.so src/walproof/_preload*.so src/*.egg-info

licenses: $(READY) ## write THIRD_PARTY_LICENSES again: what is linked into a wheel
	$(BIN)/python bench/third_party_licenses.py

audit: $(AUDIT) ## known vulnerabilities, licences and sources of what walproof is made of; 1: something was found, 2: something could not be checked
	$(PYTHON) bench/audit.py --pip-audit $(AUDIT)

lock: ## write requirements/*.txt again from pyproject.toml, by uv; LOCK_FLAGS=--upgrade takes newer versions
	$(LOCK) $(LOCK_FLAGS) pyproject.toml --all-extras -o requirements/dev.txt
	$(LOCK) $(LOCK_FLAGS) pyproject.toml -c requirements/dev.txt -o requirements/run.txt
	$(LOCK) $(LOCK_FLAGS) --group audit -o requirements/audit.txt
	$(LOCK) $(LOCK_FLAGS) --group docs -o requirements/docs.txt
	$(LOCK) $(LOCK_FLAGS) --group wheel -o requirements/wheel.txt
	$(PYTHON) -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' | \
	  $(LOCK) $(LOCK_FLAGS) - -o requirements/build.txt

man: $(READY) ## the man page and the shells' completions, in share/
	PYTHONPATH=. $(BIN)/python bench/ship/man_page.py

wheel: man $(WHEEL)/auditwheel ## a wheel for every Python from 3.11 on and glibc 2.17 or newer, and the source archive, in dist/
	rm -rf dist
	$(PYTHON) bench/ship/linker_licenses.py $(WHEEL)/python
	PATH="$(CURDIR)/$(WHEEL):$$PATH" GLIBC=$(GLIBC) CARGO="$(CURDIR)/bench/ship/cargo_for_old_glibc.sh" \
	  CARGO_TARGET_DIR="$(CURDIR)/target/wheel" CARGO_PROFILE_RELEASE_DEBUG=none CARGO_PROFILE_RELEASE_STRIP=debuginfo \
	  $(WHEEL)/python -m build --no-isolation --outdir dist/built .
	PATH="$(CURDIR)/$(WHEEL):$$PATH" $(WHEEL)/auditwheel repair --plat $(PLATFORM) --wheel-dir dist dist/built/*.whl
	mv dist/built/*.tar.gz dist/
	rm -r dist/built
	$(WHEEL)/auditwheel show dist/*.whl

try-wheel: ## install the wheel of dist/ in new Debians without a compiler, as root, and use it there
	$(PYTHON) bench/ship/try_wheel.py

site: $(READY) $(SITE) ## the documentation as a site in site/, which opens from a file
	rm -rf build/reference
	PYTHONPATH=. $(BIN)/python bench/ship/reference.py
	NO_MKDOCS_2_WARNING=1 $(SITE) build --strict --quiet
	$(PYTHON) bench/ship/site_links.py

$(SITE): requirements/docs.txt
	$(PYTHON) -m venv --clear $(VENV)/site
	$(VENV)/site/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r $<
	touch $@

$(WHEEL)/auditwheel: requirements/build.txt requirements/wheel.txt
	$(PYTHON) -m venv --clear $(VENV)/wheel
	$(WHEEL)/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: \
	  -r requirements/build.txt -r requirements/wheel.txt
	touch $@

$(AUDIT): requirements/audit.txt
	$(PYTHON) -m venv --clear $(VENV)/audit
	$(VENV)/audit/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r $<
	touch $@

# Everything is built and installed into .venv; again when the sources of the native module or the
# dependencies change.
$(READY): pyproject.toml requirements/build.txt requirements/dev.txt rust-toolchain.toml Cargo.toml Cargo.lock $(shell find crates -name '*.rs' -o -name Cargo.toml)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "walproof needs Python 3.11 or newer; install one (docs/install.md) and name it: make PYTHON=python3.12" >&2; exit 2; }
	@command -v $(CARGO) >/dev/null || { echo "walproof needs a Rust toolchain (cargo) on PATH: https://rustup.rs" >&2; exit 2; }
	@command -v cc >/dev/null || { echo "walproof needs a C compiler (cc) on PATH: apt install gcc" >&2; exit 2; }
	@$(CARGO) --version | awk '{ split($$2, n, "."); exit n[1] == 1 && n[2] < 85 }' || \
	  { echo "walproof needs Rust 1.85 or newer; this is $$($(CARGO) --version): https://rustup.rs has a newer one" >&2; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
	  { echo "Debian keeps venv apart: apt install python3-venv" >&2; rm -rf $(VENV); exit 2; }
	@echo "installing Python packages (1 of 2): about a minute"
	$(PIP) --require-hashes --only-binary :all: -r requirements/build.txt -r requirements/dev.txt
	@echo "compiling what is Rust (2 of 2): 2 to 7 minutes"
	$(PIP) --no-deps --no-build-isolation -e .
	touch $@
