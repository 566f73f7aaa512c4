// Package lifecycle moves jobs from state to state: the scheduler's looks, claims,
// heartbeats, results, what is given back, requeued and canceled, and the leases of batches.
//
// It guards the states. Each move is one statement with its guard in WHERE, and what follows
// from it is in the same statement (recordTail), so a late or doubled call changes nothing
// and a broken one has moved all of its jobs or none. A lease is current for one attempt of
// one worker. Rows are locked in the order of ids everywhere.
//
// A caller whose belief is not true any more is told so in the answer (lost, fenced, a claim
// without a lease), not by an error. What callers leave undone when they die, Sweep does;
// Verify holds the counters of batches against their rows, and Repair corrects them.
package lifecycle
