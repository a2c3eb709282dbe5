# The commands of the project. All of them need Rust, those with a real kube-scheduler also Go. Other tools are installed
# where that needs no password (tests/tools/ensure); a command whose tool is missing fails with its name, and skips nothing.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
# The languages besides Rust that have an SDK below backends/, with commands of its own.
SDKS := python go typescript java
.PHONY: help demo check test nightly e2e matrix matrix-record chart chart-test bench bench-docs guard growth guard-record equivalence fuzz fuzz-corpus cargo-fuzz deny advisories fmt clean
.PHONY: previous rolling soak bench-sdk bench-scheduler-perf book config-record programs packages torture image image-test image-reproducible scheduler-image scheduler-image-test dist proto proto-record proto-release conformance sdks $(SDKS:%=sdk-%) $(SDKS:%=examples-%) plugin
.PHONY: rust go node valgrind prometheus chromium format lint docs docs-private chaos unit rust-tests go-checks e2e-waiting
.PHONY: e2e-others go-others binaries static

TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
CARGO_DENY := 0.20.2
CARGO_FUZZ := 0.13.2
MDBOOK := 0.5.4
GO_VERSION := 1.26
# The types that kube-scheduler 1.18 reads: they and the current ones do not fit into one Go module.
LEGACY := tests/kube/legacypolicy
# The OpenTelemetry Collector, a separate Go module for the same reason.
COLLECTOR := tests/kube/cmd/otel-collector
# The tests of the Helm chart, likewise: helm is built there.
CHART := tests/chart

# What is published under which names. SOURCE is the URL of the sources, DOWNLOADS that of the files of `make dist`.
IMAGE ?= extender-gateway
VERSION = $(shell sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
REVISION ?= $(shell git describe --always --dirty --abbrev=40 --exclude='*')
SOURCE ?= https://extender-gateway.io
DOWNLOADS ?= $(SOURCE)/releases/download/v$(VERSION)
# The time of the commit: builds at other times have the same bytes.
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct)
RELEASE = -version $(VERSION) -revision $(REVISION) -source $(SOURCE) -created $(SOURCE_DATE_EPOCH)
# All programs without symbols.
STATIC := $(TARGET)/static

# The folder where the Go tests and benchmarks look for programs first.
export EXTENDER_GATEWAY_BIN_DIR := $(TARGET)/release

help: ## This list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Not optimized: that takes most of the time of a first build.
demo: export EXTENDER_GATEWAY_BIN_DIR := $(TARGET)/debug
demo: rust ## The gateway and three policies answer kube-scheduler's calls (ARGS=--serve keeps them)
	cargo build --locked -p extender-gateway -p extender-policies -p extender-demo --bins
	@$(TARGET)/debug/extender-demo $(ARGS)

check: format lint unit docs ## Formatting, lints, unit tests, documentation: a few minutes

# What computes runs beside what waits: three lanes of control planes, and one of compilers that has the processors last. The tests of the
# second and third lane run the examples of the SDKs.
test: export SHORT := -short
test: export REVISION := $(REVISION)
test: rust go node valgrind prometheus chromium ## Everything but what is in make nightly, the real kube-scheduler included
	@tests/tools/lanes $(TARGET)/test \
	  'binaries chart-test image-test e2e-waiting' \
	  '@binaries @sdk-java e2e-others' \
	  '$(SDKS:%=sdk-%) plugin @binaries go-others' \
	  'format lint proto go-checks rust-tests docs programs guard'

# What waits beside what computes. FUZZ_SECONDS and MINUTES are those of make fuzz and make soak.
nightly: export EXTENDER_CONFORMANCE := tls
nightly: export EXTENDER_MATRIX := all
nightly: export REVISION := $(REVISION)
nightly: rust go node valgrind prometheus chromium ## What is slow and rarely breaks: hours; before each release
	@tests/tools/lanes $(TARGET)/nightly \
	  'demo binaries $(SDKS:%=examples-%) e2e-waiting e2e-others go-others rolling soak' \
	  '@binaries packages previous equivalence growth chaos docs-private image-reproducible scheduler-image-test deny fuzz torture'

e2e: binaries go prometheus chromium ## The product behind a real kube-scheduler, case by case
	cd tests && go test -count=1 -timeout 40m -v ./e2e/...

# `make test` runs the same with the newest kube-scheduler. The first run compiles the others, which takes two to five minutes
# for each.
matrix: export EXTENDER_MATRIX := all
matrix: binaries go ## The product with kube-scheduler 1.18 to 1.37, and the plugin with 1.35 and 1.36: 6 minutes
	cd tests && go test -count=1 -timeout 90m -v -run TestReleases ./e2e

