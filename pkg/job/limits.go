package job

import "time"

// What one job may be at most. Larger inputs are uploaded as blobs.
const (
	MaxSpec      = 8 * MiB     // the whole JSON of a Spec
	MaxCode      = 1 * MiB     // each piece of code
	MaxArg       = 128*KiB - 1 // one argument: the kernel's MAX_ARG_STRLEN less its NUL
	MaxArgs      = 4096
	MaxFlags     = 16 * KiB // of a compiler, together
	MaxSteps     = 32
	MaxFiles     = 1024
	MaxCases     = 10_000
	MaxFunctions = 64
	MaxLabels    = 64
	MaxRequires  = 4
	MaxRequired  = 64  // bytes of a required label's key or value
	MaxName      = 256 // bytes of a name, a label's key or a label's value
	MaxImage     = 512
	MaxPath      = 1024
	MaxPriority  = 1000 // and not below its negative
	MaxAttempts  = 100
	MaxExpiresIn = Duration(30 * 24 * time.Hour)
	MaxWall      = Duration(24 * time.Hour) // of a policy, and of one test case
	MaxWeight    = 1e6
	MinLease     = Duration(5 * time.Second) // of a batch
	MaxLease     = Duration(24 * time.Hour)
)

// What one result may be at most. Its worker sees to that: see Output.Stored, and the
// rows "output" and "result" of Result.Enforcement.
const (
	// MaxInline is the most that one stream takes in a result, in bytes of its JSON. A
	// larger one is kept beside the result, which has its head and its tail.
	MaxInline = 256 * KiB
	// MaxResult is the whole JSON of a Result, as its worker reports it. A larger one is
	// reported without what is large in it, as OutputLimit.
	MaxResult = 32 * MiB
)

// MinCaseMemory is the least that a limit of one case may be: an interpreter has to start.
const MinCaseMemory = 16 * MiB

// DefaultImage is the image of a job that names none.
const DefaultImage = "python"
