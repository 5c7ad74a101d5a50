// Package proto holds the contracts: the .proto files, and what is generated from them.
package proto

import _ "embed"

// OpenAPI is the REST interface as an OpenAPI 2 document.
//
//go:embed gen/openapi/commandcenter.swagger.json
var OpenAPI []byte
