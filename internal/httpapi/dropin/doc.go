// Package dropin answers in the formats of other servers that run code, so that whoever calls those has to change
// nothing but an address: SandboxFusion, Piston and code-judge.
//
// It only translates: a request becomes a job (or, for notebooks, a session) under the tenant's policy named "drop-in",
// and its result an answer of the other server's. What those answers cannot say is never said with other words of
// theirs: a program that could not be run here, for whatever reason of ours, is not a program that failed. Such a
// request waits for its turn until its own time is over, and gets what the clients of that server send again after.
package dropin
