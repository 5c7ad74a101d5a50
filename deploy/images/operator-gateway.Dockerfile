# Build from the repository's root: docker build -f deploy/images/operator-gateway.Dockerfile .
FROM golang:1.26.8 AS build
WORKDIR /src
COPY . .
RUN cd services/operator-gateway && GOWORK=off CGO_ENABLED=0 go build -trimpath -ldflags=-s -o /out/operator-gateway ./cmd/operator-gateway

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/operator-gateway /operator-gateway
USER 65532:65532
ENTRYPOINT ["/operator-gateway"]
