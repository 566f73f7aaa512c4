package dropin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/assay-run/assay/internal/dispatcher/recent"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// PolicyName is the name of a tenant's policy for these endpoints.
const PolicyName = "drop-in"

// outputs is the default limit of a stream, the same as SandboxFusion's. A smaller limit could truncate output that
// clients compare, and make correct programs fail.
const outputs = 1 * job.MiB

// limits are the limits of a request. Zeros select the policy's.
type limits struct {
	wall, cpu time.Duration
	memory    job.Size
	atLeast   job.Size // minimum of memory
	processes int      // minimum
	fetch     []string
}

// policy returns the JSON of the policy for a request: the tenant's or the default policy with the limits of the
// request, cut to the tenant's ceiling.
func (h *Handlers) policy(ctx context.Context, tenant string, l limits) (json.RawMessage, error) {
	ceiling, err := h.Ceiling(ctx, tenant)
	if err != nil {
		return nil, err
	}
	own, err := h.stored.get(ctx, h.Policies, tenant)
	if err != nil {
		return nil, err
	}
	p := policy.Default()
	p.Stdout.Limit, p.Stderr.Limit = outputs, outputs
	if p, err = policy.ParseOver(ceiling.Clamp(p), own.raw); err != nil {
		return nil, fmt.Errorf("the stored policy %s: %w", PolicyName, err)
	}
	if l.wall > 0 {
		p.Wall = capAt(job.Duration(l.wall), ceiling.Wall)
		if !own.cpuTime { // the default CPU time matches the default wall limit only
			p.CPUTime = capAt(job.Duration(float64(p.Wall)*max(p.CPU, 1)), ceiling.CPUTime)
		}
	}
	if l.cpu > 0 {
		p.CPUTime = capAt(job.Duration(l.cpu), ceiling.CPUTime)
	}
	if l.memory > 0 {
		p.Memory = capAt(min(max(l.memory, leastMemory), mostMemory), ceiling.Memory)
	}
	p.Memory = max(p.Memory, capAt(l.atLeast, ceiling.Memory))
	p.Processes = max(p.Processes, capAt(l.processes, ceiling.Processes))
	for _, name := range l.fetch {
		p.Artifacts.Paths = append(p.Artifacts.Paths, literal(name))
	}
	return json.Marshal(p)
}

// leastMemory and mostMemory are the smallest and largest memory limits of a policy.
const (
	leastMemory = 16 * job.MiB
	mostMemory  = 1024 * job.GiB
)

// capAt returns n, or the ceiling if that is set and lower.
func capAt[N int | job.Size | job.Duration](n, ceiling N) N {
	if ceiling > 0 {
		return min(n, ceiling)
	}
	return n
}

// maxStored is the most tenants with a cached policy.
const maxStored = 1000

// stored caches the tenants' policies for these endpoints.
type stored struct {
	mu sync.Mutex
	of map[string]*recent.Value[tenantPolicy]
}

// tenantPolicy is a tenant's policy. raw is empty if there is none.
type tenantPolicy struct {
	raw     json.RawMessage
	cpuTime bool // whether the policy sets cpu_time
}

func (s *stored) get(ctx context.Context, from Policies, tenant string) (tenantPolicy, error) {
	o, known, err := s.tenant(from, tenant).Get(ctx)
	if !known {
		return tenantPolicy{}, fmt.Errorf("read policy %s: %w", PolicyName, err)
	}
	return o, nil
}

func (s *stored) tenant(from Policies, tenant string) *recent.Value[tenantPolicy] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.of[tenant]; v != nil {
		return v
	}
	if s.of == nil || len(s.of) >= maxStored {
		s.of = map[string]*recent.Value[tenantPolicy]{}
	}
	v := &recent.Value[tenantPolicy]{Age: time.Second, Read: func(ctx context.Context) (tenantPolicy, error) {
		raw, err := from.Policy(ctx, tenant, PolicyName, 0)
		if errors.Is(err, job.ErrNotFound) {
			return tenantPolicy{}, nil
		}
		var said struct {
			CPUTime json.RawMessage `json:"cpu_time"`
		}
		if err == nil {
			err = json.Unmarshal(raw, &said)
		}
		return tenantPolicy{raw: raw, cpuTime: len(said.CPUTime) > 0 && string(said.CPUTime) != "null"}, err
	}}
	s.of[tenant] = v
	return v
}
