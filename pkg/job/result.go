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
	Output      []Chunk             `json:"output,omitempty"` // both streams in write order, if a snippet used both
	Value       *Value              `json:"value"`            // of the last expression
	Display     []Display           `json:"display,omitempty"`
	Exception   *ExceptionInfo      `json:"exception,omitempty"` // of tests: the first that made the solution fail
	Variables   map[string]Variable `json:"variables,omitempty"`
	Steps       []StepResult        `json:"steps,omitempty"`
	Tests       *TestsResult        `json:"tests,omitempty"`
	Compiled    *Compiled           `json:"compiled,omitempty"` // nil: nothing to compile
	Feedback    []string            `json:"feedback,omitempty"`
	Artifacts   []Artifact          `json:"artifacts,omitempty"`
	Network     *Network            `json:"network,omitempty"` // nil: no network
	Usage       Usage               `json:"usage"`
	Timings     Timings             `json:"timings"`
	Enforcement []Enforcement       `json:"enforcement,omitempty"`
	Attempts    []Attempt           `json:"attempts,omitempty"`
	ImageDigest string              `json:"image_digest,omitempty"` // of the environment, if the policy lists packages
	// the packages of the environment, as requirements with hashes
	Packages   []string `json:"packages,omitempty"`
	TraceID    string   `json:"trace_id,omitempty"`
	Cached     bool     `json:"cached,omitempty"`      // the rest is copied from the record of another job
	CachedFrom ID       `json:"cached_from,omitempty"` // the ID of this other job
}

// Compiled records the compilation before the run.
type Compiled struct {
	Language string  `json:"language"`          // its name in the catalogue
	Version  string  `json:"version,omitempty"` // of the language in the image, from its label; empty: unknown
	Cached   bool    `json:"cached,omitempty"`  // taken from the cache
	Outcome  Outcome `json:"outcome"`           // of the compiler: succeeded, failed, timed_out, …
	ExitCode *int    `json:"exit_code,omitempty"`
	Stdout   Output  `json:"stdout"`
	Stderr   Output  `json:"stderr"`
	Usage    Usage   `json:"usage"`
}

// Output is one captured stream. Text is valid UTF-8 with other bytes replaced. If the stream was
// cut, Text has its head and tail with a marker line between.
type Output struct {
	Text      string `json:"text"`
	Bytes     int64  `json:"bytes"` // all bytes written, kept or not
	Truncated bool   `json:"truncated"`
	// Binary reports that the kept bytes are not UTF-8. Base64 or the stored output has them
	// unchanged.
	Binary bool `json:"binary,omitempty"`
	// Base64 has the kept bytes of a binary output that is not stored, with the marker if it was cut.
	Base64 []byte `json:"base64,omitempty"`
	// Stored locates the whole kept output if it is larger than MaxInline. Text then has its head and
	// tail.
	Stored *StoredOutput `json:"stored,omitempty"`
	// Spill reads an output that is too large for the worker's memory. Text then has its head and
	// tail. Nil: Text is complete, or the output is stored.
	Spill Spill `json:"-"`
}

// Spill is an output in a file of the worker.
type Spill interface {
	// Open reads the output from its start in the form of Output.Text. It may be called again.
	Open() io.Reader
	// Exact reads the unchanged bytes of the output.
	Exact() io.Reader
	// Close removes the file.
	Close() error
}

// Exact returns the unchanged bytes of an output that is not stored.
func (o *Output) Exact() []byte {
	if o.Base64 != nil {
		return o.Base64
	}
	return []byte(o.Text)
}

// StoredOutput is an output in a separate object.
type StoredOutput struct {
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	Object string `json:"object"` // object path: <tenant>/<job>/<lease>/…
}

// Value is a Python value as the program reported it.
type Value struct {
	Type string          `json:"type"`
	Repr string          `json:"repr"`           // capped
	JSON json.RawMessage `json:"json,omitempty"` // if it has a faithful JSON form
	// Tagged is the value in the tagged encoding, if JSON cannot represent it.
	Tagged json.RawMessage `json:"tagged,omitempty"`
}

// Variable is a name that a snippet created or changed.
type Variable struct {
	Type string `json:"type"`
	Repr string `json:"repr"` // capped
}

