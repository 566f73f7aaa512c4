// Package policy is the capability policy of a job: what its program may do.
//
// It is pure. Parse reads a policy, Validate judges it, Ceiling says what a
// tenant may ask for at most, and Plan decides which mechanism enforces each
// capability on a given host and yields the enforcement report. Nothing here
// touches the system; the mechanisms live in pkg/runtime.
package policy

import (
	"slices"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// Isolation is the kind of wall a job runs behind.
type Isolation string

// The isolation levels, weakest first.
const (
	Cell   Isolation = "cell"   // namespaces of its own inside the tenant's containerd task
	Task   Isolation = "task"   // a containerd task of its own, under runc
	GVisor Isolation = "gvisor" // the same under runsc
	VM     Isolation = "vm"     // another containerd runtime handler
)

// Enforce says what happens to a capability that cannot be enforced.
type Enforce string

// The modes.
const (
	Strict Enforce = "strict" // refuse the job, naming the field
	Report Enforce = "report" // run it, and say so in the enforcement report
)

// NetworkMode is none, allow or open.
type NetworkMode string

// The network modes.
const (
	NetworkNone  NetworkMode = "none"
	NetworkAllow NetworkMode = "allow"
	NetworkOpen  NetworkMode = "open"
)

// OnExceed says what happens when a stream passes its limit.
type OnExceed string

// The choices.
const (
	Truncate OnExceed = "truncate" // keep head and tail, keep draining
	Kill     OnExceed = "kill"     // outcome output_limit
)

// Policy is what a program may do. Default returns the documented defaults;
// Parse overlays a client's object on them.
type Policy struct {
	Isolation    Isolation    `json:"isolation"`
	Enforce      Enforce      `json:"enforce"`
	Wall         job.Duration `json:"wall"`
	CPU          float64      `json:"cpu"` // cores
	CPUTime      job.Duration `json:"cpu_time"`
	Memory       job.Size     `json:"memory"`          // swap is always off
	Stack        job.Size     `json:"stack,omitempty"` // of main threads; 0: DefaultStack or more, see stackFor
	Processes    int          `json:"processes"`
	Subprocesses bool         `json:"subprocesses"`
	Disk         job.Size     `json:"disk"`  // per writable path, and in all
	Files        int          `json:"files"` // inodes on writable paths
	OpenFiles    int          `json:"open_files"`
	Stdout       Stream       `json:"stdout"`
	Stderr       Stream       `json:"stderr"`
	Read         []string     `json:"read"`  // directories with inputs that the program cannot change
	Write        []string     `json:"write"` // directories that it can, with what the image has there
	Network      Network      `json:"network"`
	Env          Env          `json:"env"`
	Imports      Imports      `json:"imports"`
	Packages     []string     `json:"packages"`
	Syscalls     string       `json:"syscalls"` // "default" or "strict"
	Callbacks    Callbacks    `json:"callbacks"`
	Artifacts    Artifacts    `json:"artifacts"`

	// MainStack is the stack limit that main threads begin with. PlanFor sets it; 0 is DefaultStack.
	MainStack job.Size `json:"-"`

	// Asked is what was asked for where a ceiling lowered it, by capability, as
	// the enforcement report renders it. It is for the record: what a client
	// writes here is ignored.
	Asked map[string]string `json:"asked,omitempty"`

	// RestrictHelpers holds the checker, interactor and compiler of the job to this policy
	// as well. Admission sets it for keys that are restricted to a policy: what a client
	// writes here is ignored.
	RestrictHelpers bool `json:"restrict_helpers,omitempty"`
}

// Helper returns the policy of a checker, interactor or compiler of a job under p. The policy
// own is what the helper has by itself, and input is the size of the files that the worker
// gives it. If p restricts helpers, none of its limits is passed.
func (p *Policy) Helper(own Policy, input job.Size) Policy {
	if !p.RestrictHelpers {
		return own
	}
	own.RestrictHelpers = true
	own.Wall, own.CPUTime = min(own.Wall, p.Wall), min(own.CPUTime, p.CPUTime)
	own.CPU, own.Memory, own.Processes = min(own.CPU, p.CPU), min(own.Memory, p.Memory), min(own.Processes, p.Processes)
	own.Disk, own.Files, own.OpenFiles = min(own.Disk, p.Disk+input), min(own.Files, p.Files), min(own.OpenFiles, p.OpenFiles)
	own.Stdout.Limit, own.Stderr.Limit = min(own.Stdout.Limit, p.Stdout.Limit), min(own.Stderr.Limit, p.Stderr.Limit)
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

// Network says whom a job may talk to.
type Network struct {
	Mode     NetworkMode `json:"mode"`
	Allow    []string    `json:"allow,omitempty"` // host:port, *.host:port, address:port, CIDR:port
	MaxBytes job.Size    `json:"max_bytes"`       // to and from hosts together

	// Private are the addresses that are not public and that the tenant's ceiling
	// opens, as CIDR:port. Whoever admits a job puts them here: what a client
	// writes is ignored.
	Private []string `json:"private,omitempty"`
}

// Env is the whole environment of a job: nothing is inherited.
type Env struct {
	Set     map[string]string `json:"set"`
	Secrets map[string]string `json:"secrets"` // variable → name of a secret
}

// Imports restricts python imports. It is advice, not a wall. Both empty is any import;
// a module that is denied is denied wherever it is allowed.
type Imports struct {
	Allow []string `json:"allow"` // none besides these, unless it is empty
	Deny  []string `json:"deny"`  // not these; DenyAll: only what Allow names
}

// DenyAll stands for every module that Imports.Allow does not name.
const DenyAll = "*"

// Any reports whether there are rules at all.
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

// AnyFunction stands for every host function that a session is given, in Callbacks.Allow.
const AnyFunction = "*"

// Callbacks lists the host functions that a session may call.
type Callbacks struct {
	Allow    []string `json:"allow"`
	MaxCalls int      `json:"max_calls"` // 0: as many as the ceiling says, or any number
}

// Allows reports whether a host function of that name may be called.
func (c *Callbacks) Allows(name string) bool {
	return slices.Contains(c.Allow, AnyFunction) || slices.Contains(c.Allow, name)
}

// Artifacts says which files are kept.
type Artifacts struct {
	Paths    []string `json:"paths"` // globs of absolute paths; ** crosses directories
	MaxBytes job.Size `json:"max_bytes"`
	MaxFiles int      `json:"max_files"`
}

// Time is how long a worker collects artifacts: 15 seconds, and one for each 4 MiB of MaxBytes, at most 10 minutes.
func (a Artifacts) Time() time.Duration {
	return min(15*time.Second+time.Duration(a.MaxBytes/(4*job.MiB))*time.Second, 10*time.Minute)
}
