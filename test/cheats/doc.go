// Package cheats holds attempts to forge a pass, and tests that all of them fail. Each file in
// attempts is a solution that tries to be graded as right without an answer. Expected values are
// drawn anew in each run.
package cheats
