# syntax=docker/dockerfile:1
# The images of the fleet, for a container engine and a registry; without these: make images.
#
#   make image && docker build --target dispatcher -t assay-dispatcher . && docker build --target worker -t assay-worker .
#
# BASE and GO may be any Debian with apt and these programs, such as the base that make images builds of Debian's packages
# and that an engine loads from .cache/fleet/base.tar.
ARG BASE=debian:12-slim
ARG GO=golang:1.26-bookworm

FROM ${GO} AS build
WORKDIR /src
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev libseccomp-dev pkg-config
COPY go.mod go.sum ./
RUN go mod download
COPY scripts/containerd scripts/runsc scripts/
RUN scripts/containerd && scripts/runsc
COPY . .
ARG VERSION=devel
RUN CGO_ENABLED=0 go build -trimpath -ldflags="-s -w -X github.com/assay-run/assay/internal/version.release=${VERSION}" \
    -o /out/ ./cmd/dispatcher ./cmd/worker ./cmd/guest ./cmd/assay

FROM ${BASE} AS base
RUN test -e /etc/ssl/certs/ca-certificates.crt || \
    { apt-get update && apt-get install -y --no-install-recommends ca-certificates tzdata && rm -rf /var/lib/apt/lists/*; }

FROM base AS worker
COPY --from=build /src/.cache/containerd/containerd /src/.cache/containerd/containerd-shim-runc-v2 \
    /src/.cache/containerd/ctr /src/.cache/containerd/runc /src/.cache/bin/runsc /usr/local/bin/
COPY .cache/images/python.tar /usr/local/share/assay/python.tar
COPY --from=build /out/worker /out/guest /out/assay /usr/local/bin/
ENV ASSAY_CONTAINERD_ADDRESS=own ASSAY_STATE_DIR=/var/lib/assay ASSAY_ENVIRONMENTS=/var/lib/assay/environments \
    ASSAY_METRICS_LISTEN=:9092
VOLUME /var/lib/assay
EXPOSE 9092
ARG VERSION=devel
LABEL org.opencontainers.image.title="assay worker" org.opencontainers.image.version=${VERSION}
CMD ["worker"]

FROM base AS dispatcher
COPY --from=build /out/dispatcher /usr/local/bin/
USER 65532:65532
ENV ASSAY_LISTEN=:8080
VOLUME /tmp
EXPOSE 8080
ARG VERSION=devel
LABEL org.opencontainers.image.title="assay dispatcher" org.opencontainers.image.version=${VERSION}
CMD ["dispatcher"]