matrix-record: export EXTENDER_MATRIX_RECORD := yes
matrix-record: matrix ## Records what the releases do in docs/compatibility.md

# Without PODS, as a part of `make nightly`, 150 pods. The gateways run in mount namespaces: as root, or where users may create namespaces.
rolling: export EXTENDER_ROLLING_PODS := $(or $(PODS),1000)
rolling: binaries go ## Every part is replaced or away while PODS=1000 pods are scheduled, through both doors: 3 minutes
	cd tests && go test -count=1 -timeout 30m -v -run TestRolling ./e2e

# The last commit whose policies and gateway speak the policy API before this one.
PREVIOUS := 8c4c033a18d6823c0c581324b06b84d79ea3f70b
# The last commit whose plugin and gateway speak the plugin's protocol before this one.
PREVIOUS_PLUGIN := 3a92d7ccb48e1e7953647654dd3037e3b4274730
PREVIOUS_BUILD = cargo build --locked --release --manifest-path $(TARGET)/previous/$1/Cargo.toml --target-dir $(TARGET)/previous/target -p extender-gateway
previous: export EXTENDER_PREVIOUS_BIN_DIR := $(TARGET)/previous/target/release
previous: binaries go ## Gateway, policies and plugin of the version before, beside those of this one
	rm -rf $(TARGET)/previous/source $(TARGET)/previous/plugin-source
	mkdir -p $(TARGET)/previous/source $(TARGET)/previous/plugin-source $(EXTENDER_PREVIOUS_BIN_DIR)/plugin
	git archive $(PREVIOUS) | tar -x -C $(TARGET)/previous/source
	git archive $(PREVIOUS_PLUGIN) | tar -x -C $(TARGET)/previous/plugin-source
	$(call PREVIOUS_BUILD,plugin-source) --bin extender-gateway
	cp $(EXTENDER_PREVIOUS_BIN_DIR)/extender-gateway $(EXTENDER_PREVIOUS_BIN_DIR)/plugin
	cd $(TARGET)/previous/plugin-source/gateway/plugin/kube-scheduler && CGO_ENABLED=0 go build -o $(EXTENDER_PREVIOUS_BIN_DIR)/plugin .
	$(call PREVIOUS_BUILD,source) -p extender-policies --bins
	cd tests && go test -count=1 -v -run TestVersionsFindEachOther ./conformance
	cd tests && go test -count=1 -timeout 10m -v -run TestPluginVersions ./e2e

config-record: export EXTENDER_CONFIG_RECORD := yes
config-record: rust ## Writes the fields of the configuration to its documentation, example and chart
	cargo test --locked -p extender-gateway-settings --test fields

proto-record: export EXTENDER_PROTO_RECORD := yes
proto-record: rust ## Writes the code generated from proto: the policy API in Rust, and the limits (proto/LIMITS.md) in all SDKs
	cargo test --locked -p extender-policy-api --lib

chart: go ## Renders deploy/install.yaml, and refreshes the chart's copies of other files
	cd $(CHART) && go test -count=1 -run TestGeneratedFilesAreFresh . -args -update

# tests/kube/chart, which is part of the tests below tests/, applies the manifests to a real kube-apiserver.
chart-test: binaries go ## The Helm chart: lint, values, manifests, the gateway's configuration; a minute
	cd $(CHART) && $(GO_TEST) ./...

# PRESET is quick (4 minutes), standard (30) or full (a day); ROUNDS and PODS change its rounds. ARGS select
# situations instead of a preset: make bench ARGS="--nodes 5000 --policies 8". The first run also compiles
# Kubernetes, which takes minutes.
bench: PRESET := $(if $(ARGS),,$(or $(PRESET),standard))
bench: binaries go ## The gateway alone, then pods a second of a real kube-scheduler (PRESET=quick|standard|full)
	@mkdir -p $(TARGET)/bench
	$(TARGET)/release/bench --json $(TARGET)/bench/gateway.json \
	  $(if $(ROUNDS),--rounds $(ROUNDS),$(if $(filter quick,$(PRESET)),--rounds 3)) \
	  $(if $(filter quick,$(PRESET)),--only "420 names")
	cd tests && go run ./bench/pods --json $(TARGET)/bench/pods.json $(ARGS) \
	  $(if $(PRESET),--preset $(PRESET)) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(PODS),--pods $(PODS))
	cd tests && go run ./bench/chart --pods $(TARGET)/bench/pods.json --svg $(TARGET)/bench/pods.svg >/dev/null
	@echo "results in $(TARGET)/bench; make bench-docs puts them into the documentation"

