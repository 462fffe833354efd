# The operator's image, built from source: docker build --build-arg VERSION=v0.1.0 .
#
# The released images are from `make image` (tools/release), which needs Go and no Docker engine, and
# gives the same bytes each time. The files and labels are the same.
FROM golang:1.26 AS build
WORKDIR /src
# Another module proxy than Go's own: --build-arg GOPROXY=…
ARG GOPROXY
COPY go.mod go.sum ./
RUN go mod download
COPY tools/release/ tools/release/
RUN mkdir -p /image/etc/ssl/certs && go -C tools/release run ./certificates >/image/etc/ssl/certs/ca-certificates.crt
COPY api/ api/
COPY clusters/ clusters/
COPY cmd/ cmd/
COPY controllers/ controllers/
COPY internal/ internal/
ARG VERSION=unknown
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w -buildid= -X main.version=${VERSION}" -o /image/fleetwright ./cmd/fleetwright

FROM scratch
COPY --from=build /image/ /
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="fleetwright" \
      org.opencontainers.image.description="Runs AppServices, declared once on a hub cluster, on every member cluster" \
      org.opencontainers.image.source="https://github.com/fleetwright/fleetwright" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
USER 65532:65532
ENTRYPOINT ["/fleetwright"]
