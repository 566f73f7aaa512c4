// Package sandbox runs one program in a place, under limits, and says how that ended.
//
// A Place is what the program is given: an image, writable directories (Scratch), a control group. A Box
// is what starts and kills processes there: a container of a slot, or a box of a cell. An Attempt brings
// a job to them: it sets the limits, writes the inputs, opens the way out, runs the program or its steps,
// watches what it uses, and hands out what it left. Everything that belongs to a job becomes its program
// in door.go, and nowhere else.
//
// It needs root and Linux: tmpfs, control groups, the socket diagnostics of the kernel. It knows nothing
// of containerd. What is the program's fault is an outcome in the report; an error is ours, and wraps
// runtime.ErrBroken where the sandbox itself failed.
package sandbox