# The second half is judged: memory by its trend, descriptors and threads. It prints a table by minute.
soak: binaries go ## Whether the gateway's memory stays flat while everything around it changes (MINUTES=30)
	cd tests && go run ./bench/soak -minutes $(or $(MINUTES),30)

bench-docs: go ## Writes the last benchmark's chart and tables to docs/ and tests/bench/NOTES.md
	cd tests && go run ./bench/chart --pods $(TARGET)/bench/pods.json --gateway $(TARGET)/bench/gateway.json \
	  --svg ../docs/pods-per-second.svg --markdown ../docs/performance.md --notes bench/NOTES.md

bench-sdk: binaries $(SDKS:%=examples-%) go ## The same policy in each language, then kube-scheduler with Rust and Python: 12 minutes
	cd tests && go run ./bench/languages
	cd tests && go run ./bench/pods --contenders echo,gateway --declare pure,node --table on --language rust,python \
	  --workload few-deployments,all-different $(if $(ROUNDS),--rounds $(ROUNDS))

# In each of ROUNDS the contenders (none, plugin, http, echo) take turns. CONTENDERS, a regular expression, selects some.
bench-scheduler-perf: export ARTIFACTS := $(TARGET)/bench/scheduler-perf
bench-scheduler-perf: binaries go ## kube-scheduler's own benchmark, scheduler_perf, with 5,000 nodes (NODES=500 PODS=200: a small run)
	rm -rf $(ARTIFACTS) && mkdir -p $(ARTIFACTS)
	for round in $$(seq $(or $(ROUNDS),1)); do (cd tests/bench/schedulerperf && go test -timeout 6h -run '^$$' -data-items-dir $(ARTIFACTS) \
	  -bench '/$(or $(CONTENDERS),.)/^(SchedulingBasic|TopologySpreading)$$/^(5000Nodes_10000Pods|5000Nodes_5000Pods)$$' \
	  -nodes $(or $(NODES),0) -pods $(or $(PODS),0)); done | tee $(ARTIFACTS)/output.txt
	awk -f tests/bench/schedulerperf/table.awk $(ARTIFACTS)/output.txt | tee $(ARTIFACTS)/table.md

# `make test` does the same with fewer connections, for a few seconds. The connections need file descriptors: ulimit -n 8192.
torture: binaries ## Attacks on the gateway, and what honest calls notice: 6 minutes
	$(TARGET)/release/torture --judge $(ARGS)

# Allocations, bytes and wake-ups are counted in the test's own process, instructions in the release build.
guard: binaries valgrind ## The cost of three calls against recorded ceilings: 90 seconds
	$(GUARD)

growth: binaries valgrind ## Whether the work of a call grows faster than its body, counted in instructions
	cargo test --locked --workspace --test growth -- --include-ignored

guard-record: export EXTENDER_GUARD_RECORD := yes
guard-record: binaries valgrind ## Records the current cost of the three calls as ceilings
	$(GUARD)

# For the whole workspace, for the same reason as the binaries below.
GUARD = $(LINTED) --workspace --test ceilings --test instructions -- --include-ignored

sdks: $(SDKS:%=sdk-%) ## The SDKs for Python, Go, TypeScript and Java: generated code, lints, tests, examples

# From what is in git, and in folders of their own: the tests run what is built beside them. Each crate is compiled out of its package.
PUBLISHED := extender-files extender-otlp extender-policy-api extender-policy-types extender-policy-sdk
packages: rust go node ## The packages of the SDKs as their registries want them
	for licence in $$(git ls-files '*/LICENSE'); do cmp LICENSE $$licence; done
	cargo package --locked --allow-dirty --all-features $(PUBLISHED:%=--package %)
	for sdk in $(SDKS); do $(MAKE) -C backends/$$sdk package; done

$(SDKS:%=sdk-%): sdk-%: node
	$(MAKE) -C backends/$* check

# `make test` does the same without TLS.
conformance: export EXTENDER_CONFORMANCE := tls
conformance: binaries $(SDKS:%=examples-%) go ## Every backend keeps the rules of SPEC.md, plain and with mutual TLS
	cd tests && go test -count=1 -timeout 20m -v ./conformance

