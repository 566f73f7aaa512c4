// Package containerd makes the sandboxes in which attempts run, with containerd. It and the packages beneath it,
// engine and image most of all, are the only homes of the containerd client, and work with servers from 1.6 on.
// Containers that many jobs share are in package cell; what happens to a program in a sandbox is in package sandbox.
//
// Every isolation has slots: a slot is ready for one attempt, which takes it, and is removed with it. An image's
// root file system is mounted read-only once and shared by all its sandboxes, so that a slot costs no snapshot.
//
//	isolation  a slot is                                 kernel          what makes it
//	---------  ----------------------------------------  --------------  ----------------------------------------
//	cell       a box (namespaces, root, control group)   the host's      the launcher of a container that all jobs
//	           in a shared container                                     of one tenant and image have (package cell)
//	task       a container                               the host's      runc (slot.go)
//	gvisor     a container                               runsc's own     the shim of runc, told to run runsc (level.go)
//	vm         a container                               the machine's   the handler that Config.VMRuntime names
//
// The container of a slot is already running, its guest (see package internal/guest) connected and waiting; the limits
// of the job are written to its control group when it takes the slot. In a cell the launcher is asked for boxes instead,
// and Python programs are forked from a zygote (zygote.py). On a kernel of its own a program is no process of this host:
// limits of memory, CPU and time are those of the container's group, all others are that kernel's (level.foreign).
//
// What there is, and what removes it after a crash:
//
//	thing                                      removed by
//	-----------------------------------------  -----------------------------------
//	container and task, labelled assay.dev/…   the sweep, which lists the labels
//	a guest or a launcher, and all below it    the end of the worker's connection
//	control groups below /assay-<instance>     the sweep, by path
//	mounts and files below <state>/run         the sweep: of slots and cells
//
// Here are the runtime and its configuration (runtime.go, config.go), slots with a container of their own (slot.go,
// pool.go, interpreter.go), what runs those (level.go), what is in every sandbox (guest.go), environments as package
// environment builds them in such slots (environments.go), the sweep (sweep.go) and the self-test (canary.go).
//
// An instance is one state directory: at most one Runtime uses it at a time.
package containerd
