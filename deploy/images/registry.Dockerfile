# Build from the repository's root: docker build -f deploy/images/registry.Dockerfile .
FROM golang:1.26.8 AS build
WORKDIR /src
COPY . .
RUN cd services/registry && GOWORK=off CGO_ENABLED=0 go build -trimpath -ldflags=-s -o /out/registry ./cmd/registry

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/registry /registry
USER 65532:65532
ENTRYPOINT ["/registry"]
