#!/usr/bin/env bash
# Generates proto/gen. Third-party proto sources come from the Go module cache at pinned versions, so none is copied into the repository.
set -euo pipefail
cd "$(dirname "$0")/.."
export GOWORK=off
module() { go mod download -json "$1" | sed -n 's/^\t"Dir": "\(.*\)",\?$/\1/p'; }
GOBIN="$PWD/.bin" go -C tools install tool
rm -rf .thirdparty
mkdir -p .thirdparty/google/api .thirdparty/buf/validate .thirdparty/protoc-gen-openapiv2/options
gnostic=$(module github.com/google/gnostic@v0.7.1)
validate=$(module github.com/bufbuild/protovalidate@v1.2.2)
gateway=$(module github.com/grpc-ecosystem/grpc-gateway/v2@v2.33.0)
cp "$gnostic"/cmd/protoc-gen-openapi/examples/google/api/{annotations,http}.proto .thirdparty/google/api/
cp "$validate"/proto/protovalidate/buf/validate/validate.proto .thirdparty/buf/validate/
cp "$gateway"/protoc-gen-openapiv2/options/*.proto .thirdparty/protoc-gen-openapiv2/options/
chmod -R u+w .thirdparty
.bin/buf lint proto
.bin/buf generate
