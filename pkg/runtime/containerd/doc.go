// Package containerd creates the sandboxes of attempts with containerd. Only this package and its
// subpackages, mainly engine and image, use the containerd client. They support servers since 1.6.
// Package cell manages containers for many jobs, and package sandbox runs the programs in a
// sandbox.
//
// Every isolation has slots. A slot is ready for one attempt and is removed with it. An image's
// root file system is mounted read-only once and shared by all its sandboxes, so that a slot costs
// no snapshot.
//
//	isolation  a slot is                                 kernel          created by
//	---------  ----------------------------------------  --------------  ----------------------------------------
//	cell       a box (namespaces, root, control group)   the host's      the launcher of a container for all jobs
//	           in a shared container                                     of one tenant and image (package cell)
//	task       a container                               the host's      runc (slot.go)
//	gvisor     a container                               runsc's own     the shim of runc with runsc (level.go)
//	vm         a container                               the machine's   the handler in Config.VMRuntime
//
// The container of a slot is already running, with its guest (see package internal/guest) connected
// and waiting. The job's limits are written to its control group when the job takes the slot. In a
// cell the launcher creates boxes instead, and Python programs are forked from a zygote
// (zygote.py). With a separate kernel a program is not a process of this host. Then the container's
// group limits memory, CPU and time, and the separate kernel enforces all other limits
// (level.foreign).
//
// Resources, and their clean-up after a crash:
//
//	resource                                   removed by
//	-----------------------------------------  -----------------------------------
//	container and task, labelled assay.dev/…   the sweep, by label
//	a guest or a launcher, and all below it    the end of the worker's connection
//	control groups below /assay-<instance>     the sweep, by path
//	mounts and files below <state>/run         the sweep: of slots and cells
//
// This package contains:
//
//   - the runtime and its configuration (runtime.go, config.go)
//   - slots with a container (slot.go, pool.go, interpreter.go) and their engines (level.go)
//   - the common files of sandboxes (guest.go)
//   - environments, which package environment builds in such slots (environments.go)
//   - the sweep (sweep.go) and the self-test (canary.go)
//
// An instance is one state directory: at most one Runtime uses it at a time.
package containerd
