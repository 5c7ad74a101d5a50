#!/usr/bin/env bash
# Generates proto/gen. Third-party proto sources come from the Go module cache at pinned versions, so none is copied into the repository.
set -euo pipefail
cd "$(dirname "$0")/.."
export GOWORK=off
module() { go mod download -json "$1" | sed -n 's/^\t"Dir": "\(.*\)",\?$/\1/p'; }
GOBIN="$PWD/.bin" go -C tools install tool
rm -rf .thirdparty
mkdir -p .thirdparty/google/api .thirdparty/buf/validate
gnostic=$(module github.com/google/gnostic@v0.7.1)
validate=$(module github.com/bufbuild/protovalidate@v1.2.2)
cp "$gnostic"/cmd/protoc-gen-openapi/examples/google/api/{annotations,http}.proto .thirdparty/google/api/
cp "$validate"/proto/protovalidate/buf/validate/validate.proto .thirdparty/buf/validate/
chmod -R u+w .thirdparty
.bin/buf lint proto
.bin/buf generate
# For callers in other languages, and for tools such as grpcurl; the OpenAPI document is made from it.
.bin/buf build proto --as-file-descriptor-set -o proto/gen/commandcenter.binpb
go -C services/operator-gateway run ./cmd/openapi -descriptors ../../proto/gen/commandcenter.binpb -out ../../proto/gen/openapi/commandcenter.openapi.json
