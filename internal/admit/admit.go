package admit

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/store"
)

// Blobs keeps large inputs; *object.Store does.
type Blobs interface {
	PutBlob(ctx context.Context, tenant string, r io.Reader, limit int64) (ref string, n int64, err error)
	StatBlob(ctx context.Context, tenant, ref string) (object.Info, error)
}

// Secrets knows which secrets there are; *secret.Keeper does.
type Secrets interface {
	// Check returns a *job.FieldError if a secret of wanted (variable → name)
	// does not exist.
	Check(ctx context.Context, tenant string, wanted map[string]string) error
}

// Tenants knows what a tenant may use; every store.Tenants does.
type Tenants interface {
	Tenant(ctx context.Context, name string) (store.Tenant, error)
}

// Admitter judges what clients submit. Its fields do not change while it is in
// use, and it is safe for concurrent use.
type Admitter struct {
	Policies store.Policies
	Tenants  Tenants
	Blobs    Blobs
	Secrets  Secrets
	// Pool refuses a pool, named by a job, that does not exist.
	Pool func(ctx context.Context, name string) error
	// Reserved says for which images there are workers that take nothing else.
	Reserved func(image string) bool
	// Room refuses a class of jobs to a tenant if there are too many already: most of
	// the tenant's, or of all.
	Room func(ctx context.Context, tenant, class string, most int) error
	// Hosts returns what the connected workers for a class of jobs can enforce.
	// With none connected, the worker that runs the job judges.
	Hosts func(class string) []policy.Host
	// Images knows which languages images have. With none, the worker that runs the job judges.
	Images Images
}

// Images knows what is in images; *fleet.Fleet does.
type Images interface {
	// Lacks reports whether an image is known not to have a language, by its name in the catalogue, and which it has.
	Lacks(image, language string) (has []string, lacks bool)
	// With returns images of the operator's that are known to have a language, sorted.
	With(language string) []string
}

// Job admits one job for a tenant.
func (a *Admitter) Job(ctx context.Context, tenant, traceParent string, raw []byte) (store.NewJob, error) {
	in, err := a.Open(ctx, tenant, func(job.ID, string) string { return traceParent }, nil, nil)
	if err != nil {
		return store.NewJob{}, err
	}
	return in.Job(ctx, raw)
}

// Intake admits the jobs of one request: what they have in common is resolved
// once. It is safe for concurrent use.
type Intake struct {
	admitter   *Admitter
	tenant     string
	trace      Trace
	defaults   *layer
	tenantCaps job.LabelCaps
	batchCaps  job.LabelCaps
	policies   policies
	held       Held
	blobs      seen
	languages  seen // in images that do not lack them
}

// Trace returns the W3C trace context of a job that goes to a pool; "": it has none.
type Trace func(id job.ID, pool string) string

// Open begins the intake of a request. Every job is laid over defaults, which
// may be empty; caps are those of the batch. A trace that is nil is none.
func (a *Admitter) Open(ctx context.Context, tenant string, trace Trace, defaults json.RawMessage, caps job.LabelCaps) (*Intake, error) {
	in := &Intake{admitter: a, tenant: tenant, trace: trace, batchCaps: caps, held: HeldIn(ctx)}
	if len(defaults) > 0 && string(defaults) != "null" {
		if err := job.Decode(defaults, "defaults", new(job.Spec)); err != nil {
			return nil, err
		}
		in.defaults = newLayer(defaults)
	}
	if in.trace == nil {
		in.trace = func(job.ID, string) string { return "" }
	}
	in.policies.source, in.policies.tenant, in.policies.restrictHelpers = a.Policies, tenant, in.held.Policy != ""
	t, err := a.Tenants.Tenant(ctx, tenant)
	if err != nil {
		return nil, fmt.Errorf("read the quotas of %s: %w", tenant, err)
	}
	in.tenantCaps = t.LabelCaps
	return in, in.policies.setCeiling(t.Ceiling)
}

