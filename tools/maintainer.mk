# The targets of a maintainer: `make help-maintainer` lists them. The Makefile includes this file.
release = go -C tools/release run . -root $(CURDIR) -binaries $(BIN) -version "$$VERSION" $(1)

## Deploy

.PHONY: push install uninstall deploy undeploy dist
push: ## build the image for amd64 and arm64, or take FROM=FILE of make image, and push it: IMG=… PLATFORMS=…
	@[[ -n '$(IMG)' ]] || { echo 'IMG is missing: make push IMG=registry.example/fleetwright:v0.1.0' >&2; exit 1; }
	@$(call image,$(IMG),-platforms '$(PLATFORMS)' -from '$(abspath $(FROM))' -push)

install: ## install the CRDs in the cluster of the current kubeconfig
	$(call need,kubectl)
	$(BIN)/kubectl apply --server-side -k config/crd

uninstall: ## delete the CRDs, with all AppServices, while the operator runs; members keep their workloads
	$(call need,kubectl)
	@tools/manifests.sh $(BIN) uninstall

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

## Release

.PHONY: release release-dry-run dist-plugin chart test-release test-skew test-kind record-release checksums recording
release: ## write all files of a release to dist/VERSION, for VERSION=v0.1.0: docs/releases.md
	$(call need,kubectl helm)
	@$(call release,-final -notes $(CURDIR)/dist/notes.md -out "$(CURDIR)/dist/$$VERSION")

release-dry-run: ## the same, also before docs/CHANGELOG.md has a section for VERSION=v0.1.0
	$(call need,kubectl helm)
	@$(call release,-notes $(CURDIR)/dist/notes.md -out "$(CURDIR)/dist/$$VERSION")

dist-plugin: ## write dist/plugin: the plugin for all platforms, and its krew manifest, for VERSION=v0.1.0
	@$(call release,-plugin-only -out $(CURDIR)/dist/plugin)

chart: ## write dist/: the Helm charts for VERSION=v0.1.0
	$(call need,helm)
	@tools/package-charts.sh $(BIN) "$$VERSION" dist

test-release: ## build a release for this platform twice and test its files: RELEASE=dist/v0.1.0 tests that one
	$(call need,kubectl helm)
	cd tools/release && go vet ./... && go test ./image ./oci && go test -count=1 . -args -release '$(abspath $(RELEASE))' -binaries $(BIN)

test-skew: ## run make test with the oldest supported Kubernetes (docs/install.md)
	$(call need,etcd kube-apiserver-skew kubectl helm)
	@TEST_ASSET_KUBE_APISERVER=$(BIN)/kube-apiserver-skew $(call gotest,none -count=1)

test-kind: build kind-images ## run the tests of internal/environment/kind, after a change of that package; needs Docker
	$(call need,kubectl kustomize)
	PATH=$(BIN):$$PATH go test ./internal/environment/kind -kind -image localhost/fleetwright:e2e -count=1 -timeout 10m -v

record-release: build ## record the objects of a release, from which e2e/upgrade upgrades: RELEASE=v0.1.0
	$(call need,$(CLUSTER))
	@[[ '$(RELEASE)' == v* ]] || { echo 'RELEASE is missing: make record-release RELEASE=v0.1.0' >&2; exit 1; }
	go test ./e2e/upgrade -run TestRecord -record '$(RELEASE)' -count=1 -timeout 10m -v

checksums: ## write tools/checksums.txt again, from the published checksums of these versions; needs the internet
	go run ./internal/download update

recording: build build-demo ## record docs/images/demo.svg: a terminal with commands of another demo; some two minutes
	$(call need,$(CLUSTER))
	cd tools/recording && go test . && go build -o $(BIN)/recording .
	$(BIN)/recording

## Measure

.PHONY: bench bench-compare bench-members
bench: ## compare the operator with a naked writer; some 40 minutes: BENCH='-repeat 3 -scenarios B1,B2 -profile'
	$(call need,etcd kube-apiserver $(if $(findstring -peer,$(BENCH)),kube-controller-manager))
	exec go run ./cmd/bench $(BENCH)

bench-compare: ## compare the operator with that of another commit, and fail if it is worse: BASE=<commit>
	$(call need,etcd kube-apiserver)
	@[[ -n '$(BASE)' ]] || { echo 'BASE is missing: make bench-compare BASE=main' >&2; exit 1; }
	exec go run ./cmd/bench -base '$(BASE)' $(BENCH)

bench-members: build ## measure the cost of a member, how fast members join, and with BENCH='-deliver 1000' a delivery to many
	$(call need,$(CLUSTER))
	PATH=$(BIN):$$PATH go run ./cmd/bench/members $(BENCH)
