package admit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"go.uber.org/goleak"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func jobs(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"name":"%d","program":{"python":{"code":"1"}}}`+"\n", i)
	}
	return b.String()
}

// take admits a stream and returns the admitted jobs.
func take(t *testing.T, r io.Reader) (out []store.NewJob, chunks int, err error) {
	t.Helper()
	in, err := newAdmitter(t).Open(t.Context(), "default", nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	n, err := in.Lines(t.Context(), r, func(js []store.NewJob) error {
		out = append(out, js...)
		chunks++
		return nil
	})
	if err == nil && n != int64(len(out)) {
		t.Errorf("counted %d of %d", n, len(out))
	}
	return out, chunks, err
}

func TestLinesKeepTheirOrder(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 999, 1000, 1001, 4321} {
		for _, cut := range []bool{false, true} {
			body := jobs(n)
			if cut {
				body = strings.TrimSuffix(body, "\n")
			}
			got, chunks, err := take(t, iotest.HalfReader(strings.NewReader(body)))
			if err != nil || len(got) != n || chunks != (n+999)/1000 {
				t.Fatalf("%d lines: %d jobs in %d chunks, %v", n, len(got), chunks, err)
			}
			for i, j := range got {
				if !bytes.Contains(j.Spec, fmt.Appendf(nil, `"name":"%d"`, i)) {
					t.Fatalf("job %d is %s", i, j.Spec)
				}
			}
		}
	}
}

// TestFirstBadLineIsNamed checks that the error names the first bad line, however the chunks race, and that no later
// job is admitted.
func TestFirstBadLineIsNamed(t *testing.T) {
	t.Parallel()
	for range 20 {
		lines := strings.SplitAfter(jobs(5000), "\n")
		first := rand.IntN(4000)
		for i := first; i < 5000; i += 1 + rand.IntN(500) {
			lines[i] = `{"name":7}` + "\n"
		}
		got, _, err := take(t, strings.NewReader(strings.Join(lines, "")))
		var f *job.FieldError
		if !errors.As(err, &f) || f.Line != first+1 || f.Field != "name" {
			t.Fatalf("got %v, want line %d", err, first+1)
		}
		if len(got) > first {
			t.Fatalf("%d jobs came out before line %d", len(got), first+1)
		}
	}
}

// TestBrokenBody checks that an incomplete body is an error.
func TestBrokenBody(t *testing.T) {
	t.Parallel()
	broken := io.MultiReader(strings.NewReader(jobs(1500)), iotest.ErrReader(errors.New("gone")))
	if _, _, err := take(t, broken); !errors.Is(err, job.ErrInvalid) || !strings.Contains(err.Error(), "line 1500") {
		t.Errorf("got %v", err)
	}
}

// TestSinkEndsTheReading checks that a failed sink or the end of the context stops reading at once.
func TestSinkEndsTheReading(t *testing.T) {
	t.Parallel()
	in, err := newAdmitter(t).Open(t.Context(), "default", nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	full := errors.New("full")
	endless := &endless{line: []byte(jobs(1))}
	if _, err := in.Lines(t.Context(), endless, func([]store.NewJob) error { return full }); !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	endless.at = 0
	if _, err := in.Lines(ctx, endless, func([]store.NewJob) error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if endless.read > 64<<20 {
		t.Errorf("%d bytes were read", endless.read)
	}
}

// endless repeats one line for ever.
type endless struct {
	line []byte
	at   int
	read int
}

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = e.line[e.at%len(e.line)]
		e.at++
	}
	e.read += len(p)
	return len(p), nil
}

// TestStoredSpec checks that the stored spec equals DecodeSpec's, with the whole policy.
func TestStoredSpec(t *testing.T) {
	t.Parallel()
	raw := `{"name":"a<b>","program":{"python":{"code":"1"}},"policy":{"memory":"64Mi"},"retry":{"max_attempts":3,"on":["timed_out"]},"expires_in":"1h","priority":-5}`
	j, err := newAdmitter(t).Job(t.Context(), "t", "tp", []byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	spec, err := job.DecodeSpec(j.Spec)
	if err != nil {
		t.Fatalf("%v in %s", err, j.Spec)
	}
	p, err := policy.Parse(spec.Policy)
	if err != nil || p.Memory != 64*job.MiB || spec.Name != "a<b>" {
		t.Errorf("%+v, %v", p, err)
	}
	if again, err := json.Marshal(p); err != nil || string(again) != string(spec.Policy) {
		t.Errorf("the policy is not whole: %s", spec.Policy)
	}
	if j.MaxAttempts != 3 || len(j.RetryOn) != 1 || j.ExpiresIn.Hours() != 1 || j.Priority != -5 || j.Tenant != "t" || j.TraceParent != "tp" || j.Pool != "" {
		t.Errorf("got %+v", j)
	}
}

// granted is a tenant with a ceiling.
type granted struct {
	none
	ceiling string
}

func (g granted) Tenant(_ context.Context, name string) (store.Tenant, error) {
	return store.Tenant{Name: name, Weight: 1, Ceiling: json.RawMessage(g.ceiling)}, nil
}

// TestPrivateAddressesInTheStoredSpec checks that only the ceiling opens private addresses. The job and the batch's
// defaults do not.
func TestPrivateAddressesInTheStoredSpec(t *testing.T) {
	t.Parallel()
	const forged = `{"policy":{"network":{"mode":"allow","allow":["127.0.0.1:80","10.1.2.3:443"],"private":["127.0.0.0/8:*","169.254.169.254:80"]}}`
	const program = `"program":{"python":{"code":"1"}}}`
	for ceiling, want := range map[string]string{"": "", `{"network_private":["10.1.0.0/16:443"]}`: "10.1.0.0/16:443"} {
		a := newAdmitter(t)
		a.Tenants = granted{ceiling: ceiling}
		for name, in := range map[string][2]string{"job": {"", forged + "," + program}, "defaults": {forged + "}", `{` + program}} {
			intake, err := a.Open(t.Context(), "t", nil, json.RawMessage(in[0]), nil)
			if err != nil {
				t.Fatal(err)
			}
			j, err := intake.Job(t.Context(), []byte(in[1]))
			if err != nil {
				t.Fatal(err)
			}
			spec, err := job.DecodeSpec(j.Spec)
			if err != nil {
				t.Fatal(err)
			}
			p, err := policy.Parse(spec.Policy)
			if err != nil || strings.Join(p.Network.Private, " ") != want {
				t.Errorf("%s under the ceiling %q opens %v, %v; want %q", name, ceiling, p.Network.Private, err, want)
			}
		}
	}
}
