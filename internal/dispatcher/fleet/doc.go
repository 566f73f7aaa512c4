// Package fleet is a dispatcher's view of the connected workers: their pools, offers, isolations and free slots. The
// scheduler, admission and the choice of a worker (Choose, Ranked) all use it.
//
// Heartbeats that arrive at this dispatcher count at once. Heartbeats that arrive at others are read from the store
// every few seconds (Run).
package fleet

import "time"

const (
	// Connected is how long after its last heartbeat a worker counts as connected, which is six heartbeats. After it
	// the worker's sessions are lost.
	Connected = 30 * time.Second
	// HoldSessions is how long a worker holds sessions after it sent the last answered heartbeat, unless leases are
	// shorter. It is less than Connected, so that a session ends before it is recorded as lost.
	HoldSessions = 25 * time.Second
	// Remembered is how long a pool that is not configured exists after its last worker.
	Remembered = 24 * time.Hour
)
