// Package api is the HTTP contract: the OpenAPI document, the wire types that are not nouns of
// package job, and the table that maps errors to problem documents and back.
//
// internal/dispatcher/httpapi implements it and pkg/client calls it. Tests compare openapi.yaml with both.
package api

import _ "embed"

// Document is the OpenAPI document, in YAML. Package openapi below converts it to JSON.
//
//go:embed openapi.yaml
var Document string

// Examples has an example of each operation's request and answer, by operationId, in JSON.
//
//go:embed examples.json
var Examples string
