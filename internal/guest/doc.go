// Package guest is the protocol between the worker and the programs that start jobs' programs
// inside a sandbox. The latter are in package launcher and in guest/python; they come from the same
// build as the worker.
//
// Two isolations have a guest: task, a container for each job, and cell, a container for all jobs
// of one tenant and image. The worker trusts no message from inside a sandbox more than the job
// itself.
//
// # Isolation task: the connection
//
// The guest is process 1 of a task: uid 0 of the task's user namespace, which is an unprivileged
// user on the host. It holds the five capabilities that starting a program as another user
// requires. No other process in the sandbox has capabilities.
//
// The worker listens on a unix socket in a directory that only the guest's uid may enter. It binds
// this directory into the sandbox and starts the guest. The guest connects once; then the worker
// stops listening and unlinks the socket. When the connection ends for any reason, the guest exits
// and the kernel kills its pid namespace. So a sandbox never outlives its worker.
//
// Messages are frames: the length of the body in four bytes, most significant first, then the body,
// one JSON object of at most MaxFrame bytes. File descriptors travel as SCM_RIGHTS with the first
// byte of their frame.
//
//	direction         frame  descriptors           meaning
//	----------------  -----  --------------------  ------------------------------------------
//	guest  → worker   Hello                        connected and waiting
//	worker → guest    Start  gate, 0, 1, 2, 3, …   start a program; its descriptors in order
//	guest  → worker   ExitStatus                   the program and all its processes have ended
//
// Start and ExitStatus alternate: one program at a time.
//
// # Isolation task: the gate
//
// The first descriptor of a Start is one end of a SOCK_SEQPACKET pair, the gate. Through the gate
// the worker gets the process before it becomes the program, and puts it under its limits before
// the program's first instruction:
//
//	child  → worker   GateReady        forked, waiting; the kernel attaches its pid (SO_PASSCRED)
//	worker → child    GateGo           go ahead; on any other byte, or the end, the child exits
//	child  → worker   GateFailed, …    the failed Stage and the errno, four bytes, little-endian
//	child  → worker   the end          the program has started: execve closed the gate
//
// The wall clock of a job starts with GateGo. Between GateGo and execve the child leaves the
// guest's session, sets its descriptors and limits, and empties its capability bounding set. It
// changes to Start.UID and Start.GID without further groups, which empties all other capability
// sets. Then it enters its directory and installs Start.Filter, if any. When the program ends, the
// guest kills its remaining processes, waits for them, and sends ExitStatus.
//
// # Isolation task: machines
//
// A machine is a sandbox for an agent: a container with a writable root, in which many programs run
// at once. Its process 1 connects and sends Hello like the guest of a task. Then the connection
// carries the messages of package processes. Programs get their privileges from the container: root
// has the capabilities of engine.MachineCaps, over the container's own users.
//
// # Isolation cell: one container for many jobs
//
// Process 1 of the container is the launcher. The container's root is the operator's image or an
// empty one, never a tenant's. The root of jobs is mounted at /run/assay/root.
//
// The launcher connects to the worker's SOCK_SEQPACKET socket, whose name the worker then removes.
// It gives each zygote (an interpreter that is forked for each job: guest/python/zygote.py) a
// connection made by the worker. No other process in the container can connect to the worker. Each
// line is one packet; its descriptors travel as SCM_RIGHTS:
//
//	direction            message             descriptors     meaning
//	-------------------  ------------------  --------------  ----------------------------------------
//	launcher → worker    CellLauncher                        connected and waiting
//	worker   → launcher  CellMake, uid, Box  slot, scratch   create a box, the namespaces of one job, for user uid
//	                                         (, network)     of the cell; its network namespace is given or created
//	                                         (, parent)      the same for a nested Box, inside the box of parent
//	                                         (, parent,      the same for a nested Box with Own, whose network
//	                                         owner, network) namespace, and its owner's user namespace, exist
//	worker   → launcher  CellZygote, kind,   connection      start a zygote of a kind
//	                     root
//	launcher → worker    CellNoZygote, kind, why             the zygote has ended
//	zygote   → worker    ZygoteHello, kind                   connected and waiting
//	worker   → zygote    ZygoteFork, id      slot, box       fork a process into the box
//	zygote   → worker    ZygoteEnded, …                      id and wait status of such a process
//
// # Isolation cell: the slot of a box
//
// A box is a process, the supervisor. It is process 1 of its own pid namespace, with its own user,
// mount, ipc and uts namespaces. Its root is mounted, its network namespace holds lo, and it has
// dropped all capabilities except those over its own namespaces. It has one socket, the slot:
//
//	supervisor → worker  BoxReady                            the box is complete (SO_PASSCRED: its pid)
//	supervisor → worker  BoxFailed, errno, name              a step of the set-up failed
//	worker → supervisor  BoxEnter                            it is in its control group
//	worker → supervisor  BoxRun, a Run       0, 1, 2, …      run a program, descriptors in order
//	worker → supervisor  BoxRunFile          0, 1, 2, …, run the same; the message is in the last file
//	supervisor → worker  BoxNotBegun, …                      the failed Stage and the errno
//	supervisor → worker  BoxEnded, status                    the program and all its processes have ended
//
// A process that a zygote forked (guest/python/child.py) has its own slot and uses the same
// protocol, with these differences:
//
//   - It sends BoxReady before it is in its control group, and BoxWaiting after it has entered it.
//   - One for services may get BoxWarmUp once, to run the code at the start of sessions.
//   - It becomes the program itself.
//   - The zygote reports its end.
//
// When the supervisor ends for any reason, the kernel kills its pid namespace. The supervisor ends
// when its slot is closed.
//
// A process may enter a network namespace only with rights over the user namespace that owns it. No
// process in a box has rights over the cell's. So a nested box with Own uses a network namespace
// that an intermediate user namespace owns: inside the parent box's, around the nested box's own. A
// process from the parent passes through it, gains the rights to enter, and loses them in the box.
// So this network namespace can be reused, like a plain box's.
//
// User code never holds a slot: it is closed before the first instruction, by close-on-exec or
// explicitly. User code cannot trace or signal the supervisor. The supervisor is not dumpable and
// has capabilities that user code lacks. As process 1 of a pid namespace it receives only signals
// with handlers.
//
// # Programs
//
// A Python program finds its request at RequestFD and writes its result to ResultFD, regardless of
// how it was started. It may have a stream to the worker at StreamFD and one to another program at
// LinkFD. guest/python repeats these numbers and messages; TestPythonAgrees compares them.
package guest
