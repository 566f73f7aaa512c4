// Package guest is the program inside a sandbox that starts other people's
// programs, together with the protocol that it speaks with the worker.
//
// The guest is process 1 of a task: uid 0 of the task's user namespace, which
// is nobody on the host. It holds the four capabilities that starting a program
// as somebody else takes, and nothing in the sandbox but the guest has any.
//
// # The connection
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
// Start and Ended alternate: one program at a time. The worker treats every
// word of the guest as if the program had said it.
//
// # The gate
//
// The first descriptor of a Start is one end of a SOCK_SEQPACKET pair. It is
// how the worker learns which process is about to become the program, in time
// to put it under its limits before it runs a single instruction of it:
//
//	child  → worker   GateHere         forked, waiting; the kernel attaches its pid (SO_PASSCRED)
//	worker → child    GateGo           go ahead; anything else, or the end: exit
//	child  → worker   GateFailed, …    what failed (a Stage) and the errno, four bytes, little-endian
//	child  → worker   the end          the program has begun: execve closed the gate
//
// The wall clock of a job starts with GateGo.
//
// # The program
//
// Between GateGo and execve the child leaves the guest's session, takes its
// descriptors and directory, empties its capability bounding set,
// becomes Start.UID and Start.GID without further groups (which empties every
// other capability set) and installs Start.Filter if there is one. When the
// program itself ends, the guest kills everything that it left behind, waits
// for that to be gone, and says Ended.
package guest
