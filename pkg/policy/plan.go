package policy

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/assay-run/assay/pkg/job"
)

// Host is what one machine can enforce, as its self-check found it.
type Host struct {
	Isolations []Isolation `json:"isolations"` // available, weakest first
	CgroupV2   bool        `json:"cgroup_v2"`
	Cores      int         `json:"cores"`
	Memory     job.Size    `json:"memory"`
	Processes  int         `json:"processes,omitempty"`  // most of one job; 0: any number
	OpenFiles  int         `json:"open_files,omitempty"` // the same of its descriptors
	Stack      job.Size    `json:"stack,omitempty"`      // the same of the stack of its main thread
	Missing    []string    `json:"missing,omitempty"`    // what is not there, and what to do about it

	// Holes are known ones of this machine's kernel and container programs.
	Holes []string `json:"holes,omitempty"`

	// Unenforced names capabilities, as in the enforcement report, that this
	// machine cannot enforce although its isolation could, each with the reason.
	Unenforced map[string]string `json:"unenforced,omitempty"`

	// ImageDigests says which image a name means on this machine at present, for
	// names that jobs have used.
	ImageDigests map[string]string `json:"image_digests,omitempty"`

	// Images are those that this machine has at present, the operator's first: at most
	// MaxHostImages. ImagesMore is how many there are besides.
	Images     []HostImage `json:"images,omitempty"`
	ImagesMore int         `json:"images_more,omitempty"`
}

// MaxHostImages bounds what a host says about its images: it says so every few seconds.
const MaxHostImages = 200

// SomeImages returns the first of all that a host says, and how many it leaves out.
func SomeImages(all []HostImage) (some []HostImage, more int) {
	more = max(0, len(all)-MaxHostImages)
	return all[:len(all)-more], more
}

// HostImage is an image that a machine has under a name.
type HostImage struct {
	Name   string `json:"name"` // in full: assay.local/python:latest is what jobs call python
	Digest string `json:"digest"`
	Bytes  int64  `json:"bytes"`  // packed and unpacked, as if it shared no layer; 0: not known
	Pulled bool   `json:"pulled"` // a job brought it, and it goes when space is needed; false: it is the operator's

	// Languages are those of the catalogue that it has, with their versions, as its label says (package language); nil: it
	// says nothing. Of the first MaxHostLanguages images that do.
	Languages map[string]string `json:"languages,omitempty"`
}

// MaxHostLanguages bounds of how many images a host says which languages they have.
const MaxHostLanguages = 16

// Plan is a policy made concrete for one host: what the runtime has to set up.
// Plans are shared between attempts: nobody writes to them.
type Plan struct {
	Policy      Policy            // its Isolation is the one to use
	Enforcement []job.Enforcement // the report, in the order of the policy's fields
}

// Refusal says which fields of a policy are too much: above a ceiling, or
// beyond what can be enforced. It is a job.ErrRefused.
type Refusal struct{ Fields []*job.FieldError }

func (r *Refusal) Error() string {
	out := make([]string, len(r.Fields))
	for i, f := range r.Fields {
		out[i] = f.Error()
	}
	return strings.Join(out, "; ")
}

// Unwrap yields job.ErrRefused, and then the fields.
func (r *Refusal) Unwrap() []error {
	out := []error{job.ErrRefused}
	for _, f := range r.Fields {
		out = append(out, f)
	}
	return out
}

// Plan decides which mechanism enforces each capability of a valid policy on h,
// for a program of the kind for which most is. Who knows what is to run asks
// PlanFor.
func (p Policy) Plan(h Host) (*Plan, error) { return p.PlanFor(h, UseAny) }

// PlanFor decides which mechanism enforces each capability of a valid policy on
// h, for one kind of program. Under strict enforcement it returns a *Refusal that
// names every field that asks for what nothing here enforces. An isolation that h
// lacks is always refused, with one exception: a cell may be a task, which is the
// same walls and more.
func (p Policy) PlanFor(h Host, u Use) (*Plan, error) {
	isolation, ok := h.serve(p.Isolation)
	if !ok {
		return nil, &Refusal{[]*job.FieldError{{
			Field:   "policy.isolation",
			Problem: fmt.Sprintf("%s is not available here; there is %v", p.Isolation, h.Isolations),
		}}}
	}
	if beyond := h.beyond(p); beyond != nil {
		return nil, &Refusal{beyond}
	}
	p.MainStack = p.stackFor(h, u)
	report, missing := p.enforcement(h, isolation, u)
	if len(missing) > 0 && p.Enforce == Strict {
		return nil, &Refusal{missing}
	}
	p.Isolation = isolation
	return &Plan{Policy: p, Enforcement: report}, nil
}

