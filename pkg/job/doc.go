// Package job is the language of Assay: the nouns that every other package
// shares, the states a job passes through, and the errors they can all name.
//
// It imports the standard library only, and none of its siblings.
//
//	word         meaning
//	-----------  ----------------------------------------------------------------
//	Spec         what a client asks for: one program, its inputs, its policy
//	Job          an accepted Spec: it has an ID, a State and, at the end, a Result
//	Batch        jobs that were submitted together
//	Program      what to run: a command, a python snippet, or graded tests
//	Attempt      one try at a job, by one worker, under one Lease
//	Lease        a number that only grows; it fences every write of an attempt
//	Generation   a number that grows each time a job is handed to the queue
//	State        where a job is in its lifecycle (see docs/states.md)
//	Outcome      how its program ended: data, never an error of ours
//	Result       the one durable record of a finished job
//	Enforcement  for one capability: asked, applied, by which mechanism
//	Artifact     a file a job leaves behind, under an object path
//
// Their failure is data, ours is an error: a program that crashes yields a
// Result with an Outcome; an error return always means that Assay failed.
//
// The JSON names on these types are the public contract. They are kept here,
// once, rather than mirrored in a second set of wire types (docs/adr/0001).
package job
