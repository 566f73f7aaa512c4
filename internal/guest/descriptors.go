package guest

// Descriptors of a Python program besides the three standard ones: see
// guest/python/harness.py.
const (
	RequestFD = 3 // the request: a JSON object
	ResultFD  = 4 // the result: a JSON object
	StreamFD  = 5 // to the worker, if the program is a service
	LinkFD    = 6 // to the other side of a grading; in an importing interpreter, to the worker
)

// Descriptors of waiting processes in a sandbox.
const (
	ZygoteFD  = 3   // of a zygote: its connection to the worker
	WaitingFD = 3   // of a standalone waiting interpreter (zygote.py without a cell): its slot
	SlotFD    = 100 // of a supervisor: its slot, above every descriptor of a program
)
