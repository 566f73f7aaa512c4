//go:build ui

package ui

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

// data is the fleet's content in the tests.
type data struct {
	before, after, hostile *job.Batch
	failed, ansi, artifact job.ID
	session                job.ID
	hostiles               []job.ID
}

// markups are texts that would run code if a page forgot to escape them; each then calls the
// canary.
var markups = []string{
	`<script>canary()</script>`, `</script><script>canary()</script>`, `<img src=x onerror=canary()>`, `"><svg onload=canary()>`, `'><img src=x onerror=canary()>`,
	`<iframe srcdoc="<script>parent.canary()</script>"></iframe>`, `<iframe src="javascript:parent.canary()"></iframe>`, `"><script>canary()</script><a x="`, `'><script>canary()</script><a x='`,
	`" onload="canary()" x="><img src=x onerror=canary()>`, `' onload='canary()' x='><img src=x onerror=canary()>`, "` onerror=canary() `<img src=x onerror=canary()>", `<style>@import "//canary.invalid"</style><img src=x onerror=canary()>`, `</title><script>canary()</script>`,
	`</textarea><script>canary()</script>`, `</pre><img src=x onerror=canary()>`, `<video><source onerror=canary()></video>`, `<body onload=canary()>`,
	`<details open ontoggle=canary()>x</details>`, `<svg><animate onbegin=canary() attributeName=x dur=1s></svg>`, `<math><mtext></mtext><img src=x onerror=canary()></math>`, `<svg><script>canary()</script></svg>`, `<!--><script>canary()</script>-->`,
	`<input autofocus onfocus=canary()><img src=x onerror=canary()>`, `<div hx-get=/ui/batches hx-trigger=load hx-on::after-request=canary()>x</div><img src=x onerror=canary()>`, `<audio src=x onerror=canary()></audio>`, "\u202e<script>canary()</script>\u2066", "\x1b[31m<img src=x onerror=canary()>\x1b[0m",
	`<noscript><p title="</noscript><img src=x onerror=canary()>">`, `<a href="javascript:canary()">x</a><img src=x onerror=canary()>`, `{{constructor.constructor("canary()")()}}<img src=x onerror=canary()>`, `<select><option></select><img src=x onerror=canary()>`,
}

// fill runs jobs of all kinds on the fleet.
func (f *fleet) fill(t *testing.T) (d data) {
	t.Helper()
	d.before = f.batch(t, "humaneval, step 1000", f.solutions(0))
	d.after = f.batch(t, "humaneval, step 2000", f.solutions(3))
	d.failed = f.jobOf(t, d.after, job.Failed)
	d.ansi = f.one(t, job.Spec{Name: "colours and a long output", Policy: json.RawMessage(`{"stdout":{"limit":"16Mi"}}`), Program: job.Program{Python: &job.Python{Code: "for i in range(200_000):\n    print(f'\\x1b[3{i % 8}mline {i}\\x1b[0m of a long output')\n"}}})
	d.artifact = f.one(t, job.Spec{Name: "files", Program: job.Program{Command: &job.Command{Argv: []string{"sh", "-c", "mkdir -p out; echo hello > 'out/a b?.txt'; echo '<script>alert(1)</script>' > out/page.html; echo done"}}},
		Policy: json.RawMessage(`{"artifacts":{"paths":["/workspace/out/**"]}}`)})
	var specs []job.Spec
	for i, m := range markups {
		specs = append(specs, f.hostileSpec(i, m))
	}
	d.hostile = f.batch(t, markups[2], specs)
	for s, err := range f.api.Jobs(t.Context(), client.JobFilter{Batch: d.hostile.ID}) {
		if err != nil {
			t.Fatal(err)
		}
		d.hostiles = append(d.hostiles, s.ID)
	}
	made, err := f.api.CreateSession(t.Context(), job.SessionSpec{Name: "notebook"})
	if err != nil {
		t.Fatal(err)
	}
	d.session = made.ID
	return d
}

// solutions returns tests of some solutions; every n-th is right in one batch and wrong in the
// other.
func (f *fleet) solutions(shift int) (out []job.Spec) {
	for i := range 48 {
		body := "    return a + b\n"
		switch {
		case (i+shift)%8 == 0:
			body = "    return a - b\n"
		case i%11 == 5:
			body = "    return undefined_name\n"
		case i%17 == 7:
			body = "    while True: pass\n"
		}
		case_ := func(a, b string, sum string) job.Case {
			return job.Case{Name: a + " + " + b, Args: []json.RawMessage{json.RawMessage(a), json.RawMessage(b)}, Expected: json.RawMessage(sum)}
		}
		out = append(out, job.Spec{Name: fmt.Sprintf("problem-%02d", i), Labels: map[string]string{"problem": fmt.Sprint(i % 6)}, Policy: json.RawMessage(`{"wall":"2s"}`),
			Program: job.Program{Tests: &job.Tests{Code: "def add(a, b):\n" + body, Function: "add", Cases: []job.Case{case_("1", "2", "3"), case_("0", "0", "0"), case_("-5", "7", "2")}}}})
	}
	return out
}

// hostileSpec returns a program whose names are markup, and that writes markup to all of its
// outputs.
func (f *fleet) hostileSpec(i int, m string) job.Spec {
	quoted, _ := json.Marshal(m)
	code := fmt.Sprintf("import sys\nm = %s\nprint(m)\nprint(m * 40, file=sys.stderr)\nopen('/workspace/' + m.replace('/', '_')[:80], 'w').write(m)\nclass E(Exception): pass\nE.__name__ = m\nraise E(m)  # %s\n", quoted, strings.ReplaceAll(m, "\n", " "))
	name := strings.ReplaceAll(m, "\x1b", "") // not allowed in names
	s := job.Spec{Name: name, Labels: map[string]string{name: name}, Program: job.Program{Python: &job.Python{Code: code}}, Policy: json.RawMessage(`{"artifacts":{"paths":["/workspace/**"]}}`)}
	if i%2 == 1 {
		s.Program = job.Program{Tests: &job.Tests{Code: fmt.Sprintf("def f(x):\n    return %s\n", quoted), Function: "f", Cases: []job.Case{{Name: name, Args: []json.RawMessage{quoted}, Expected: json.RawMessage(`"other"`)}}}}
	}
	return s
}

// batch runs a batch to its end.
func (f *fleet) batch(t *testing.T, name string, specs []job.Spec) *job.Batch {
	t.Helper()
	b, err := f.api.SubmitSpecs(t.Context(), client.BatchOptions{Name: name, Labels: map[string]string{"model": "demo"}}, slices.Values(specs))
	if err != nil {
		t.Fatal(err)
	}
	if b, err = f.api.Batch(t.Context(), b.ID, 4*time.Minute); err != nil || !b.Done() {
		t.Fatalf("batch %q: %+v %v", name, b, err)
	}
	return b
}

func (f *fleet) one(t *testing.T, spec job.Spec) job.ID {
	t.Helper()
	r, err := f.api.Run(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if r.Outcome != job.Succeeded {
		t.Errorf("%s: %s %s %s", spec.Name, r.Outcome, r.Message, r.Stderr.Text)
	}
	return r.ID
}

func (f *fleet) jobOf(t *testing.T, b *job.Batch, o job.Outcome) job.ID {
	t.Helper()
	for s, err := range f.api.Jobs(t.Context(), client.JobFilter{Batch: b.ID, Outcome: o}) {
		if err != nil {
			t.Fatal(err)
		}
		return s.ID
	}
	t.Fatalf("no job of the batch is %s: %v", o, b.Outcomes)
	return ""
}
