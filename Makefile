# Every task of this repository, by name. `make` alone lists them.
#
# Only make and Go are needed: `setup` installs the rest from the system's packages. Steps that need root (containers,
# building the image) use sudo if you are not root.

# Pure Go everywhere: the programs run in any image and on any host of their architecture.
export CGO_ENABLED = 0
# Programs and tests use the same flags, so that no package is compiled twice.
export GOFLAGS := $(if $(findstring -trimpath,$(GOFLAGS)),$(GOFLAGS),$(strip $(GOFLAGS) -trimpath))

GO   ?= go
ROOT := $(if $(filter 0,$(shell id -u)),,sudo --preserve-env)
# Test binaries run as root, the compiler does not.
EXEC  = $(if $(ROOT),-exec '$(ROOT)')
TEST  = $(GO) test $(EXEC)

# Test binaries need no debugger tables: without them, linking takes two thirds of the time.
UNDEBUGGED = -ldflags='-s -w'

# `make test RERUN=1` reruns each failed test alone, if at most twenty failed (subtests count), and lists them at the end. A test that waits for a
# real component may be late on a busy machine. A test that fails twice fails.
RERUN ?= 0
SUITE  = $(GO) tool gotestsum --format=pkgname --format-hide-empty-pkg --rerun-fails=$(RERUN) --rerun-fails-max-failures=20

# The longest packages come first, so that none of them runs alone at the end. Two packages run at a time, each with several tests. With more, tests
# with limits of real time would miss them.
LONGEST = ./pkg/runtime/containerd ./pkg/runtime/cell ./test/chaos ./test/e2e ./test/cheats ./test/hostile ./internal/worker/grade ./internal/dispatcher/httpapi ./internal/dispatcher ./test/start

.DEFAULT_GOAL := help
.PHONY: help setup gvisor build image images images-quickstart test-image dev demo test faults quick test-cgroup2 conformance hostile neighbours bystanders readers cheats chaos check lint race bench

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Install missing packages of the system
	@scripts/setup

build: ## Build every program into bin/, and a worker that can run nothing into bin/faults/
	@mkdir -p bin
	@$(GO) build -o bin/ ./cmd/...
	@$(GO) build -tags=faults -o bin/faults/ ./cmd/worker
	@if [ -d test/bench ]; then $(GO) build -o bin/bench ./test/bench; fi

image: setup ## Build the default image from the system's packages
	@images/build python

.PHONY: image-tools image-polyglot
image-tools: setup ## Build the image with tools for agents and graders: curl, jq, pytest and more
	@images/build tools

image-polyglot: setup ## Build the image with every available language of the catalogue (minutes, gigabytes)
	@images/build polyglot

images: setup image gvisor ## Build the images of worker and dispatcher, as OCI archives, without a container engine
	@scripts/setup cc seccomp
	@images/build base
	@images/pack

images-quickstart: images ## Build the other images of the chart's quickstart: Postgres, NATS and an object store
	@images/build postgres
	@images/pack nats objects

gvisor: ## Build gVisor's runsc into bin/, for isolation gvisor
	@mkdir -p bin
	@ln -sf "$$(scripts/runsc)" bin/runsc

dev: setup build image ## Run a whole fleet here: Postgres, NATS, containerd, dispatcher, worker
	@$(ROOT) bin/assay dev

demo: setup build image ## Run 328 real programs through a fleet of its own and check every verdict
	@$(ROOT) bin/assay demo

# The long corpora have targets of their own (hostile, cheats, conformance, test-runtime, chaos). Here, each commit runs a different part of them at the
# expensive isolations, and a failed test prints the flags that run it again.
test: setup build image check-sdk check-schema ## Run every test, with the real components, and a part of the long corpora
	@scripts/setup pooler
	$(SUITE) --packages='$(LONGEST) ./...' -- $(EXEC) $(UNDEBUGGED) -p=2 -count=1 -timeout=40m

faults: setup image ## Run the end-to-end stories with a store, a queue and an object store that sometimes fail
	$(TEST) -count=1 -timeout=20m ./test/e2e -run '^TestStoriesOverFaults$$' -args -faults.every=1

