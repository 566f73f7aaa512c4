package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// policy returns the policy of a run: a stored one or the server's, restricted by the arguments
// timeout and artifacts. The API rejects values above the tenant's ceiling.
func (t *tools) policy(ctx context.Context, a common) (json.RawMessage, error) {
	raw, err := t.named(a.Policy)
	if err != nil || a.Timeout == 0 && len(a.Artifacts) == 0 {
		return raw, err
	}
	fields, err := t.fields(ctx, raw)
	if err != nil {
		return nil, err
	}
	if err := limitWall(fields, a.Timeout); err != nil {
		return nil, err
	}
	if err := keep(fields, a.Artifacts); err != nil {
		return nil, err
	}
	return json.Marshal(fields)
}

// named returns the policy that a call names, if any.
func (t *tools) named(name string) (json.RawMessage, error) {
	if name == "" {
		return t.Policy, nil
	}
	return json.Marshal(name)
}

// fields returns the fields of a policy, which may be given as the name of a stored one.
func (t *tools) fields(ctx context.Context, raw json.RawMessage) (map[string]json.RawMessage, error) {
	var name string
	if json.Unmarshal(raw, &name) == nil && name != "" {
		var err error
		if raw, err = t.Fleet.Policy(ctx, name); err != nil {
			return nil, fmt.Errorf("policy %q: %w", name, err)
		}
	}
	fields := map[string]json.RawMessage{}
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &fields); err != nil {
			return nil, job.Invalid("policy", "must be an object or a name: %v", err)
		}
	}
	return fields, nil
}

// limitWall sets the time limit of a program in seconds; 0 leaves it. It never raises the limit of
// a policy.
func limitWall(fields map[string]json.RawMessage, timeout float64) error {
	if timeout == 0 {
		return nil
	}
	asked := wallOf(timeout)
	var most job.Duration
	if raw := fields["wall"]; raw != nil {
		if err := json.Unmarshal(raw, &most); err != nil {
			return job.Invalid("policy.wall", "%v", err)
		}
	}
	if most > 0 && asked > most {
		return job.Invalid("timeout", "%v s is more than the policy allows: ask for at most %v s", timeout, most.D().Seconds())
	}
	var err error
	fields["wall"], err = json.Marshal(asked)
	return err
}

// wallOf converts seconds to a duration of at least a millisecond.
func wallOf(timeout float64) job.Duration {
	ms := math.Min(math.Ceil(timeout*1000), float64(job.MaxWall.D().Milliseconds()))
	return job.Duration(time.Duration(ms) * time.Millisecond)
}

// keep selects the files to keep after a program, unless its policy already does.
func keep(fields map[string]json.RawMessage, globs []string) error {
	if len(globs) == 0 {
		return nil
	}
	artifacts := map[string]json.RawMessage{}
	if raw := fields["artifacts"]; raw != nil {
		if err := json.Unmarshal(raw, &artifacts); err != nil {
			return job.Invalid("policy.artifacts", "%v", err)
		}
	}
	var set []string
	if raw := artifacts["paths"]; raw != nil && json.Unmarshal(raw, &set) == nil && len(set) > 0 {
		return job.Invalid("artifacts", "the policy sets the files to store (%q); leave the argument out, or name another policy", set)
	}
	paths := make([]string, len(globs))
	for i, g := range globs {
		paths[i] = inWorkspace(g)
	}
	var err error
	if artifacts["paths"], err = json.Marshal(paths); err == nil {
		fields["artifacts"], err = json.Marshal(artifacts)
	}
	return err
}
