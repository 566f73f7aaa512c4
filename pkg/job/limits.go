package job

import "time"

// Limits of one job. Larger inputs are uploaded as blobs.
const (
	MaxSpec      = 8 * MiB     // the whole JSON of a Spec
	MaxCode      = 1 * MiB     // each piece of code
	MaxArg       = 128*KiB - 1 // one argument: the kernel's MAX_ARG_STRLEN less its NUL
	MaxArgs      = 4096
	MaxFlags     = 16 * KiB // of a compiler, in total
	MaxSteps     = 32
	MaxFiles     = 1024
	MaxCases     = 10_000
	MaxFunctions = 64
	MaxLabels    = 64
	MaxRequires  = 4
	MaxRequired  = 64  // bytes of the key or value of a required label
	MaxName      = 256 // bytes of a name, a label's key or a label's value
	MaxImage     = 512
	MaxPath      = 1024
	MaxPriority  = 1000 // and the lowest is its negative
	MaxAttempts  = 100
	MaxExpiresIn = Duration(30 * 24 * time.Hour)
	MaxWall      = Duration(24 * time.Hour) // of a policy, and of one test case
	MaxWeight    = 1e6
	MinLease     = Duration(5 * time.Second) // of a batch
	MaxLease     = Duration(24 * time.Hour)
)

// Limits of one result. The worker enforces them: see Output.Stored, and the rows "output" and
// "result" of Result.Enforcement.
const (
	// MaxInline is the most bytes of JSON for one stream in a result. A larger stream is stored
	// beside the result, which then has its head and tail.
	MaxInline = 256 * KiB
	// MaxResult is the largest JSON of a Result that a worker may report. The worker reports a larger
	// one as OutputLimit, without its large parts.
	MaxResult = 32 * MiB
)

// MinCaseMemory is the lowest memory limit of one case: an interpreter must be able to start.
const MinCaseMemory = 16 * MiB

// DefaultImage is the image of a job without one.
const DefaultImage = "python"
