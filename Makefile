# `make help` lists the targets of a contributor; tools/maintainer.mk has those of a maintainer. A
# target downloads or builds the tools that it needs on first use; tools/go.mod pins their versions,
# and tools/install.sh has the details. Only Go, git and, for `make test`, a C compiler must be
# installed; and Node.js to change the page of `kubectl appsvc ui`.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
# The same flags everywhere, so that packages are compiled once, and with -trimpath once for all clones
# on a machine. Only the race detector needs cgo.
export GOFLAGS ?= -buildvcs=false -trimpath
export CGO_ENABLED ?= 0

# Without a home directory that can be written, the caches of Go and of the tools are in this tree.
ifneq ($(shell exec 2>/dev/null; mkdir -p "$${HOME:?}/.cache" && test -w "$$HOME/.cache" && echo writable),writable)
  export XDG_CACHE_HOME ?= $(CURDIR)/.cache
  export GOCACHE ?= $(XDG_CACHE_HOME)/go-build
  export GOMODCACHE ?= $(if $(GOPATH),$(GOPATH)/pkg/mod,$(XDG_CACHE_HOME)/go-mod)
endif

BIN := $(CURDIR)/bin
PLATFORMS ?=
ifndef VERSION
  VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
endif
export VERSION # recipes read it from the environment, because a tag may have characters of the shell
# FULL=1 is for `make nightly`: tests at full size, and with random seeds. Otherwise, SAMPLE is a number
# from the hash of the commit. It is the seed of the property tests, and chooses the samples of the
# long suites of e2e. So a failure repeats: `make test SAMPLE=123`. 0 is another seed at each run, and
# no sample but everything.
FULL ?=
ifndef SAMPLE
  SAMPLE := $(if $(FULL),0,$(shell hash=$$(git rev-parse HEAD 2>/dev/null || echo 0) && echo $$((16#$${hash:0:12}))))
endif
export SAMPLE
export RAPID_SEED := $(SAMPLE)

PACKAGES = $(shell go list ./... | grep -v '/e2e\|/internal/environment')
# Packages with the RBAC markers of the operator's role.
MARKED := paths=./controllers/... paths=./clusters/... paths=./cmd/fleetwright/...
CLUSTER := etcd kube-apiserver kube-controller-manager kube-scheduler kubectl kwok kwokctl

need = @tools/install.sh $(BIN) $(1)
image = go -C tools/release run ./image -root $(CURDIR) -version "$$VERSION" $(2) '$(1)'
# gotest RACE [FLAGS] runs all tests of packages, RACE of them with the race detector: concurrent, all or
# none. The linter has the checks of go vet.
gotest = KUBEBUILDER_ASSETS=$(BIN) go run ./internal/gotest $(1) -vet=off -ldflags=-w -timeout=40m $(TEST) $(PACKAGES)

.DEFAULT_GOAL := help
.PHONY: help help-maintainer
help: ## list the targets
	@$(call list,Makefile)

help-maintainer: ## list the targets of a maintainer: releases, deployments, benchmarks
	@$(call list,tools/maintainer.mk)

list = awk -F ':.*\#\# ' '/^\#\# /{print "\n" substr($$0, 4)} /^[a-z0-9-]+:.*\#\# /{printf "  %-16s %s\n", $$1, $$2}' $(1)

## Build and run

.PHONY: build run image
build: ## build bin/fleetwright and the plugin bin/kubectl-appsvc with its completion, statically linked
	go build -ldflags "-s -w -X main.version=$$VERSION" -o $(BIN)/ ./cmd/fleetwright ./cmd/kubectl-appsvc
	@install -m 755 cmd/kubectl-appsvc/kubectl_complete-appsvc $(BIN)/

run: build ## run the operator against the current kubeconfig
	$(BIN)/fleetwright

image: ## build the image and load it into Docker, or write OUT=FILE: IMG=… PLATFORMS="linux/amd64 linux/arm64"
	@$(call image,$(or $(IMG),localhost/fleetwright:dev),-platforms '$(PLATFORMS)' -out '$(abspath $(OUT))')

## Change

.PHONY: generate page docs fmt
generate: ## generate deep copies, CRDs, the role, docs/api.md and docs/cli.md
	$(call need,controller-gen crd-ref-docs)
	@rm -rf config/crd/bases/*.yaml; mkdir -p docs
	$(BIN)/controller-gen object:headerFile=tools/boilerplate.go.txt paths=./api/...
	$(BIN)/controller-gen crd:generateEmbeddedObjectMeta=true paths=./api/... output:crd:dir=config/crd/bases
	@tools/bound-quantities.sh config/crd/bases/*.yaml
	go run ./internal/terse config/crd/bases/*.yaml
	$(BIN)/controller-gen rbac:roleName=fleetwright $(MARKED) output:rbac:dir=config/rbac
	$(BIN)/crd-ref-docs --log-level=ERROR --source-path=api --config=tools/crd-ref-docs.yaml --renderer=markdown --output-path=docs/api.md
	@sed -e '/^_Underlying type:_ _\[struct{/d' -e 's| *items:XValidation: .*<nil>\\} <br />||' -e 's|\([^ >]\)<br />\([^<]\)|\1 \2|g' docs/api.md >docs/api.md.new && mv docs/api.md.new docs/api.md # drop links to types without a name and the rules of items, and join wrapped lines
	go run ./cmd/kubectl-appsvc/reference >docs/cli.md.new && mv docs/cli.md.new docs/cli.md

page: ## build the page of kubectl appsvc ui, whose built files are committed; needs Node.js
	@tools/page.sh build

docs: ## build the documentation site from docs/: dist/docs/index.html
	cd tools/site && go run . -version "$$VERSION"

fmt: ## format the Go sources
	$(call need,golangci-lint)
	$(BIN)/golangci-lint fmt

## Check

.PHONY: verify verify-generated verify-page verify-docs verify-workflows verify-checksums tidy lint vulnerabilities vet test test-ui e2e e2e-restricted kind-images e2e-kind explore properties crash clock soak nightly
verify: verify-generated verify-page verify-docs verify-workflows verify-checksums tidy lint vulnerabilities ## run all checks that need no API server

verify-generated: # check that the generated files are up to date
	$(call need,controller-gen crd-ref-docs)
	@tools/verify-generated.sh $(BIN)

verify-page: ## check that the built files of the page are up to date; skipped without Node.js, except in CI
	@tools/page.sh verify || { [[ $$? == 3 && -z "$${CI:-}" ]] && echo 'verify-page is SKIPPED (see above)'; }

verify-docs: # check the links in all Markdown files and in the built documentation site, and the proofs of promises
	cd tools/site && go test -count=1 ./... # the cache does not see files outside of the module

verify-workflows: # check the workflows of GitHub Actions
	go tool -modfile=tools/release/go.mod actionlint

verify-checksums: # check that tools/checksums.txt is for the versions in tools/go.mod
	go run ./internal/download verify

tidy: # check that go.mod and go.sum of every module are tidy
	@git ls-files go.mod '*/go.mod' | xargs dirname | while read -r module; do echo "go mod tidy -diff in $$module"; (cd $$module && go mod tidy -diff); done

lint: ## run golangci-lint; `make fmt` fixes formatting
	$(call need,golangci-lint)
	$(BIN)/golangci-lint run
	@tools/count-methods.sh

vulnerabilities: # check for known vulnerabilities in reachable code
	$(call need,govulncheck)
	@tools/vulnerabilities.sh $(BIN)

vet: ## run go vet for the other systems that the project supports; golangci-lint has it for this one
	GOOS=darwin go vet ./...
	GOOS=windows go vet ./cmd/kubectl-appsvc/...

# With Go's default of 100, a fifth of the CPU time of tests and of their API servers is garbage collection.
test test-ui e2e e2e-restricted e2e-kind: export GOGC ?= 400

test: ## run the tests of all packages, on real API servers; of those with goroutines with the race detector
	$(call need,etcd kube-apiserver kubectl helm)
	@$(call gotest,$(if $(FULL),all -count=1,concurrent)) # the cache does not see the seeds

test-ui: ## run the tests of the page in a real browser: SCREENSHOTS=docs/images; FULL=1: also on large fleets; needs Node.js and Chromium
	$(call need,etcd kube-apiserver)
	@tools/page.sh install
	chromium=$$(tools/chromium.sh) && KUBEBUILDER_ASSETS=$(BIN) go test ./cmd/kubectl-appsvc/ui -run TestBrowser -browser "$$chromium" -screenshots '$(SCREENSHOTS)' $(if $(FULL),-full) -vet=off -timeout=20m -count=1 -v

e2e: build ## run the end-to-end suites on whole clusters, as processes on this machine
	$(call need,$(CLUSTER))
	PATH=$(BIN):$$PATH go test ./e2e/... ./internal/environment/... -p 2 -parallel 3 -count=1 -timeout 40m -v

# The other suites do not join members, adopt objects, or begin from the state of an earlier release.
e2e-restricted: build ## run the end-to-end suites with the policy of config/member on each member
	$(call need,$(CLUSTER))
	RESTRICT=1 PATH=$(BIN):$$PATH go test ./e2e ./e2e/crash ./e2e/timetravel -p 2 -parallel 3 -count=1 -timeout 60m -v

kind-images: # the images of the tests on kind
	@tools/docker.sh up
	@tools/kind/images.sh
	@$(call image,localhost/fleetwright:e2e)

e2e-kind: build kind-images ## run the tests that need real nodes, on kind; FULL=1: all tests of ./e2e; needs Docker
	$(call need,kubectl kustomize helm)
	PATH=$(BIN):$$PATH go test ./e2e -environment kind -image localhost/fleetwright:e2e $(if $(FULL),-full) -count=1 -timeout 40m -v
	PATH=$(BIN):$$PATH go test ./e2e/install -kind -image localhost/fleetwright:e2e -count=1 -timeout 20m -v
	$(if $(FULL),PATH=$(BIN):$$PATH go test ./e2e/demo -environment kind -image localhost/fleetwright:e2e -count=1 -timeout 20m -v)

explore: EXPLORED := $(or $(DEPTH),$(if $(FULL),5))
explore: ## explore every state of the decisions, within a bound, for two minutes: DEPTH=5 explores deeper, for half an hour
	@mkdir -p $(BIN)
	GOGC=400 go test ./internal/explore/fleet -run TestExplore -count=1 -timeout 3h -v -explore.healthy=$(if $(EXPLORED),1,16) -explore.states=$(if $(EXPLORED),0 -explore.depth=$(EXPLORED),30000 -explore.least=1000000) -coverpkg=./controllers/rollout/...,./controllers/placement -coverprofile=$(BIN)/explore.cover
	@tools/unreached.sh $(BIN)/explore.cover $(EXPLORED)

properties: ## test the properties of packages without API servers with 10,000 random cases each: CHECKS=1000
	RAPID_SEED=0 RAPID_CHECKS=$(or $(CHECKS),10000) go test -vet=off -count=1 -timeout 5h $$(go list -f '{{.ImportPath}} {{.TestImports}} {{.XTestImports}}' ./controllers/... | grep pgregory.net/rapid | grep -v internal/servertest | cut -d' ' -f1)

crash: build ## kill the operator before and after every write request, with slices every eighth; some 90 minutes
	$(call need,$(CLUSTER))
	PATH=$(BIN):$$PATH go test ./e2e/crash -count=1 -timeout 150m -v -crash.slices=off -crash.every=1 -crash.quiet=60s -crash.parallel=64 -rapid.checks=10
	PATH=$(BIN):$$PATH go test ./e2e/crash -count=1 -timeout 150m -v -crash.slices=on -crash.every=8 -crash.quiet=60s -crash.parallel=64 -rapid.checks=10

clock: build ## run an operator whose clock is an hour off; the first time compiles everything, for some minutes
	$(call need,$(CLUSTER))
	PATH=$(BIN):$$PATH go test ./e2e/timetravel -run TestClock -clock -bin '$(BIN)' -count=1 -timeout 40m -v

soak: build ## disturb a fleet at random for an hour, then check that nothing was lost: SOAK=10m SEED=7
	$(call need,$(CLUSTER))
	PATH=$(BIN):$$PATH exec go run ./e2e/soak -bin '$(BIN)' -length $(or $(SOAK),1h) -seed $(or $(SEED),0)

nightly: ## run everything that .ci/run leaves out, at full size, with the race detector and random seeds; some four hours
	@$(MAKE) --keep-going FULL=1 SOAK=10m verify vet test explore properties test-skew test-release test-ui e2e e2e-restricted e2e-kind test-kind crash clock soak

## Try it

.PHONY: demo demo-down kind-demo kind-demo-down note-demo build-demo
demo: note-demo build build-demo ## start a hub and members on this machine, with a running app
	$(call need,$(CLUSTER))
	PATH=$(BIN):$$PATH $(BIN)/demo up

demo-down: build-demo ## remove the demo
	$(BIN)/demo down

kind-demo: build build-demo ## start the demo on kind, with real pods; needs Docker
	$(call need,kubectl kustomize)
	@tools/docker.sh up
	@tools/kind/images.sh
	@$(call image,localhost/fleetwright:dev)
	$(BIN)/demo -environment kind up

kind-demo-down: build-demo ## remove the demo on kind
	$(BIN)/demo -environment kind down

note-demo:
	@[[ $$(uname) == Linux ]] || echo 'make demo is tested only on Linux. With Docker, make kind-demo runs the same demo.' >&2

build-demo:
	go build -o $(BIN)/demo ./cmd/demo

## Names that Kubebuilder gives to these targets

.PHONY: manifests docker-build docker-push
manifests: generate ## generate
docker-build: image ## image
docker-push: push ## push, of make help-maintainer; install, deploy, undeploy and uninstall are there, too

## Tools

.PHONY: tools clean
tools: ## install all tools in bin/
	$(call need,)

clean: ## delete bin/
	rm -rf $(BIN)
	@echo "The tools stay in $${XDG_CACHE_HOME:-$$HOME/.cache}/fleetwright/tools for other clones. You may delete them."

include tools/maintainer.mk
