# Every target sets up what it needs.  `make` alone prints this help.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(VENV)/uv/bin/uv
SETUP := $(VENV)/.ready
PEERS := build/peers/.ready
SMALL_WORLD := build/smallworld/score.jsonl
BEHAVIOUR_PEERS := build/peers-behaviour/.ready
MUTATION := build/mutation/.ready
export PATH := $(CURDIR)/$(BIN):$(PATH)
# What .venv holds is compiled once: otherwise every process compiles again what it imports, for seconds.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup chat lint test test-all protos clean lock run bench bench-data soak stack-up stack-down run-stack new-service new-stage new-program migration baseline compose-test kubernetes-test new-page sanitize assistant first-light-assistant bench-behaviour bench-stack examples mutants

help: ## show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(SETUP) ## create .venv from the lock

$(SETUP): requirements.lock requirements-build.lock pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version.split()[0]; sys.exit(0 if sys.version_info >= (3, 11) else f"Tutti needs Python 3.11 or newer; {sys.executable} is {v}. Set PYTHON=/path/to/python3.11")'
	@echo 'installing into $(VENV): 1 of 3, the installer' >&2
	@test -x $(UV) || $(PYTHON) -m venv $(VENV)/uv
	@$(VENV)/uv/bin/pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements-build.lock
	@test -x $(BIN)/python || $(UV) venv --quiet --allow-existing --python $(PYTHON) $(VENV)
	@echo '2 of 3, what Tutti needs: gigabytes are downloaded if they are not in the cache of uv, which takes minutes' >&2
	@$(UV) pip sync --quiet --python $(BIN)/python --require-hashes requirements.lock
	@echo '3 of 3, Tutti' >&2
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps --build-constraints requirements-build.lock --require-build-hashes -e .
	@touch $@
	@echo 'installed; next: `make run`, or `export PATH=$(CURDIR)/$(BIN):$$PATH` and `tutti --help`' >&2

LOCKED := $(UV) pip compile --quiet --universal --generate-hashes --no-annotate --no-header
lock: ## resolve the dependencies of pyproject.toml anew into requirements.lock and requirements-build.lock
	$(LOCKED) pyproject.toml --extra all --group dev -o requirements.lock
	$(LOCKED) --group build -o requirements-build.lock

clean: ## remove everything that was made here
	rm -rf $(VENV) build .tutti .mypy_cache .ruff_cache .pytest_cache .hypothesis

lint: types rules ## style, types, imports, protos, generated code; make -j2 lint checks types beside the rest

.PHONY: types rules
types: setup
	$(BIN)/mypy

