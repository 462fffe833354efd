# The operator: one static binary and certificate authorities, nothing else. No image is pulled, and no compiler runs here:
# `make image` (tools/image.sh) builds what is copied, for each architecture, into the build's context.
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
