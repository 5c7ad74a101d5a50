// Package proto holds the contracts: the .proto files, and what is generated from them.
package proto

import _ "embed"

// OpenAPI is the operators' REST interface as an OpenAPI 3.1 document.
//
//go:embed gen/openapi/commandcenter.openapi.json
var OpenAPI []byte
