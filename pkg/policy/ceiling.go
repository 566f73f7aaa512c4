package policy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/netrule"
)

// Ceiling is the most that a tenant may request. A zero field sets no limit.
type Ceiling struct {
	Above        Above        `json:"above,omitempty"`     // how to treat a policy above the ceiling
	Isolation    Isolation    `json:"isolation,omitempty"` // the floor: the weakest allowed
	Enforce      Enforce      `json:"enforce,omitempty"`   // strict: forbids report
	Wall         job.Duration `json:"wall,omitempty"`
	CPU          float64      `json:"cpu,omitempty"`
	CPUTime      job.Duration `json:"cpu_time,omitempty"`
	Memory       job.Size     `json:"memory,omitempty"`
	Processes    int          `json:"processes,omitempty"`
	Disk         job.Size     `json:"disk,omitempty"`
	Files        int          `json:"files,omitempty"`
	OpenFiles    int          `json:"open_files,omitempty"`
	Stdout       job.Size     `json:"stdout,omitempty"`
	Stderr       job.Size     `json:"stderr,omitempty"`
	Network      NetworkMode  `json:"network,omitempty"`       // the most open mode allowed
	NetworkAllow []string     `json:"network_allow,omitempty"` // hosts that allow-lists may use; excludes open
	// NetworkPrivate lists private addresses that jobs may reach if their own policies allow it, as
	// CIDR:port. Addresses in NetworkAllow are open, too.
	NetworkPrivate []string `json:"network_private,omitempty"`
	NetworkBytes   job.Size `json:"network_bytes,omitempty"`
	MaxCalls       int      `json:"max_calls,omitempty"`
	ArtifactBytes  job.Size `json:"artifact_bytes,omitempty"`
	ArtifactFiles  int      `json:"artifact_files,omitempty"`

	// Registries restricts the registries of images further than the worker's operator does:
	// host[:port], optionally with a path prefix. Images that workers hold and never pull are always
	// allowed. So assay.local alone allows nothing else.
	Registries []string `json:"registries,omitempty"`

	// Limits of the tenant's total, independent of its policies.
	Sessions int   `json:"sessions,omitempty"` // live sessions
	Queued   int64 `json:"queued,omitempty"`   // jobs that have not ended
	Batches  int64 `json:"batches,omitempty"`  // batches that have not ended, including uploads in progress
	Classes  int   `json:"classes,omitempty"`  // distinct needs among its waiting jobs

	// Limits of the tenant's requests, at each dispatcher. A burst of one second is allowed.
	Requests float64  `json:"requests_per_second,omitempty"`
	Bytes    job.Size `json:"bytes_per_second,omitempty"` // of bodies, on average: a large body delays the next one
}

// DefaultArtifactFiles is the default ceiling of artifacts.max_files. Each file is an object of the
// store.
const DefaultArtifactFiles = 10_000

// Above is how to treat a policy above its ceiling.
type Above string

// The choices.
const (
	Refuse Above = "refuse" // reject it and name every field; the default
	Lower  Above = "clamp"  // lower it to the ceiling; the enforcement report has the request
)

// ParseCeiling reads a ceiling. Empty input and null set no limit. Errors are *job.FieldError with
// paths such as ceiling.memory.
func ParseCeiling(raw json.RawMessage) (Ceiling, error) {
	var c Ceiling
	if len(raw) == 0 || string(raw) == "null" {
		return c, nil
	}
	if err := job.Decode(raw, "ceiling", &c); err != nil {
		return Ceiling{}, err
	}
	switch {
	case c.Isolation != "" && !slices.Contains(Isolations, c.Isolation):
		return Ceiling{}, job.Invalid("ceiling.isolation", "must be one of %v", Isolations)
	case c.Enforce != "" && c.Enforce != Strict && c.Enforce != Report:
		return Ceiling{}, job.Invalid("ceiling.enforce", "must be strict or report")
	case c.Above != "" && c.Above != Refuse && c.Above != Lower:
		return Ceiling{}, job.Invalid("ceiling.above", "must be refuse or clamp")
	case c.Network != "" && !slices.Contains(networkModes, c.Network):
		return Ceiling{}, job.Invalid("ceiling.network", "must be one of %v", networkModes)
	}
	for _, f := range []struct {
		field string
		n     float64
	}{{"sessions", float64(c.Sessions)}, {"queued", float64(c.Queued)}, {"batches", float64(c.Batches)},
		{"classes", float64(c.Classes)}, {"requests_per_second", c.Requests}, {"bytes_per_second", float64(c.Bytes)}} {
		if f.n < 0 {
			return Ceiling{}, job.Invalid("ceiling."+f.field, "%v is negative", f.n)
		}
	}
	if _, err := netrule.ParseRules(c.NetworkAllow); err != nil {
		return Ceiling{}, job.Invalid("ceiling.network_allow", "%v", err)
	}
	if _, err := netrule.ParseRanges(c.NetworkPrivate); err != nil {
		return Ceiling{}, job.Invalid("ceiling.network_private", "%v", err)
	}
	for i, entry := range c.Registries {
		if bad := badRegistry(entry); bad != "" {
			return Ceiling{}, job.Invalid(fmt.Sprintf("ceiling.registries[%d]", i), "%.200q: %s", entry, bad)
		}
	}
	// A ceiling below the minimum of every policy would reject all jobs.
	if err := c.Clamp(Default()).validateAt("ceiling"); err != nil {
		return Ceiling{}, err
	}
	return c, nil
}

