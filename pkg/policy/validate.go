package policy

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/netrule"
)

const (
	maxEntries  = 256           // of any list
	maxPaths    = 16            // of write and read together; each is a mount
	maxEnvBytes = 128 * job.KiB // of names and values
	tebibyte    = 1024 * job.GiB
)

// MaxOutput is the most bytes of one stream of a job that a worker keeps, for all steps together.
const MaxOutput = 16 * job.MiB

// ranges are absolute limits for all policies.
var ranges = []func(*Policy) *job.FieldError{
	between("wall", job.Duration(time.Millisecond), job.MaxWall, func(p *Policy) job.Duration { return p.Wall }),
	between("cpu", 0.05, 256, func(p *Policy) float64 { return p.CPU }),
	between("cpu_time", job.Duration(time.Millisecond), 256*job.MaxWall, func(p *Policy) job.Duration { return p.CPUTime }),
	between("memory", 16*job.MiB, tebibyte, func(p *Policy) job.Size { return p.Memory }),
	between("processes", 1, 32768, func(p *Policy) int { return p.Processes }),
	between("disk", 64*job.KiB, tebibyte, func(p *Policy) job.Size { return p.Disk }),
	between("files", 16, 100_000_000, func(p *Policy) int { return p.Files }),
	between("open_files", 16, 1<<20, func(p *Policy) int { return p.OpenFiles }),
	between("stdout.limit", 0, MaxOutput, func(p *Policy) job.Size { return p.Stdout.Limit }),
	between("stderr.limit", 0, MaxOutput, func(p *Policy) job.Size { return p.Stderr.Limit }),
	between("callbacks.max_calls", 0, 1_000_000_000, func(p *Policy) int { return p.Callbacks.MaxCalls }),
	between("network.max_bytes", job.KiB, tebibyte, func(p *Policy) job.Size { return p.Network.MaxBytes }),
	between("artifacts.max_bytes", 0, tebibyte, func(p *Policy) job.Size { return p.Artifacts.MaxBytes }),
	between("artifacts.max_files", 0, 100_000, func(p *Policy) int { return p.Artifacts.MaxFiles }),
	stackRange,
	oneOf("isolation", Isolations, func(p *Policy) Isolation { return p.Isolation }),
	oneOf("enforce", []Enforce{Strict, Report}, func(p *Policy) Enforce { return p.Enforce }),
	oneOf("stdout.on_exceed", []OnExceed{Truncate, Kill}, func(p *Policy) OnExceed { return p.Stdout.OnExceed }),
	oneOf("stderr.on_exceed", []OnExceed{Truncate, Kill}, func(p *Policy) OnExceed { return p.Stderr.OnExceed }),
	oneOf("network.mode", networkModes, func(p *Policy) NetworkMode { return p.Network.Mode }),
	oneOf("syscalls", []string{"default", "strict"}, func(p *Policy) string { return p.Syscalls }),
}

// Isolations lists every isolation, weakest first.
var Isolations = []Isolation{Cell, Task, GVisor, VM}

var networkModes = []NetworkMode{NetworkNone, NetworkAllow, NetworkOpen} // strictest first

// between returns a check that returns nil inside the range.
func between[T cmp.Ordered](field string, low, high T, get func(*Policy) T) func(*Policy) *job.FieldError {
	return func(p *Policy) *job.FieldError {
		if v := get(p); !(v >= low && v <= high) { // false for NaN
			return &job.FieldError{Field: field, Problem: fmt.Sprintf("must be %v to %v, not %v", low, high, v)}
		}
		return nil
	}
}

func oneOf[T ~string](field string, choices []T, get func(*Policy) T) func(*Policy) *job.FieldError {
	return func(p *Policy) *job.FieldError {
		if v := get(p); !slices.Contains(choices, v) {
			return &job.FieldError{Field: field, Problem: fmt.Sprintf("must be one of %v, not %.40q", choices, string(v))}
		}
		return nil
	}
}

// Validate checks a policy from any source. Its errors are *job.FieldError with paths such as
// policy.memory.
func (p Policy) Validate() error {
	if err := p.validateAt("policy"); err != nil {
		return err
	}
	if err := p.validatePaths(); err != nil {
		return err
	}
	if err := p.validateNetwork(); err != nil {
		return err
	}
	if err := p.validateEnv(); err != nil {
		return err
	}
	return p.validateLists()
}

// validateAt checks the numbers and choices of p, with field paths beneath at.
func (p Policy) validateAt(at string) error {
	for _, check := range ranges {
		if bad := check(&p); bad != nil {
			bad.Field = at + "." + bad.Field
			return bad
		}
	}
	return nil
}

