// Package arch tests the structure of the program: which package may import which, and where each
// technology is used.
//
// table_test.go has the rules for our own packages, rules_test.go those for other packages. Imports
// point inward: cmd → internal → pkg/<idea> → pkg/job. A new package needs an entry in the table
// with its allowed imports.
package arch
