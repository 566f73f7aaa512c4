// Package placement decides which workers can run which jobs.
//
// A job has a Need, a worker makes an Offer. Jobs with the same need form a class. Each class has
// its own queue, and only suitable workers pull from it. Most jobs have no special needs and name
// no pool: their class is Any. Dispatchers and workers decide with the same function. Only
// dispatchers decide that a pool is exclusive.
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

// Ordinary is the most memory of a job in its pool's default class.
const Ordinary = 512 * job.MiB

// Any is the class of jobs without special needs and without a pool.
const Any = ""

// Offer describes the jobs that a worker can run.
type Offer struct {
	Isolations []policy.Isolation `json:"isolations,omitempty"`
	Labels     map[string]string  `json:"labels,omitempty"`
	Images     []string           `json:"images,omitempty"` // empty: any
	// cores for jobs, 0: unlimited; a job that requests more runs on the existing ones
	CPU    float64  `json:"cpu,omitempty"`
	Memory job.Size `json:"memory,omitempty"` // memory for jobs, 0: unlimited
	// Exclusive requires jobs to name the worker's pool. Dispatchers set it in a worker's offer; the
	// worker's own value is ignored.
	Exclusive bool `json:"exclusive,omitempty"`
}

// Need is the requirements of a job on its worker. The zero value of a field requires nothing.
type Need struct {
	Pool      string           // the pool in the job
	Isolation policy.Isolation // gvisor or vm: every worker runs tasks, and runs cells as tasks
	Memory    job.Size
	Image     string // an image for which some workers are reserved
	Labels    map[string]string
}

// NeedOf returns the requirements of a job. The function reserved reports whether some workers run
// only this image.
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

// MemoryOf returns the memory that a job needs on a worker: the larger of its program's and its
// compiler's, which run one after the other.
func MemoryOf(program job.Program, p *policy.Policy) job.Size {
	most := RunMemoryOf(program, p)
	for _, c := range []*job.Code{program.InLanguage(), program.Tests.CheckerCode()} {
		if c != nil && c.Compile != nil {
			most = max(most, c.Compile.Memory)
		}
	}
	return most
}

// RunMemoryOf returns the memory of the job's program. Check code and interactors run beside the
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

// Class returns the name of the queue for jobs with this need. It is the pool's name, or Any, if
// there are no other needs. It rounds memory up by at most an eighth to limit the number of
// classes.
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

// roundUp keeps the four highest bits.
func roundUp(s job.Size) job.Size {
	step := job.Size(1) << max(bits.Len64(uint64(s))-4, 0)
	return (s + step - 1) / step * step
}

// ParseClass reads the output of Class. Any other name is a pool, because pools may have any name.
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

// PoolOf returns the pool of a class for display, or "*" if there is none.
func PoolOf(class string) string { return cmp.Or(ParseClass(class).Pool, "*") }

// Takes reports whether a worker of this pool with this offer may run jobs with this need.
func (o Offer) Takes(pool string, n Need) bool { return o.Open(pool, n) && o.Lacks(n) == "" }

// Open reports whether a worker of this pool with this offer accepts the need's pool, or jobs
// without one.
func (o Offer) Open(pool string, n Need) bool {
	return n.Pool == pool || n.Pool == Any && !o.Exclusive
}

// Lacks returns the first requirement that the offer does not meet, or "". It ignores the pool.
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

// String describes a need for people.
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
