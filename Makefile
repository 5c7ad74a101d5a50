# Everything that is run here, here and in CI, is one of these targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# In the order in which they depend on each other.
MODULES  := proto servicebus-emulator services/internal services/registry services/heartbeat services/availability services/operator-gateway agent deploy
PACKAGES := $(addsuffix /...,$(addprefix ./,$(MODULES)))
BIN      := $(CURDIR)/.bin

.PHONY: help run fresh demo test test-sqlserver invariants lint generate zones bench conformance chaos chaos-proof check build build-each vet race generated tidy

# Says that a build takes minutes, if nearly nothing of it has been compiled here before.
define say-first-build
	@packages=$$(go list -deps $(2) -f '{{if .Stale}}x{{end}}' $(1) | grep -c x || true); [ "$$packages" -lt 150 ] || \
		echo "First build: $$packages packages are compiled, which takes some minutes. Later builds take seconds."
endef

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

run: ## Start everything on loopback, with simulated agents; data in var/; deploy/TRY.md says what to try; ARGS="-availability-replicas 2"
	$(call say-first-build,./deploy/cmd/local)
	@go build -o out/bin/ ./deploy/cmd/local
	@exec out/bin/local $(ARGS)

fresh: ## Start everything from nothing: what earlier runs left in var/ is removed; refuses while a system runs there
	@$(MAKE) -s run ARGS='-fresh $(ARGS)'

demo: ## Tell the main story through REST against a fresh local system
	$(call say-first-build,./deploy/cmd/demo)
	@go build -o out/bin/ ./deploy/cmd/demo
	@exec out/bin/demo

test: $(BIN)/gotestsum ## Run every test; ends by saying what was skipped and why
	$(call say-first-build,$(PACKAGES),-test)
	@$(BIN)/gotestsum --format pkgname --format-hide-empty-pkg -- -count=1 -timeout 10m $(PACKAGES)

test-sqlserver: $(BIN)/gotestsum ## Run the tests of the stores on the SQL Server that TEST_SQLSERVER_URL names too; drops every table in that database
	@[ -n "$${TEST_SQLSERVER_URL:-}" ] || { echo "TEST_SQLSERVER_URL is not set, and nothing was run: name a database for tests, in which every table is dropped:"; \
		echo "  TEST_SQLSERVER_URL='sqlserver://user:password@host:1433?database=fleet_test&encrypt=true' make test-sqlserver"; exit 1; }
	@$(BIN)/gotestsum --format pkgname --format-hide-empty-pkg -- -p 1 -count=1 -timeout 30m ./services/registry/... ./services/availability/... ./services/internal/sqldb/... ./services/internal/servernames/...

invariants: ## List the promises kept: the tests named after the invariants
	@go test -run '^TestI[0-9]+_' -v $(PACKAGES) | grep -E '^(---|FAIL)'

lint: $(BIN)/golangci-lint ## Lint each module, with the dependency rules
	@for module in $(MODULES); do echo "lint $$module"; (cd $$module && $(BIN)/golangci-lint run --allow-parallel-runners --config $(CURDIR)/.golangci.yml ./...); done

generate: ## Generate proto/gen from the proto files
	@./proto/generate.sh

zones: ## Take over the time-zone database of the Go release that runs this; say its version in the package
	@cp "$$(go env GOROOT)/lib/time/zoneinfo.zip" services/availability/internal/windows/zoneinfo/
	@grep -h '^DATA=' "$$(go env GOROOT)/lib/time/update.bash"

bench: ## Measure, print the table beside its targets and baselines, write out/bench.json; ARGS="-only sweeps"
	@go build -o out/bin/ ./deploy/cmd/bench ./deploy/cmd/local ./servicebus-emulator/cmd/servicebus-emulator ./services/registry/cmd/registry ./services/heartbeat/cmd/heartbeat ./services/availability/cmd/availability ./services/operator-gateway/cmd/operator-gateway
	@exec out/bin/bench $(ARGS)

