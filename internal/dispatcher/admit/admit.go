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

// Blobs stores large inputs. *object.Store implements it.
type Blobs interface {
	PutBlob(ctx context.Context, tenant string, r io.Reader, limit int64) (ref string, n int64, err error)
	StatBlob(ctx context.Context, tenant, ref string) (object.Info, error)
}

// Secrets checks the existence of secrets. *secret.Keeper implements it.
type Secrets interface {
	// Check returns a *job.FieldError if a secret of wanted (variable → name) does not exist.
	Check(ctx context.Context, tenant string, wanted map[string]string) error
}

// Policies returns stored policies. Every store.Policies implements it.
type Policies interface {
	Policy(ctx context.Context, tenant, name string, version int) (json.RawMessage, error)
}

// Tenants returns the limits of tenants. Every store.Tenants implements it.
type Tenants interface {
	Tenant(ctx context.Context, name string) (store.Tenant, error)
}

// Admitter checks jobs before they are accepted. It is safe for concurrent use; its fields must not change while in
// use.
type Admitter struct {
	Policies Policies
	Tenants  Tenants
	Blobs    Blobs
	Secrets  Secrets
	// Pool returns an error for a pool that does not exist.
	Pool func(ctx context.Context, name string) error
	// Reserved reports whether workers are reserved for an image.
	Reserved func(image string) bool
	// Room returns an error if the tenant, or all tenants together, have too many classes of waiting jobs for a new
	// one. most is the tenant's limit.
	Room func(ctx context.Context, tenant, class string, most int) error
	// Hosts returns the hosts of the connected workers for a class. If there is none, the worker that runs the job
	// checks the policy.
	Hosts func(class string) []policy.Host
	// Images returns the languages of images. If it is nil, the worker that runs the job checks them.
	Images Images
}

// Images returns the contents of images. *fleet.Fleet implements it.
type Images interface {
	// Lacks reports whether an image is known to lack a language of the catalogue, and returns the languages that it
	// has.
	Lacks(image, language string) (has []string, lacks bool)
	// With returns the operator's images that are known to have a language, sorted.
	With(language string) []string
}

// Job admits one job of a tenant. It returns the errors of Open and Intake.Job.
func (a *Admitter) Job(ctx context.Context, tenant, traceParent string, raw []byte) (store.NewJob, error) {
	in, err := a.Open(ctx, tenant, func(job.ID, string) string { return traceParent }, nil, nil)
	if err != nil {
		return store.NewJob{}, err
	}
	return in.Job(ctx, raw)
}

// Intake admits the jobs of one request and resolves their common parts once. It is safe for concurrent use.
type Intake struct {
	admitter   *Admitter
	tenant     string
	trace      Trace
	defaults   *layer
	tenantCaps job.LabelCaps
	batchCaps  job.LabelCaps
	policies   policies
	held       Held
	blobs      findings
	languages  findings // in images, and not missing there
}

// Trace returns the W3C trace context of a job for a pool, or "" for none.
type Trace func(id job.ID, pool string) string

// Open starts the intake of a request. Each job is merged over defaults, which may be empty. caps are the batch's. A
// nil trace means no trace contexts. It returns a *job.FieldError for invalid defaults.
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

// Job admits one job. For a rejected job it returns a *job.FieldError or *policy.Refusal, also wrapped in
// job.ErrTooLarge, job.ErrTooMany or job.ErrRefused.
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

// MaxClasses is how many classes a tenant's waiting jobs may have besides the pools' own, unless its ceiling has
// another limit. Each class adds to every pass of the scheduler.
const MaxClasses = 16

// class returns the class of a job. It returns an error for an unknown pool or too many classes.
func (in *Intake) class(ctx context.Context, spec *job.Spec, p *policy.Policy) (string, error) {
	a := in.admitter
	if spec.Pool != "" {
		if err := a.Pool(ctx, spec.Pool); err != nil {
			return "", err
		}
	}
	class := placement.NeedOf(spec, p, a.Reserved).Class()
	if class == spec.Pool { // the own class of a pool, or of all pools
		return class, nil
	}
	return class, a.Room(ctx, in.tenant, class, cmp.Or(in.policies.ceiling.Classes, MaxClasses))
}

// encodeSpec returns the JSON of a spec with its whole policy. It inserts the policy as encoded before for all jobs
// that share it. Encoding it again would be a third of the cost of admission.
func encodeSpec(spec job.Spec, policy json.RawMessage) ([]byte, error) {
	spec.Policy = nil
	head, err := json.Marshal(&spec)
	if err != nil {
		return nil, fmt.Errorf("encode spec: %w", err)
	}
	body := make([]byte, 0, len(head)+len(policy)+len(`,"policy":`))
	body = append(body, head[:len(head)-1]...) // "program" is always present, so a comma is due
	body = append(body, `,"policy":`...)
	body = append(body, policy...)
	return append(body, '}'), nil
}

// tooLarge returns a job.ErrTooLarge that names the largest field of a job.
func tooLarge(raw []byte) error {
	var spec job.Spec
	if err := job.Decode(raw, "", &spec); err != nil {
		return err
	}
	field, advice := largest(&spec)
	return fmt.Errorf("%w: %w", job.ErrTooLarge, job.Invalid(field, "makes the job larger than %s; %s", job.MaxSpec, advice))
}

// largest returns the path of the largest field of a spec, and advice for the client.
func largest(s *job.Spec) (field, advice string) {
	best, most := "", 0
	advice = "upload large inputs with PUT /v1/blobs and name them in files"
	weigh := func(field string, n int) {
		if n > most || n == most && field < best { // maps have no order
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
		advice = "a compiler sees only the sources, so make them smaller; input of the running program may be a blob in files"
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

// weightOf returns the total size of the tests of each kind.
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

// CheckBatch checks the name and labels of a batch like a job's, and its label caps.
func CheckBatch(b store.NewBatch) error {
	err := job.Spec{Name: b.Name, Labels: b.Labels, Program: job.Program{Python: &job.Python{Code: "0"}}}.Validate()
	if err != nil {
		return err
	}
	return b.LabelCaps.Validate("label_caps")
}