# The go command caches results, so only changed packages are built and tested. vet runs once, for everything. Some tests wait most of their time, so more
# of them run than there are processors.
quick: format ## Check format and vet, and run the tests that need neither root nor a server: a minute and a half, seconds after a small change
	@$(GO) vet ./...
	@$(GO) test -short -vet=off -p=4 $(UNDEBUGGED) ./...

test-cgroup2: setup image ## Run the suites of the runtime in a virtual machine with cgroup v2 (slow: it is emulated)
	@$(ROOT) test/cgroup2/run ./pkg/runtime/cgroup ./pkg/runtime/containerd ./pkg/runtime/cell -- \
		-test.timeout=50m -test.run '^(Test(Task|Cell)(Lifecycle|Contract|Programs)|TestKernel.*|TestKillLeavesNobody|TestCellJobsDoNotMeet)$$'

test-image: images build ## Run jobs in the built image of the worker, as a container without access to this host
	$(TEST) -count=1 -timeout=15m -v -tags=image ./test/image

.PHONY: test-compose
COMPOSE_JOBS ?= 300
test-compose: images build ## Run the compose file in a Docker engine of its own, under load, with COMPOSE_JOBS jobs
	@$(ROOT) test/compose/build
	$(GO) test -c -tags=compose -o .cache/compose/compose.test ./test/compose
	$(GO) test -c -o .cache/compose/jetstream.test ./pkg/queue/jetstream
	cd test/compose && $(ROOT) ./engine ../../.cache/compose/compose.test -test.v -test.count=1 -test.timeout=60m -test.run='^TestCompose$$' \
		-compose.jobs=$(COMPOSE_JOBS) -compose.forbidden=$(CURDIR)/.cache/compose/jetstream.test

hostile: setup build image ## Attack the walls with every program of the corpus, at every isolation of this host
	$(TEST) -count=1 -timeout=60m -v ./test/hostile -args -cell.every=1 -task.every=1 -gvisor.every=1 -preloaded.every=1 -compilers.every=1
	$(TEST) -count=1 -timeout=60m -v ./test/conformance -run '^TestExtremes' -args -extremes.cell.every=1 -extremes.beyond.every=23

cheats: setup build image ## Try to forge a pass in every way of the corpus, at every isolation of this host
	$(TEST) -count=1 -timeout=60m -v ./test/cheats -args -cell.every=1 -task.every=1 -gvisor.every=1 -preloaded.every=1 -fields.every=1

.PHONY: test-runtime
test-runtime: setup build image gvisor ## Run the suites of the runtime, with every program at every isolation
	$(TEST) -count=1 -timeout=60m ./pkg/runtime/containerd -args -task.every=1 -gvisor.every=1
	$(TEST) -count=1 -timeout=60m ./pkg/runtime/cell

conformance: setup build image gvisor ## Run every kind of program under every limit at every isolation, and compare with the record
	$(TEST) -count=1 -timeout=90m -parallel=3 -v ./test/conformance -args -conformance.all

# Innocent jobs of the attacker's own tenant, in the same cell, and of another tenant; at cell and at task, in turn.
neighbours: setup build image gvisor ## Run 1,000 jobs beside the whole hostile corpus in a loop, at one worker (20 minutes)
	$(TEST) -count=1 -timeout=60m -v ./test/e2e -run TestNeighbours -args -neighbours.every=1 -neighbours.jobs=1000 -neighbours.programs=1000

bystanders: setup build image ## Compare the latency of small jobs without and beside each attack on the worker's time, in one run (5 minutes): nothing else runs beside it
	$(TEST) -count=1 -timeout=30m -v -tags=load ./test/e2e -run '^TestBystanders$$' -args -bystanders.every=1

readers: setup ## Read large results from 64 clients for a minute, beside heartbeats and a leader
	$(TEST) -count=1 -timeout=10m -v ./internal/dispatcher/httpapi -run '^TestReadersBesideHeartbeats$$' -args -readers.for=1m

.PHONY: test-large
test-large: setup build image ## Run a job with 8 steps of the largest outputs beside 50 small ones
	$(TEST) -count=1 -timeout=20m -v ./test/e2e -run '^TestStories$$/^large_outputs$$' -args -large.steps=8

.PHONY: test-load
test-load: setup build image gvisor ## Compare verdicts beside processes that keep all cores busy; run nothing else meanwhile
	$(TEST) -count=1 -timeout=90m -tags=load ./test/e2e -run '^(TestVerdictsBesideLoad|TestGradedCasesBesideLoad|TestLoopsBesideLoad)$$'

