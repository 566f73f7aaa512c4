// Package session is the dispatcher's side of sessions: it opens them at a worker, passes on
// what clients ask of them, copies them, and writes down how they end. Package live, beneath,
// is the worker's side.
//
// While a session lives its worker is the truth; the store has where it is and, afterwards,
// how it ended (Ends).
package session