// Job admits one job.
func (in *Intake) Job(ctx context.Context, raw []byte) (store.NewJob, error) {
	return in.job(ctx, raw, job.NewID())
}

func (in *Intake) job(ctx context.Context, raw []byte, id job.ID) (store.NewJob, error) {
	if in.defaults != nil {
		raw = in.defaults.under(raw)
	}
	if len(raw) > int(job.MaxSpec) {
		return store.NewJob{}, tooLarge(raw)
	}
	spec, err := job.DecodeSpec(raw)
	if err != nil {
		return store.NewJob{}, err
	}
	if err := in.held.apply(&spec); err != nil {
		return store.NewJob{}, err
	}
	if err := in.policies.ceiling.CheckImage(spec.Image); err != nil {
		return store.NewJob{}, err
	}
	if err := in.policies.ceiling.CheckTests(spec.Program.Tests); err != nil {
		return store.NewJob{}, err
	}
	resolved, err := in.policies.resolve(ctx, spec.Pool, spec.Policy, in.admitter)
	if err != nil {
		return store.NewJob{}, err
	}
	if err := inLanguage(&spec, &resolved.policy, helpersCeiling(&resolved.policy, &in.policies.ceiling)); err != nil {
		return store.NewJob{}, err
	}
	if err := in.inImage(&spec); err != nil {
		return store.NewJob{}, err
	}
	if err := resolved.policy.CheckSpec(spec); err != nil {
		return store.NewJob{}, err
	}
	if err := in.inputs(ctx, &spec); err != nil {
		return store.NewJob{}, err
	}
	body, err := encodeSpec(spec, resolved.raw)
	if err != nil {
		return store.NewJob{}, err
	}
	key, err := cacheKey(&spec, &resolved.policy, resolved.raw, in.held)
	if err != nil {
		return store.NewJob{}, err
	}
	pool, err := in.class(ctx, &spec, &resolved.policy)
	if err != nil {
		return store.NewJob{}, err
	}
	return store.NewJob{
		ID: id, Tenant: in.tenant, Pool: pool,
		Priority: spec.Priority, MaxAttempts: spec.Retry.MaxAttempts, RetryOn: spec.Retry.On, ExpiresIn: spec.ExpiresIn.D(),
		Caps: store.CapsOf(spec.Labels, in.tenantCaps, in.batchCaps),
		Spec: body, TraceParent: in.trace(id, placement.PoolOf(pool)), CacheKey: key,
	}, nil
}

// MaxClasses is of how many classes a tenant may have jobs that wait, those of the pools
// themselves aside, unless its ceiling says so: each costs every look of the scheduler.
const MaxClasses = 16

// class returns the class of a job, if there may be more of it.
func (in *Intake) class(ctx context.Context, spec *job.Spec, p *policy.Policy) (string, error) {
	a := in.admitter
	if spec.Pool != "" {
		if err := a.Pool(ctx, spec.Pool); err != nil {
			return "", err
		}
	}
	class := placement.NeedOf(spec, p, a.Reserved).Class()
	if class == spec.Pool { // there is one for each pool, and one for all of them
		return class, nil
	}
	return class, a.Room(ctx, in.tenant, class, cmp.Or(in.policies.ceiling.Classes, MaxClasses))
}

// encodeSpec returns the JSON of a spec with its whole policy. The policy is
// encoded once for all jobs that share it, and put in as it is: having it read
// and compacted again is a third of what admitting a job costs.
func encodeSpec(spec job.Spec, policy json.RawMessage) ([]byte, error) {
	spec.Policy = nil
	head, err := json.Marshal(&spec)
	if err != nil {
		return nil, fmt.Errorf("encode spec: %w", err)
	}
	body := make([]byte, 0, len(head)+len(policy)+len(`,"policy":`))
	body = append(body, head[:len(head)-1]...) // "program" is always there: a comma is due
	body = append(body, `,"policy":`...)
	body = append(body, policy...)
	return append(body, '}'), nil
}