// Explain returns the enforcement report that PlanFor would, but never refuses.
func Explain(p Policy, h Host, u Use) []job.Enforcement {
	isolation, _ := h.serve(p.Isolation)
	p.MainStack = p.stackFor(h, u)
	report, _ := p.enforcement(h, isolation, u)
	return report
}

// beyond is what p asks for and no program on h can have, whatever enforces it.
func (h Host) beyond(p Policy) (fields []*job.FieldError) {
	if h.Processes > 0 && p.Processes > h.Processes {
		fields = append(fields, &job.FieldError{
			Field: "policy.processes", Problem: fmt.Sprintf("at most %d here: the host has no more numbers for processes", h.Processes),
		})
	}
	if h.OpenFiles > 0 && p.OpenFiles > h.OpenFiles {
		fields = append(fields, &job.FieldError{
			Field: "policy.open_files", Problem: fmt.Sprintf("at most %d here: the worker has no higher limit of open files to give", h.OpenFiles),
		})
	}
	if h.Stack > 0 && p.Stack > h.Stack {
		fields = append(fields, &job.FieldError{
			Field: "policy.stack", Problem: fmt.Sprintf("at most %s here: the worker has no higher limit of the stack to give", h.Stack),
		})
	}
	return fields
}

// serve returns the isolation that a job asking for want gets on h.
func (h Host) serve(want Isolation) (Isolation, bool) {
	if slices.Contains(h.Isolations, want) {
		return want, true
	}
	if want == Cell && slices.Contains(h.Isolations, Task) {
		return Task, true
	}
	return "", false
}

// enforcement walks the table: the report, and the fields that ask for what
// nothing enforces.
func (p *Policy) enforcement(h Host, isolation Isolation, u Use) (report []job.Enforcement, missing []*job.FieldError) {
	report = make([]job.Enforcement, 0, len(capabilities))
	for c := range p.rows() {
		row := c.enforce(p, h, isolation, u)
		report = append(report, row)
		if row.Level == job.LevelNone && !c.free {
			missing = append(missing, &job.FieldError{
				Field:   "policy." + c.name,
				Problem: fmt.Sprintf(`%s: %s; "enforce": "report" runs the job without it`, row.Requested, row.Mechanism),
			})
		}
	}
	return report, missing
}

// rows yields the row of the table that is meant of each capability.
func (p *Policy) rows() iter.Seq[*capability] {
	return func(yield func(*capability) bool) {
		last := ""
		for i := range capabilities {
			c := &capabilities[i]
			if c.name == last || c.when != nil && !c.when(p) {
				continue
			}
			last = c.name
			if !yield(c) {
				return
			}
		}
	}
}

func (c *capability) enforce(p *Policy, h Host, isolation Isolation, u Use) job.Enforcement {
	asked := c.asked(p)
	row := job.Enforcement{Capability: c.name, Requested: asked, Applied: asked, Level: job.LevelNone}
	if c.free {
		row.Mechanism = "nothing to enforce"
		if text, lowered := p.Asked[c.name]; lowered {
			row.Requested, row.Mechanism = text, "the tenant's ceiling"
		}
		return row
	}
	w, ok := c.by[isolation]
	if other, has := c.as[u]; has && ok {
		w = other
	}
	reason, lacking := h.Unenforced[c.name]
	unfit, cannot := c.unfit[u]
	switch {
	case cannot:
		row.Applied, row.Mechanism = c.without, "not enforced: "+unfit
	case lacking:
		row.Applied, row.Mechanism = c.without, "not enforced on this host: "+reason
	case !ok:
		row.Applied, row.Mechanism = c.without, "not enforced yet"
	default:
		row.Mechanism, row.Level = w.mechanism, w.level
		if c.applied != nil {
			row.Applied = c.applied(p, h)
		}
	}
	if c.name == "isolation" {
		row.Applied = string(isolation)
	}
	if text, lowered := p.Asked[c.name]; lowered {
		row.Requested = text
	}
	return row
}
