# `make help` lists the targets. A target downloads or builds the tools that it needs on first use;
# tools/go.mod pins their versions, and tools/install.sh has the details. Only Go, git and, for
# `make test`, a C compiler must be installed; and Node.js to change the page of `kubectl appsvc ui`.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
export GOFLAGS ?= -buildvcs=false

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
PACKAGES = $(shell go list ./... | grep -v '/e2e\|/charts\|/internal/environment')
# Packages with the RBAC markers of the operator's role.
MARKED := paths=./controllers/... paths=./clusters/... paths=./cmd/fleetwright/...
CLUSTER := etcd kube-apiserver kube-controller-manager kube-scheduler kubectl kwok kwokctl

need = @tools/install.sh $(BIN) $(1)
static = CGO_ENABLED=0 go build -trimpath# the same flags everywhere, so that packages are compiled once
image = go -C tools/release run ./image -root $(CURDIR) -version "$$VERSION" $(2) '$(1)'
release = go -C tools/release run . -root $(CURDIR) -binaries $(BIN) -version "$$VERSION" $(1)

.DEFAULT_GOAL := help
.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^## /{print "\n" substr($$0, 4)} /^[a-z0-9-]+:.*## /{printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

## Build and run

.PHONY: build run image push install deploy undeploy dist dist-plugin chart release release-dry-run
build: ## build bin/fleetwright and the plugin bin/kubectl-appsvc with its completion, statically linked
	$(static) -ldflags "-s -w -X main.version=$$VERSION" -o $(BIN)/ ./cmd/fleetwright ./cmd/kubectl-appsvc
	@install -m 755 cmd/kubectl-appsvc/kubectl_complete-appsvc $(BIN)/

run: build ## run the operator against the current kubeconfig
	$(BIN)/fleetwright

image: ## build the image and load it into Docker, or write OUT=FILE: IMG=… PLATFORMS="linux/amd64 linux/arm64"
	@$(call image,$(or $(IMG),localhost/fleetwright:dev),-platforms '$(PLATFORMS)' -out '$(abspath $(OUT))')

push: ## build the image for amd64 and arm64, or take FROM=FILE of make image, and push it: IMG=… PLATFORMS=…
	@[[ -n '$(IMG)' ]] || { echo 'IMG is missing: make push IMG=registry.example/fleetwright:v0.1.0' >&2; exit 1; }
	@$(call image,$(IMG),-platforms '$(PLATFORMS)' -from '$(abspath $(FROM))' -push)

install: ## install the CRDs in the cluster of the current kubeconfig
	$(call need,kubectl)
	$(BIN)/kubectl apply --server-side -k config/crd

deploy: ## deploy the operator with image IMG=… to the cluster of the current kubeconfig
	$(call need,kubectl)
	@tools/manifests.sh $(BIN) deploy '$(IMG)'

undeploy: ## remove the operator; members keep their workloads, unless WORKLOADS=remove
	$(call need,kubectl)
	@tools/manifests.sh $(BIN) undeploy $(WORKLOADS)

dist: ## write dist/install.yaml with image IMG=…
	$(call need,kubectl)
	@mkdir -p dist
	@tools/manifests.sh $(BIN) render '$(IMG)' >dist/install.yaml.new || { rm -f dist/install.yaml.new; exit 1; }
	@mv dist/install.yaml.new dist/install.yaml

dist-plugin: ## write dist/plugin: the plugin for all platforms, and its krew manifest, for VERSION=v0.1.0
	@$(call release,-plugin-only -out $(CURDIR)/dist/plugin)

release: ## write all files of a release to dist/VERSION, for VERSION=v0.1.0: docs/releases.md
	$(call need,kubectl)
	@$(call release,-final -notes $(CURDIR)/dist/notes.md -out "$(CURDIR)/dist/$$VERSION")

release-dry-run: ## the same, also before docs/CHANGELOG.md has a section for VERSION=v0.1.0
	$(call need,kubectl)
	@$(call release,-notes $(CURDIR)/dist/notes.md -out "$(CURDIR)/dist/$$VERSION")

chart: ## write dist/: the Helm charts for VERSION=v0.1.0
	@go run ./charts/package "$$VERSION" dist

## Change