func (p *Policy) validateLists() error {
	for _, l := range []struct {
		field   string
		entries []string
		problem func(string) string
	}{
		{"imports.allow", p.Imports.Allow, badAllowed},
		{"imports.deny", p.Imports.Deny, badDenied},
		{"packages", p.Packages, badRequirement},
		{"callbacks.allow", p.Callbacks.Allow, badFunction},
		{"artifacts.paths", p.Artifacts.Paths, badGlob},
	} {
		if len(l.entries) > maxEntries {
			return job.Invalid("policy."+l.field, "has %d entries; at most %d", len(l.entries), maxEntries)
		}
		for i, e := range l.entries {
			if bad := l.problem(e); bad != "" {
				return job.Invalid(fmt.Sprintf("policy.%s[%d]", l.field, i), "%.80q %s", e, bad)
			}
		}
	}
	return p.validateGlobs()
}

// validatePaths checks the paths with filesystems of their own: writable ones, and read-only ones
// with inputs.
func (p *Policy) validatePaths() error {
	if n := len(p.Write) + len(p.Read); n > maxPaths {
		return job.Invalid("policy.write", "and policy.read have %d paths; at most %d", n, maxPaths)
	}
	lists := []struct {
		name  string
		paths []string
	}{{"write", p.Write}, {"read", p.Read}}
	for _, l := range lists {
		for i, at := range l.paths {
			if bad := badPlace(at); bad != "" {
				return job.Invalid(fmt.Sprintf("policy.%s[%d]", l.name, i), "%.80q %s", at, bad)
			}
		}
	}
	for _, l := range lists {
		for i, at := range l.paths {
			if bad := p.overlap(l.name, i, at); bad != "" {
				return job.Invalid(fmt.Sprintf("policy.%s[%d]", l.name, i), "%.80q %s", at, bad)
			}
		}
	}
	return nil
}

// overlap returns the problem of the i-th path of a list with another path, or "". A conflict of read with write is
// reported for read, because write has defaults that the request may not name.
func (p *Policy) overlap(list string, i int, at string) string {
	for j, other := range p.Write {
		switch {
		case list == "write" && i != j && beneath(at, other), list == "read" && beneath(at, other):
			return "lies beneath " + other + ", which is writable already"
		case list == "read" && beneath(other, at):
			return "has " + other + " beneath it, which is writable (policy.write)"
		}
	}
	for j, other := range p.Read {
		if list == "read" && i != j && beneath(at, other) {
			return "lies beneath " + other + ", which is for reading already"
		}
	}
	return ""
}

// SandboxDir is the directory in a sandbox for the sandbox's own programs and sockets.
const SandboxDir = "/run/assay"

// maxPathPart is the longest name of a directory that the kernel accepts (NAME_MAX).
const maxPathPart = 255

// badPlace returns the problem of a path by itself, or "".
func badPlace(at string) string {
	if bad := badPath(at); bad != "" {
		return bad
	}
	if bad := ReservedPlace(at); bad != "" {
		return bad
	}
	for part := range strings.SplitSeq(at, "/") {
		if len(part) > maxPathPart {
			return "has a name of " + strconv.Itoa(len(part)) + " bytes; at most " + strconv.Itoa(maxPathPart)
		}
	}
	return ""
}

// ReservedPlace returns why a job's filesystem cannot be mounted at a clean path, or "". A mount
// there would hide files of the kernel or programs of the sandbox.
func ReservedPlace(at string) string {
	for _, kernel := range []string{"/proc", "/sys", "/dev"} {
		if beneath(at, kernel) {
			return "belongs to the kernel; choose another directory"
		}
	}
	if beneath(at, SandboxDir) || beneath(SandboxDir, at) {
		return "belongs to the sandbox itself, which needs " + SandboxDir + "; choose another directory"
	}
	return ""
}

func (p *Policy) validateNetwork() error {
	if p.Network.Mode != NetworkAllow && len(p.Network.Allow) > 0 {
		return job.Invalid("policy.network.allow", `needs "mode": "allow"; the mode is %q`, p.Network.Mode)
	}
	if p.Network.Mode == NetworkAllow && len(p.Network.Allow) == 0 {
		return job.Invalid("policy.network.allow", `must list at least one host:port when the mode is "allow"`)
	}
	if len(p.Network.Allow) > maxEntries {
		return job.Invalid("policy.network.allow", "has %d entries; at most %d", len(p.Network.Allow), maxEntries)
	}
	if _, err := netrule.ParseRanges(p.Network.Private); err != nil {
		return job.Invalid("policy.network.private", "%v", err)
	}
	for i, a := range p.Network.Allow {
		if _, err := netrule.ParseRule(a); err != nil {
			return job.Invalid(fmt.Sprintf("policy.network.allow[%d]", i), "%v", err)
		}
	}
	return nil
}