// ExceptionInfo is an uncaught exception. Line numbers refer to the user's code. In a session,
// Source is the name of the snippet.
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
	Errors int `json:"errors,omitempty"` // cases with CheckError: neither passed nor failed
	Total  int `json:"total"`
	// Skipped counts the tests of a check that skipped themselves. They are in Cases, but neither in
	// Total nor in Score.
	Skipped int `json:"skipped,omitempty"`
	// Forgeable reports that the check and its solution shared a process, so the solution could forge
	// verdicts.
	Forgeable bool `json:"forgeable,omitempty"`
	// Score is the weighted share of passed cases, from 0 to 1. A case with its own score counts with
	// this score. If there are Errors, Score is nil (null in JSON), because there is no verdict.
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
	Message  string  `json:"message,omitempty"` // reason of the failure, in one line
	WallMS   float64 `json:"wall_ms"`

	// Score is the checker's score as a share of the full score. A case passes with 1. Nil: the
	// checker gave none.
	Score *float64 `json:"score,omitempty"`
	// Limits are the effective limits of the case: its own, or its share of the job's.
	Limits *CaseLimits `json:"limits,omitempty"`
	// Stderr is the end of the program's stderr in a failed stdio case.
	Stderr string `json:"stderr,omitempty"`

	// SelfReported reports that the verdict depends on the solution's word: the check called methods
	// of instances of the class under test, or one of Tests.Functions.
	SelfReported bool `json:"self_reported,omitempty"`
	// Skipped reports that a test of a check skipped itself. It neither passed nor failed.
	Skipped bool `json:"skipped,omitempty"`
}

// CaseLimits are the limits of one case.
type CaseLimits struct {
	Wall   Duration `json:"wall,omitempty"`
	Memory Size     `json:"memory,omitempty"`
}

// Artifact is a file that a job produced.
type Artifact struct {
	Path      string `json:"path"` // inside the sandbox
	Bytes     int64  `json:"bytes"`
	SHA256    string `json:"sha256"`
	MediaType string `json:"media_type"`
	Object    string `json:"object,omitempty"` // object path: <tenant>/<job>/<lease>/…
	URL       string `json:"url,omitempty"`    // where the API serves it
}

// Usage is the consumption of an attempt as the kernel counted it.
type Usage struct {
	WallMS          float64 `json:"wall_ms"`
	WaitedMS        float64 `json:"waited_ms,omitempty"` // time when it was runnable but had no core; limits exclude it
	CPUMS           float64 `json:"cpu_ms"`
	MemoryPeakBytes int64   `json:"memory_peak_bytes"`
	ProcessesPeak   int64   `json:"processes_peak"`
	NetworkBytes    int64   `json:"network_bytes"`
}

// Timings is the duration of each phase of a job, in milliseconds.
type Timings struct {
	QueuedMS  float64 `json:"queued_ms"`  // accepted → claimed
	SlotMS    float64 `json:"slot_ms"`    // waiting for a slot
	FetchMS   float64 `json:"fetch_ms"`   // inputs from the object store
	RunMS     float64 `json:"run_ms"`     // user code
	CollectMS float64 `json:"collect_ms"` // artifacts to the object store
	RecordMS  float64 `json:"record_ms"`  // end of collection → recorded
}

// Attempt is the record of one try.
type Attempt struct {
	Lease   Lease   `json:"lease"`
	Worker  string  `json:"worker"`
	Outcome Outcome `json:"outcome"`
	Reason  Reason  `json:"reason"`
}

// Level is the strength of the mechanism that enforces a capability.
type Level string

// The levels, strongest first.
const (
	LevelKernel  Level = "kernel"  // the kernel refuses
	LevelRuntime Level = "runtime" // the worker kills on violation, or never passes the capability in
	LevelHarness Level = "harness" // advisory: code inside the sandbox can bypass it
	LevelNone    Level = "none"    // not enforced
)

// Enforcement records how one capability of a policy was enforced.
type Enforcement struct {
	Capability string `json:"capability"`
	Requested  string `json:"requested"`
	Applied    string `json:"applied"`
	Mechanism  string `json:"mechanism"`
	Level      Level  `json:"level"`
}
