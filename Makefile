# Everything here runs inside .venv, made once from Python 3.11 or newer and the hashed locks.
PYTHON ?= python3
UV ?= uv
VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime
TESTING := $(VENV)/.testing
CHECKING := $(VENV)/.checking
DRAWING := $(VENV)/.drawing
PEERS := .venv-peers
INTEGRATIONS := .venv-integrations
TORCH := 2.13.0

# A folder in the working directory must never stand in for a package of ours or of anybody else's.
export PYTHONSAFEPATH := 1
# Where bytecode is not written, each of the processes that tests start compiles our code anew.
export PYTHONDONTWRITEBYTECODE :=
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help demo story serve quick test screenshots coverage check bench paper peers integrations machines linked power pythons kills attack fuzz audit site advisories report image wheel lock clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' Makefile

demo: $(RUNTIME) ## a real dataset, two private models, their receipts and a refusal; then stops
	@$(BIN)/purse demo

story: $(RUNTIME) ## a hospital's file: checked, counted, trained on, evaluated, audited; then stops
	@$(BIN)/python -P -m app.demo.story

serve: $(RUNTIME) ## the server on 127.0.0.1:8000, its state in $PURSE_HOME (./purse-data)
	@$(BIN)/purse serve

# A file stays in one process, which builds its fixtures once; tests/conftest.py says how many there are, and what comes
# first. Each computes in one thread, as a worker does: more only wait for one another.
PARALLEL := -n auto --dist loadfile --no-loadscope-reorder
ALONE := env OPENBLAS_NUM_THREADS=1

SUITE := $(ALONE) $(BIN)/python -m pytest $(PARALLEL)

quick: $(TESTING) ## the fast part of the suite, for daily work
	@$(SUITE) -q -m 'not slow'

test: $(TESTING) ## the whole suite, the heavy part aside
	@$(SUITE)

screenshots: $(TESTING) ## the pictures of the pages in docs/screenshots, by the tests in a browser
	@SCREENSHOTS=docs/screenshots $(BIN)/python -m pytest -q tests/pages

coverage: $(TESTING) ## the whole suite, and which lines and branches it never ran
	@$(BIN)/coverage erase
	@$(ALONE) $(BIN)/coverage run -m pytest -q $(PARALLEL)
	@$(BIN)/coverage combine -q
	@$(BIN)/coverage report

check: $(CHECKING) $(TESTING) ## ruff, mypy --strict, the import contracts, hadolint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	@if [ -x $(BIN)/hadolint ]; then echo $(BIN)/hadolint Dockerfile; $(BIN)/hadolint Dockerfile; fi

bench: $(RUNTIME) ## costs, accuracy and tightness of certificates on this machine
	@$(BIN)/python -m benchmarks

paper: $(DRAWING) ## heavy: the experiments of the ERM paper with valid noise, and their plots
	@$(BIN)/python -m benchmarks erm_revisited

peers: $(RUNTIME) $(PEERS)/.ready ## heavy: ours beside diffprivlib, Opacus and AdaSSP, on the same data
	@$(BIN)/python -m benchmarks peers --seeds 3

# The script runs by its path, because Opacus installs another package called `benchmarks`.
integrations: $(INTEGRATIONS)/.ready ## heavy: one budget spent by a job, four other libraries and own code; the tests of the adapters
	@$(ALONE) $(INTEGRATIONS)/bin/python -P -m pytest -q tests/integrations
	@$(INTEGRATIONS)/bin/python -P benchmarks/integrations.py

# Each line computes other last digits: the variants of BLAS, NumPy, libm and of our loops for older processors.
DISPATCHED = from numpy._core._multiarray_umath import __cpu_dispatch__ as found; print(*found)

machines: $(TESTING) ## heavy: the suite as other processors compute it, and beside a load of 20
	OPENBLAS_CORETYPE=Prescott $(SUITE) -q
	OPENBLAS_CORETYPE=Sandybridge $(SUITE) -q
	OPENBLAS_CORETYPE=Haswell $(SUITE) -q
	NPY_DISABLE_CPU_FEATURES="$$($(BIN)/python -c '$(DISPATCHED)')" $(SUITE) -q
	GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2,-FMA $(SUITE) -q
	NUMBA_CPU_NAME=generic $(SUITE) -q
	$(BIN)/python -m tests.heavy.load 20 $(SUITE) -q

