package policy

import "github.com/assay-run/assay/pkg/job"

// Host is what one machine can enforce, as its self-check found it.
type Host struct {
	Isolations []Isolation `json:"isolations"` // available, weakest first
	CgroupV2   bool        `json:"cgroup_v2"`
	Cores      int         `json:"cores"`
	Memory     job.Size    `json:"memory"`
	Missing    []string    `json:"missing,omitempty"` // what is not there, and what to do about it
}

// Plan is a policy made concrete for one host: what the runtime has to set up.
type Plan struct {
	Policy      Policy
	Enforcement []job.Enforcement // the report, in the order of the policy's fields
}
