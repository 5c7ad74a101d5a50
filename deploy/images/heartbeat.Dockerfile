# Build from the repository's root: docker build -f deploy/images/heartbeat.Dockerfile .
FROM golang:1.26.8 AS build
WORKDIR /src
COPY . .
RUN cd services/heartbeat && GOWORK=off CGO_ENABLED=0 go build -trimpath -ldflags=-s -o /out/heartbeat ./cmd/heartbeat

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/heartbeat /heartbeat
USER 65532:65532
ENTRYPOINT ["/heartbeat"]
