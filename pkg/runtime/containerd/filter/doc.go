// Package filter defines the system calls that programs in sandboxes may make.
//
// The base is the engine's default profile without calls that use host-wide resources (engine.go).
// A program's policy may restrict it to the list in strict.txt. A cell may also set up boxes, which
// is forbidden again for each job in it.
//
// Compile turns a profile in the OCI format into the kernel's program. A container runtime does the
// same with libseccomp for every container, which takes an eighth of its start. This package compiles
// once, and the guest installs the result in each program just before its start. If a policy does not
// compile, that is an error of the job's policy. A machine with an unknown architecture has no cells.
package filter
