package job

import (
	"encoding/json"
	"io"
)

// Result is the one durable record of how a job ended.
type Result struct {
	ID          ID                  `json:"id"`
	BatchID     ID                  `json:"batch_id,omitempty"`
	Name        string              `json:"name,omitempty"`
	Labels      map[string]string   `json:"labels,omitempty"`
	State       State               `json:"state"`
	Outcome     Outcome             `json:"outcome"`
	Message     string              `json:"message,omitempty"` // one sentence for a person
	ExitCode    *int                `json:"exit_code,omitempty"`
	Signal      string              `json:"signal,omitempty"` // such as SIGSEGV
	Stdout      Output              `json:"stdout"`
	Stderr      Output              `json:"stderr"`
	Output      []Chunk             `json:"output,omitempty"` // both streams in the order in which a snippet wrote to them, if it used both
	Value       *Value              `json:"value"`            // of the last expression
	Display     []Display           `json:"display,omitempty"`
	Exception   *ExceptionInfo      `json:"exception,omitempty"` // of tests: the first by which the solution failed
	Variables   map[string]Variable `json:"variables,omitempty"`
	Steps       []StepResult        `json:"steps,omitempty"`
	Tests       *TestsResult        `json:"tests,omitempty"`
	Compiled    *Compiled           `json:"compiled,omitempty"` // nil: nothing was to be compiled
	Feedback    []string            `json:"feedback,omitempty"`
	Artifacts   []Artifact          `json:"artifacts,omitempty"`
	Network     *Network            `json:"network,omitempty"` // nil: there was no way out
	Usage       Usage               `json:"usage"`
	Timings     Timings             `json:"timings"`
	Enforcement []Enforcement       `json:"enforcement,omitempty"`
	Attempts    []Attempt           `json:"attempts,omitempty"`
	ImageDigest string              `json:"image_digest,omitempty"` // of the environment, if the policy names packages
	Packages    []string            `json:"packages,omitempty"`     // that the environment holds, as requirements with hashes
	TraceID     string              `json:"trace_id,omitempty"`
	Cached      bool                `json:"cached,omitempty"`      // the rest is the record of another job
	CachedFrom  ID                  `json:"cached_from,omitempty"` // which one
}

// Compiled says how the program was compiled, before it ran.
type Compiled struct {
	Language string  `json:"language"`          // its name in the catalogue
	Version  string  `json:"version,omitempty"` // of the language in the image, as its label says; empty: the worker does not know
	Cached   bool    `json:"cached,omitempty"`  // the same source was compiled before, and was not again
	Outcome  Outcome `json:"outcome"`           // of the compiler: succeeded, failed, timed_out, …
	ExitCode *int    `json:"exit_code,omitempty"`
	Stdout   Output  `json:"stdout"`
	Stderr   Output  `json:"stderr"`
	Usage    Usage   `json:"usage"`
}

// Output is one captured stream. Text is valid UTF-8: other bytes are replaced.
// When it was cut, Text holds the head and the tail with a marker line between.
type Output struct {
	Text      string `json:"text"`
	Bytes     int64  `json:"bytes"` // written by the program, kept or not
	Truncated bool   `json:"truncated"`
	// Binary says that the kept bytes are not UTF-8. Base64, or the stored output, has them as they are.
	Binary bool `json:"binary,omitempty"`
	// Base64 has the kept bytes of a binary output that is not stored, with the marker if it was cut.
	Base64 []byte `json:"base64,omitempty"`
	// Stored is where all of what was kept is, if that is more than MaxInline. Text then
	// holds the head and the tail of it.
	Stored *StoredOutput `json:"stored,omitempty"`
	// Spill reads the whole output if it is too large for the memory of the worker that ran the program.
	// Text then holds its head and its tail. Nil: Text is the whole output, or the output is stored.
	Spill Spill `json:"-"`
}

// Spill is an output in a file of its worker.
type Spill interface {
	// Open reads the output from its beginning, as Output.Text has it. It may be called again.
	Open() io.Reader
	// Exact reads the bytes of the output as they are.
	Exact() io.Reader
	// Close removes the file.
	Close() error
}

// Exact returns the bytes that a result has of the output: all that was kept, unless it is stored.
func (o *Output) Exact() []byte {
	if o.Base64 != nil {
		return o.Base64
	}
	return []byte(o.Text)
}

// StoredOutput is an output that is kept beside its result.
type StoredOutput struct {
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	Object string `json:"object"` // object path: <tenant>/<job>/<lease>/…
}

// Value is a python value as the program itself reported it.
type Value struct {
	Type string          `json:"type"`
	Repr string          `json:"repr"`           // capped
	JSON json.RawMessage `json:"json,omitempty"` // where it has a faithful JSON form
	// Tagged is the value in the tagged encoding, where JSON alone cannot represent it.
	Tagged json.RawMessage `json:"tagged,omitempty"`
}

// Variable is a name that a snippet created or changed.
type Variable struct {
	Type string `json:"type"`
	Repr string `json:"repr"` // capped
}

