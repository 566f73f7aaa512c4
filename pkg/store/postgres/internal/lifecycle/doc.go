// Package lifecycle moves jobs from state to state: the scheduler's looks, claims, heartbeats, results, releases,
// requeues and cancels, and the leases of batches.
//
// It guards the states. Each move is one statement with its guard in WHERE, and all its effects are in the same
// statement (recordTail). A late or repeated call changes nothing, and an interrupted one has moved all of its jobs or
// none. A lease is current for one attempt of one worker. Rows are locked in the order of ids everywhere.
//
// If a caller's view is outdated, the answer shows it (lost, fenced, a claim without a lease); there is no error. Sweep
// completes the work of callers that died. Verify compares the counters of batches with their rows, and Repair corrects
// them.
package lifecycle
