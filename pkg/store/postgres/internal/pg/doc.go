// Package pg is one PostgreSQL database for the packages beside it: its connections, calls over them, and the
// conversion of our values to columns.
//
// It guards the connections. All have the settings on which the plans of statements depend. No pooler shares one with
// other clients, and none leads to a server that takes no writes. A part of them is reserved for the calls without
// which a fleet stops. If a connection finds that the database has another history than before, it leaves a gap in the
// leases before any other statement.
//
// A call has a deadline. It fails with job.ErrUnavailable if it could not be made or was interrupted; an interrupted
// call may have taken effect. It retries transactions that the server rolled back through no fault of theirs. errors.go
// translates every other error of the server.
package pg
