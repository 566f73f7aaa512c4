// Package conformance holds every kind of program to every limit behind every kind of wall, over the API of a running
// fleet: what the record says is so.
//
// The table has three dimensions: programs, limits and levels. In each of its cells a program goes beyond the limit, and
// it is seen that it was held (how it ended, what was measured of it) and that the report of the enforcement says so,
// with the mechanism and the level that are true; and one that stays within it succeeds. Where a cell has no meaning the
// table has the reason. What is not enforced for a kind of program is tested as that: a strict policy that asks for it
// is refused and the field named, and the report of a lenient one says none.
//
// make conformance runs all cells. make test runs a few that rotate with the hour: -conformance.turn repeats a choice.
package conformance
