// Package filter says which system calls the programs of sandboxes may make.
//
// Everything begins with the engine's default profile, less what is counted for the whole host
// (engine.go). A program's own is tighter where its policy asks for that: strict.txt is the list then. A
// cell may make boxes besides, which each job in it is refused again.
//
// It compiles with package seccomp and needs no cgo. A policy that does not compile is an error of the
// job's policy; a machine whose architecture nobody knows has no cells.
package filter