conformance: ## Run the Azure SDK's and go-amqp's own live tests, and probes in Node, against the emulator; ARGS="-only admin -run UpdateQueue"
	@go build -o out/bin/ ./servicebus-emulator/conformance/cmd/conformance
	@exec out/bin/conformance $(ARGS)

COMMA := ,
CHAOS_TAGS = chaos_clock$(if $(filter order settle late blind,$(BREAK)),$(COMMA)break_$(BREAK))
chaos: ## Break a running system on purpose and count what was lost or run twice; ARGS="-seed 7 -duration 1h"; BREAK=order|settle|journal|late|blind breaks a rule
	@go build -tags "$(CHAOS_TAGS)" -o out/chaos/ ./deploy/cmd/chaos ./deploy/cmd/chaos-agents ./services/registry/cmd/registry ./services/heartbeat/cmd/heartbeat ./services/availability/cmd/availability ./services/operator-gateway/cmd/operator-gateway
	@exec out/chaos/chaos $(if $(filter journal,$(BREAK)),-break journal) $(ARGS)

chaos-proof: ## See that chaos notices a rule that is broken: each of five runs must fail, for its own reason
	@for proof in "order:every connection cut:heartbeats lost" "settle:the registry stopped:heartbeats lost" "journal:the agents killed:executed more than once" \
		"late:the agents frozen:begun after their budget" "blind:all control servers:servers that went offline though"; do \
		rule=$${proof%%:*}; rest=$${proof#*:}; \
		$(MAKE) -s chaos BREAK=$$rule ARGS="-seed 3 -duration 15s -only '$${rest%%:*}'" > out/chaos-$$rule.log 2>&1 || true; \
		grep -E "FAILED +$${rest#*:}" out/chaos-$$rule.log || { cat out/chaos-$$rule.log; echo "chaos did not notice that rule '$$rule' is broken"; exit 1; }; \
	done

check: build build-each vet lint generated test race ## What CI runs: build, vet, lint, generated code, the tests, and again with the race detector

build: ## Build the whole workspace, without a C compiler
	@CGO_ENABLED=0 go build $(PACKAGES)

build-each: ## Build each module by itself
	@for module in $(MODULES); do echo "build $$module"; (cd $$module && CGO_ENABLED=0 GOWORK=off go build ./...); done

vet:
	@go vet $(PACKAGES)
	@go vet -tags break_order,break_settle,break_late,break_blind,chaos_clock ./services/internal/sqldb/... ./services/registry/... ./services/heartbeat/... ./services/availability/... ./agent/...

# One package at a time: the race detector is slow, and tests of locks that lapse must not compete for two cores.
race: $(BIN)/gotestsum
	@$(BIN)/gotestsum --format pkgname --format-hide-empty-pkg -- -race -p 1 -count=1 -timeout 15m $(PACKAGES)

generated: generate ## Fail when generated code differs from the proto files
	@git diff --exit-code --stat -- proto/gen || { echo "proto/gen differs from a fresh 'make generate': commit what it made"; exit 1; }
	@test -z "$$(git status --porcelain -- proto/gen)" || { echo "proto/gen has files that are not committed"; exit 1; }
	@if git rev-parse -q --verify HEAD~1:proto/commandcenter >/dev/null; then \
		rm -rf out/before && mkdir -p out/before && \
		git archive HEAD~1 buf.yaml proto | tar -x -C out/before && cp -r .thirdparty out/before/ && \
		$(BIN)/buf breaking . --against out/before; fi

tidy: ## Tidy every module's requirements
	@for module in $(MODULES) tools tools/lint tools/test; do (cd $$module && GOWORK=off go mod tidy); done

$(BIN)/gotestsum: tools/test/go.mod
	@GOWORK=off GOBIN=$(BIN) go -C tools/test install tool && touch $@

$(BIN)/golangci-lint: tools/lint/go.mod
	@GOWORK=off GOBIN=$(BIN) go -C tools/lint install tool && touch $@
