// Package jetstream is the queue over NATS: deliveries in a JetStream work
// queue, control messages as plain request and reply. It is the only home of
// the NATS client.
//
// # Deliveries
//
// One stream, JOBS, holds one message for each dispatch:
//
//	jobs.<pool>.<lane>.<job>.<generation>    no body; header traceparent
//
// The subject is the reference. The stream keeps one message per subject and
// refuses a second one, so saying a publish again is harmless for as long as
// the first is queued; after that the claim guard of the store refuses it. The
// generation is part of the subject because a retry would otherwise be refused
// while the message of the attempt before it is still unacknowledged.
//
// Each pool has one durable pull consumer. Stream and consumers are made on
// first use and made again when they have been deleted: what was in them is
// published again by the reaper, for the store is the truth.
//
// # Control
//
//	assay.control.<kind>        request and reply, queue group "dispatchers"
//	assay.cancel.<worker>       to one worker
//	assay.assign.<worker>       request and reply, to one worker
//	assay.wake.<topic>          to every dispatcher
//
// A body may be larger than a NATS message: see frame.go.
package jetstream
