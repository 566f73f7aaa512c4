// Package job is the language of Assay: the nouns that all packages share, the states of a job, and
// the errors that callers can match.
//
// It imports the standard library only.
//
//	word         meaning
//	-----------  ----------------------------------------------------------------
//	Spec         a client's request: one program, its inputs, its policy
//	Job          an accepted Spec: it has an ID, a State and, at the end, a Result
//	Batch        jobs that were submitted together
//	Program      a command, a python snippet, or graded tests
//	Attempt      one try at a job, by one worker, under one Lease
//	Lease        a fencing token from an increasing sequence, for every write of an attempt
//	Generation   a counter of how often a job was sent to the queue
//	State        a job's state in its lifecycle (see docs/states.md)
//	Outcome      how its program ended, as data
//	Result       the durable record of a finished job
//	Enforcement  for one capability: requested, applied, and the mechanism
//	Artifact     a file of a job, under an object path
//
// A failure of the program is data, a failure of Assay is an error. A program that crashes yields a
// Result with an Outcome; a returned error always means that Assay failed.
//
// The JSON names of these types are the public contract. There is no second set of wire types
// (docs/adr/0001).
package job
