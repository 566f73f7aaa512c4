// Package policy is the capability policy of a job: the permissions of its program.
//
// It is pure and does not touch the system; the mechanisms live in pkg/runtime. Parse reads a
// policy, Validate checks it, and Ceiling limits what a tenant may request. Plan decides which
// mechanism enforces each capability on a given host and returns the enforcement report.
package policy

import (
	"cmp"
	"slices"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// Isolation is the kind of wall around a job.
type Isolation string

// The isolation levels, weakest first.
const (
	Cell   Isolation = "cell"   // its own namespaces inside the tenant's containerd task
	Task   Isolation = "task"   // its own containerd task, under runc
	GVisor Isolation = "gvisor" // its own containerd task, under runsc
	VM     Isolation = "vm"     // another containerd runtime handler
)

// Enforce is how to treat a capability that cannot be enforced.
type Enforce string

// The modes.
const (
	Strict Enforce = "strict" // reject the job and name the field
	Report Enforce = "report" // run it and record the gap in the enforcement report
)

// NetworkMode is none, allow or open.
type NetworkMode string

// The network modes.
const (
	NetworkNone  NetworkMode = "none"
	NetworkAllow NetworkMode = "allow"
	NetworkOpen  NetworkMode = "open"
)

// OnExceed is the action when a stream passes its limit.
type OnExceed string

// The choices.
const (
	Truncate OnExceed = "truncate" // keep head and tail, keep draining
	Kill     OnExceed = "kill"     // outcome output_limit
)

// Policy is the permissions and limits of a program. Default returns the documented defaults; Parse
// applies a client's object to them.
type Policy struct {
	Isolation    Isolation    `json:"isolation"`
	Enforce      Enforce      `json:"enforce"`
	Wall         job.Duration `json:"wall" alias:"timeout time_limit"`
	CPU          float64      `json:"cpu" alias:"cpus cores"` // cores
	CPUTime      job.Duration `json:"cpu_time"`
	Memory       job.Size     `json:"memory" alias:"mem ram memory_limit"` // swap is always off
	Stack        job.Size     `json:"stack,omitempty"`                     // of main threads; 0: at least DefaultStack, see stackFor
	Processes    int          `json:"processes"`
	Subprocesses bool         `json:"subprocesses"`
	Disk         job.Size     `json:"disk"`  // per writable path, and in total
	Files        int          `json:"files"` // inodes on writable paths
	OpenFiles    int          `json:"open_files"`
	Stdout       Stream       `json:"stdout"`
	Stderr       Stream       `json:"stderr"`
	Read         []string     `json:"read"`  // directories with inputs that are read-only for the program
	Write        []string     `json:"write"` // writable directories, which start with the image's content
	Network      Network      `json:"network" example:"{\"mode\": \"open\"}"`
	Env          Env          `json:"env"`
	Imports      Imports      `json:"imports"`
	Packages     []string     `json:"packages"`
	Syscalls     string       `json:"syscalls"` // "default" or "strict"
	Callbacks    Callbacks    `json:"callbacks"`
	Artifacts    Artifacts    `json:"artifacts"`

	// MainStack is the initial stack limit of main threads. PlanFor sets it; 0 is DefaultStack.
	MainStack job.Size `json:"-"`

	// Asked records requests that a ceiling lowered, by capability, as the enforcement report renders
	// them. A client's own value is ignored.
	Asked map[string]string `json:"asked,omitempty"`

	// RestrictHelpers applies this policy to the checker, interactor and compiler of the job as well.
	// Admission sets it for keys that are restricted to a policy. A client's own value is ignored.
	RestrictHelpers bool `json:"restrict_helpers,omitempty"`
}

// Helper returns the policy of a checker, interactor or compiler of a job under p. The policy own
// is the helper's own, and input is the size of the files from the worker. If p restricts helpers,
// the result stays within all limits of p.
func (p *Policy) Helper(own Policy, input job.Size) Policy {
	if !p.RestrictHelpers {
		return own
	}
	own.RestrictHelpers = true
	own.Wall, own.CPUTime = min(own.Wall, p.Wall), min(own.CPUTime, p.CPUTime)
	own.CPU, own.Memory, own.Processes = min(own.CPU, p.CPU), min(own.Memory, p.Memory), min(own.Processes, p.Processes)
	own.Disk, own.Files, own.OpenFiles = min(own.Disk, p.Disk+input), min(own.Files, p.Files), min(own.OpenFiles, p.OpenFiles)
	own.Stdout.Limit, own.Stderr.Limit = min(own.Stdout.Limit, p.Stdout.Limit), min(own.Stderr.Limit, p.Stderr.Limit)
	if p.Stack > 0 {
		own.MainStack = min(cmp.Or(own.MainStack, DefaultStack), p.Stack)
	}
	own.Subprocesses = own.Subprocesses && p.Subprocesses
	if p.Syscalls == "strict" {
		own.Syscalls = p.Syscalls
	}
	return own
}

// Stream limits one output stream.
type Stream struct {
	Limit    job.Size `json:"limit"`
	OnExceed OnExceed `json:"on_exceed"`
}

// Network is the set of hosts that a job may connect to.
type Network struct {
	Mode     NetworkMode `json:"mode"`
	Allow    []string    `json:"allow,omitempty"` // host:port, *.host:port, address:port, CIDR:port
	MaxBytes job.Size    `json:"max_bytes"`       // sent plus received

	// Private are the private addresses that the tenant's ceiling opens, as CIDR:port. Admission sets
	// it; a client's own value is ignored.
	Private []string `json:"private,omitempty"`
}

// Env is the whole environment of a job, which inherits no variables.
type Env struct {
	Set     map[string]string `json:"set"`
	Secrets map[string]string `json:"secrets"` // variable → name of a secret
}

// Imports restricts Python imports. It is advice, not a wall. Both empty means any import. Deny has
// priority over Allow.
type Imports struct {
	Allow []string `json:"allow"` // only these modules; empty: all
	Deny  []string `json:"deny"`  // not these; DenyAll: only the modules in Allow
}

// DenyAll denies every module that Imports.Allow does not name.
const DenyAll = "*"

// Any reports whether there are any rules.
func (i Imports) Any() bool { return len(i.Allow)+len(i.Deny) > 0 }

func (i Imports) String() string {
	if !slices.Contains(i.Deny, DenyAll) {
		return "allow " + names(i.Allow) + "; deny " + names(i.Deny)
	}
	text := "none"
	if len(i.Allow) > 0 {
		text = "only " + names(i.Allow)
	}
	if rest := slices.DeleteFunc(slices.Clone(i.Deny), func(name string) bool { return name == DenyAll }); len(rest) > 0 {
		text += "; deny " + names(rest)
	}
	return text
}

// AnyFunction in Callbacks.Allow stands for every host function of a session.
const AnyFunction = "*"

// Callbacks lists the host functions that a session may call.
type Callbacks struct {
	Allow    []string `json:"allow"`
	MaxCalls int      `json:"max_calls"` // 0: the ceiling's value, or unlimited
}

// Allows reports whether the session may call the host function with this name.
func (c *Callbacks) Allows(name string) bool {
	return slices.Contains(c.Allow, AnyFunction) || slices.Contains(c.Allow, name)
}

// Artifacts selects the files to keep.
type Artifacts struct {
	Paths    []string `json:"paths"` // globs of absolute paths; ** crosses directories
	MaxBytes job.Size `json:"max_bytes"`
	MaxFiles int      `json:"max_files"`
}

// Time returns how long a worker collects artifacts: 15 seconds plus one second for each 4 MiB of
// MaxBytes, at most 10 minutes.
func (a Artifacts) Time() time.Duration {
	return min(15*time.Second+time.Duration(a.MaxBytes/(4*job.MiB))*time.Second, 10*time.Minute)
}