.PHONY: generate page docs fmt
generate: ## generate deep copies, CRDs, the role, docs/api.md, docs/cli.md and parts of the charts
	$(call need,controller-gen crd-ref-docs)
	@rm -rf config/crd/bases/*.yaml; mkdir -p docs
	$(BIN)/controller-gen object:headerFile=tools/boilerplate.go.txt paths=./api/...
	$(BIN)/controller-gen crd:generateEmbeddedObjectMeta=true paths=./api/... output:crd:dir=config/crd/bases
	@tools/bound-quantities.sh config/crd/bases/*.yaml
	@tools/terse.sh config/crd/bases/*.yaml
	$(BIN)/controller-gen rbac:roleName=fleetwright $(MARKED) output:rbac:dir=config/rbac
	$(BIN)/crd-ref-docs --log-level=ERROR --source-path=api --config=tools/crd-ref-docs.yaml --renderer=markdown --output-path=docs/api.md
	@sed -e '/^_Underlying type:_ _\[struct{/d' -e 's| *items:XValidation: .*<nil>\\} <br />||' -e 's|\([^ >]\)<br />\([^<]\)|\1 \2|g' docs/api.md >docs/api.md.new && mv docs/api.md.new docs/api.md # drop links to types without a name and the rules of items, and join wrapped lines
	go run ./cmd/kubectl-appsvc/reference >docs/cli.md.new && mv docs/cli.md.new docs/cli.md
	@tools/charts.sh

page: ## build the page of kubectl appsvc ui, whose built files are committed; needs Node.js
	@tools/page.sh build

docs: ## build the documentation site from docs/: dist/docs/index.html
	cd tools/site && go run . -version "$$VERSION"

fmt: ## format the Go sources
	$(call need,golangci-lint)
	$(BIN)/golangci-lint fmt

## Check

.PHONY: verify verify-docs verify-generated verify-page verify-workflows verify-checksums checksums manifests-check lint vet tidy vulnerabilities test test-release test-skew test-ui e2e e2e-kind test-kind crash soak clock bench bench-compare bench-members record-release
verify: verify-generated verify-page verify-docs verify-workflows verify-checksums manifests-check tidy vet lint vulnerabilities test-release ## run all checks that need no cluster

verify-generated: ## check that the generated files are up to date
	$(call need,controller-gen crd-ref-docs)
	@tools/verify-generated.sh $(BIN)

verify-page: ## check that the built files of the page are up to date; skipped without Node.js, except in CI
	@tools/page.sh verify || { [[ $$? == 3 && -z "$${CI:-}" ]] && echo 'verify-page is SKIPPED (see above)'; }

verify-docs: ## check the links in all Markdown files, and in the built documentation site
	cd tools/site && go test -count=1 ./... # the cache does not see files outside of the module

verify-workflows: ## check the workflows of GitHub Actions
	go tool -modfile=tools/release/go.mod actionlint

verify-checksums: ## check that tools/checksums.txt is for the versions in tools/go.mod
	go run ./internal/download verify

checksums: ## write tools/checksums.txt again, from the published checksums of these versions; needs the internet
	go run ./internal/download update

manifests-check: ## check that an API server accepts all of config/, and that the charts render and install the same
	$(call need,etcd kube-apiserver kubectl helm)
	KUBEBUILDER_ASSETS=$(BIN) go test ./config ./charts/...

tidy: ## check that go.mod and go.sum of every module are tidy
	@git ls-files go.mod '*/go.mod' | xargs dirname | while read -r module; do echo "go mod tidy -diff in $$module"; (cd $$module && go mod tidy -diff); done

vet: ## run go vet, also for the other systems that the project supports
	go vet ./...
	GOOS=darwin go vet ./...
	GOOS=windows go vet ./cmd/kubectl-appsvc/...

lint: ## run golangci-lint; `make fmt` fixes formatting
	$(call need,golangci-lint)
	$(BIN)/golangci-lint run

vulnerabilities: ## check for known vulnerabilities in reachable code
	$(call need,govulncheck)
	@tools/vulnerabilities.sh $(BIN)

test: ## run the tests of all packages with the race detector, on real API servers
	$(call need,etcd kube-apiserver kubectl)
	CGO_ENABLED=1 KUBEBUILDER_ASSETS=$(BIN) KUBE_CACHE_MUTATION_DETECTOR=true go test -race -timeout 20m $(PACKAGES)

test-release: ## build a release for this platform twice and test its files: RELEASE=dist/v0.1.0 tests that one
	$(call need,kubectl)
	cd tools/release && go vet ./... && go test ./image ./oci && go test -count=1 . -args -release '$(abspath $(RELEASE))' -binaries $(BIN)

test-skew: ## run the same tests with the oldest supported Kubernetes (docs/install.md)
	$(call need,etcd kube-apiserver-skew kubectl)
	CGO_ENABLED=1 KUBEBUILDER_ASSETS=$(BIN) TEST_ASSET_KUBE_APISERVER=$(BIN)/kube-apiserver-skew go test -race -timeout 20m -count=1 $(PACKAGES)

test-ui: ## run the tests of the page in a real browser: SCREENSHOTS=docs/images; needs Node.js and Chromium
	$(call need,etcd kube-apiserver)
	@tools/page.sh install
	chromium=$$(tools/chromium.sh) && KUBEBUILDER_ASSETS=$(BIN) go test ./cmd/kubectl-appsvc/ui -run TestBrowser -browser "$$chromium" -screenshots '$(SCREENSHOTS)' -count=1 -v

