// Package launcher is the programs inside a sandbox that start other people's
// programs; package guest documents what they exchange with the worker.
//
//   - Task (task_linux.go) is process 1 of isolation task. It forks a child for
//     each program.
//   - Cell (cell_linux.go) is process 1 of isolation cell. It starts zygotes, and
//     makes a box for each job: it prepares the system calls of that (box_linux.go)
//     and forks a process that makes them.
//   - That process, the supervisor (supervise_linux.go), then starts programs in the
//     box until the worker closes its slot.
//   - LimitWatches and Probe are small programs that the worker runs on the host.
//
// This is the only home of go:linkname, of assembly, and of forks that the Go
// runtime does not know of: after such a fork there is one thread, no scheduler and
// no garbage collector. What runs there allocates nothing, does not grow its stack
// (each function is nosplit, so the linker knows how deep they go), and calls
// nothing but the kernel. Why not os/exec: the child has to stop between fork and
// execve while the worker puts it into its control group, and to execute ourselves
// once more would start a Go runtime for each program, which costs more than
// everything else here.
package launcher
