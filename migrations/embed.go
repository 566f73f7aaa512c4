// Package migrations is the schema of the system of record, as numbered pairs:
// NNNN_name.up.sql and NNNN_name.down.sql. schema.sql is what they add up to; a
// test of pkg/store/postgres/internal/schema regenerates and compares it.
//
// A migration runs in one transaction with a lock timeout of a few seconds, so
// that a busy table makes it fail and be tried again rather than hold everybody
// up. One that cannot run in a transaction (CREATE INDEX CONCURRENTLY) starts
// with the line "-- no transaction" and holds a single statement.
//
// Programs of two versions run side by side while a fleet is upgraded, so a migration
// only expands: new columns have defaults or may be null, and nothing is renamed. What no
// program of the last version uses any more is taken away by a migration that says so in
// a line "-- contract: unused since NNNN", the number of the migration with which the last
// program that used it came to its end.
package migrations

import "embed"

// Files holds the pairs.
//
//go:embed *.up.sql *.down.sql
var Files embed.FS