.PHONY: test-languages
test-languages: setup build image image-polyglot ## Run programs in every language of the catalogue, and write the table of docs/languages.md
	$(TEST) -tags=languages -count=1 -timeout=60m -v ./test/languages -args -languages.write=$(CURDIR)/docs/languages.md

.PHONY: test-tools
test-tools: setup build image image-tools ## Run each program of the image tools in a cell
	$(TEST) -tags=tools -count=1 -timeout=20m -v ./test/tools

.PHONY: test-libs
# Wheels for the python of the default image.
test-libs: setup build image ## Run programs with numpy, pandas, scipy, sympy, scikit-learn and matplotlib, from the package index
	python3 -m pip download --quiet --dest .cache/wheels --only-binary=:all: --python-version 3.11 $(foreach v,2014 _2_17 _2_24 _2_27 _2_28,--platform manylinux$(v)_x86_64) \
		numpy pandas scipy sympy scikit-learn matplotlib
	$(TEST) -tags=libs -count=1 -timeout=20m -v ./pkg/runtime/cell -run '^TestLibraries$$' -args -libs.wheels=$(CURDIR)/.cache/wheels

.PHONY: test-mcp
# The official client of the Model Context Protocol for Python, in an environment of its own.
MCP_CLIENT ?= mcp==2.3.0
test-mcp: setup build image ## Test the tools of agents with the official Python client, over HTTP and over a process
	@[ -x .cache/mcp/bin/python ] || python3 -m venv .cache/mcp
	@.cache/mcp/bin/python -m pip install --quiet '$(MCP_CLIENT)'
	$(TEST) -tags=mcp -count=1 -timeout=10m -v ./test/e2e -run '^TestPythonClientOfMCP$$' -args -mcp.python=$(CURDIR)/.cache/mcp/bin/python

.PHONY: test-ui
# axe tests accessibility. It is fetched from the package index once, and verified.
AXE     ?= 4.14.1
AXE_SUM ?= e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745
AXE_DIR  = .cache/axe/$(AXE)
$(AXE_DIR)/package/axe.min.js:
	@mkdir -p $(AXE_DIR) && cd $(AXE_DIR) && npm pack --silent axe-core@$(AXE) > /dev/null
	@cd $(AXE_DIR) && echo '$(AXE_SUM)  axe-core-$(AXE).tgz' | sha256sum --check --quiet && tar -xzf axe-core-$(AXE).tgz package/axe.min.js

# UI='-ui.pictures=DIR' makes the pictures of the documentation again.
UI ?= -ui.shots=$(CURDIR)/.cache/ui
test-ui: setup build image $(AXE_DIR)/package/axe.min.js ## Test the web page with a real browser and a real fleet, and take a picture of every page into .cache/ui
	@scripts/setup browser
	$(TEST) -tags=ui -count=1 -timeout=20m -v ./test/ui -args -ui.axe=$(CURDIR)/$(AXE_DIR)/package/axe.min.js $(UI)

.PHONY: sdk check-sdk test-sdk test-integrations wheels test-wheels
# Each PYTHON has an environment of its own for packages of the index. Adapters are tested with the default python only: some of their packages do not
# exist for every version.
PYTHON  ?= python3
SDK_ENV ?= .cache/sdk$(if $(filter-out python3,$(PYTHON)),-$(subst /,-,$(PYTHON)))
sdk: ## Make an environment with the Python client and the requirements of its tests
	@[ $(SDK_ENV)/made -nt sdk/python/pyproject.toml ] || { $(PYTHON) -m venv $(SDK_ENV) && $(SDK_ENV)/bin/pip install --quiet -e './sdk/python[test]' && touch $(SDK_ENV)/made; }

test-sdk: setup build image sdk ## Check the Python client, and test it with a fleet of its own
	cd sdk/python && $(CURDIR)/$(SDK_ENV)/bin/ruff check . && $(CURDIR)/$(SDK_ENV)/bin/ruff format --check .
	cd sdk/python && $(CURDIR)/$(SDK_ENV)/bin/pyright --pythonpath $(CURDIR)/$(SDK_ENV)/bin/python
	@for generator in models operations sync; do $(SDK_ENV)/bin/python sdk/python/scripts/$$generator.py --check || exit 1; done
	cd sdk/python && $(ROOT) $(CURDIR)/$(SDK_ENV)/bin/pytest
	$(if $(filter python3,$(PYTHON)),$(MAKE) test-integrations)

