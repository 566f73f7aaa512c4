// Package jetstream implements the queue with NATS: deliveries in a JetStream work queue, control
// messages as plain requests and responses. It is the only package that uses the NATS client.
//
// # Deliveries
//
// One stream, JOBS, holds one message for each dispatch:
//
//	jobs.<class>.<lane>.<job>.<generation>    no body; header traceparent
//
// The subject is the reference. The stream keeps one message per subject and rejects a second one,
// so a repeated publish is harmless while the first message is queued. After that the store's claim
// guard rejects the job. The subject includes the generation, because otherwise a retry would be
// rejected while the previous attempt's message is unacknowledged.
//
// Each class of jobs (package placement) has one durable pull consumer. The consumer of jobs for
// any pool is permanent; the server deletes a pool's consumer an hour after its last use.
// Dispatchers create stream and consumers on first use, and again after a deletion. The reaper then
// publishes the lost messages again, because the store is the source of truth. Workers do not use
// JetStream; dispatchers relay their pulls and receipts (relay.go).
//
// # Control
//
//	assay.req.<pool>.<worker>.<kind>    requests of a worker; queue group "dispatchers"
//	assay.to.<worker>.<kind>            to one worker: cancel, assign, session, key
//	assay.pool.<pool>.<kind>            to the workers of a pool: classes
//	assay.rest.<worker>.<…>             where a worker requests the rest of a frame
//	assay.ans.<worker>.<dispatcher>.<n> responses of a worker to a dispatcher
//	assay.wake.<topic>                  among dispatchers
//	assay.placed                        among dispatchers: the numbers of deliveries
//
// The subject identifies the sender. A server with authentication (see auth.go) lets each worker
// publish and subscribe under its own name only. A dispatcher seals its messages to one worker
// process (package seal).
//
// A body may be larger than a NATS message: see frame.go.
package jetstream
