// Package conformance tests every kind of program against every limit at every level of isolation,
// over the API of a running fleet. It checks that the record is true.
//
// The table has three dimensions: programs, limits and levels. In each of its cells, one program
// exceeds the limit, and the test checks two things. The limit was enforced: by the outcome and the
// measurements. The enforcement report is true, with its mechanism and level. Another program stays
// within the limit and succeeds. The table has a reason for each cell without meaning. For limits
// that are not enforced for a kind of program, a strict policy must be refused with the field
// named, and the report of a lenient policy must have the level none.
//
// make conformance runs all cells. make test runs a few that rotate with the hour:
// -conformance.turn repeats a choice.
package conformance
