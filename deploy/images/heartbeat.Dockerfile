# Build from the repository's root: docker build -f deploy/images/heartbeat.Dockerfile --build-arg VERSION=$(git describe --always) .
FROM golang:1.26.8 AS build
WORKDIR /src
COPY . .
# What a control server tells its cloud, so that a mix of versions shows; the repository's history is not here to say it.
ARG VERSION
RUN cd services/heartbeat && GOWORK=off CGO_ENABLED=0 go build -trimpath \
    -ldflags="-s -X github.com/commandcenter/fleet/services/heartbeat.release=${VERSION}" -o /out/heartbeat ./cmd/heartbeat

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/heartbeat /heartbeat
USER 65532:65532
ENTRYPOINT ["/heartbeat"]
