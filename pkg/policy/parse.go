package policy

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// DefaultIsolation is the isolation of a policy without one.
const DefaultIsolation = Cell

// Default returns the documented defaults as a new value without shared memory.
func Default() Policy {
	return Policy{
		Isolation:    DefaultIsolation,
		Enforce:      Strict,
		Wall:         job.Duration(30 * time.Second),
		CPU:          1,
		CPUTime:      job.Duration(30 * time.Second),
		Memory:       256 * job.MiB,
		Processes:    64,
		Subprocesses: true,
		Disk:         64 * job.MiB,
		Files:        4096,
		OpenFiles:    256,
		Stdout:       Stream{Limit: 64 * job.KiB, OnExceed: Truncate},
		Stderr:       Stream{Limit: 64 * job.KiB, OnExceed: Truncate},
		Read:         []string{},
		Write:        []string{"/workspace", "/tmp"},
		Network:      Network{Mode: NetworkNone, MaxBytes: job.GiB},
		Env:          Env{Set: map[string]string{}, Secrets: map[string]string{}},
		Imports:      Imports{Allow: []string{}, Deny: []string{}},
		Packages:     []string{},
		Syscalls:     "default",
		Callbacks:    Callbacks{Allow: []string{}},
		Artifacts:    Artifacts{Paths: []string{}, MaxBytes: 16 * job.MiB, MaxFiles: 100},
	}
}

// Parse applies a client's policy to the defaults and validates the result. Empty input and null
// return the defaults. Errors are *job.FieldError with paths such as policy.memory. The caller must
// first replace the name of a stored policy with its content (see Name).
func Parse(raw json.RawMessage) (Policy, error) { return ParseOver(Default(), raw) }

// ParseOver is Parse with other defaults. It does not change base.
func ParseOver(base Policy, raw json.RawMessage) (Policy, error) {
	p := base.clone()
	if len(raw) > 0 && string(raw) != "null" {
		if err := job.Decode(raw, "policy", &p); err != nil {
			return Policy{}, err
		}
		p.fill(base.clone())
	}
	return p, p.Validate()
}

// Name returns the name of the stored policy if raw is a name rather than a policy.
func Name(raw json.RawMessage) (name string, ok bool) {
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &name) != nil {
		return "", false
	}
	return name, true
}

// Version splits the name of a stored policy. The name strict means its newest version (0),
// strict@2 means version 2. The error is a *job.FieldError.
func Version(s string) (name string, version int, err error) {
	name, number, ok := strings.Cut(s, "@")
	if !ok {
		return s, 0, nil
	}
	version, err = strconv.Atoi(number)
	if err != nil || version < 1 || number != strconv.Itoa(version) || version > math.MaxInt32 {
		return "", 0, job.Invalid("policy", "%.80q must be NAME or NAME@VERSION, and the version a number from 1 on", s)
	}
	return name, version, nil
}

// MarshalJSON writes the whole policy. Parse then reads it back unchanged even if the defaults have
// changed.
func (p Policy) MarshalJSON() ([]byte, error) {
	type plain Policy // without this method
	p.fill(Policy{})
	return json.Marshal(plain(p))
}

// fill replaces nil lists and maps of p (null in JSON) with those of from, or with empty ones.
func (p *Policy) fill(from Policy) {
	for _, l := range []struct{ to, from *[]string }{
		{&p.Read, &from.Read},
		{&p.Write, &from.Write},
		{&p.Imports.Allow, &from.Imports.Allow},
		{&p.Imports.Deny, &from.Imports.Deny},
		{&p.Packages, &from.Packages},
		{&p.Callbacks.Allow, &from.Callbacks.Allow},
		{&p.Artifacts.Paths, &from.Artifacts.Paths},
	} {
		if *l.to == nil {
			*l.to = append([]string{}, *l.from...)
		}
	}
	if len(p.Network.Allow) == 0 { // it has no default and is omitted when empty
		p.Network.Allow = nil
	}
	if p.Env.Set == nil {
		p.Env.Set = copied(from.Env.Set)
	}
	if p.Env.Secrets == nil {
		p.Env.Secrets = copied(from.Env.Secrets)
	}
}

func copied(m map[string]string) map[string]string {
	out := make(map[string]string, len(m))
	maps.Copy(out, m)
	return out
}

// clone returns p without shared memory, because decoding writes into existing slices and maps.
func (p Policy) clone() Policy {
	for _, l := range []*[]string{
		&p.Read, &p.Write, &p.Network.Allow, &p.Network.Private, &p.Imports.Allow, &p.Imports.Deny,
		&p.Packages, &p.Callbacks.Allow, &p.Artifacts.Paths,
	} {
		*l = slices.Clone(*l)
	}
	p.Env.Set, p.Env.Secrets = maps.Clone(p.Env.Set), maps.Clone(p.Env.Secrets)
	p.Asked = maps.Clone(p.Asked)
	return p
}
