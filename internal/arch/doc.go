// Package arch is the shape of the program, as a test: which package may import
// which, and which technology lives where.
//
// table_test.go says it for our own packages, rules_test.go for everybody
// else's. Arrows point inward: cmd → internal → pkg/<idea> → pkg/job. A new
// package is added to the table, with what it may import, by whoever adds it.
package arch
