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
)

// resolved is a policy within the ceiling, with every default filled in.
type resolved struct {
	policy policy.Policy
	raw    json.RawMessage
}

// policies resolves each distinct policy of a request once. Most batches have one.
type policies struct {
	source  Policies
	tenant  string
	ceiling policy.Ceiling
	// restrictHelpers applies the policies to checkers, interactors and compilers, too.
	restrictHelpers bool

	mu    sync.Mutex
	known map[string]*resolved
}

// Bounds of the cache, for requests in which every job has its own policy.
const (
	maxKnown     = 1024
	maxKnownSize = 16 << 10
)

func (p *policies) setCeiling(raw json.RawMessage) error {
	c, err := policy.ParseCeiling(raw)
	if err != nil {
		// The client cannot correct a stored ceiling, so the error does not wrap job.ErrInvalid.
		return fmt.Errorf("the stored ceiling of %s is unusable: %v", p.tenant, err)
	}
	p.ceiling = c
	return nil
}

// resolve returns the policy for a job's policy field. It returns an error if no connected worker of the pool can
// enforce it.
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
	// The ceiling lowers the defaults; requested values are checked against it.
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

// inline returns the policy object of the field raw: raw itself, or the stored policy that it names.
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

// enforceable returns an error if hosts are known and none can enforce the policy. So the client need not wait for a
// worker to reject the job.
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

// Ceiling returns the ceiling of a tenant.
func (a *Admitter) Ceiling(ctx context.Context, tenant string) (policy.Ceiling, error) {
	t, err := a.Tenants.Tenant(ctx, tenant)
	if err != nil {
		return policy.Ceiling{}, fmt.Errorf("read the quotas of %s: %w", tenant, err)
	}
	p := policies{tenant: tenant}
	err = p.setCeiling(t.Ceiling)
	return p.ceiling, err
}

// Resolve returns the policy of a policy field for a job of tenant, whether or not a connected worker can enforce it.
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
