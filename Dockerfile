# The operator: a static binary and certificate authorities. The build pulls no image and runs no
# compiler: `make image` (tools/image.sh) puts the files for each architecture into the build
# context.
FROM scratch
ARG TARGETARCH
COPY linux-${TARGETARCH}/ /
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