// tooLarge says which field made a job too large.
func tooLarge(raw []byte) error {
	var spec job.Spec
	if err := job.Decode(raw, "", &spec); err != nil {
		return err
	}
	field, advice := largest(&spec)
	return fmt.Errorf("%w: %w", job.ErrTooLarge, job.Invalid(field, "makes the job larger than %s; %s", job.MaxSpec, advice))
}

// largest returns the path of the field that takes most of a spec, and what to do about it.
func largest(s *job.Spec) (field, advice string) {
	best, most := "", 0
	advice = "upload large inputs with PUT /v1/blobs and name them in files"
	weigh := func(field string, n int) {
		if n > most {
			best, most = field, n
		}
	}
	if p := s.Program.Python; p != nil {
		weigh("program.python.code", len(p.Code))
		weigh("program.python.context", len(p.Context))
		for name, v := range p.Variables {
			weigh("program.python.variables."+name, len(v))
		}
	}
	if c := s.Program.Command; c != nil {
		weigh("program.command.stdin", len(c.Stdin))
		for i, s := range c.Steps {
			weigh(fmt.Sprintf("program.command.steps[%d].stdin", i), len(s.Stdin))
		}
	}
	if t := s.Program.Tests; t != nil {
		weigh("program.tests.code", len(t.Code))
		weigh("program.tests.setup", len(t.Setup))
		weigh("program.tests.check", len(t.Check))
		weighSources(weigh, "program.tests.files", t.Files)
		if cases, stdio := weightOf(t); max(cases, stdio) > most {
			weigh("program.tests.cases", cases)
			weigh("program.tests.stdio", stdio)
			advice = "split the tests over several jobs, each with the solution"
			if stdio > cases {
				advice = "upload the data with PUT /v1/blobs and name it in its case as stdin_blob or stdout_blob"
			}
		}
	}
	if c := s.Program.Code; c != nil {
		weigh("program.code.source", len(c.Source))
		weigh("program.code.stdin", len(c.Stdin))
		weighSources(weigh, "program.code.files", c.Files)
	}
	for path, f := range s.Files {
		if f.Text != nil {
			weigh(fileField(path)+".text", len(*f.Text))
		}
		if f.Base64 != nil {
			weigh(fileField(path)+".base64", len(*f.Base64))
		}
	}
	if strings.HasPrefix(best, "program.code.source") || strings.HasPrefix(best, "program.code.files") {
		advice = "a compiler sees the sources alone, so make them smaller; what the program reads while it runs may be a blob in files"
	}
	if strings.HasPrefix(best, "files") {
		advice = "upload it with PUT /v1/blobs and name it there as a blob"
	}
	return best, advice
}

func weighSources(weigh func(string, int), at string, files map[string]string) {
	for path, text := range files {
		weigh(fmt.Sprintf("%s[%q]", at, job.Clip(path, 80)), len(text))
	}
}

// weightOf returns what the tests of each kind take together.
func weightOf(t *job.Tests) (cases, stdio int) {
	for _, c := range t.Cases {
		cases += len(c.Expected)
		for _, a := range c.Args {
			cases += len(a)
		}
		for _, a := range c.Kwargs {
			cases += len(a)
		}
	}
	for _, s := range t.Stdio {
		stdio += len(s.Stdin) + len(s.StdinBase64) + len(s.Stdout) + len(s.StdoutBase64)
	}
	return cases, stdio
}

// CheckBatch judges what a batch says of itself: name and labels by the rules for
// a job's.
func CheckBatch(b store.NewBatch) error {
	err := job.Spec{Name: b.Name, Labels: b.Labels, Program: job.Program{Python: &job.Python{Code: "0"}}}.Validate()
	if err != nil {
		return err
	}
	return b.LabelCaps.Validate("label_caps")
}
