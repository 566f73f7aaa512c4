// Package jetstream is the queue over NATS: deliveries in a JetStream work
// queue, control messages as plain request and reply. It is the only home of
// the NATS client.
//
// # Deliveries
//
// One stream, JOBS, holds one message for each dispatch:
//
//	jobs.<class>.<lane>.<job>.<generation>    no body; header traceparent
//
// The subject is the reference. The stream keeps one message per subject and
// refuses a second one, so saying a publish again is harmless for as long as
// the first is queued; after that the claim guard of the store refuses it. The
// generation is part of the subject because a retry would otherwise be refused
// while the message of the attempt before it is still unacknowledged.
//
// Each class of jobs (package placement) has one durable pull consumer: that of jobs that
// any pool may run is for ever, those of a pool go an hour after it has gone.
// Dispatchers make stream and consumers on first use, and again when they have been
// deleted: what was in them is published again by the reaper, for the store is the
// truth. Workers ask JetStream
// for nothing; dispatchers pass on their pulls and receipts (relay.go).
//
// # Control
//
//	assay.req.<pool>.<worker>.<kind>    what a worker says; queue group "dispatchers"
//	assay.to.<worker>.<kind>            to one worker: cancel, assign, session, key
//	assay.pool.<pool>.<kind>            to the workers of a pool: classes
//	assay.rest.<worker>.<…>             where a worker asks for more of what it is told
//	assay.ans.<worker>.<dispatcher>.<n> where a worker answers a dispatcher
//	assay.wake.<topic>                  among dispatchers
//	assay.placed                        among dispatchers: which delivery has which number
//
// Who says something is read from the subject. A server that knows its workers (see
// auth.go) lets each publish and listen under its own name only. What a dispatcher
// says to one worker is sealed to that process (package seal).
//
// A body may be larger than a NATS message: see frame.go.
package jetstream