func (p *Policy) validateEnv() error {
	total := 0
	for _, k := range sorted(p.Env.Set) {
		v := p.Env.Set[k]
		total += len(k) + len(v) + 2
		switch {
		case badVariable(k) != "":
			return job.Invalid("policy.env.set", "%.80q %s", k, badVariable(k))
		case strings.IndexByte(v, 0) >= 0 || !utf8.ValidString(v):
			return job.Invalid("policy.env.set."+k, "must be UTF-8 without NUL bytes")
		}
	}
	if total > int(maxEnvBytes) {
		return job.Invalid("policy.env.set", "is %d bytes; at most %s", total, maxEnvBytes)
	}
	for _, k := range sorted(p.Env.Secrets) {
		if bad := badVariable(k); bad != "" {
			return job.Invalid("policy.env.secrets", "%.80q %s", k, bad)
		}
		if bad := badWord(p.Env.Secrets[k]); bad != "" {
			return job.Invalid("policy.env.secrets."+k, "the name of the secret %s", bad)
		}
		if _, both := p.Env.Set[k]; both {
			return job.Invalid("policy.env.secrets."+k, "is also in policy.env.set; give each variable once")
		}
	}
	return nil
}

// beneath reports whether p is dir or lies in it. Both are clean.
func beneath(p, dir string) bool {
	rest, ok := strings.CutPrefix(p, dir)
	return ok && (rest == "" || rest[0] == '/')
}

// The functions below return the problem of an entry, or "".

func badPath(p string) string {
	switch {
	case badWord(p) != "":
		return badWord(p)
	case p[0] != '/':
		return "must be absolute"
	case path.Clean(p) != p:
		return "must be plain: no //, no . or .., no / at the end"
	case p == "/":
		return "must not be the root directory"
	case len(p) > job.MaxPath:
		return "is longer than " + strconv.Itoa(job.MaxPath) + " bytes"
	}
	return ""
}

// requirement matches a name with extras and versions as in PEP 508. It excludes options of pip,
// addresses and paths.
var requirement = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?(\[[A-Za-z0-9._-]+(,[A-Za-z0-9._-]+)*\])?` +
	`( ?(===|==|!=|~=|<=|>=|<|>) ?[A-Za-z0-9.*+!_-]+( ?, ?(===|==|!=|~=|<=|>=|<|>) ?[A-Za-z0-9.*+!_-]+)*)?$`)

func badRequirement(s string) string {
	if len(s) > job.MaxName || !requirement.MatchString(s) {
		return "must be a package such as numpy, numpy==1.26.4 or httpx[http2]>=0.27,<1"
	}
	return ""
}

// IsRequirement reports whether s is a valid entry of packages.
func IsRequirement(s string) bool { return badRequirement(s) == "" }

// RequirementName returns the package name in a requirement.
func RequirementName(s string) string { return requirementName.FindString(s) }

var requirementName = regexp.MustCompile(`^[A-Za-z0-9._-]+`)

// Requirements returns the packages of p in a canonical form that is equal for equal sets, or ""
// for none.
func (p *Policy) Requirements() string {
	list := slices.Clone(p.Packages)
	for i := range list {
		list[i] = strings.ReplaceAll(list[i], " ", "")
	}
	slices.Sort(list)
	return strings.Join(slices.Compact(list), "\n")
}

// badWord checks text that we use as a name: visible characters without blanks.
func badWord(s string) string {
	if s == "" {
		return "must not be empty"
	}
	if !utf8.ValidString(s) || strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		return "must be UTF-8 without control characters"
	}
	return ""
}

// badVariable checks the name of an environment variable or a callback.
func badVariable(s string) string {
	const first = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"
	if s == "" || len(s) > job.MaxName || strings.Trim(s, first+"0123456789") != "" || !strings.Contains(first, s[:1]) {
		return "must be a name: letters, digits and _, not starting with a digit"
	}
	return ""
}

// badFunction is badVariable, but also accepts AnyFunction.
func badFunction(s string) string {
	if s == AnyFunction {
		return ""
	}
	return badVariable(s)
}

func badAllowed(s string) string {
	if s == DenyAll {
		return "is for deny; without imports.allow every module is allowed"
	}
	return badModule(s)
}

func badDenied(s string) string {
	if s == DenyAll {
		return ""
	}
	if bad := badModule(s); bad != "" {
		return bad + `, or "*" for every module outside imports.allow`
	}
	return ""
}

func badModule(s string) string {
	for part := range strings.SplitSeq(s, ".") {
		if badVariable(part) != "" {
			return "must be a python module such as os.path"
		}
	}
	return ""
}