// Check returns nil if c allows p. Otherwise it returns a *Refusal that names every field above c.
func (c Ceiling) Check(p Policy) error {
	var over []*job.FieldError
	for _, b := range bounds {
		if most := b.exceeded(&c, &p); most != "" {
			over = append(over, &job.FieldError{Field: "policy." + b.field, Problem: most})
		}
	}
	if len(over) > 0 {
		return &Refusal{over}
	}
	return nil
}

// Apply returns p, or p lowered to c if c.Above is Lower. Otherwise it returns a *Refusal as Check
// does.
func (c Ceiling) Apply(p Policy) (Policy, error) {
	p.Asked, p.Network.Private, p.RestrictHelpers = nil, nil, false
	if len(p.Callbacks.Allow) > 0 && p.Callbacks.MaxCalls == 0 {
		p.Callbacks.MaxCalls = c.MaxCalls
	}
	err := c.Check(p)
	if err == nil || c.Above != Lower {
		p.Network.Private = c.private(&p)
		return p, err
	}
	low := c.Clamp(p)
	low.Network.Private = c.private(&low)
	low.Asked = map[string]string{}
	for i := range capabilities {
		name := capabilities[i].name
		if asked := p.requestOf(name); asked != low.requestOf(name) {
			low.Asked[name] = asked
		}
	}
	return low, nil
}

// private returns the private addresses that p may reach. Only the ceiling can open them.
func (c *Ceiling) private(p *Policy) []string {
	if p.Network.Mode == NetworkNone {
		return nil
	}
	return slices.Concat(c.NetworkPrivate, netrule.Private(c.NetworkAllow))
}

// requestOf renders p's request for a capability.
func (p *Policy) requestOf(name string) string {
	for i := range capabilities {
		if c := &capabilities[i]; c.name == name && (c.when == nil || c.when(p)) {
			return c.asked(p)
		}
	}
	return ""
}

// Clamp returns p lowered (isolation: raised) to the limits of c.
func (c Ceiling) Clamp(p Policy) Policy {
	for _, b := range bounds {
		if b.exceeded(&c, &p) != "" {
			b.lower(&c, &p)
		}
	}
	if p.Network.Mode == NetworkAllow && len(p.Network.Allow) == 0 {
		p.Network.Mode = NetworkNone // it was open, so there is no list to allow
	}
	if p.Network.Mode != NetworkAllow {
		p.Network.Allow = nil
	}
	return p
}

// bound connects a field of a policy with its ceiling.
type bound struct {
	field    string
	exceeded func(*Ceiling, *Policy) string // the problem, or ""
	lower    func(*Ceiling, *Policy)
}