e2e: build ## run the end-to-end suites on whole clusters, as processes on this machine
	$(call need,$(CLUSTER))
	PATH=$(BIN):$$PATH go test ./e2e/... ./internal/environment/... -p 2 -count=1 -timeout 40m -v

e2e-kind: build ## run the tests that need real nodes, on kind; FULL=1: all tests of ./e2e; needs Docker
	$(call need,kubectl kustomize helm)
	@tools/docker.sh up
	@tools/kind/images.sh
	@$(call image,localhost/fleetwright:e2e)
	PATH=$(BIN):$$PATH go test ./e2e -environment kind -image localhost/fleetwright:e2e $(if $(FULL),-full) -count=1 -timeout 40m -v
	PATH=$(BIN):$$PATH go test ./e2e/chart -kind -image localhost/fleetwright:e2e -count=1 -timeout 10m -v

test-kind: build ## run the tests of internal/environment/kind, after a change of that package; needs Docker
	$(call need,kubectl kustomize)
	@tools/docker.sh up
	@tools/kind/images.sh
	@$(call image,localhost/fleetwright:e2e)
	PATH=$(BIN):$$PATH go test ./internal/environment/kind -kind -image localhost/fleetwright:e2e -count=1 -timeout 10m -v

crash: build ## kill the operator before and after every write request, with slices every eighth; some 40 minutes
	$(call need,$(CLUSTER))
	PATH=$(BIN):$$PATH go test ./e2e/crash -count=1 -timeout 60m -v -crash.slices=off -crash.every=1 -crash.quiet=60s -crash.parallel=64 -rapid.checks=10
	PATH=$(BIN):$$PATH go test ./e2e/crash -count=1 -timeout 60m -v -crash.slices=on -crash.every=8 -crash.quiet=60s -crash.parallel=64 -rapid.checks=10

soak: build ## disturb a fleet at random for an hour, then check that nothing was lost: SOAK=10m SEED=7
	$(call need,$(CLUSTER))
	PATH=$(BIN):$$PATH exec go run ./e2e/soak -bin '$(BIN)' -length $(or $(SOAK),1h) -seed $(or $(SEED),0)

clock: build ## run an operator whose clock is an hour off; the first time compiles everything, for some minutes
	$(call need,$(CLUSTER))
	PATH=$(BIN):$$PATH go test ./e2e/timetravel -run TestClock -clock -bin '$(BIN)' -count=1 -timeout 40m -v

record-release: build ## record the objects of a release, from which e2e/upgrade upgrades: RELEASE=v0.1.0
	$(call need,$(CLUSTER))
	@[[ '$(RELEASE)' == v* ]] || { echo 'RELEASE is missing: make record-release RELEASE=v0.1.0' >&2; exit 1; }
	go test ./e2e/upgrade -run TestRecord -record '$(RELEASE)' -count=1 -timeout 10m -v

bench: ## compare the operator with a naked writer; some 40 minutes: BENCH='-repeat 3 -scenarios B1,B2 -profile'
	$(call need,etcd kube-apiserver)
	exec go run ./cmd/bench $(BENCH)

bench-compare: ## compare the operator with that of another commit, and fail if it is worse: BASE=<commit>
	$(call need,etcd kube-apiserver)
	@[[ -n '$(BASE)' ]] || { echo 'BASE is missing: make bench-compare BASE=main' >&2; exit 1; }
	exec go run ./cmd/bench -base '$(BASE)' $(BENCH)

bench-members: build ## measure the cost of a member, how fast members join, and with BENCH='-deliver 1000' a delivery to many
	$(call need,$(CLUSTER))
	PATH=$(BIN):$$PATH go run ./cmd/bench/members $(BENCH)

## Try it

.PHONY: demo note-demo demo-down kind-demo kind-demo-down build-demo recording
build-demo:
	$(static) -o $(BIN)/demo ./cmd/demo

demo: note-demo build build-demo ## start a hub and members on this machine, with a running app
	$(call need,$(CLUSTER))
	PATH=$(BIN):$$PATH $(BIN)/demo up

note-demo:
	@[[ $$(uname) == Linux ]] || echo 'make demo is tested only on Linux. With Docker, make kind-demo runs the same demo.' >&2

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

recording: build build-demo ## record docs/images/demo.svg: a terminal with commands of another demo; some two minutes
	$(call need,$(CLUSTER))
	cd tools/recording && go test . && go build -o $(BIN)/recording .
	$(BIN)/recording

## Tools

.PHONY: tools clean
tools: ## install all tools in bin/
	$(call need,)

clean: ## delete bin/
	rm -rf $(BIN)
	@echo "The tools stay in $${XDG_CACHE_HOME:-$$HOME/.cache}/fleetwright/tools for other clones. You may delete them."
