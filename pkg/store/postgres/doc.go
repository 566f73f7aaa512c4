// Package postgres is the system of record on PostgreSQL (15 or newer). It is
// the only home of pgx.
//
// A Store is one database and a part for each role over it, which nobody else
// may import:
//
//	internal/pg         connections, calls, errors; what columns take for values
//	internal/schema     migrations, and days: made ahead, dropped when they are over
//	internal/format     how jobs and results are written into columns
//	internal/read       results, jobs, batches, the queue; changes nothing
//	internal/submit     jobs and batches, accepted
//	internal/lifecycle  every move of a job from state to state
//	internal/registry   tenants, policies, secrets, workers, sessions, leaders, actions
//
// Arrows point up in this list; submit, lifecycle and registry do not know of each
// other. What joins them is here: Open and Reap.
//
// # Statements
//
// Each transition of the lifecycle is one guarded statement that stands next to
// its one caller: the guard (state, generation, lease) is in its WHERE, so that a
// late or doubled call changes nothing, and everything that follows from the
// transition (counters, the result, an attempt) is in the same statement, so
// that there is nothing to roll back by hand. Those that end a job or an attempt
// share their second half, recordTail in internal/lifecycle/record.go.
//
// Bulk is the normal case: arguments are arrays, unnested in the order of job
// ids. Rows are therefore locked in one order everywhere (jobs by id, then batch
// counters by id), which is what keeps two bulk statements from deadlocking.
//
// # Durability
//
// synchronous_commit is on for all but the worker registry and the records of
// executes, whose callers hold the answer (ADR 0007). A submit and a
// result are promises. A claim issues a lease from a sequence and a schedule a
// generation: were those commits asynchronous, a crash could take back numbers
// that a worker or the queue has already seen and issue them again, to another
// attempt; the fence would have a hole. A heartbeat lost in a crash would let a
// lease end earlier than its worker was told. Commits of one moment share a
// flush, and bulk statements share a commit, so all of this costs little.
//
// # Plans
//
// Every statement is a handful of index lookups per row, whatever the statistics
// say at the moment it is first planned; a partition that has just been made, or
// has just grown a million rows, says anything. The shape is therefore pinned:
//
//   - Connections use generic plans, no sequential or bitmap scans, and nested
//     loops only, and count touched rows as the price of a plan.
//   - A scan of live rows is ordered by the columns of the partial index that is
//     meant, even where the order does not matter.
//   - A guard beside an id says state || ” = …: so no partial index fits it, and the
//     row is found by its id. (On an empty partition they cost the same, and the
//     plan outlives the emptiness.)
//
// TestPlans holds them to it.
//
// # Days
//
// A statement about history confines each of its partitioned tables to some days, by
// constants (pg.Days): the server locks every partition that a plan has, and the
// locks of all sessions are in one table of a fixed size. TestStatementsLockFewDays holds
// them to it. Statements of the queue have the live views for that (internal/schema).
package postgres
