// Package schema is the tables themselves: the version that migrations bring them to, and
// the days that they are divided into, which are made ahead and dropped when they are over.
//
// It guards the tables from being changed by two at once, and those who use them from
// waiting for a change: whoever wants a table for himself gives up soon and tries again. A
// day is dropped when nothing of it is kept, not before.
//
// What cannot be changed now is job.ErrUnavailable, and nothing is half done: a migration
// and the making or dropping of a partition are a transaction each. If days are not made or
// dropped, reads get slower, and nothing else fails.
package schema