linked: $(TESTING) wheel ## heavy: every loop of this platform's wheel beside numba's own, bit for bit, and its first `purse fit`; also on each Python of `make pythons`
	@for python in $(BIN)/python $(wildcard .venv-python*/bin/python); do \
	  $$python -m tests.heavy.linked dist/privy_purse-*-py3-none-manylinux_*_$$(uname -m).whl || exit 1; \
	done

power: $(TESTING) ## heavy: how often each audit would miss that the noise is half of what it promises
	@$(BIN)/python -m tests.heavy.power

pythons: ## heavy: `make quick` on every Python from 3.11 to 3.13 that is here, each in an environment of its own
	@for python in python3.11 python3.12 python3.13; do \
	  $$python -c '' 2>/dev/null || { echo "$$python is not here"; continue; }; \
	  $(MAKE) --no-print-directory quick PYTHON=$$python VENV=.venv-$$python || exit 1; \
	done

kills: $(TESTING) ## heavy: 1,000 random faults of servers, workers, databases, disks and clocks; no budget lost or spent twice
	@$(BIN)/python -m tests.heavy.kills --servers 2
	@$(BIN)/python -m tests.heavy.kills --servers 2 --database postgres
	@$(BIN)/python -m tests.heavy.kills --servers 2 --machines 2
	@$(BIN)/python -m tests.heavy.kills --servers 2 --machines 2 --database postgres
	@! $(BIN)/python -m tests.heavy.kills --servers 2 --unfenced 2>/dev/null

attack: $(TESTING) ## heavy: how long others wait while one analyst sends the dearest requests of every route; fails above one second
	@$(BIN)/python -m tests.heavy.attack

fuzz: $(TESTING) ## heavy: ten minutes of every route against the OpenAPI document, other requests each time
	@$(BIN)/python -m tests.heavy.fuzz

audit: $(RUNTIME) ## heavy: the privacy audit of every method, against either kind of neighbor, with many more runs
	@$(BIN)/purse audit all --runs 20000
	@$(BIN)/purse audit all --runs 20000 --neighbors zero_out

site: $(TESTING) ## the documents as a site, build/site/index.html
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs --quiet build
	@echo build/site/index.html

advisories: $(CHECKING) ## the locks against the published security advisories (needs the network)
	$(BIN)/pip-audit --strict --require-hashes --disable-pip \
	  -r requirements.lock -r requirements-build.lock -r requirements-test.lock -r requirements-dev.lock \
	  -r requirements-bench.lock

report: $(CHECKING) ## what the service is made of: licences (only those taken), build/sbom.json, advisories (needs the network)
	$(BIN)/pip-licenses --packages $$(sed -n 's/^\([A-Za-z0-9._-]*\)==.*/\1/p' requirements.lock)
	@mkdir -p build
	$(BIN)/cyclonedx-py requirements requirements.lock --pyproject pyproject.toml --output-reproducible -o build/sbom.json
	@$(MAKE) --no-print-directory advisories

wheel: $(RUNTIME) ## heavy: the wheel of this platform, with compiled loops (needs a C compiler), and the one of all platforms
	@rm -rf dist
	@HATCH_BUILD_HOOK_ENABLE_CUSTOM=true $(BUILD)
	@$(BUILD)
	@ls -l dist

image: ## builds the image without an engine and runs it read-only (Debian, as root)
	@docker/build-without-engine.sh

BUILD := $(BIN)/python -m pip wheel --quiet --no-deps --no-index --no-build-isolation --wheel-dir dist .

COMPILE := $(UV) pip compile --quiet --universal --fork-strategy fewest --python-version 3.11 \
  --generate-hashes --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock"

