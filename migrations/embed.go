// Package migrations is the schema of the system of record, as numbered pairs:
// NNNN_name.up.sql and NNNN_name.down.sql. schema.sql is the resulting schema. A test
// of pkg/store/postgres/internal/schema regenerates and compares it.
//
// A migration runs in one transaction with a lock timeout of a few seconds. On a busy table it
// fails and is retried, instead of blocking other transactions. A migration that cannot run in a
// transaction (CREATE INDEX CONCURRENTLY) starts with the line "-- no transaction" and has a single
// statement.
//
// Programs of two versions run side by side during an upgrade, so a migration only expands: new
// columns have defaults or may be null, and nothing is renamed. A migration that drops a column or
// table has a line "-- contract: unused since NNNN". NNNN is the first migration after the programs
// stopped using it.
package migrations

import "embed"

// Files holds the pairs.
//
//go:embed *.up.sql *.down.sql
var Files embed.FS
