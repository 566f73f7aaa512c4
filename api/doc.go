// Package api is the HTTP contract: the OpenAPI document, the wire types that are not nouns of
// package job, and the table that maps errors to problem documents and back.
//
// internal/httpapi implements it and pkg/client calls it. A test compares openapi.yaml with both.
package api

import _ "embed"

// OpenAPI is openapi.yaml as JSON. A test compares the two.
//
//go:embed openapi.json
var OpenAPI []byte