SDK_CHECK = .cache/sdk-check
$(SDK_CHECK)/made: sdk/python/pyproject.toml
	@scripts/setup python
	@rm -rf $(SDK_CHECK) && $(PYTHON) -m venv $(SDK_CHECK)
	@$(SDK_CHECK)/bin/pip install --quiet --disable-pip-version-check -e './sdk/python[check]' && touch $@

check-sdk: setup $(SDK_CHECK)/made ## Check the Python client without a fleet: generated code, format, lint, and the tests that need none
	@cd sdk/python && for what in check format\ --check; do $(CURDIR)/$(SDK_CHECK)/bin/ruff $$what --quiet --config pyproject.toml . ../fleet ../../scripts/docs || exit 1; done
	@cd sdk/python && $(CURDIR)/$(SDK_CHECK)/bin/python -m pytest --no-fleet

ONLY ?=
test-integrations: setup build image sdk ## Test adapters of the Python client against the real packages (ONLY=dspy: one)
	$(ROOT) $(SDK_ENV)/bin/python sdk/python/scripts/integrations.py $(ONLY)

wheels: $(SDK_CHECK)/made ## Build the wheels of the Python client and of the programs into sdk/dist
	@PYTHON=$(SDK_CHECK)/bin/python scripts/wheels

test-wheels: setup wheels sdk ## Install the wheels into a new environment, and run a fleet from them, with and without all parts
	cd sdk/fleet && $(ROOT) $(CURDIR)/$(SDK_ENV)/bin/python -m pytest

.PHONY: docs
# The packages come from the package index, with the versions of scripts/docs/requirements.txt, into an environment of their own.
DOCS_ENV = .cache/docs
$(DOCS_ENV)/made: scripts/docs/requirements.txt
	@scripts/setup python
	@rm -rf $(DOCS_ENV) && $(PYTHON) -m venv $(DOCS_ENV)
	@$(DOCS_ENV)/bin/pip install --quiet --disable-pip-version-check -r $< && touch $@

docs: $(DOCS_ENV)/made ## Build the site of the pages into .cache/site; a warning or a broken link fails
	@NO_MKDOCS_2_WARNING=1 PATH="$(CURDIR)/$(DOCS_ENV)/bin:$$PATH" $(DOCS_ENV)/bin/mkdocs build --config-file scripts/docs/mkdocs.yml

.PHONY: release
release: ## Build the files of a release into dist/, from a clean commit; with IMAGES=no without the images, which need make images
	@PYTHON=$(PYTHON) IMAGES=$(IMAGES) scripts/release

.PHONY: test-schema check-schema
# From the package index, in an environment of its own.
SCHEMATHESIS ?= schemathesis==4.32.5
SECONDS_OF_IT ?= 600
SCHEMA_ARGS ?=
test-schema: setup build image ## Test a running fleet against its OpenAPI document with property-based requests, for SECONDS_OF_IT
	@scripts/setup python
	@[ -x .cache/schema/bin/python ] || python3 -m venv .cache/schema
	@.cache/schema/bin/python -m pip install --quiet --disable-pip-version-check '$(SCHEMATHESIS)'
	$(ROOT) .cache/schema/bin/python test/schema/run $(SECONDS_OF_IT) $(SCHEMA_ARGS)

# Every operation with the examples of the document, and with values at and just beyond its bounds. Half a minute.
check-schema: SCHEMA_ARGS = --phases=examples,coverage
check-schema: test-schema ## Test a running fleet against its OpenAPI document, briefly

