# Build from the repository's root: docker build -f deploy/images/availability.Dockerfile .
FROM golang:1.26.8 AS build
WORKDIR /src
COPY . .
RUN cd services/availability && GOWORK=off CGO_ENABLED=0 go build -trimpath -ldflags=-s -o /out/availability ./cmd/availability

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/availability /availability
USER 65532:65532
ENTRYPOINT ["/availability"]
