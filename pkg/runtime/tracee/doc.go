// Package tracee holds processes with ptrace from their creation. It makes them execute system
// calls before their first own instruction, and resumes them. This moves forks of a tenant's
// interpreter into separate sandboxes.
//
// There are two kinds. A Copy is a fork of a running interpreter, such as a session's. A Frozen is
// an interpreter with imported modules that never runs again; programs are forked from it.
//
// A held process executes only injected instructions and receives no signals. Its seccomp filters
// are suspended, and it dies with the thread that holds it. It may still be killed at any time by a
// process in its sandbox. Then every call returns an error, and incomplete processes are ended. A
// process that dies during a fork leaves an unreported child. The holder looks for such strays
// after each failed call.
//
// It supports the registers of amd64. On other machines Supported is false and everything fails.
package tracee