$(SDKS:%=examples-%): examples-%: node
	$(MAKE) -C backends/$* build

# RELEASED is the policy API of the last release, with which messages and calls stay compatible.
RELEASED := proto/released.binpb
BUF := tests/tools/buf/node_modules/.bin/buf
proto: node ## The .proto files: style, and compatibility with the last release
	@test -x $(BUF) || npm ci --silent --ignore-scripts --prefix tests/tools/buf
	$(BUF) lint proto
	$(BUF) format --diff --exit-code proto
	$(BUF) breaking proto --against $(RELEASED)

# For a release; the change belongs into the changelog.
proto-release: proto ## Records the .proto files as released
	$(BUF) build proto --output $(RELEASED) --exclude-source-info

# CASES and EQUIVALENCE_SEED select the cases. `make test` runs the same search with 300 cases.
equivalence: export EQUIVALENCE_CASES := $(or $(CASES),10000)
equivalence: export EQUIVALENCE_SEED := $(or $(EQUIVALENCE_SEED),$(shell date +%s))
equivalence: rust ## Equivalence with separate extenders in generated cases, and the deliberate faults
	cargo test --locked -p extender-reference -p extender-equivalence
	tests/equivalence/faults.sh

# Each seed is printed before it is used.
chaos: rust ## Two simulated hours of Reservations with each of 20 seeds
	CHAOS_SEED="$$(shuf -i 1-1000000 -n 20 | paste -sd ' ')" cargo test --locked -p extender-reservation --lib two_hours -- --nocapture

