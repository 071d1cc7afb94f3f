# syntax=docker/dockerfile:1
# The image holds one static binary and nothing else: no shell, no package manager, no root. It writes to no file, so
# it runs with a read-only root.
FROM --platform=$BUILDPLATFORM golang:1.26-bookworm AS build
ARG TARGETOS
ARG TARGETARCH
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
# With .git, so that the binary knows its own version.
COPY . .
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -o /oncegate ./cmd/oncegate

FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /oncegate /oncegate
USER nonroot:nonroot
# Public deliveries; the private listener is on 8081 and by default on the loopback interface only.
EXPOSE 8080
ENTRYPOINT ["/oncegate"]
CMD ["serve"]
