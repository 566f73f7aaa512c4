package admit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/store"
)

// resolved is a policy with every default filled in, within the ceiling.
type resolved struct {
	policy policy.Policy
	raw    json.RawMessage
}

// policies resolves each distinct policy of a request once. Most batches have
// one.
type policies struct {
	source  store.Policies
	tenant  string
	ceiling policy.Ceiling
	// restrictHelpers holds checkers, interactors and compilers to the policies.
	restrictHelpers bool

	mu    sync.Mutex
	known map[string]*resolved
}

// maxKnown bounds the memory of a request in which every job brings a policy
// of its own.
const (
	maxKnown     = 1024
	maxKnownSize = 16 << 10
)

func (p *policies) setCeiling(raw json.RawMessage) error {
	c, err := policy.ParseCeiling(raw)
	if err != nil {
		// What an operator stored is not the client's mistake.
		return fmt.Errorf("the stored ceiling of %s is unusable: %v", p.tenant, err)
	}
	p.ceiling = c
	return nil
}

// resolve returns what a job's policy field means, if it can be enforced in the pool
// that the job names.
func (p *policies) resolve(ctx context.Context, pool string, raw json.RawMessage, a *Admitter) (*resolved, error) {
	key := pool + "\n" + string(raw)
	p.mu.Lock()
	r := p.known[key]
	p.mu.Unlock()
	if r != nil {
		return r, nil
	}
	r, err := p.make(ctx, pool, raw, a)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil {
		p.known = map[string]*resolved{}
	}
	if len(p.known) < maxKnown && len(raw) <= maxKnownSize {
		p.known[key] = r
	}
	return r, nil
}

func (p *policies) make(ctx context.Context, pool string, raw json.RawMessage, a *Admitter) (*resolved, error) {
	inline, err := p.inline(ctx, raw)
	if err != nil {
		return nil, err
	}
	// A default above the ceiling gives way; what was asked for is refused.
	pol, err := policy.ParseOver(p.ceiling.Clamp(policy.Default()), inline)
	if err != nil {
		return nil, err
	}
	if pol, err = p.ceiling.Apply(pol); err != nil {
		return nil, err
	}
	pol.RestrictHelpers = p.restrictHelpers
	if len(pol.Env.Secrets) > 0 {
		if err := a.Secrets.Check(ctx, p.tenant, pol.Env.Secrets); err != nil {
			return nil, err
		}
	}
	r := &resolved{policy: pol}
	where := placement.NeedOf(&job.Spec{Pool: pool}, &pol, func(string) bool { return false })
	if err := enforceable(pol, a.Hosts(where.Class())); err != nil {
		return nil, err
	}
	if r.raw, err = json.Marshal(pol); err != nil {
		return nil, fmt.Errorf("encode policy: %w", err)
	}
	return r, nil
}

// inline returns the policy object that the field raw stands for: itself, or
// the stored one that it names.
func (p *policies) inline(ctx context.Context, raw json.RawMessage) (json.RawMessage, error) {
	name, ok := policy.Name(raw)
	if !ok {
		return raw, nil
	}
	name, version, err := policy.Version(name)
	if err != nil {
		return nil, err
	}
	stored, err := p.source.Policy(ctx, p.tenant, name, version)
	if errors.Is(err, job.ErrNotFound) && version > 0 {
		return nil, job.Invalid("policy", "there is no version %d of a stored policy %.80q", version, name)
	}
	if errors.Is(err, job.ErrNotFound) {
		return nil, job.Invalid("policy", "there is no stored policy %.80q; put one at /v1/policies/NAME", name)
	}
	if err != nil {
		return nil, fmt.Errorf("read policy %q: %w", name, err)
	}
	return stored, nil
}

// enforceable refuses a policy that no connected worker could enforce: better
// now, with the field's name, than after a wait in the queue.
func enforceable(pol policy.Policy, hosts []policy.Host) error {
	var refusal error
	for _, h := range hosts {
		if _, err := pol.Plan(h); err != nil {
			refusal = err
			continue
		}
		return nil
	}
	return refusal
}

// Ceiling returns the most that a tenant may ask for.
func (a *Admitter) Ceiling(ctx context.Context, tenant string) (policy.Ceiling, error) {
	t, err := a.Tenants.Tenant(ctx, tenant)
	if err != nil {
		return policy.Ceiling{}, fmt.Errorf("read the quotas of %s: %w", tenant, err)
	}
	p := policies{tenant: tenant}
	err = p.setCeiling(t.Ceiling)
	return p.ceiling, err
}

// Resolve returns what a policy field would mean for a job of tenant, whether
// or not a connected worker could enforce it.
func (a *Admitter) Resolve(ctx context.Context, tenant string, raw json.RawMessage) (policy.Policy, error) {
	judge := *a
	judge.Hosts = func(string) []policy.Host { return nil }
	in, err := judge.Open(ctx, tenant, nil, nil, nil)
	if err != nil {
		return policy.Policy{}, err
	}
	r, err := in.policies.resolve(ctx, "", raw, &judge)
	if err != nil {
		return policy.Policy{}, err
	}
	return r.policy, nil
}
