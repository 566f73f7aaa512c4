// Package tracee holds processes with ptrace from their birth on, has them make system calls
// before their first own instruction, and lets them go: the way on which what a tenant's
// interpreter forks gets into a sandbox of its own.
//
// There are two kinds. A Copy is of an interpreter that runs, as those of sessions do. A Frozen
// is an interpreter that has imported modules and never runs again; programs are forked from it.
//
// No instruction of a held process runs but those that are injected, and no signal is delivered
// to it. Its seccomp filters are suspended, and it dies with the thread that holds it. What is
// held may end at any time all the same, by a kill from what shares its sandbox: every call
// returns an error then, and what was half made is ended. A process that dies while it forks
// leaves one of which nobody was told; the holder looks for such strays whenever a call failed.
//
// It knows the registers of amd64; elsewhere Supported is false and everything fails.
package tracee
