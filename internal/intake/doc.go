// Package intake takes jobs in: it admits what a client sent (package admit), holds it to
// how much its tenant may have, stores it, and hands a job that came by itself to a worker
// or to the queue.
//
// Whatever is returned without an error is accepted and durable. Of a batch everything is
// accepted or nothing.
package intake
