// Package compile has programs compiled in sandboxes, and keeps what comes of it, so that the same source is not
// compiled again.
//
// What a compiler yields is data of whoever wrote the program. It is read out of the sandbox without following links,
// lies on this host's disk under names of ours, beneath a directory that no sandbox sees, is never executed here, and is
// found by jobs of the same tenant alone: the key is the hash of tenant, image digest, language, arguments, environment,
// isolation, limits, and each source with its path. docs/adr/0032 has the reasons.
//
// What a compiler refuses is kept, too, if it said so itself, by its exit code. A compilation that ran into a limit is
// told to those who wait for it and not kept; a failure of ours is nobody else's.
package compile