rules: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tools/house.py imports
	$(BIN)/python tools/house.py children
	$(BIN)/python -m tools.callers
	$(BIN)/python tools/house.py docstrings
	$(BIN)/python tools/house.py sizes
	$(BIN)/python -m tools.wording
	$(BIN)/hadolint deploy/docker/Dockerfile tests/trials/docker/standins/*.Dockerfile
	$(BIN)/shellcheck .ci/run tests/trials/docker/standins/kafka-archive tests/trials/docker/standins/kafka-run tests/trials/docker/standins/postgres-entrypoint
	$(BIN)/python -m tools.manifests --check
	$(BIN)/python -m tools.dashboards --check
	@if command -v promtool >/dev/null; then promtool check rules deploy/docker/prometheus/rules.yml; else echo 'no promtool: the alert rules are checked by tests/stack alone' >&2; fi
	@if docker compose version >/dev/null 2>&1; then docker compose --profile '*' config --quiet; else echo 'no docker compose: docker-compose.yml is checked by tests/stack alone' >&2; fi
	$(BIN)/buf lint
	$(BIN)/buf format -d --exit-code
	$(BIN)/buf breaking --against protos/baseline.binpb
	$(BIN)/python tools/genprotos.py --check

test: setup ## tests, real servers included: the short ones, and a third of the long ones, others after each commit
test: TURNS = --turns
test-all: setup ## every test, real servers included
test test-all:
	@$(BIN)/python deploy/local/servers.py obtain >/dev/null || echo 'tests of servers that are missing are skipped' >&2
	$(BIN)/pytest -n 3 --dist loadscope --no-loadscope-reorder $(TURNS)

.PHONY: clients
clients: setup ## clients of others, in environments of their own, against a served checkpoint
	@$(BIN)/python -m tests.trials.clients.trial

.PHONY: api
api: setup ## write the reference of the API to build/api.md
	@$(BIN)/python tools/pages.py --api build/api.md

check: setup ## lint and the tests that a change affects: make check, or make check SINCE=main
	@$(MAKE) --no-print-directory -j2 --output-sync lint affected

.PHONY: check affected
affected: setup
	$(BIN)/python -m tools.affected $(if $(SINCE),--since $(SINCE))
client: setup ## build the package of the Python client alone: grpcio and protobuf, without the platform
	@$(BIN)/python tools/clientwheel.py

examples: setup ## generate, build and run the examples in Go and TypeScript
	cd examples/go && go mod download
	cd examples/typescript && npm ci --no-audit --no-fund
	$(BIN)/pytest -n 0 tests/e2e/examples_test.py

run: setup ## a web site becomes a committed checkpoint, embedded
	@$(BIN)/python -m tools.exhibit_site -- $(BIN)/tutti run recipes/first-light.yaml --set 'input.crawl.connect.exhibit.test={address}'
	@echo 'to go on with these commands: export PATH=$(CURDIR)/$(BIN):$$PATH' >&2

assistant: setup ## tuning, judged pairs, a reward model, policies and their comparison, on a toy language
	@$(BIN)/python -m tools.letters >/dev/null && $(BIN)/tutti run recipes/assistant.yaml

$(SMALL_WORLD): $(SETUP) tools/smallworld.py libs/tutti/judgements/smallworld.py
	@$(BIN)/python -m tools.smallworld >/dev/null

chat: $(SMALL_WORLD) ## train a small model to talk to, or reuse it, and serve it: prints the links of its page and its API
	@$(BIN)/python -m tools.chat

first-light-assistant: setup ## the same on the base of `make run`, which is reused; its report says what 1.3 million parameters can do
	@$(BIN)/python -m tools.sentences >/dev/null && $(BIN)/python -m tools.exhibit_site -- $(BIN)/tutti run recipes/first-light-assistant.yaml --set 'input.crawl.connect.exhibit.test={address}'

run-stack: setup ## the same on Kafka, Postgres and S3, every service a process of its own, two agents
	@pages=$$($(BIN)/python tools/exhibit.py) && $(BIN)/python deploy/local/stack.py run recipes/spine.yaml --set "input.path=$$pages"

bench: setup ## measure beside our peers: make bench, or make bench QUICK=1
	$(BIN)/python -m benchmarks $(if $(QUICK),--quick)

bench-data: $(PEERS) ## the same for what works on texts: make bench-data, or make bench-data QUICK=1
	$(BIN)/python -m benchmarks data $(if $(QUICK),--quick)

bench-stack: setup ## the same on Kafka, Postgres and S3: make bench-stack, or make bench-stack QUICK=1
	$(BIN)/python -m benchmarks stack $(if $(QUICK),--quick)

bench-behaviour: $(BEHAVIOUR_PEERS) ## policies, decoding and judgements beside theirs: make bench-behaviour QUICK=1
	$(BIN)/python -m benchmarks.behaviour $(if $(QUICK),--quick)

.PHONY: bench-serve
bench-serve: setup ## answers over HTTP beside transformers, and beyond saturation: make bench-serve QUICK=1
	$(BIN)/python -m benchmarks.serve $(if $(QUICK),--quick)

$(BEHAVIOUR_PEERS): $(SETUP) pyproject.toml
	@$(UV) venv --quiet --allow-existing --python $(BIN)/python build/peers-behaviour
	@$(UV) pip install --quiet --python build/peers-behaviour/bin/python --group peers-behaviour
	@touch $@

$(PEERS): $(SETUP) pyproject.toml
	@$(UV) venv --quiet --allow-existing --python $(BIN)/python build/peers
	@$(UV) pip install --quiet --python build/peers/bin/python --group peers
	@touch $@

soak: setup ## run one campaign at its full number and record it: make soak ROW=5
	$(BIN)/python tools/soak.py $(ROW)

new-service: setup ## scaffold a service: make new-service NAME=reward [RESOURCE=score]
	@$(BIN)/python -m tools.new_service $(NAME) $(if $(RESOURCE),--resource $(RESOURCE))

mutants: $(MUTATION) ## change the code that decides, see whether a test fails: make mutants [MODULES="libs/... ..."]
	@$(BIN)/python -m tools.mutation build/mutation/bin/python $(MODULES)

sanitize: setup ## run the C kernels under AddressSanitizer and UBSan with hostile inputs
	@$(BIN)/python -m tools.sanitize

$(MUTATION): $(SETUP) pyproject.toml
	@$(UV) venv --quiet --allow-existing --python $(BIN)/python build/mutation
	@$(UV) pip install --quiet --python build/mutation/bin/python --group mutation
	@touch $@

migration: setup ## write the revisions that changed tables need: make migration MESSAGE="Add the priority of a job"
	@$(BIN)/python tools/migration.py "$(MESSAGE)"

new-stage: setup ## scaffold a stage: make new-stage NAME=score SERVICE=sampling [READS=checkpoint]
	@$(BIN)/python -m tools.new_stage $(NAME) --service $(SERVICE) $(if $(READS),--reads $(READS))

new-program: setup ## scaffold a rank program with its stage: make new-program NAME=imitate
	@$(BIN)/python -m tools.new_program $(NAME)

new-page: setup ## scaffold a page that lists a kind of resource: make new-page RESOURCE=scores
	@$(BIN)/python -m tools.new_page $(RESOURCE)

baseline: setup ## build protos/baseline.binpb, which `make lint` compares the protos with (at a release)
	@$(BIN)/python tools/baseline.py

protos: setup ## generate libs/tutti/contracts from protos/, and messages of trainings from their records
	$(BIN)/python -m tools.trainingproto
	$(BIN)/python tools/genprotos.py

stack-up: $(SETUP) ## start real Kafka, Postgres and S3 servers here, without Docker
	@$(BIN)/python deploy/local/servers.py up

compose-test: setup ## run docker-compose.yml on a real Docker engine, with faults; starts an engine where none is (root)
	@$(BIN)/python -m tests.trials.docker.trial

kubernetes-test: setup ## apply deploy/kubernetes to a real control plane, built from Go modules; a pod of a training dies
	@$(BIN)/python -m tests.trials.kubernetes.trial

stack-down: $(SETUP) ## stop them; their data stay in build/servers/stack
	@$(BIN)/python deploy/local/servers.py down