lock: ## fresh versions and hashes (needs uv); LOCK=--upgrade for the newest
	$(COMPILE) $(LOCK) -o requirements.lock pyproject.toml --extra server
	$(COMPILE) $(LOCK) -o requirements-build.lock -c requirements.lock --group build
	$(COMPILE) $(LOCK) -o requirements-test.lock -c requirements.lock -c requirements-build.lock --group test
	$(COMPILE) $(LOCK) -o requirements-dev.lock -c requirements.lock -c requirements-build.lock \
	  -c requirements-test.lock --group dev
	$(COMPILE) $(LOCK) -o requirements-bench.lock -c requirements.lock -c requirements-build.lock \
	  -c requirements-test.lock -c requirements-dev.lock --group bench
	$(COMPILE) $(LOCK) -o requirements-peers.lock --group peers
	$(COMPILE) $(LOCK) -o requirements-integrations.lock -c requirements.lock -c requirements-build.lock \
	  --group integrations

clean: ## removes .venv and the tools' caches
	rm -rf $(VENV) .venv-python* $(PEERS) $(INTEGRATIONS) .coverage* .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist

# uv where there is one, for speed; the interpreter's own pip otherwise, or if uv does not reach the registry.
define install
	@if ! { command -v $(UV) >/dev/null && $(UV) pip install --no-config --quiet --python $(BIN)/python $(1); }; then \
	  $(BIN)/python -m pip install --quiet $(1); fi
endef

$(VENV)/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "Privy Purse needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1)." >&2; \
	  echo "Name another one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@echo "making $(VENV) with $$($(PYTHON) --version)"
	@if $(PYTHON) -c 'import ensurepip' 2>/dev/null; then $(PYTHON) -m venv $(VENV); \
	elif command -v $(UV) >/dev/null; then $(UV) venv --quiet --python $(PYTHON) $(VENV); \
	else echo "'$(PYTHON)' cannot make virtual environments; on Debian and Ubuntu: apt-get install python3-venv" >&2; \
	  exit 1; fi || { rm -rf $(VENV); exit 1; }

$(RUNTIME): requirements.lock requirements-build.lock pyproject.toml | $(VENV)/pyvenv.cfg
	@echo "installing what the service needs"
	$(call install,--require-hashes -r requirements-build.lock -r requirements.lock)
	$(call install,--no-deps --no-build-isolation --editable .)
	@echo "compiling the loops"
	@$(BIN)/python -c 'import app.worker.task'
	@touch $@

$(TESTING): requirements-test.lock $(RUNTIME)
	@echo "installing what the tests need"
	$(call install,--require-hashes -r requirements-test.lock)
	@touch $@

$(CHECKING): requirements-dev.lock $(RUNTIME)
	@echo "installing what the checks need"
	$(call install,--require-hashes -r requirements-dev.lock)
	@touch $@

$(DRAWING): requirements-bench.lock $(RUNTIME)
	@echo "installing what the plots need"
	$(call install,--require-hashes -r requirements-bench.lock)
	@touch $@

# PyTorch is not in the lock: pip takes the build for this machine, without a hash; nothing but the comparison runs it.
$(PEERS)/.ready: requirements-peers.lock
	@echo "making $(PEERS), with PyTorch and JAX: this may be large"
	@$(PYTHON) -m venv $(PEERS)
	@$(PEERS)/bin/python -m pip install --quiet --require-hashes --no-deps -r requirements-peers.lock
	@$(PEERS)/bin/python -m pip install --quiet torch==$(TORCH)
	@touch $@

# Beside the service itself. PyTorch comes first, so that the locks decide the versions of what it needs too.
$(INTEGRATIONS)/.ready: requirements.lock requirements-build.lock requirements-integrations.lock pyproject.toml
	@echo "making $(INTEGRATIONS), with PyTorch and JAX: this may be large"
	@$(PYTHON) -m venv $(INTEGRATIONS)
	@$(INTEGRATIONS)/bin/python -m pip install --quiet torch==$(TORCH)
	@$(INTEGRATIONS)/bin/python -m pip install --quiet --require-hashes --no-deps \
	  -r requirements-build.lock -r requirements.lock -r requirements-integrations.lock
	@$(INTEGRATIONS)/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@
