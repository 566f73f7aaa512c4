// Package fleet is what a dispatcher knows of the workers: which are connected, what each can
// run and enforce, how much room it has, and which may take nothing for now. Everything that
// has to do with that asks here, so that there is one answer: the scheduler for its windows,
// admission for what can be enforced, and whoever chooses a worker (Choose, Ranked).
//
// What is known comes from two sources: heartbeats that arrive at this dispatcher count at
// once; those that arrive at others come through the store, every few seconds (Run).
package fleet

import "time"

const (
	// Connected is how long after its last heartbeat a worker counts as connected: six
	// heartbeats, for windows, admission, people, and its sessions, which are lost after it.
	Connected = 30 * time.Second
	// HoldSessions is how long a worker holds sessions, unless leases are shorter, after it sent
	// the last heartbeat that was answered. It is less than Connected: a session ends before it
	// may be recorded as lost.
	HoldSessions = 25 * time.Second
	// Remembered is for how long a pool is one after its last worker, even if the
	// configuration does not name it.
	Remembered = 24 * time.Hour
)
