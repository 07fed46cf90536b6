# Every habit of the project is one target; `make help` lists them.
# Needs Python 3.11+ and make. Go only for `envtest`, uv only for `lock`.

# Tests start hundreds of programs: without compiled modules each takes 0.14 s more, and collecting the tests 10 s.
unexport PYTHONDONTWRITEBYTECODE

PYTHON  ?= python3
VENV    := .venv
BIN     := $(VENV)/bin
RUN_STAMP := $(VENV)/.installed-to-run
STAMP   := $(VENV)/.installed
# uv where it is installed: it reads the same lock files as pip, and is faster. A lock names every package, so nothing is
# resolved (--no-deps): pip 23 chose `coverage[toml]` anew and refused the lock once a newer coverage was published.
INSTALL := $(if $(shell command -v uv),uv pip install --quiet --python $(BIN)/python,$(BIN)/python -m pip install --quiet --disable-pip-version-check)
SOURCES := src tests bench tools
BENCH_VENV  := .venv-bench
BENCH_STAMP := $(BENCH_VENV)/.installed
DOCS_VENV   := .venv-docs
DOCS_STAMP  := $(DOCS_VENV)/.installed
AUDIT_VENV  := .venv-audit
AUDIT_STAMP := $(AUDIT_VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help up run setup fmt lint types imports test test-slow test-repeat coverage envtest test-envtest test-envtest-all conformance conformance-record node node-stop test-node simulate simulate-ci simulate-explore fuzz screenshots audit rights-record bench bench-planes bench-report docs dist helm chart image image-check all lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

up: run ## bring up a hub and managed clusters on the embedded control plane
	$(BIN)/watchword up

run: $(RUN_STAMP) ## create .venv with what running needs, and nothing for developers

setup: $(STAMP) ## create .venv from the lock (instant when nothing changed)

$(RUN_STAMP): requirements-run.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "watchword needs Python 3.11 or newer; name one with: make PYTHON=/path/to/python3" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --no-deps --require-hashes -r requirements-run.lock
	$(INSTALL) --no-build-isolation --no-deps -e .
	@touch $(RUN_STAMP)

$(STAMP): $(RUN_STAMP) requirements.lock
	$(INSTALL) --no-deps --require-hashes -r requirements.lock
	@touch $(STAMP)

fmt: setup ## format the code and apply the safe fixes
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/ruff check --fix $(SOURCES)

lint: setup ## check style and the import contracts
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/lint-imports

types: setup ## check types, strictly, in the sources and in the tests
	$(BIN)/mypy

# Types are checked beside the tests: without a cache mypy takes 26 s of one core.
test: lint ## style, types, and all tests but the slow ones, on the embedded control plane
	@mkdir -p build
	@nice $(BIN)/mypy >build/types.txt 2>&1 & types=$$!; \
	  $(BIN)/pytest --numprocesses=auto --dist=worksteal -m "not slow and not node"; tests=$$?; \
	  wait $$types; types=$$?; cat build/types.txt; exit $$((tests || types))

test-slow: setup ## the tests that take more than two seconds each, which `make test` leaves out
	$(BIN)/pytest --numprocesses=auto --dist=worksteal -m "slow and not node"

screenshots: setup ## take the pictures in docs/images again: starts a fleet, needs Chromium
	$(BIN)/python -m tools.screenshots

ROUNDS ?= 10

test-repeat: setup ## run the suite ROUNDS=10 times, each in another random order, every second time with all cores busy
	$(BIN)/python -m tools.repeat_tests --rounds=$(ROUNDS)

coverage: setup ## the same suite with its branch coverage reported; half as fast
	$(BIN)/pytest --numprocesses=auto --dist=worksteal --cov --cov-report=term:skip-covered

# VERSION=v1.34.4 chooses another release for `envtest` and the suites that run on it.
ifdef VERSION
export ENVTEST_K8S_VERSION := $(VERSION)
endif

envtest: setup ## build a real kube-apiserver, its etcd and companions with Go: VERSION=(release); instant when present
	$(BIN)/python tools/envtest.py

REAL_SUITES := tests/kube tests/runtime $(wildcard tests/registration/test_*.py) tests/registration/hub tests/apiserver/admission tests/conformance tests/discovery tests/security tests/testing tests/pullsecrets tests/operator/test_installation.py tests/e2e/install/test_helm.py

test-envtest: setup ## run the core suites on the real kube-apiserver: VERSION=(release)
	$(BIN)/pytest --plane=kube-apiserver --timeout=300 $(REAL_SUITES)

test-envtest-all: setup ## run every test that needs a control plane on the real kube-apiserver
	$(BIN)/pytest --plane=kube-apiserver --timeout=300

AUDITED_SUITES := $(wildcard tests/registration/test_*.py) tests/registration/hub tests/discovery tests/addons tests/accounts tests/operator tests/work/test_agent_rights.py tests/registration/grpc tests/pullsecrets/test_manifests.py

rights-record: setup ## record anew which rights our processes use, from the audit log of a real kube-apiserver
	rm -rf build/audit
	WATCHWORD_AUDIT_FOLDER=build/audit $(BIN)/pytest --plane=kube-apiserver --timeout=300 $(AUDITED_SUITES)
	$(BIN)/python -m tools.used_rights build/audit

conformance: setup ## run Kubernetes' own conformance tests against the embedded control plane (builds them with Go)
	$(BIN)/python -m tools.conformance

conformance-record: setup ## record anew what the real kube-apiserver answers to every request shape
	WATCHWORD_RECORD_SHAPES=1 $(BIN)/pytest --plane=kube-apiserver --timeout=300 tests/conformance

SEED      ?= 1
SEEDS     ?= 1
CLUSTERS  ?= 20
DAYS      ?= 30
INCIDENTS ?= 2
PILLARS   ?=
DRIFT     ?= 0
CREDENTIALS ?= 3,9
WITHIN    ?= 600
LIVES     ?= 1
JOBS      ?= $(shell getconf _NPROCESSORS_ONLN)
SIMULATE  := PYTHONHASHSEED=0 $(BIN)/python -m tests.simulation

node: setup ## start a real node of Kubernetes on this machine and print its kubeconfig (builds it with Go; root, containerd)
	$(BIN)/python -m tools.node start

node-stop: setup ## end the node, with everything that it made
	$(BIN)/python -m tools.node stop

test-node: setup image ## run the end-to-end tests on two real nodes (root, Go, containerd, runc, CNI plugins, iptables)
	$(BIN)/pytest --numprocesses=2 --dist=loadfile -m node tests/node

simulate: setup ## run simulated fleets through months of faults: SEED=1 SEEDS=1 CLUSTERS=20 DAYS=30 INCIDENTS=2 (a day) PILLARS= DRIFT=0 CREDENTIALS=3,9 (days) JOBS=(cores)
	$(SIMULATE) --seed=$(SEED) --seeds=$(SEEDS) --clusters=$(CLUSTERS) --days=$(DAYS) --incidents=$(INCIDENTS) --pillars=$(PILLARS) --drift=$(DRIFT) --credentials=$(CREDENTIALS) --jobs=$(JOBS)

simulate-ci: setup ## the simulated lives of CI: fixed seeds of mixed sizes and densities
	$(SIMULATE) --fixed --jobs=$(JOBS) --shrink=60

simulate-explore: setup ## live new lives of mixed sizes for WITHIN=600 seconds, LIVES=1 or more; a seed that fails belongs into lives.py
	$(SIMULATE) --explore --within=$(WITHIN) --lives=$(LIVES) --jobs=$(JOBS)

CASES ?= 1000000

fuzz: setup ## feed damaged input to every decoder, the API and every reconcile loop: CASES=1000000 JOBS=(cores)
	$(BIN)/python -m bench.reliability fuzz --cases=$(CASES) --jobs=$(JOBS)

audit: $(AUDIT_STAMP) ## report known vulnerabilities of the locked dependencies; says what its database does not answer
	$(AUDIT_VENV)/bin/python tools/audit.py

$(AUDIT_STAMP):
	$(PYTHON) -m venv $(AUDIT_VENV)
	$(AUDIT_VENV)/bin/python -m pip install --quiet --disable-pip-version-check pip-audit==2.9.0
	@touch $(AUDIT_STAMP)

bench: envtest $(BENCH_STAMP) ## measure the client and the runtime against their peers, in one run
	PYTHONPATH=src $(BENCH_VENV)/bin/python -m bench

bench-planes: envtest ## measure the embedded control plane beside kube-apiserver and etcd, in one run
	$(BIN)/python -m bench.planes

SCALE ?= small

bench-report: envtest $(BENCH_STAMP) ## run every benchmark beside every peer in PEERS_BIN, write bench/results/report.md: SCALE=small|full
	PYTHONPATH=src $(BIN)/python -m bench.report --scale=$(SCALE) --client-python=$(BENCH_VENV)/bin/python

# An environment of its own: the peers' packages must not colour what the tests see.
$(BENCH_STAMP): requirements-bench.lock
	$(PYTHON) -m venv $(BENCH_VENV)
	$(BENCH_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements-bench.lock
	@touch $(BENCH_STAMP)

docs: setup $(DOCS_STAMP) ## render what is rendered from code, check every link, build the site in site/
	$(BIN)/python -m tools.docs
	$(BIN)/python -m tools.site provide
	$(DOCS_VENV)/bin/zensical build --strict
	$(BIN)/python -m tools.site complete

$(DOCS_STAMP): requirements-docs.lock
	$(PYTHON) -m venv $(DOCS_VENV)
	$(DOCS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements-docs.lock
	@touch $(DOCS_STAMP)

dist: setup ## build the wheel and the sdist into dist/
	$(BIN)/python -m build --no-isolation

helm: setup ## build Helm with Go, for the checks of the chart; instant when present
	$(BIN)/python -m tools.helm

chart: setup ## render the Helm chart and the kustomize bases from the code
	$(BIN)/python -m tools.chart

EXTRAS ?= aws,grpc

image: setup ## build the image into dist/image without a container engine (needs mmdebstrap): EXTRAS=aws,grpc
	$(BIN)/python -m tools.image --target=dist/image --extras=$(EXTRAS)

image-check: setup ## build the image twice, compare the digests, push, pull and run it
	$(BIN)/python -m tools.image --target=dist/image --extras=$(EXTRAS)
	$(BIN)/python -m tools.image --target=dist/image-again --extras=$(EXTRAS)
	cmp dist/image/index.json dist/image-again/index.json
	WATCHWORD_IMAGE_LAYOUT=$(CURDIR)/dist/image $(BIN)/pytest tests/e2e/install/test_image.py

all: fmt test test-slow envtest test-envtest docs ## the whole round, as before a release

lock: ## pin every dependency anew (needs uv)
	@command -v uv >/dev/null || { echo "uv is missing: https://docs.astral.sh/uv" >&2; exit 1; }
	uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --custom-compile-command 'make lock' \
	  pyproject.toml --group dev --output-file requirements.lock
	uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --custom-compile-command 'make lock' \
	  pyproject.toml --group run --constraint requirements.lock --output-file requirements-run.lock
	uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --custom-compile-command 'make lock' \
	  pyproject.toml --group bench --constraint requirements.lock --output-file requirements-bench.lock
	uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --custom-compile-command 'make lock' \
	  --group docs --output-file requirements-docs.lock

clean: ## remove what the targets made, except the cache of built binaries
	rm -rf $(VENV) $(BENCH_VENV) $(DOCS_VENV) $(AUDIT_VENV) site .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .coverage .coverage.* htmlcov dist build
