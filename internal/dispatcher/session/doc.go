// Package session is the dispatcher's side of sessions: it opens and forks them on workers,
// forwards clients' requests, and records their ends. Package live, beneath, is the worker's side.
//
// While a session is live, its worker is the source of truth. The store has its location and later
// its end (Ends).
package session
