// Package processes runs many programs at once in one sandbox, for the worker.
//
// A sandbox for agents runs a Server as its first process. The worker holds a Client at the other end
// of the server's only stream. Through it the worker starts programs beside others, passes their
// input and output, signals them, and gets their ends. The server also reaps the orphans of the
// sandbox. When the stream ends, the server ends, and the kernel kills the sandbox's pid namespace.
//
// # Messages
//
// A message is a frame of package frame: a JSON object. Load raw bytes follow it if it says so. Each
// program has a number, which the worker chooses and uses once.
//
//	direction         op       fields               meaning
//	----------------  -------  -------------------  -------------------------------------------------
//	worker → server   start    Command              start a program
//	server → worker   started  PID                  it runs
//	server → worker   refused  Reason, Error        it could not be started
//	worker → server   input    Load                 bytes for its standard input or terminal
//	server → worker   taken    Bytes                so many bytes of input were written, or dropped
//	worker → server   eof                           its input ends
//	server → worker   output   Stream, Load         bytes of its output
//	worker → server   taken    Bytes                so many bytes of output were handled
//	worker → server   signal   Signal, Tree         signal the program, or all processes of its tree
//	worker → server   resize   Rows, Columns        its terminal has a new size
//	server → worker   ended    Code or Signal, CPU  it ended, after all output that it had written
//	server → worker   closed                        no process holds its output any more; the last message
//
// Neither side blocks the stream for one program: the sender of input or output has a window of bytes
// which the receiver has not yet taken. The worker trusts no message. A message that breaks these
// rules ends the sandbox.
//
// # Trees
//
// The tree of a program is: its descendants, the processes of its session, and the orphans that have
// its mark in their environment. A process that leaves the session and erases its environment leaves
// the tree, and ends with the sandbox.
package processes
