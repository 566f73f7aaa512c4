package policy

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/assay-run/assay/pkg/job"
)

// Host is the capabilities of one machine, as its self-check reports them.
type Host struct {
	Isolations []Isolation `json:"isolations"` // available, weakest first
	CgroupV2   bool        `json:"cgroup_v2"`
	Cores      int         `json:"cores"`
	Memory     job.Size    `json:"memory"`
	Processes  int         `json:"processes,omitempty"`  // most of one job; 0: unlimited
	OpenFiles  int         `json:"open_files,omitempty"` // most descriptors of one job; 0: unlimited
	Stack      job.Size    `json:"stack,omitempty"`      // largest stack of a main thread; 0: unlimited
	Missing    []string    `json:"missing,omitempty"`    // missing features and how to add them

	// Holes are known vulnerabilities of this machine's kernel and container programs.
	Holes []string `json:"holes,omitempty"`

	// Unenforced maps capabilities of the enforcement report to reasons. This machine cannot enforce
	// them although its isolation could.
	Unenforced map[string]string `json:"unenforced,omitempty"`

	// ImageDigests maps names that jobs have used to the current image on this machine.
	ImageDigests map[string]string `json:"image_digests,omitempty"`

	// Images are the current images of this machine, the operator's first: at most MaxHostImages.
	// ImagesMore counts the others.
	Images     []HostImage `json:"images,omitempty"`
	ImagesMore int         `json:"images_more,omitempty"`
}

// MaxHostImages limits the images in a host's report, which it sends every few seconds.
const MaxHostImages = 200

// SomeImages returns the first of all images for a host's report, and the number of others.
func SomeImages(all []HostImage) (some []HostImage, more int) {
	more = max(0, len(all)-MaxHostImages)
	return all[:len(all)-more], more
}

// HostImage is an image on a machine, under one name.
type HostImage struct {
	Name   string `json:"name"` // full name: assay.local/python:latest is the image that jobs call python
	Digest string `json:"digest"`
	Bytes  int64  `json:"bytes"`  // packed plus unpacked, without shared layers; 0: unknown
	Pulled bool   `json:"pulled"` // pulled for a job and evicted when space is needed; false: from the operator

	// Languages are the languages of the catalogue in this image with their versions, from its label
	// (package language). Nil: no label. Only the first MaxHostLanguages images with a label report
	// them.
	Languages map[string]string `json:"languages,omitempty"`
}

// MaxHostLanguages limits the number of images that report their languages.
const MaxHostLanguages = 16

// Plan is a policy made concrete for one host: the set-up that the runtime has to do. Attempts
// share plans, so plans are read-only.
type Plan struct {
	Policy      Policy            // its Isolation is the effective one
	Enforcement []job.Enforcement // the report, in the order of the policy's fields
}

// Refusal lists the fields of a policy that are above a ceiling or cannot be enforced. It is a
// job.ErrRefused.
type Refusal struct{ Fields []*job.FieldError }

func (r *Refusal) Error() string {
	out := make([]string, len(r.Fields))
	for i, f := range r.Fields {
		out[i] = f.Error()
	}
	return strings.Join(out, "; ")
}

// Unwrap returns job.ErrRefused, and then the fields.
func (r *Refusal) Unwrap() []error {
	out := []error{job.ErrRefused}
	for _, f := range r.Fields {
		out = append(out, f)
	}
	return out
}

// Plan decides which mechanism enforces each capability of a valid policy on h, for the kind of
// program with the most enforcement. Use PlanFor if the program is known.
func (p Policy) Plan(h Host) (*Plan, error) { return p.PlanFor(h, UseAny) }

// PlanFor decides which mechanism enforces each capability of a valid policy on h, for one kind of
// program. Under strict enforcement it returns a *Refusal that names every requested capability
// without enforcement. It always rejects an isolation that h lacks. One exception: a task may
// replace a cell, because it has the same walls and more.
func (p Policy) PlanFor(h Host, u Use) (*Plan, error) {
	isolation, ok := h.serve(p.Isolation)
	if !ok {
		return nil, &Refusal{[]*job.FieldError{{
			Field:   "policy.isolation",
			Problem: fmt.Sprintf("%s is not available here; use one of %v", p.Isolation, h.Isolations),
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

// Explain returns the same enforcement report as PlanFor, but never rejects.
func Explain(p Policy, h Host, u Use) []job.Enforcement {
	isolation, _ := h.serve(p.Isolation)
	p.MainStack = p.stackFor(h, u)
	report, _ := p.enforcement(h, isolation, u)
	return report
}

// beyond returns the fields of p that exceed the host's own limits, independent of enforcement.
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

// serve returns the isolation on h for a job that requests want.
func (h Host) serve(want Isolation) (Isolation, bool) {
	if slices.Contains(h.Isolations, want) {
		return want, true
	}
	if want == Cell && slices.Contains(h.Isolations, Task) {
		return Task, true
	}
	return "", false
}

// enforcement walks the table. It returns the report and the fields without enforcement.
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

// rows yields the applicable row of the table for each capability.
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
