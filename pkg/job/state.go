package job

import "slices"

// State is a job's state in its lifecycle. Outcome is how its program ended.
type State string

// The states. Finished and Canceled are terminal.
const (
	Queued     State = "queued"     // accepted; waits for the scheduler
	Dispatched State = "dispatched" // sent to the queue; waits for a worker
	Running    State = "running"    // claimed by a worker under a lease
	Finished   State = "finished"   // recorded, with an outcome
	Canceled   State = "canceled"   // recorded; does not run (again)
)

// Move is one allowed change of state.
type Move struct {
	From, To State
	Why      string // the cause
}

// InitialStates lists the first states of a job, as moves from the empty state.
var InitialStates = []Move{
	{"", Queued, "accepted"},
	{"", Dispatched, "accepted by itself, with nothing ahead of it"},
	{"", Running, "accepted by itself, with nothing ahead of it, and assigned: a worker with room got a lease"},
}

// Moves is the lifecycle: every allowed change of state. The schema's guards, docs/states.md and
// the state-machine tests derive from it.
var Moves = []Move{
	{Queued, Dispatched, "scheduled: picked, generation + 1"},
	{Queued, Running, "assigned: a single job, past the jobs of one other tenant: a worker with room got a lease"},
	{Queued, Finished, "expired before it was scheduled"},
	{Queued, Canceled, "canceled"},
	{Dispatched, Running, "claimed: a worker got a lease"},
	{Dispatched, Queued, "returned: no worker claimed it in time"},
	{Dispatched, Finished, "expired before it was claimed, or answered from the cache"},
	{Dispatched, Canceled, "canceled"},
	{Running, Finished, "recorded under its lease, or given up on after its last attempt"},
	{Running, Queued, "lease lost, handed back, never taken, or retried"},
	{Running, Canceled, "canceled, recorded under its lease"},
}

// States lists every state in lifecycle order.
var States = []State{Queued, Dispatched, Running, Finished, Canceled}

// Valid reports whether s is one of States.
func (s State) Valid() bool { return slices.Contains(States, s) }

// Terminal reports whether a job in s will never change again.
func (s State) Terminal() bool { return s == Finished || s == Canceled }

// CanMove reports whether the lifecycle allows from → to.
func CanMove(from, to State) bool {
	return slices.ContainsFunc(Moves, func(m Move) bool { return m.From == from && m.To == to })
}
