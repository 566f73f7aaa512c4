// Package pg is one PostgreSQL database as the packages beside it use it: its connections,
// calls over them, and what its columns take for values of ours.
//
// It guards the connections. All have the settings that the plans of statements depend on,
// none is shared with others by a pooler, none leads to a server that takes no writes, and a
// part of them is left to what a fleet stops without. A database with another history than
// before leaves a gap in the leases before anything else is said on a connection.
//
// A call has a deadline. It fails with job.ErrUnavailable if it could not be made or was
// broken off, and then it may have been made all the same; what was rolled back for no fault
// of its own is tried again. Every other error of the server has its meaning in errors.go.
package pg
