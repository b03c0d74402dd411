# The doors of the project. `make help` lists them. On another Python, in an environment of its own:
#   make test PYTHON=python3.13 VENV=.venv-3.13
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
MPICH  := $(VENV)-mpich
LLM    := $(VENV)-llm
UV     ?= $(shell command -v uv)

.PHONY: help demo examples test test-real test-gang test-peers test-chart test-sdk check check-format check-lint check-types \
  check-layers bench dist docs clean
help:
	@echo "make demo       train a real model with one command (installs PyTorch into $(VENV))"
	@echo "make examples   run all of examples/: torch, elastic torch, JAX, XGBoost, MPI, S3, order, language models (into $(VENV), $(MPICH) and $(LLM))"
	@echo "make check      format, lint, types and layers"
	@echo "make test       make check, and the tests"
	@echo "make test-real  the tests of tests/controlplane and tests/seeds on a real kube-apiserver, built with Go if need be, and kubectl's"
	@echo "make test-gang  gangs of two jobs on the real kube-schedulers of Kubernetes 1.36 and 1.35"
	@echo "make test-peers beside the real Kubeflow Trainer, JobSet and Kueue, built with Go if need be"
	@echo "make test-chart the chart, config/, images, dashboards and rules, with helm, built with Go if need be, on a real kube-apiserver"
	@echo "make test-sdk   Kubeflow's SDK on ktrain up: its objects, and functions on PyTorch, JAX and MPI (into $(VENV))"
	@echo "make bench      the benchmarks of benchmarks/"
	@echo "make docs       the documentation site, into build/docs"
	@echo "make dist       sdist and wheel, into build/dist, and what is inside the wheel"
	@echo "make clean      remove $(VENV) and caches"
	@echo "Any of them on another Python: make test PYTHON=python3.13 VENV=.venv-3.13"
	@echo "Where uv is installed, packages have the versions of uv.lock; make UV= takes pip and the newest ones"

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit("ktrain needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

# A stamp per extra: installing again is skipped until pyproject.toml or the lock changes. uv takes the versions of
# uv.lock and leaves packages of other extras in place; pip, for those without uv, takes the newest versions.
$(VENV)/.installed-%: pyproject.toml uv.lock | $(BIN)/python
	$(if $(UV),UV_PROJECT_ENVIRONMENT=$(VENV) $(UV) sync --quiet --locked --inexact --python $(BIN)/python --extra $*,\
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]')
	@touch $@

demo: $(VENV)/.installed-demo
	$(BIN)/ktrain run examples/digits/trainjob.yaml

# Three kinds of MPI: Open MPI 5 and MPICH as wheels, in an environment each as both bring an `mpirun`; and Debian's
# Open MPI 4, which only root can install. What is not there is skipped, and said.
examples: $(VENV)/.installed-examples $(VENV)/.installed-demo $(MPICH)/.installed $(LLM)/.installed
	@command -v /usr/bin/mpirun >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	  apt-get install --yes --no-install-recommends openmpi-bin; } || echo "not run: Open MPI 4 (apt-get install openmpi-bin)"
	$(BIN)/python -m pytest -m "examples or torch" -rs tests/e2e/test_examples.py tests/e2e/test_order.py \
	  tests/e2e/test_digits.py tests/e2e/test_elastic.py tests/e2e/test_elastic_losses.py
	$(BIN)/python -m pytest -rs tests/e2e/test_mpi.py
	$(MPICH)/bin/python -m pytest -m examples -k mpich tests/e2e/test_examples.py
	$(LLM)/bin/python -m pytest -m examples -rs tests/e2e/test_llm.py tests/e2e/test_mpi_frameworks.py

$(MPICH)/.installed: pyproject.toml
	$(PYTHON) -m venv $(MPICH)
	$(MPICH)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[examples-mpich]'
	@touch $@

# Beside the others: transformers asks for versions of its own, and `make test` must not become theirs.
$(LLM)/.installed: pyproject.toml
	$(PYTHON) -m venv $(LLM)
	$(LLM)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[examples-llm,examples-mpi]'
	@touch $@

# The hooks of .pre-commit-config.yaml are these four.
check: check-format check-lint check-types check-layers

check-format: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .

check-lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .

check-types: $(VENV)/.installed-dev
	$(BIN)/mypy
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 PYTHONPATH=$(CURDIR) VIRTUAL_ENV=$(abspath $(VENV)) PATH="$(abspath $(BIN)):$$PATH" \
	  pyright --verifytypes ktrain.framework --ignoreexternal >$(VENV)/verifytypes || { cat $(VENV)/verifytypes; exit 1; }

check-layers: $(VENV)/.installed-dev
	$(BIN)/lint-imports

