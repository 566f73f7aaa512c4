// Package postgres is the system of record on PostgreSQL (15 or newer). No other package imports pgx.
//
// A Store is one database and a part for each role over it, which only this package may import:
//
//	internal/pg         connections, calls, errors; conversion of values to columns
//	internal/schema     migrations, and days: made ahead, dropped when they are over
//	internal/format     the columns of jobs and results
//	internal/read       reads results, jobs, batches and the queue; changes nothing
//	internal/submit     accepts jobs and batches
//	internal/lifecycle  moves jobs from state to state
//	internal/registry   tenants, policies, secrets, workers, sessions, leaders, actions
//
// Imports point up in this list; submit, lifecycle and registry do not import each other. This package joins them: see
// Open and Reap.
//
// # Statements
//
// Each transition of the lifecycle is one guarded statement next to its one caller. The guard (state, generation,
// lease) is in its WHERE, so a late or repeated call changes nothing. All effects of the transition (counters, the
// result, an attempt) are in the same statement, so there is nothing to roll back by hand. Statements that end a job or
// an attempt share their second half, recordTail in internal/lifecycle/record.go.
//
// Bulk is the normal case: arguments are arrays, unnested in the order of job ids. All statements lock rows in one
// order (jobs by id, then batch counters by id), so two bulk statements cannot deadlock.
//
// # Durability
//
// synchronous_commit is on for all but the worker registry and the records of executions, whose callers hold the answer
// (ADR 0007). A submit and a result are promises. A claim issues a lease from a sequence, and a schedule issues a
// generation. With asynchronous commits, a crash could take back numbers that a worker or the queue has already seen
// and issue them again to another attempt, which would break the fence. A heartbeat lost in a crash would end a lease
// earlier than its worker expects. Concurrent commits share a flush, and bulk statements share a commit, so all of this
// costs little.
//
// # Plans
//
// Every statement is a handful of index lookups per row, independent of the statistics at its first planning; those of
// a new partition, or of one that has just grown by a million rows, are arbitrary. The shape is therefore pinned:
//
//   - Connections use generic plans, no sequential or bitmap scans, and nested loops only, and count touched rows as the price of a plan.
//   - A scan of live rows is ordered by the columns of the intended partial index, even where the order does not matter.
//   - A guard beside an id is written state || ” = …: no partial index fits it, so the row is found by its id. (On an empty partition they cost the same, and the plan outlives the emptiness.)
//
// TestPlans checks this.
//
// # Days
//
// A statement about history confines each of its partitioned tables to some days, by constants (pg.Days): the server
// locks every partition of a plan, and the locks of all sessions share one table of a fixed size.
// TestStatementsLockFewDays checks this. Statements of the queue use the live views instead (internal/schema).
package postgres
