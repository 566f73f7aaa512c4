// Package placement says which workers can run which jobs.
//
// A job has a Need, a worker makes an Offer. Jobs with the same need are a class, with
// a queue of its own that only the workers it fits take from. Most jobs need nothing
// out of the ordinary and name no pool: their class is Any. Dispatchers and workers
// decide by the same function; that a pool is exclusive, dispatchers say.
package placement

import (
	"cmp"
	"maps"
	"math/bits"
	"net/url"
	"slices"
	"strings"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// Ordinary is the memory that a job may need and still be of its pool's first class.
const Ordinary = 512 * job.MiB

// Any is the class of jobs that need nothing of a worker and name no pool.
const Any = ""

// Offer is what a worker can run.
type Offer struct {
	Isolations []policy.Isolation `json:"isolations,omitempty"`
	Labels     map[string]string  `json:"labels,omitempty"`
	Images     []string           `json:"images,omitempty"` // none: any
	CPU        float64            `json:"cpu,omitempty"`    // cores promised to jobs, 0: no bound; a job with more runs on what there is
	Memory     job.Size           `json:"memory,omitempty"` // promised to jobs, 0: no bound
	// Exclusive says that jobs have to name the worker's pool. Dispatchers write it into
	// what a worker offers: it is not the worker's to say.
	Exclusive bool `json:"exclusive,omitempty"`
}

// Need is what a job needs of a worker. The zero value of a field needs nothing.
type Need struct {
	Pool      string           // that the job names
	Isolation policy.Isolation // gvisor or vm: every worker runs tasks, and cells as tasks
	Memory    job.Size
	Image     string // one that some workers are reserved for
	Labels    map[string]string
}

// NeedOf returns what a job needs. reserved says for which images there are workers
// that take nothing else.
func NeedOf(s *job.Spec, p *policy.Policy, reserved func(image string) bool) Need {
	n := Need{Pool: s.Pool, Memory: MemoryOf(s.Program, p), Labels: labelsOf(s)}
	if p.Isolation == policy.GVisor || p.Isolation == policy.VM {
		n.Isolation = p.Isolation
	}
	if n.Memory <= Ordinary {
		n.Memory = 0
	}
	if reserved(s.Image) {
		n.Image = s.Image
	}
	return n
}

// MemoryOf returns the memory that a job needs of a worker: what its program takes, or its compiler, one after the other.
func MemoryOf(program job.Program, p *policy.Policy) job.Size {
	most := RunMemoryOf(program, p)
	for _, c := range []*job.Code{program.InLanguage(), program.Tests.CheckerCode()} {
		if c != nil && c.Compile != nil {
			most = max(most, c.Compile.Memory)
		}
	}
	return most
}

// RunMemoryOf returns the memory that the program of a job takes: check code and interactors run beside the
// solution, a checker after it.
func RunMemoryOf(program job.Program, p *policy.Policy) job.Size {
	n, t := p.Memory, program.Tests
	if t == nil {
		return n
	}
	if t.Check != "" {
		n += p.Memory
	}
	if t.Interactor != nil {
		n = max(n, p.Memory+t.Interactor.MemoryFor(p.Memory))
	}
	if t.Checker != nil {
		n = max(n, t.Checker.MemoryFor(p.Memory))
	}
	return n
}

// Class names the queue in which jobs with a need wait. It is the pool's name, or
// Any, if they need nothing else. Memory is rounded up, by at most an eighth, so that
// there are not as many classes as sizes.
func (n Need) Class() string {
	q := url.Values{}
	if n.Isolation != "" {
		q.Set("isolation", string(n.Isolation))
	}
	if n.Memory > 0 {
		q.Set("memory", roundUp(n.Memory).String())
	}
	if n.Image != "" {
		q.Set("image", n.Image)
	}
	for k, v := range n.Labels {
		q.Set("label."+k, v)
	}
	if len(q) == 0 {
		return n.Pool
	}
	return url.QueryEscape(n.Pool) + "?" + q.Encode()
}

// roundUp keeps four bits.
func roundUp(s job.Size) job.Size {
	step := job.Size(1) << max(bits.Len64(uint64(s))-4, 0)
	return (s + step - 1) / step * step
}

// ParseClass reads what Class wrote. A name that is no class is a pool: pools may
// have any name.
func ParseClass(class string) Need {
	pool, query, special := strings.Cut(class, "?")
	if !special {
		return Need{Pool: class}
	}
	pool, err := url.QueryUnescape(pool)
	q, qerr := url.ParseQuery(query)
	n := Need{Pool: pool, Isolation: policy.Isolation(q.Get("isolation")), Image: q.Get("image")}
	if m := q.Get("memory"); m != "" && qerr == nil {
		n.Memory, qerr = job.ParseSize(m)
	}
	for k := range q {
		if label, ok := strings.CutPrefix(k, "label."); ok {
			if n.Labels == nil {
				n.Labels = map[string]string{}
			}
			n.Labels[label] = q.Get(k)
		}
	}
	if err != nil || qerr != nil || n.Class() != class {
		return Need{Pool: class}
	}
	return n
}

// PoolOf is the pool of a class for people: "*" if it names none.
func PoolOf(class string) string { return cmp.Or(ParseClass(class).Pool, "*") }

// Takes says whether a worker of a pool with this offer may run the jobs with a need.
func (o Offer) Takes(pool string, n Need) bool { return o.Open(pool, n) && o.Lacks(n) == "" }

// Open says whether a worker of a pool with this offer takes jobs that name the pool, or
// none, that the need does.
func (o Offer) Open(pool string, n Need) bool {
	return n.Pool == pool || n.Pool == Any && !o.Exclusive
}

// Lacks says what a worker with this offer does not have that the need asks for, its
// pool left aside; "" if it has all of it.
func (o Offer) Lacks(n Need) string {
	if n.Isolation != "" && !slices.Contains(o.Isolations, n.Isolation) {
		return "isolation " + string(n.Isolation)
	}
	if o.Memory > 0 && n.Memory > o.Memory {
		return "memory " + n.Memory.String()
	}
	if len(o.Images) > 0 && !slices.Contains(o.Images, n.Image) {
		return "any image but " + strings.Join(o.Images, ", ")
	}
	for _, k := range slices.Sorted(maps.Keys(n.Labels)) {
		if v, ok := o.Labels[k]; !ok || v != n.Labels[k] {
			return labelText(k, n.Labels[k])
		}
	}
	return ""
}

// String says what a need asks for, for people.
func (n Need) String() string {
	var parts []string
	if n.Isolation != "" {
		parts = append(parts, "isolation "+string(n.Isolation))
	}
	if n.Memory > 0 {
		parts = append(parts, "memory "+n.Memory.String())
	}
	if n.Image != "" {
		parts = append(parts, "image "+n.Image)
	}
	for _, k := range slices.Sorted(maps.Keys(n.Labels)) {
		parts = append(parts, labelText(k, n.Labels[k]))
	}
	return strings.Join(parts, ", ")
}
