// Package guest is the protocol between the worker and the programs that start
// other people's programs inside a sandbox. Those programs are in package
// launcher, and in guest/python: both come from the same build as the worker.
//
// There are two isolations with a guest: task, a container for each job, and
// cell, a container for all jobs of one tenant and image. The worker treats every
// word from inside of a sandbox as if a job had said it.
//
// # Isolation task: the connection
//
// The guest is process 1 of a task: uid 0 of the task's user namespace, which is
// nobody on the host. It holds the five capabilities that starting a program as
// somebody else takes, and nothing in the sandbox but the guest has any.
//
// The worker listens on a unix socket in a directory that only the guest's uid
// may enter, binds that directory into the sandbox, and starts the guest. The
// guest connects once; the worker stops listening and unlinks the socket. When
// the connection ends, for whatever reason, the guest exits, and the kernel
// kills everything in its pid namespace: a sandbox never outlives its worker.
//
// Messages are frames: the length of the body in four bytes, most significant
// first, then the body, one JSON object of at most MaxFrame bytes. File
// descriptors travel as SCM_RIGHTS with the first byte of the frame that they
// belong to.
//
//	direction         frame  descriptors           meaning
//	----------------  -----  --------------------  ------------------------------------------
//	guest  → worker   Hello                        connected and waiting
//	worker → guest    Start  gate, 0, 1, 2, 3, …   start a program; its descriptors in order
//	guest  → worker   Ended                        it has ended, and nothing of it is left
//
// Start and Ended alternate: one program at a time.
//
// # Isolation task: the gate
//
// The first descriptor of a Start is one end of a SOCK_SEQPACKET pair, the gate.
// Through it the worker learns which process is about to become the program, in
// time to put it under its limits before it runs a single instruction of it:
//
//	child  → worker   GateHere         forked, waiting; the kernel attaches its pid (SO_PASSCRED)
//	worker → child    GateGo           go ahead; anything else, or the end: exit
//	child  → worker   GateFailed, …    what failed (a Stage) and the errno, four bytes, little-endian
//	child  → worker   the end          the program has begun: execve closed the gate
//
// The wall clock of a job starts with GateGo. Between GateGo and execve the child
// leaves the guest's session, takes its descriptors and limits, empties its
// capability bounding set, becomes Start.UID and Start.GID without further groups
// (which empties every other capability set), enters its directory, and installs
// Start.Filter if there is one. When the program itself ends, the guest kills
// everything that it left behind, waits for that to be gone, and sends Ended.
//
// # Isolation cell: one container for many jobs
//
// Process 1 of the container is the launcher. The container's root is the
// operator's image, or an empty one, and never what a tenant brought: the root of
// jobs is bound into it, at /run/assay/root. The launcher connects to the worker's
// socket, a SOCK_SEQPACKET one, whose name the worker removes then, and gives each
// zygote (an interpreter that is forked for each job: guest/python/zygote.py) the
// connection that the worker made for it: nothing else in the container can ever
// speak with the worker. Each line is one packet; descriptors travel as SCM_RIGHTS
// with it.
//
//	direction            message             descriptors     meaning
//	-------------------  ------------------  --------------  ----------------------------------------
//	launcher → worker    CellLauncher                        connected and waiting
//	worker   → launcher  CellMake, uid, Box  slot, scratch   make a box, the namespaces of one job, for user uid of
//	                                         (, network)     the cell; its network namespace is given or made
//	                                         (, parent)      the same for a nested Box, inside the box of parent
//	                                         (, parent,      the same for a nested Box that is Own, whose network
//	                                         owner, network) namespace, and the user namespace that owns it, exist
//	worker   → launcher  CellZygote, kind,   connection      start a zygote of a kind
//	                     root
//	launcher → worker    CellNoZygote, kind, why             the zygote has ended
//	zygote   → worker    ZygoteHello, kind                   connected and waiting
//	worker   → zygote    ZygoteFork, id      slot, box       fork a process into the box
//	zygote   → worker    ZygoteEnded, …                      id and wait status of such a process
//
// # Isolation cell: the slot of a box
//
// A box is a process, the supervisor, which is process 1 of a pid namespace of its
// own, with user, mount, ipc and uts namespaces to match. Its root is made ready, it
// is in a network namespace that holds lo, and it has dropped all capabilities but
// those over its own namespaces. It has one socket, the slot:
//
//	supervisor → worker  BoxReady                            the walls stand (SO_PASSCRED: its pid)
//	supervisor → worker  BoxFailed, errno, name              a step of their making failed
//	worker → supervisor  BoxEnter                            it is in its control group
//	worker → supervisor  BoxRun, a Run       0, 1, 2, …      run a program, descriptors in order
//	worker → supervisor  BoxRunFile          0, 1, 2, …, run the same; the message is in the last file
//	supervisor → worker  BoxNotBegun, …                      what failed (a Stage) and the errno
//	supervisor → worker  BoxEnded, status                    the program has ended, nothing of it is left
//
// A process that a zygote forked (guest/python/child.py) has a slot of its own and
// speaks the same, with four differences: it sends BoxReady before it is in its
// control group and BoxWaiting once it has entered it; one for services then may be
// told once, by BoxWarmUp, to run what sessions begin with; it becomes the program
// itself; and the zygote reports its end. When the supervisor ends, for whatever
// cause, the kernel kills everything in its pid namespace; and the supervisor ends
// when its slot does.
//
// Nobody enters a network namespace without rights over the user namespace that owns
// it, and over that of the cell nobody in a box has any. A nested box that is Own is
// therefore in a network namespace owned by a user namespace in between: inside that
// of the box which holds it and around its own. A process from there passes through,
// gains the rights that entering takes, and loses them in the box. So that network
// namespace can be used again, as that of a plain box can.
//
// User code never holds a slot: it is closed, by close-on-exec or by hand, before
// the first instruction of it. User code cannot trace or signal the supervisor: that
// is not dumpable, has capabilities that user code has not, and process 1 of a pid
// namespace takes no signal from inside that it has no handler for.
//
// # Programs
//
// However it was started, a Python program finds its request at RequestFD, leaves its
// result at ResultFD, and may have a stream to the worker at StreamFD and one to
// another program at LinkFD. guest/python names the same numbers and messages;
// TestPythonAgrees compares them.
package guest