// ExceptionInfo is an uncaught exception. Line numbers are the user's own. In a session,
// Source is the name of the snippet that Line is in.
type ExceptionInfo struct {
	Type      string `json:"type"`
	Message   string `json:"message"`
	Line      int    `json:"line,omitempty"`
	Source    string `json:"source,omitempty"`
	Traceback string `json:"traceback"`
}

// StepResult is how one step of a command ended.
type StepResult struct {
	Name     string  `json:"name"`
	Outcome  Outcome `json:"outcome"`
	ExitCode *int    `json:"exit_code,omitempty"`
	Signal   string  `json:"signal,omitempty"`
	Stdout   Output  `json:"stdout"`
	Stderr   Output  `json:"stderr"`
	Usage    Usage   `json:"usage"`
}

// TestsResult is the verdict on a graded solution.
type TestsResult struct {
	Passed int `json:"passed"`
	Failed int `json:"failed"`
	Errors int `json:"errors,omitempty"` // cases that ended as CheckError: neither passed nor failed
	Total  int `json:"total"`
	// Skipped counts the tests of a check that skipped themselves. They are in Cases, but neither in Total nor in Score.
	Skipped int `json:"skipped,omitempty"`
	// Forgeable is set if the check shared a process with its solution, which could then forge the verdicts of the check.
	Forgeable bool `json:"forgeable,omitempty"`
	// Score is the weighted share of passed cases, 0 to 1, and of those with a score of their own that share; nil, and null in JSON, if
	// there are Errors: then there is no verdict on the solution.
	Score *float64     `json:"score"`
	Cases []CaseResult `json:"cases"`
}

// CaseResult is the verdict on one case.
type CaseResult struct {
	Name     string  `json:"name"`
	Passed   bool    `json:"passed"`
	Outcome  Outcome `json:"outcome"`
	Got      string  `json:"got,omitempty"`
	Expected string  `json:"expected,omitempty"`
	Message  string  `json:"message,omitempty"` // why it failed, in one line
	WallMS   float64 `json:"wall_ms"`

	// Score is what a checker gave that gives points, as a share of its full score: a case passes with 1. Nil: it gave none.
	Score *float64 `json:"score,omitempty"`
	// Limits are those that it ran with: of its own, or its share of the job's.
	Limits *CaseLimits `json:"limits,omitempty"`
	// Stderr is the end of what the program wrote there, of a stdio case that failed.
	Stderr string `json:"stderr,omitempty"`

	// SelfReported says that the check asked objects of the solution about
	// themselves (instances of the class under test, through their methods) or called
	// one of Tests.Functions.
	SelfReported bool `json:"self_reported,omitempty"`
	// Skipped is set if a test of a check skipped itself: it neither passed nor failed.
	Skipped bool `json:"skipped,omitempty"`
}

// CaseLimits are the limits of one case.
type CaseLimits struct {
	Wall   Duration `json:"wall,omitempty"`
	Memory Size     `json:"memory,omitempty"`
}

// Artifact is a file that a job left behind.
type Artifact struct {
	Path      string `json:"path"` // inside the sandbox
	Bytes     int64  `json:"bytes"`
	SHA256    string `json:"sha256"`
	MediaType string `json:"media_type"`
	Object    string `json:"object,omitempty"` // object path: <tenant>/<job>/<lease>/…
	URL       string `json:"url,omitempty"`    // where the API serves it
}

// Usage is what an attempt consumed, as the kernel counted it.
type Usage struct {
	WallMS          float64 `json:"wall_ms"`
	WaitedMS        float64 `json:"waited_ms,omitempty"` // of that it could run and had no core, which its limits do not count
	CPUMS           float64 `json:"cpu_ms"`
	MemoryPeakBytes int64   `json:"memory_peak_bytes"`
	ProcessesPeak   int64   `json:"processes_peak"`
	NetworkBytes    int64   `json:"network_bytes"`
}

// Timings is where the time of a job went, in milliseconds.
type Timings struct {
	QueuedMS  float64 `json:"queued_ms"`  // accepted → claimed
	SlotMS    float64 `json:"slot_ms"`    // waiting for a slot
	FetchMS   float64 `json:"fetch_ms"`   // inputs from the object store
	RunMS     float64 `json:"run_ms"`     // user code
	CollectMS float64 `json:"collect_ms"` // artifacts to the object store
	RecordMS  float64 `json:"record_ms"`  // end of collection → recorded
}

// Attempt is one try, as the record remembers it.
type Attempt struct {
	Lease   Lease   `json:"lease"`
	Worker  string  `json:"worker"`
	Outcome Outcome `json:"outcome"`
	Reason  Reason  `json:"reason"`
}

// Level is how strong the wall behind a capability is.
type Level string

// The levels, strongest first.
const (
	LevelKernel  Level = "kernel"  // the kernel refuses
	LevelRuntime Level = "runtime" // the worker watches and kills, or never passes it in
	LevelHarness Level = "harness" // advisory: code inside the sandbox could get around it
	LevelNone    Level = "none"    // not enforced
)

// Enforcement is the truth about one capability of a policy.
type Enforcement struct {
	Capability string `json:"capability"`
	Requested  string `json:"requested"`
	Applied    string `json:"applied"`
	Mechanism  string `json:"mechanism"`
	Level      Level  `json:"level"`
}
