package guest

// Descriptors of a Python program besides the three standard ones: see
// guest/python/harness.py.
const (
	RequestFD = 3 // what to run: a JSON object
	ResultFD  = 4 // what came of it: a JSON object
	StreamFD  = 5 // to the worker, if the program is a service
	LinkFD    = 6 // to the other side of a grading; in an interpreter that imports for others, to the worker
)

// Descriptors of what waits in a sandbox.
const (
	ZygoteFD  = 3   // of a zygote: its connection to the worker
	WaitingFD = 3   // of an interpreter that waits by itself (zygote.py alone): its slot
	SlotFD    = 100 // of a supervisor: its slot, above every descriptor that a program is given
)
