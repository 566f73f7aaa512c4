// Package api is the HTTP contract: the OpenAPI document, the few wire types
// that are not nouns of package job, and the one table that maps errors to
// problem documents and back.
//
// internal/httpapi speaks it, pkg/client walks it backwards, and a test holds
// openapi.yaml against both.
package api

import _ "embed"

// OpenAPI is openapi.yaml as JSON; a test keeps the two the same.
//
//go:embed openapi.json
var OpenAPI []byte
