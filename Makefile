# Every target can be typed on its own. make test runs the targets in TEST_PARTS, two at a time, and
# prints a table of how they went. The parts that take longest come first, so that both cores are
# busy until the end. The logic is in scripts/. The scripts install what they need, and say so if
# they cannot.

SHELL := bash
TEST_PARTS := lint bars unit race test-arm64 fuzz-smoke test-web test-privileged java-sdk \
	test-dist c-sdk test-export
PKG ?= ./...

.DEFAULT_GOAL := help
.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z][a-z0-9-]*:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' \
		$(MAKEFILE_LIST)

.PHONY: build
build: ## build the commands into bin/
	@scripts/install build
	@echo "building the commands into bin/: minutes the first time on a machine, then seconds"
	go build -o bin/ ./cmd/...

.PHONY: dist
dist: ## pack an archive for this platform into dist/
	@scripts/dist

.PHONY: packages
packages: ## pack an archive, a Debian package and an RPM package into dist/
	@scripts/packages

.PHONY: demo
demo: build ## run the product on this machine, and put its report into bin/demo
	@scripts/demo

.PHONY: demo-blackbox
demo-blackbox: ## capture the messages of real services as root; see bin/demo-blackbox
	@scripts/demo-blackbox

.PHONY: demo-flink
demo-flink: ## run a job on a cluster of Flink with the Java agent; its report is in bin/demo-flink
	@scripts/demo-flink

.PHONY: demo-kafka
demo-kafka: ## run Kafka Streams and its clients with the Java agent; see bin/demo-kafka
	@scripts/demo-kafka

.PHONY: demo-storm
demo-storm: ## run a topology on a cluster of Storm with the Java agent; see bin/demo-storm
	@scripts/demo-storm

.PHONY: check
check: ## run what every edit needs: lint and short
	@scripts/test lint short

.PHONY: test
test: ## install what is needed and run every check
	@scripts/test 2 $(TEST_PARTS)

.PHONY: prove
prove: ## measure and judge every bar at full size, into a record under bin/proofs
	@scripts/prove

.PHONY: soak
soak: ## run the whole product for an hour, into a record (not in make prove)
	@scripts/prove -only soak

.PHONY: lint
lint: ## read the source: gofmt, vet, staticcheck, shellcheck
	@scripts/lint

.PHONY: unit
unit: ## run the tests that need neither root nor network
	@scripts/unit

.PHONY: short
short: ## run the tests of unit with a fifth of their random work
	@scripts/unit short

.PHONY: c-sdk
c-sdk: ## build the C library and its example into bin/c, and run its tests
	@scripts/install c
	$(MAKE) --no-print-directory -C sdk/c all programs BUILD=$(CURDIR)/bin/c
	$(MAKE) --no-print-directory -C sdk/c check BUILD=$(CURDIR)/bin/c-check

.PHONY: java-sdk
java-sdk: ## build the Java library by Maven, and test it in each Java that is here
	@scripts/java-sdk

.PHONY: race
race: ## run the tests of what runs side by side, with the race detector
	@scripts/race

.PHONY: test-arm64
test-arm64: ## run the library packages' tests for arm64, emulated
	@scripts/test-arm64

.PHONY: fuzz-smoke
fuzz-smoke: ## run every fuzz target for FUZZTIME (default 3000x: 3000 inputs)
	@scripts/fuzz-smoke

.PHONY: test-export
test-export: ## check exports with DuckDB, Perfetto's schema and OpenTelemetry's collector
	@scripts/test-export

.PHONY: test-dist
test-dist: ## pack the archive, and do with it what docs/operating.md does
	@scripts/test-dist

.PHONY: test-privileged
test-privileged: ## run the tests that need root
	@scripts/test-privileged

.PHONY: web
web: ## build the pages from web/ into report/, explore/ and replay/page/
	@scripts/test-web build

.PHONY: test-web
test-web: ## test the pages in node and in a browser
	@scripts/test-web

.PHONY: bars
bars: build ## measure every bar briefly, and judge those that must hold on every machine
	@scripts/bars

.PHONY: mutations
mutations: ## break each rule of mathematics and stamps: a test must fail (10 minutes)
	@scripts/install build
	go test -count=1 -p 1 -timeout 60m -run '^TestMutations$$' -v \
		./tscratio ./minrtt ./host ./vnode ./internal/virtual ./replay/clock ./replay \
		-args -mutate

.PHONY: bench
bench: ## run the Go benchmarks of PKG (./...) six times
	go test -run '^$$' -bench . -benchmem -count 6 $(PKG)

.PHONY: clean
clean: ## remove what was built
	rm -rf bin dist
