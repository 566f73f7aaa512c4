// Package launcher contains the programs inside a sandbox that start jobs' programs. Package guest
// documents their protocol with the worker.
//
//   - Task (task_linux.go) is process 1 of isolation task. It forks a child for each program.
//   - Cell (cell_linux.go) is process 1 of isolation cell. It starts zygotes and creates a box for
//     each job: it prepares the system calls (box_linux.go) and forks a process that makes them.
//   - This process, the supervisor (supervise_linux.go), starts programs in the box until the
//     worker closes its slot.
//   - LimitWatches and Probe are small programs that the worker runs on the host.
//
// This is the only package with go:linkname, assembly, and forks outside of the Go runtime. After
// such a fork there is one thread, no scheduler and no garbage collector. Code there allocates
// nothing, does not grow its stack, and calls only the kernel. Each function is nosplit, so that
// the linker checks the depth of the stack.
//
// os/exec is not sufficient: the child has to stop between fork and execve while the worker puts it
// into its control group. Executing this program once more would start a Go runtime for each
// program, which costs more than all other steps together.
package launcher