# Generated input first, then each target of cargo-fuzz (the folder fuzz) for FUZZ_SECONDS; FUZZ_TARGETS selects some. The
# flags of libFuzzer need an unstable option of the compiler, which RUSTC_BOOTSTRAP allows. An input that fails is kept in
# fuzz/artifacts; CONTRIBUTING.md says what to do with it.
FUZZ_SECONDS ?= 60
FUZZ_TARGETS ?= $(patsubst fuzz/fuzz_targets/%.rs,%,$(wildcard fuzz/fuzz_targets/*.rs))
FUZZ := RUSTC_BOOTSTRAP=1 $(TARGET)/tools/bin/cargo-fuzz fuzz
fuzz: export PROPTEST_CASES := $(or $(CASES),50000)
fuzz: cargo-fuzz ## Mutated input of every kind (CASES=50000, FUZZ_SECONDS=60 for each target)
	cargo test --locked -p extender-gateway-fuzzing hostile
	$(FUZZ) build
	for target in $(FUZZ_TARGETS); do \
	  echo "fuzz target $$target"; \
	  mkdir -p $(TARGET)/fuzz/$$target; \
	  $(FUZZ) run $$target $(TARGET)/fuzz/$$target fuzz/corpus/$$target -- \
	    -max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=2048 -timeout=20 -max_len=65536 -print_final_stats=0 -verbosity=0; \
	done

# The inputs that reach code that no other one reaches, of the committed ones and of those that `make fuzz` has found. libFuzzer
# names them by their hashes; files with another name stay.
fuzz-corpus: cargo-fuzz ## Adds what make fuzz has found to fuzz/corpus, and removes what is not needed
	for target in $(FUZZ_TARGETS); do \
	  corpus=fuzz/corpus/$$target; named=$$(mktemp -d); \
	  find $$corpus -type f -regextype posix-extended ! -regex '.*/[0-9a-f]{40}' -exec cp -t $$named {} +; \
	  mkdir -p $(TARGET)/fuzz/$$target; \
	  find $(TARGET)/fuzz/$$target -type f -exec cp -t $$corpus {} +; \
	  $(FUZZ) cmin $$target; \
	  find $$named -type f -exec cp -t $$corpus {} +; rm -r $$named; \
	done

cargo-fuzz: rust
	@test -x $(TARGET)/tools/bin/cargo-fuzz || \
	  cargo install --locked --root $(TARGET)/tools cargo-fuzz@$(CARGO_FUZZ)

# Not part of `make test`: building cargo-deny takes minutes, and its result changes only with Cargo.lock.
deny: rust ## Licences, duplicate crates and sources of the dependencies
	@test -x $(TARGET)/tools/bin/cargo-deny || \
	  cargo install --locked --root $(TARGET)/tools cargo-deny@$(CARGO_DENY)
	$(TARGET)/tools/bin/cargo-deny check licenses bans sources

# The database of advisories is a Git repository on the network, so `make deny` has to do without it.
advisories: rust ## Known vulnerabilities of the dependencies; fetches the database of RustSec from github.com
	@test -x $(TARGET)/tools/bin/cargo-deny || \
	  cargo install --locked --root $(TARGET)/tools cargo-deny@$(CARGO_DENY)
	@$(TARGET)/tools/bin/cargo-deny fetch db || \
	  { echo 'advisories: NOT CHECKED: the database cannot be fetched; run this where github.com can be reached'; exit 1; }
	$(TARGET)/tools/bin/cargo-deny check --disable-fetch advisories

# Not part of `make test`, for the same reason; tests/docs checks links there. The sources of the book are docs/, and the files
# outside of it that its pages link to.
BOOK := $(TARGET)/book-sources
book: rust go ## The documentation as a book: target/book, with all links checked
	@test -x $(TARGET)/tools/bin/mdbook || \
	  cargo install --locked --no-default-features --features search --root $(TARGET)/tools mdbook@$(MDBOOK)
	rm -rf $(BOOK) $(TARGET)/book
	cd tests && go run ./docs/book -sources $(BOOK)/docs
	cp book.toml $(BOOK)/
	$(TARGET)/tools/bin/mdbook build --dest-dir $(TARGET)/book $(BOOK)
	cd tests && go run ./docs/book -check $(TARGET)/book

image: static go ## The container image: target/image (OCI layout) and target/image.tar
	cd deploy && go run ./image $(RELEASE) -name $(IMAGE) -programs $(STATIC) \
	  -layout $(TARGET)/image -archive $(TARGET)/image.tar

# As root, or where users may create namespaces.
image-test: image ## Programs run out of the image: not as root, with a read-only root file system
	cd deploy && EXTENDER_GATEWAY_IMAGE=$(TARGET)/image go test -count=1 -v ./...

# The second build has other folders of sources, of cargo and of output, and takes as long as the first.
SECOND := $(TARGET)/reproducible
image-reproducible: image ## Whether a second build of the image, in another folder, has the same digest
	rm -rf $(SECOND)
	mkdir -p $(SECOND)/sources $(SECOND)/cargo
	git ls-files -z | xargs -0 cp --parents -t $(SECOND)/sources
	ln -s "$${CARGO_HOME:-$$HOME/.cargo}/registry" $(SECOND)/cargo/registry
	env -u CARGO_TARGET_DIR CARGO_HOME=$(SECOND)/cargo $(MAKE) -C $(SECOND)/sources image IMAGE=$(IMAGE) \
	  REVISION=$(REVISION) SOURCE=$(SOURCE) SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH)
	cmp $(TARGET)/image.tar $(SECOND)/sources/target/image.tar
	@echo "both builds have the same bytes"; rm -rf $(SECOND)

# The release: 1.35, 1.36 or 1.37, which gateway/plugin/kube-scheduler/go.mod requires.
KUBERNETES ?= 1.37
SCHEDULER := $(TARGET)/scheduler-image
scheduler-image: go ## The image of kube-scheduler KUBERNETES=1.35, 1.36 or 1.37 with the plugin: target/scheduler-image and target/scheduler-image.tar
	deploy/image/build-scheduler $(KUBERNETES) $(TARGET)/scheduler
	cd deploy && go run ./image $(RELEASE) -product scheduler -name $(IMAGE)-kube-scheduler -programs $(TARGET)/scheduler \
	  -layout $(SCHEDULER) -archive $(SCHEDULER).tar -bom $(SCHEDULER).cdx.json

# Not part of `make test`: a program without folders in it does not share compiled packages with those of the tests.
scheduler-image-test: scheduler-image ## kube-scheduler with the plugin runs out of its image: as image-test
	cd deploy && EXTENDER_GATEWAY_SCHEDULER_IMAGE=$(SCHEDULER) go test -count=1 -v -run '^TestScheduler' ./image/container

dist: static go ## target/dist: archive of the programs, list of dependencies, krew manifest, checksums
	cd deploy && go run ./dist $(RELEASE) -downloads $(DOWNLOADS) -root .. -programs $(STATIC) -out $(TARGET)/dist
	cd $(TARGET)/dist && sha256sum --check --quiet SHA256SUMS

fmt: rust go ## Formats everything
	cargo fmt --all
	cargo fmt --manifest-path fuzz/Cargo.toml
	gofmt -w tests deploy

clean: rust ## Removes what was built; Go's own caches stay
	cargo clean
	rm -rf tests/.bin tests/.out

# The parts of the commands above.

rust:
	@command -v cargo >/dev/null || { \
	  echo "Rust is missing: install rustup; rust-toolchain.toml names the version" >&2; exit 1; }

go:
	@command -v go >/dev/null || { \
	  echo "Go is missing: install Go $(GO_VERSION) or newer, for the real kube-scheduler in tests/" >&2; exit 1; }

valgrind prometheus chromium:
	@tests/tools/ensure $@

node:
	@command -v npm >/dev/null || { \
	  echo "npm is missing: install Node.js 20 or newer, for the .proto files and the SDK for TypeScript" >&2; exit 1; }

# Also whether the deliberate faults of `make equivalence` still fit to the sources.
format: rust
	cargo fmt --all --check
	cargo fmt --manifest-path fuzz/Cargo.toml --check
	@for fault in tests/equivalence/faults/*.patch; do git apply --check $$fault; done

# The compiler of the workspace is Clippy's, so that what is linted is what the tests run, and dependencies are compiled once for
# both.
LINTING := RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__ cargo
LINTED := $(LINTING) test --locked

# Also programs without integration tests, which `cargo test` compiles as unit tests alone: there nothing is unused that a test uses. And
# whether the lock file of the fuzz targets is current, which nothing else here builds.
lint: rust
	$(LINTING) build --locked --workspace --all-targets
	$(LINTING) build --locked -p extender-policy-sdk --all-targets
	cargo tree --locked --manifest-path fuzz/Cargo.toml >/dev/null

# For policy authors.
docs: rust
	RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --locked --all-features -p extender-policy-api -p extender-policy-sdk -p extender-policy-controllers
	RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" cargo doc --no-deps --locked --all-features -p extender-policy-types

# For contributors.
docs-private: rust ## The documentation of all crates, private items included
	RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" cargo doc --no-deps --locked --workspace --document-private-items

unit: rust
	$(LINTED) --workspace --lib --bins --test fields

# The SDK once more without its features, which the ready-made policies turn on.
rust-tests: rust
	$(LINTED) --workspace --no-fail-fast
	$(LINTED) -p extender-policy-sdk --lib --test all

plugin: go node ## kube-scheduler's plugin: generated code, lints, tests
	$(MAKE) --no-print-directory -C gateway/plugin check test

go-checks: go
	@unformatted=$$(gofmt -l tests deploy); test -z "$$unformatted" || { \
	  echo "not formatted, make fmt does it: $$unformatted" >&2; exit 1; }
	cd tests && go vet ./...
	cd deploy && go vet ./...
	cd $(LEGACY) && go vet ./...
	cd $(COLLECTOR) && go vet ./...
	cd $(CHART) && go vet ./...

# Tests of the built programs.
programs: binaries
	$(LINTED) --workspace --test tried_rules -- --include-ignored
	$(TARGET)/release/extender-demo
	$(TARGET)/release/torture --connections 200 --calls 200 --rounds 1 --overload 2

binaries: export EXTENDER_GATEWAY_COMMIT = $(REVISION)
binaries: rust
	$(if $(BUILT),,deploy/image/build)

# Without symbols their bytes are the same in any folder. deploy/programs says which of them are published.
static: binaries
	rm -rf $(STATIC)
	mkdir -p $(STATIC)
	find $(TARGET)/release -maxdepth 1 -type f -executable \
	  -exec sh -ec 'for program; do strip --strip-all -o $(STATIC)/$$(basename "$$program") "$$program"; done' strip {} +

# make test says -short: without other releases of Kubernetes, without new policies in languages whose first build is long, and
# without the rounds of faults.
GO_TEST = go test -count=1 -timeout $(if $(SHORT),40m,120m) -v $(SHORT)
# The end-to-end tests that mostly wait: for a lease, a time to live, a backoff. They have a control plane of their own, so that
# the waits of two control planes overlap.
WAITING := Room|Reserv|Owner|Placeholder|Stranger|Lead|Expired|FitsNowhere|Freed|Requeue|Replica|Gang|Bind
e2e-waiting: binaries go
	cd tests && $(GO_TEST) -run '$(WAITING)' ./e2e
e2e-others: binaries go
	cd tests && $(GO_TEST) -skip '$(WAITING)' ./e2e
# Some wait for a silent backend: more at once than there are processors.
go-others: binaries go prometheus chromium
	cd tests && packages=$$(go list ./... | grep -v /e2e$$) && $(GO_TEST) -p 1 -parallel 4 $$packages
	cd $(LEGACY) && $(GO_TEST) ./...
