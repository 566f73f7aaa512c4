// Package sandbox runs one program in a place under limits and reports how it ended.
//
// A Place is the resources of the program: an image, writable directories (Scratch), a control
// group. A Box starts and kills processes: a slot's container, or a box of a cell. An Attempt runs
// a job in them. It sets the limits, writes the inputs, starts the proxy, runs the program or its
// steps, measures their usage, and collects the artifacts. Every process of a job becomes its
// program in door.go, and nowhere else.
//
// It requires root and Linux: tmpfs, control groups, the kernel's socket diagnostics. It does not
// depend on containerd. The program's failures are outcomes in the report. Errors are ours, and
// wrap runtime.ErrBroken if the sandbox itself failed.
package sandbox
