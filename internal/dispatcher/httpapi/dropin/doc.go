// Package dropin serves the APIs of other code execution servers: SandboxFusion, Piston and code-judge. Their clients
// only have to change the address.
//
// It only translates. A request becomes a job, or a session for notebooks, under the tenant's policy named "drop-in".
// Its result becomes a response of the other server. Failures of this system are never reported as failures of a
// program. Such a request waits for its turn until its time has passed, and then gets a response after which the
// server's clients retry.
package dropin
