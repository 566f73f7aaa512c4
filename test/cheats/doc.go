// Package cheats holds attempts to forge a pass, and the tests that none of them
// succeeds: each file in attempts is a solution that wants to be graded as right
// without knowing an answer. Expected values are drawn anew in each run.
package cheats