# Two at a time: those of whole programs mostly wait. Their output comes when the others are done.
test: check $(VENV)/.installed-demo
	@rm -f $(VENV)/*.exit; \
	  $(BIN)/python -m pytest tests/e2e -o cache_dir=.pytest_cache/e2e >$(VENV)/e2e.log 2>&1 & programs=$$!; \
	  $(BIN)/python -m pytest --ignore tests/e2e --ignore tests/chart; echo $$? >$(VENV)/rest.exit; \
	  wait $$programs; echo $$? >$(VENV)/e2e.exit; cat $(VENV)/e2e.log; \
	  [ "$$(cat $(VENV)/rest.exit $(VENV)/e2e.exit | tr '\n' ' ')" = "0 0 " ]

# On the programs in KUBEBUILDER_ASSETS (etcd, kube-apiserver, kube-controller-manager), as envtest has it; without it
# they are built from Go modules, which takes minutes the first time.
test-real: $(VENV)/.installed-dev
	@if [ -z "$$KUBEBUILDER_ASSETS" ]; then \
	  command -v go >/dev/null || { echo "set KUBEBUILDER_ASSETS to a directory with kube-apiserver, or install Go" >&2; exit 1; }; \
	  KUBEBUILDER_ASSETS=$$(hack/controlplane/build) || exit; export KUBEBUILDER_ASSETS; \
	fi; \
	$(BIN)/python -m pytest tests/controlplane tests/seeds tests/e2e/kubectl

# Those of them that also need kube-scheduler, of 1.36 and of 1.35. Without Go only the versions whose directory is given.
test-gang: $(VENV)/.installed-dev
	@if [ -z "$$KUBEBUILDER_ASSETS" ]; then \
	  command -v go >/dev/null || { echo "set KUBEBUILDER_ASSETS to a directory with kube-apiserver and kube-scheduler, or install Go" >&2; exit 1; }; \
	  KUBEBUILDER_ASSETS=$$(hack/controlplane/build) || exit; export KUBEBUILDER_ASSETS; \
	fi; \
	if [ -z "$$KUBEBUILDER_ASSETS_1_35" ] && command -v go >/dev/null; then \
	  KUBEBUILDER_ASSETS_1_35=$$(KUBERNETES=1.35 hack/controlplane/build etcd kube-apiserver kube-controller-manager kube-scheduler) || exit; \
	  export KUBEBUILDER_ASSETS_1_35; \
	fi; \
	$(BIN)/python -m pytest -rs tests/controlplane/gangs

# Beside the operators in Go that ktrain takes the place of, or works with.
test-peers: $(VENV)/.installed-dev
	@command -v go >/dev/null || { echo "the operators are built from Go modules: install Go" >&2; exit 1; }; \
	if [ -z "$$KUBEBUILDER_ASSETS" ]; then KUBEBUILDER_ASSETS=$$(hack/controlplane/build) || exit; export KUBEBUILDER_ASSETS; fi; \
	KTRAIN_PEERS=$$(hack/peers/build) && hack/peers/kueue/build >/dev/null || exit; export KTRAIN_PEERS; \
	$(BIN)/python -m pytest -rs tests/peers

# With helm and kubeconform as Go modules have them, and promtool and prometheus where Debian's package is installed.
test-chart: $(VENV)/.installed-dev
	@if [ -z "$$KUBEBUILDER_ASSETS" ] || [ -z "$$KTRAIN_TOOLS" ]; then \
	  command -v go >/dev/null || { echo "set KUBEBUILDER_ASSETS (kube-apiserver) and KTRAIN_TOOLS (helm), or install Go" >&2; exit 1; }; \
	fi; \
	if [ -z "$$KUBEBUILDER_ASSETS" ]; then KUBEBUILDER_ASSETS=$$(hack/controlplane/build) || exit; export KUBEBUILDER_ASSETS; fi; \
	if [ -z "$$KTRAIN_TOOLS" ]; then KTRAIN_TOOLS=$$(hack/tools/build) || exit; export KTRAIN_TOOLS; fi; \
	$(BIN)/python -m pytest -rs tests/chart

# With what the functions train on: PyTorch, JAX and MPI.
test-sdk: $(VENV)/.installed-sdk $(VENV)/.installed-examples $(VENV)/.installed-demo
	$(BIN)/python -m pytest -m "" -rs tests/e2e/test_sdk.py tests/e2e/test_sdk_objects.py tests/e2e/test_sdk_frameworks.py

bench: $(VENV)/.installed-dev
	$(BIN)/python -m benchmarks

# Strict: a broken link, an anchor that is not there and a page without a place in the navigation fail.
docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo build/docs/index.html

# The wheel is built from the sdist, as PyPI's users would.
dist: $(VENV)/.installed-dev
	rm -rf build/dist
	$(BIN)/python -m hatchling build --target sdist --directory build/dist
	rm -rf build/sdist && mkdir -p build/sdist && tar -xzf build/dist/*.tar.gz --strip-components 1 -C build/sdist
	cd build/sdist && $(abspath $(BIN))/python -m hatchling build --target wheel --directory $(CURDIR)/build/dist
	@$(BIN)/python -m zipfile --list build/dist/*.whl

clean:
	rm -rf $(VENV) $(MPICH) $(LLM) build .mypy_cache .ruff_cache .pytest_cache .hypothesis