.PHONY: test-k8s
# Needs helm, and if KUBECONFIG names a cluster, that and kubectl. docs/operate/kubernetes.md lists the requirements of a cluster, and the ASSAY_ variables that
# describe it. helm is built with the flags of its releases: without them, it assumes v1.20 if it has no cluster.
HELM_SETS := $(foreach where,chartutil lint/rules,-X helm.sh/helm/v3/pkg/$(where).k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/$(where).k8sVersionMinor=36)
HELM ?= $(shell command -v helm || echo $(CURDIR)/.cache/tools/helm)
JOBS ?= 400
# The tests that need more than there is: a cluster, or also a way to load images into it. By themselves they fail.
LACKING = $(if $(KUBECONFIG),$(if $(ASSAY_LOAD_IMAGE),,^TestInstall$$),^Test(ServerTakesIt|Install)$$)
test-k8s: $(if $(ASSAY_LOAD_IMAGE),images-quickstart) ## Render the chart in many ways; with KUBECONFIG submit each to a cluster, with ASSAY_LOAD_IMAGE run a fleet there
	@[ -x "$(HELM)" ] || GOBIN=$(CURDIR)/.cache/tools $(GO) install -ldflags="$(HELM_SETS)" helm.sh/helm/v3/cmd/helm@v3.22.0
	$(GO) test -count=1 -v -timeout=60m -tags=cluster -skip='$(LACKING)' ./test/k8s -args -k8s.helm=$(HELM) -k8s.jobs=$(JOBS)

.PHONY: fuzz
FUZZTIME ?= 10m
fuzz: ## Fuzz every parser of untrusted bytes, FUZZTIME each
	@GO=$(GO) scripts/fuzz $(FUZZTIME)

# The same rows as in `make test`, longer, and 100,000 jobs under continuous faults.
chaos: setup build image ## Break every component repeatedly under load, and check the history (an hour)
	$(TEST) -count=1 -timeout=3h -v ./test/chaos -args -chaos.jobs=100000 -chaos.rolling=20000 -chaos.flood=100000 -chaos.flood.factor=3 -chaos.down=2m -chaos.losses=5 -chaos.outages=3 -chaos.outage=45s -chaos.lease=30s

.PHONY: test-upgrade
# The previous release: its programs are built once, from git.
PREVIOUS      ?= 81db6f2a3fd0b74b3d536cd2166b90545b817d1a
PREVIOUS_DIR   = .cache/previous/$(PREVIOUS)
$(PREVIOUS_DIR)/bin:
	@rm -rf $(PREVIOUS_DIR) && mkdir -p $(PREVIOUS_DIR)/tree
	git archive $(PREVIOUS) | tar -x -C $(PREVIOUS_DIR)/tree
	cd $(PREVIOUS_DIR)/tree && $(GO) build -trimpath -buildvcs=false -ldflags '-X github.com/assay-run/assay/internal/version.release=previous' -o ../made/ ./cmd/dispatcher ./cmd/worker ./cmd/guest
	@mv $(PREVIOUS_DIR)/made $@ && rm -rf $(PREVIOUS_DIR)/tree

test-upgrade: JOBS = 1000
test-upgrade: setup image $(PREVIOUS_DIR)/bin ## Upgrade a fleet from the previous release, and roll it back, while it runs JOBS jobs; twice
	$(TEST) -tags=upgrade -count=1 -timeout=2h -v ./test/chaos -run '^TestUpgrade(Fields)?$$' -args -upgrade.previous=$(CURDIR)/$(PREVIOUS_DIR)/bin -upgrade.jobs=$(JOBS)

check: lint check-sdk race ## Check a change: format, vet, lint, every test with the race detector

.PHONY: format
format:
	@unformatted=$$(gofmt -l $$(git ls-files --cached --others --exclude-standard --deduplicate '*.go')); \
	if [ -n "$$unformatted" ]; then echo "run gofmt -w on:"; echo "$$unformatted"; exit 1; fi

lint: tags = cluster,compose,image,languages,libs,load,mcp,ui,upgrade
lint: format ## Check format, vet and staticcheck
	$(GO) vet ./...
	$(GO) vet -tags=$(tags) ./test/... ./pkg/runtime/cell
	$(GO) tool staticcheck -tags=$(tags) ./...

race: build image
	@scripts/setup cc pooler
	CGO_ENABLED=1 $(TEST) -race -count=1 -timeout=30m ./...

# One after another, each with a fleet of its own; a single scenario: make bench SCENARIO=sync
SCENARIO = noop submit poll states fleet sync python command task gvisor tests session idle history groups longtx watchers bigresult contention canary
bench: setup image build gvisor ## Run every scenario of bin/bench, with one line of JSON each
	@for s in $(SCENARIO); do $(ROOT) bin/bench -scenario $$s -json || exit 1; done