var bounds = []bound{
	floor("isolation", Isolations, func(c *Ceiling, p *Policy) (*Isolation, *Isolation) { return &c.Isolation, &p.Isolation }),
	{
		"enforce",
		func(c *Ceiling, p *Policy) string {
			if c.Enforce == Strict && p.Enforce != Strict {
				return "must be strict"
			}
			return ""
		},
		func(c *Ceiling, p *Policy) { p.Enforce = Strict },
	},
	most("wall", func(c *Ceiling, p *Policy) (*job.Duration, *job.Duration) { return &c.Wall, &p.Wall }),
	most("cpu", func(c *Ceiling, p *Policy) (*float64, *float64) { return &c.CPU, &p.CPU }),
	most("cpu_time", func(c *Ceiling, p *Policy) (*job.Duration, *job.Duration) { return &c.CPUTime, &p.CPUTime }),
	most("memory", func(c *Ceiling, p *Policy) (*job.Size, *job.Size) { return &c.Memory, &p.Memory }),
	most("processes", func(c *Ceiling, p *Policy) (*int, *int) { return &c.Processes, &p.Processes }),
	most("disk", func(c *Ceiling, p *Policy) (*job.Size, *job.Size) { return &c.Disk, &p.Disk }),
	most("files", func(c *Ceiling, p *Policy) (*int, *int) { return &c.Files, &p.Files }),
	most("open_files", func(c *Ceiling, p *Policy) (*int, *int) { return &c.OpenFiles, &p.OpenFiles }),
	most("stdout.limit", func(c *Ceiling, p *Policy) (*job.Size, *job.Size) { return &c.Stdout, &p.Stdout.Limit }),
	most("stderr.limit", func(c *Ceiling, p *Policy) (*job.Size, *job.Size) { return &c.Stderr, &p.Stderr.Limit }),
	ladder("network.mode", networkModes, func(c *Ceiling, p *Policy) (*NetworkMode, *NetworkMode) { return &c.Network, &p.Network.Mode }),
	{"network.mode", openAboveList, func(_ *Ceiling, p *Policy) { p.Network.Mode, p.Network.Allow = NetworkNone, nil }},
	{"network.allow", beyondList, keepWithinList},
	most("network.max_bytes", func(c *Ceiling, p *Policy) (*job.Size, *job.Size) { return &c.NetworkBytes, &p.Network.MaxBytes }),
	most("callbacks.max_calls", func(c *Ceiling, p *Policy) (*int, *int) { return &c.MaxCalls, &p.Callbacks.MaxCalls }),
	most("artifacts.max_bytes", func(c *Ceiling, p *Policy) (*job.Size, *job.Size) { return &c.ArtifactBytes, &p.Artifacts.MaxBytes }),
	most("artifacts.max_files", func(c *Ceiling, p *Policy) (*int, *int) {
		limit := cmp.Or(c.ArtifactFiles, DefaultArtifactFiles)
		return &limit, &p.Artifacts.MaxFiles
	}),
}

func openAboveList(c *Ceiling, p *Policy) string {
	if len(c.NetworkAllow) > 0 && p.Network.Mode == NetworkOpen {
		return "open is above the ceiling, which is a list: " + names(c.NetworkAllow)
	}
	return ""
}

func beyondList(c *Ceiling, p *Policy) string {
	if _, over := c.split(p); len(over) > 0 {
		return names(over) + " is not within the ceiling of " + names(c.NetworkAllow)
	}
	return ""
}

func keepWithinList(c *Ceiling, p *Policy) { p.Network.Allow, _ = c.split(p) }

// split divides the allow-list of p into entries within the ceiling and entries beyond it.
func (c *Ceiling) split(p *Policy) (within, over []string) {
	if len(c.NetworkAllow) == 0 {
		return p.Network.Allow, nil
	}
	most, err := netrule.ParseRules(slices.Concat(c.NetworkAllow, c.NetworkPrivate))
	for _, entry := range p.Network.Allow {
		if rule, rerr := netrule.ParseRule(entry); err == nil && rerr == nil && most.Covers(rule) {
			within = append(within, entry)
		} else {
			over = append(over, entry)
		}
	}
	return within, over
}

func most[T cmp.Ordered](field string, of func(*Ceiling, *Policy) (limit, value *T)) bound {
	var none T
	return bound{field,
		func(c *Ceiling, p *Policy) string {
			if limit, value := of(c, p); *limit != none && *value > *limit {
				return fmt.Sprintf("%v is above the ceiling of %v", *value, *limit)
			}
			return ""
		},
		func(c *Ceiling, p *Policy) { limit, value := of(c, p); *value = *limit },
	}
}

// ladder limits a choice from above. The steps go from least to most.
func ladder[T ~string](field string, steps []T, of func(*Ceiling, *Policy) (limit, value *T)) bound {
	return bound{field,
		func(c *Ceiling, p *Policy) string {
			if limit, value := of(c, p); *limit != "" && slices.Index(steps, *value) > slices.Index(steps, *limit) {
				return fmt.Sprintf("%v is above the ceiling of %v", *value, *limit)
			}
			return ""
		},
		func(c *Ceiling, p *Policy) { limit, value := of(c, p); *value = *limit },
	}
}

// floor limits a choice from below.
func floor[T ~string](field string, steps []T, of func(*Ceiling, *Policy) (limit, value *T)) bound {
	return bound{field,
		func(c *Ceiling, p *Policy) string {
			if limit, value := of(c, p); *limit != "" && slices.Index(steps, *value) < slices.Index(steps, *limit) {
				return fmt.Sprintf("%v is weaker than the required %v", *value, *limit)
			}
			return ""
		},
		func(c *Ceiling, p *Policy) { limit, value := of(c, p); *value = *limit },
	}
}
