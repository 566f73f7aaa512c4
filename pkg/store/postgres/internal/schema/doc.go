// Package schema is the tables: the version to which migrations bring them, and their division into days, which it
// makes ahead and drops when they are over.
//
// It guards tables from concurrent changes, and their users from waiting for a change: a change that needs a table
// exclusively soon gives up and tries again. It drops a day only when nothing of that day is kept.
//
// Changes that cannot be made now return job.ErrUnavailable, and nothing is half done: each migration and each making
// or dropping of a partition is a transaction. If days are not made or dropped, only reads get slower.
package schema
