package ui_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// markups are 30 kinds of text that would be active if it were not escaped.
var markups = []string{
	`<script>canary()</script>`, `</script><script>canary()</script>`, `<img src=x onerror=canary()>`, `"><svg onload=canary()>`, `'><b id=canary>`,
	`<iframe srcdoc="<script>parent.canary()</script>">`, `<a href="javascript:canary()">x</a>`, `javascript:canary()`, `data:text/html,<script>canary()</script>`,
	`" onmouseover="canary()" x="`, `' onfocus='canary()' autofocus='`, "` onerror=canary() `", `<style>*{background:url(//canary)}</style>`, `</title><script>canary()</script>`,
	`</textarea><script>canary()</script>`, `</pre><form action=//canary><input type=submit>`, `<meta http-equiv=refresh content="0;url=//canary">`, `<base href=//canary/>`,
	`<object data=//canary></object>`, `<embed src=//canary>`, `<math><mi xlink:href="javascript:canary()">`, `<svg><script>canary()</script></svg>`, `<!--><script>canary()</script>-->`,
	`{{canary}}`, `<div hx-get=/ui/signout hx-trigger=load>`, `<link rel=stylesheet href=//canary>`, "\u202e<script>\u2066canary()", "\x1b]0;canary\x07\x1b[31m<b>canary</b>\x1b[0m",
	"<scr\x00ipt>canary()</script>", "+ADw-script+AD4-canary()+ADw-/script+AD4-", `%3Cscript%3Ecanary()%3C/script%3E`, `&lt;script&gt;canary()&lt;/script&gt;`,
}

// allowedElements and allowedAttributes are those of the templates.
var (
	allowedElements = strings.Fields("html head meta title link script body a header nav ul li div span form input button main p h1 h2 h3 small table thead tbody tr th td caption svg rect text g code pre bdi br " +
		"label select option textarea dl dt dd section article details summary ol strong time meter img canvas output polyline line del ins")
	allowedAttributes = strings.Fields("lang charset name content rel href type defer src class id aria-label aria-labelledby aria-current aria-hidden aria-describedby aria-live role tabindex method action value for " +
		"maxlength required autofocus autocomplete spellcheck scope viewbox preserveaspectratio x y x1 x2 y1 y2 width height datetime min max placeholder selected checked download alt rows data-submit " +
		"hx-get hx-trigger hx-swap hx-headers text-anchor data-chart data-map data-total data-open data-logs data-stream data-now hidden step title")
)

// foreign lists the parts of a page that no template contains.
func foreign(t *testing.T, page string) (out []string) {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		if !slices.Contains(allowedElements, n.Data) {
			out = append(out, "<"+n.Data+">")
		}
		for _, a := range n.Attr {
			name := strings.ToLower(a.Key)
			switch {
			case !slices.Contains(allowedAttributes, name):
				out = append(out, n.Data+" "+a.Key)
			case (name == "href" || name == "src" || name == "action" || name == "hx-get") && !ours(a.Val):
				out = append(out, fmt.Sprintf("%s %s=%q", n.Data, name, a.Val))
			case name == "hx-get" && strings.Contains(a.Val, "canary") && !strings.HasPrefix(a.Val, "/ui/"):
				out = append(out, "hx-get "+a.Val)
			case name == "id" && a.Val == "canary":
				out = append(out, "id canary")
			}
		}
		if n.Data == "script" && (n.FirstChild != nil || !slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "src" && strings.HasPrefix(a.Val, "/ui/assets/") })) {
			out = append(out, "a script in the page")
		}
	}
	return out
}

// ours reports whether an address belongs to the page or is a bitmap image.
func ours(address string) bool {
	return strings.HasPrefix(address, "/ui/") || strings.HasPrefix(address, "?") || strings.HasPrefix(address, "#") || strings.HasPrefix(address, "data:image/png;base64,")
}

// hostileSpec returns a job with the markup in all fields of the program and its owner.
func hostileSpec(m string, n int) job.Spec {
	s := python("x = 1\n" + m + "\nraise ValueError")
	if n%3 == 1 {
		s.Program = job.Program{Tests: &job.Tests{Code: m, Setup: m, Check: m, Function: m}}
	}
	if n%3 == 2 {
		s.Program = job.Program{Command: &job.Command{Steps: []job.Step{{Name: m, Argv: []string{m, m}}}}}
	}
	s.Name, s.Image, s.Labels = m, m, map[string]string{m: m}
	return s
}

func hostileResult(m string) job.Result {
	one, score := 1, 0.5
	out := job.Output{Text: m + "\n" + strings.Repeat("x", 2000) + m, Bytes: 9}
	long := m + strings.Repeat("w", 5000)
	return job.Result{
		Outcome: job.Exception, Message: long, ExitCode: &one, Signal: m, Stdout: out, Stderr: out, Value: &job.Value{Type: m, Repr: long},
		Display:   []job.Display{{MediaType: m, Path: m}, {MediaType: "image/svg+xml", Base64: "PHN2ZyBvbmxvYWQ9Y2FuYXJ5KCk+"}, {MediaType: "image/png", Base64: m}, {Table: &job.Table{Columns: []string{m}, Rows: [][]string{{m}, {}}}}},
		Exception: &job.ExceptionInfo{Type: m, Message: long, Line: 2, Traceback: long},
		Steps:     []job.StepResult{{Name: m, Outcome: job.Failed, Stdout: out, Stderr: out}},
		Tests:     &job.TestsResult{Passed: 1, Failed: 1, Total: 2, Score: &score, Cases: []job.CaseResult{{Name: m, Outcome: job.Failed, Got: long, Expected: m, Message: m, Stderr: m}}},
		Compiled:  &job.Compiled{Language: m, Outcome: job.Failed, Stdout: out, Stderr: out},
		Feedback:  []string{m}, Artifacts: []job.Artifact{{Path: "/" + m, SHA256: m, MediaType: m, Bytes: 3}},
		Enforcement: []job.Enforcement{{Capability: m, Requested: m, Applied: m, Mechanism: m, Level: job.Level(m)}}, Variables: map[string]job.Variable{m: {Type: m, Repr: m}},
	}
}

// Markup of 30 kinds in every untrusted field is text on every page.
func TestMarkupIsText(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.putWorkers(markups...)
	var batches []job.ID
	for i, m := range markups {
		m := strings.ReplaceAll(m, "\x00", "\ufffd") // no field may contain NUL
		batches = append(batches, f.submit("one", m, map[string]string{m: m}, hostileSpec(m, i)))
	}
	f.finish("w1", f.claim("w1"), func(c store.Claimed) job.Result {
		var spec job.Spec
		if err := json.Unmarshal(c.Spec, &spec); err != nil {
			t.Fatal(err)
		}
		return hostileResult(spec.Name)
	})
	b := f.as(opKey)
	paths := []string{"/ui/", "/ui/batches", "/ui/jobs", "/ui/workers", "/ui/tenants", "/ui/audit", "/ui/sessions?state=all"}
	for i, id := range batches {
		m := url.QueryEscape(markups[i])
		paths = append(paths, "/ui/batches/"+string(id), "/ui/batches/"+string(id)+"?outcome="+m+"&text="+m, "/ui/compare?b="+string(id)+"&b="+string(batches[0]), "/ui/jobs?label="+m+"&batch="+m, "/ui/audit?subject="+m, "/ui/tenants?tenant="+m,
			"/ui/do/cordon?on="+m+"&back="+m+"&reason="+m, "/ui/do/"+m, "/ui/"+m, "/ui/signin?to="+m, "/ui/compare?b="+m)
		for _, j := range f.jobsOf("one", id) {
			at := "/ui/jobs/" + string(j.ID)
			paths = append(paths, at, at+"?cases="+m+"&case="+m, at+"/log/stdout", at+"/log/stderr?step=0", at+"/log/"+m, at+"/log/stdout?at="+m+"&step="+m)
		}
	}
	seen := 0
	for _, path := range paths {
		_, page := b.get(path)
		for _, what := range foreign(t, page) {
			t.Errorf("%s has %s", path, what)
		}
		seen += strings.Count(page, "canary")
	}
	if seen < 5000 {
		t.Errorf("markup is on pages %d times: is it shown at all?", seen)
	}
	if len(foreign(t, b.page("/ui/batches")+markups[2])) == 0 {
		t.Error("an element that is not ours would not be seen")
	}
}

// putWorkers connects workers with these names.
func (f *fleet) putWorkers(names ...string) {
	f.t.Helper()
	host := json.RawMessage(`{"isolations":["cell","task"],"cores":4,"memory":"8Gi","missing":["<script>canary()</script>"],"images":[{"name":"<img src=x onerror=canary()>"}]}`)
	var ws []store.Worker
	for _, name := range append([]string{"w1"}, names...) {
		name = strings.ReplaceAll(name, "\x00", "")
		ws = append(ws, store.Worker{ID: name, Pool: name, Version: name, Slots: 4, Busy: 1, StartedAt: time.Now(), Host: host, Held: name, Tally: &store.Tally{Outcomes: map[job.Outcome]int64{job.Succeeded: 3}}})
	}
	if err := f.store.PutWorkers(f.t.Context(), ws); err != nil {
		f.t.Fatal(err)
	}
}

// putSession records a session and its executions.
func (f *fleet) putSession(ctx context.Context, tenant, m string) job.ID {
	f.t.Helper()
	s := job.Session{ID: job.NewID(), Spec: job.SessionSpec{Name: m, Kind: job.SessionPython, Image: m}, State: job.SessionLive, Worker: "w1", CreatedAt: time.Now()}
	if err := f.store.PutSession(ctx, tenant, s, 0); err != nil {
		f.t.Fatal(err)
	}
	raw, err := json.Marshal(job.Execute{ID: job.NewID(), SessionID: s.ID, Outcome: job.Exception, Message: m, Output: []job.Chunk{{Stream: "stdout", Text: m}, {Stream: m, Text: m}}, Value: &job.Value{Type: m, Repr: m},
		Exception: &job.ExceptionInfo{Type: m, Message: m}, Display: []job.Display{{MediaType: m}}})
	if err != nil {
		f.t.Fatal(err)
	}
	if err := f.store.PutExecute(ctx, store.Executed{Session: s.ID, ID: job.NewID(), Code: m, Result: raw}); err != nil {
		f.t.Fatal(err)
	}
	return s.ID
}

// The same for the names, code and outputs of sessions.
func TestMarkupOfSessionsIsText(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	b := f.as(oneKey)
	for _, m := range markups {
		m = strings.ReplaceAll(m, "\x00", "")
		id := f.putSession(t.Context(), "one", m)
		page := b.page("/ui/sessions/" + string(id))
		for _, what := range foreign(t, page) {
			t.Errorf("session %q has %s", m, what)
		}
	}
	for _, what := range foreign(t, b.page("/ui/sessions")) {
		t.Errorf("sessions have %s", what)
	}
}

// No page shows another tenant's batches, jobs, outputs or sessions to any visitor, by list or by id. The lists of operators
// have the rows of all tenants, without links to other tenants' objects.
func TestTenantsDoNotMeet(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	const mark = "only-of-tenant-one"
	batch := f.submit("one", mark, map[string]string{"label": mark}, job.Spec{Name: mark, Image: "python", Labels: map[string]string{"l": mark}, Program: job.Program{Python: &job.Python{Code: mark}}})
	f.finish("w1", f.claim("w1"), func(store.Claimed) job.Result {
		return job.Result{Outcome: job.Succeeded, Stdout: job.Output{Text: mark}, Artifacts: []job.Artifact{{Path: "/a", MediaType: mark}}}
	})
	id := f.jobsOf("one", batch)[0].ID
	session := f.putSession(t.Context(), "one", mark)
	mine := f.submit("two", "mine", nil, python("1"))
	at, of := "/ui/jobs/"+string(id), "/ui/batches/"+string(batch)
	lists := []string{"/ui/batches", "/ui/jobs", "/ui/jobs?label=l%3D" + mark, "/ui/sessions", "/ui/sessions?state=all", "/ui/"}
	byID := []string{at, at + "/log/stdout", at + "/output/stdout", at + "/artifacts/a", at + "/spec.json", of, of + "/map", "/ui/sessions/" + string(session), "/ui/jobs?batch=" + string(batch),
		"/ui/compare?b=" + string(batch) + "&b=" + string(mine)}
	own := f.as(oneKey)
	for _, path := range append([]string{at, "/ui/sessions/" + string(session)}, lists[:4]...) {
		if !strings.Contains(own.page(path), mark) {
			t.Errorf("%s does not show its own tenant what it has", path)
		}
	}
	for _, key := range []string{otherKey, "op-two"} {
		b := f.as(key)
		for _, path := range lists {
			_, query, _ := strings.Cut(path, "?")
			page := strings.ReplaceAll(strings.ReplaceAll(b.page(path), query, ""), "l="+mark, "") // the page may repeat the request
			lists := key == "op-two" && path != "/ui/"
			if strings.Contains(page, mark) != lists {
				t.Errorf("%s: %s shows it: %v", key, path, !lists)
			}
			for _, other := range []job.ID{id, batch, session} {
				if strings.Contains(page, "/"+string(other)+`"`) {
					t.Errorf("%s: %s links to %s", key, path, other)
				}
			}
			u, err := url.Parse(path)
			if err != nil {
				t.Fatal(err)
			}
			q := u.Query()
			q.Set("tenant", "two")
			if only := b.page(u.Path + "?" + q.Encode()); strings.Contains(only, `<td class="wide"><a href="/ui/tenants?tenant=one">`) {
				t.Errorf("%s: %s of tenant two has rows of one", key, path)
			}
		}
		for _, path := range byID {
			resp, page := b.get(path)
			if strings.Contains(page, mark) && !(key == "op-two" && strings.HasPrefix(path, "/ui/jobs?")) || resp.StatusCode == http.StatusOK && !strings.HasPrefix(path, "/ui/jobs?") {
				t.Errorf("%s: %s: %d", key, path, resp.StatusCode)
			}
		}
		for _, do := range []string{"cancel-job", "cancel-batch", "retry-batch", "end-session", "interrupt-session"} {
			on := map[string]job.ID{"cancel-job": id, "cancel-batch": batch, "retry-batch": batch}[do]
			if on == "" {
				on = session
			}
			resp, page := b.post("/ui/do/"+do, url.Values{"form": {formOf(t, b.page("/ui/do/"+do+"?on="+string(on)))}, "on": {string(on)}})
			if resp.StatusCode != http.StatusNotFound {
				t.Errorf("%s: %s: %d %.300s", key, do, resp.StatusCode, page)
			}
		}
		resp, page := b.post("/ui/sessions/"+string(session)+"/execute", url.Values{"form": {formOf(t, b.page("/ui/sessions"))}, "code": {"1"}})
		if resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s executes: %d %.300s", key, resp.StatusCode, page)
		}
	}
}

// A job's page has its outcome, the failed line, and commands to run it again, in which quotes are safe.
func TestJobPage(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	spec := python("x = 1\nraise ValueError('it''s')\n")
	batch := f.submit("one", "b", nil, spec)
	f.finish("w1", f.claim("w1"), func(store.Claimed) job.Result {
		r := hostileResult("m")
		r.Enforcement = []job.Enforcement{{Capability: "memory", Requested: "256Mi", Applied: "128Mi", Mechanism: "cgroup memory", Level: job.LevelKernel}}
		r.Timings = job.Timings{QueuedMS: 12, RunMS: 340}
		return r
	})
	b := f.as(oneKey)
	id := string(f.jobsOf("one", batch)[0].ID)
	page := b.page("/ui/jobs/" + id)
	for _, want := range []string{"score 0.5", "1 of 2 passed", `class="failed" id="failed"`, "256Mi", "128Mi", "cgroup memory", "queued 12.0 ms", "running 340 ms", "curl -sS", "assay batch submit -", "client.api.run(spec)"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	failed := ""
	for n := range doc.Descendants() {
		if n.Data == "li" && slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Val == "failed" }) {
			for c := range n.Descendants() {
				if c.Type == html.TextNode {
					failed += c.Data
				}
			}
		}
	}
	if !strings.Contains(failed, "raise ValueError") {
		t.Errorf("the line that is marked is %q", failed)
	}
	resp, raw := b.get("/ui/jobs/" + id + "/spec.json")
	var again job.Spec
	if err := json.Unmarshal([]byte(raw), &again); err != nil || again.Program.Python.Code != spec.Program.Python.Code || !strings.HasPrefix(resp.Header.Get("Content-Disposition"), "attachment") {
		t.Errorf("spec: %v %s %v", err, raw, resp.Header)
	}
}

// Visitors are not offered actions that they may not perform, and are refused.
func TestRoles(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.putWorkers()
	batch := f.submit("one", "b", nil, python("1"))
	id := f.jobsOf("one", batch)[0].ID
	reader, submitter, operator := f.as("read-one"), f.as(oneKey), f.as(opKey)
	for _, c := range []struct {
		b    *browser
		path string
		want int
		has  string
		not  string
	}{
		{reader, "/ui/jobs/" + string(id), 200, "queued", "Cancel job"},
		{reader, "/ui/do/cancel-job?on=" + string(id), 403, "", ""},
		{submitter, "/ui/jobs/" + string(id), 200, "Cancel job", ""},
		{submitter, "/ui/workers", 200, "Pools", "Cordon"},
		{submitter, "/ui/do/cordon?on=w1", 403, "", ""},
		{submitter, "/ui/audit", 403, "", "Detail"},
		{operator, "/ui/workers", 200, "Cordon", ""},
		{operator, "/ui/audit", 200, "Nothing was done", ""},
	} {
		resp, page := c.b.get(c.path)
		if resp.StatusCode != c.want || !strings.Contains(page, c.has) || c.not != "" && strings.Contains(page, c.not) {
			t.Errorf("%s: %d, with %q %v and %q %v", c.path, resp.StatusCode, c.has, strings.Contains(page, c.has), c.not, strings.Contains(page, c.not))
		}
	}
}

// An action asks for confirmation, runs, and reports its result. Sent twice, it has effect once.
func TestActions(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.putWorkers()
	b := f.as(opKey)
	batch := f.submit("one", "b", nil, python("1"), python("2"))
	for _, c := range []struct{ do, on, extra, said string }{
		{"cordon", "w1", "reason=kernel", "w1 takes no more jobs"},
		{"cordon", "w1", "", "nothing changed"},
		{"uncordon", "w1", "", "w1 takes jobs again"},
		{"cordon-workers", "w1", "version=w1&reason=kernel", "Matching workers: 1, changed: 1."},
		{"cordon-workers", "w1", "", "Matching workers: 1, changed: 0."},
		{"uncordon-workers", "w1", "", "Matching workers: 1, changed: 1."},
		{"quarantine", "w1", "for=10m", "w1 is in quarantine"},
		{"unquarantine", "w1", "", "w1 is out of quarantine"},
		{"pause-batch", string(batch), "", "is paused"},
		{"resume-batch", string(batch), "", "goes on"},
		{"pause-tenant", "one", "", "is paused"},
		{"resume-tenant", "one", "", "goes on"},
		{"override", "one", "weight=2&max_running=5&for=1h", "has other limits now"},
		{"restore", "one", "", "is as it is granted"},
		{"cancel-batch", string(batch), "", "2 of its jobs never ran"},
		{"retry-batch", string(batch), "", "2 jobs are submitted again"},
	} {
		at := "/ui/do/" + c.do
		page := b.page(at + "?on=" + url.QueryEscape(c.on) + "&back=/ui/workers")
		form, err := url.ParseQuery(c.extra)
		if err != nil {
			t.Fatal(err)
		}
		form.Set("form", formOf(t, page))
		form.Set("on", c.on)
		form.Set("back", "/ui/workers")
		form.Set("once", string(job.NewID()))
		resp, body := b.post(at, form)
		if resp.StatusCode != http.StatusSeeOther {
			t.Errorf("%s: %d %s", c.do, resp.StatusCode, body)
			continue
		}
		to := resp.Header.Get("Location")
		if page := b.page("/ui/batches"); !strings.Contains(page, c.said) {
			t.Errorf("%s says nothing of %q", c.do, c.said)
		}
		if page := b.page("/ui/batches"); strings.Contains(page, c.said) {
			t.Errorf("%s is said twice", c.do)
		}
		if c.do != "retry-batch" {
			continue
		}
		if again, _ := b.post(at, form); again.Header.Get("Location") != to || to == "/ui/workers" {
			t.Errorf("sent twice it goes to %s, then %s", to, again.Header.Get("Location"))
		}
	}
	if page := b.page("/ui/audit?subject=w1"); strings.Count(page, "<td>cordon</td>") != 4 || !strings.Contains(page, "kernel") {
		t.Error("the audit does not show what was done")
	}
	for do, extra := range map[string]string{"quarantine": "for=soon", "override": "weight=heavy", "requeue": ""} {
		form, _ := url.ParseQuery(extra)
		form.Set("form", formOf(t, b.page("/ui/do/"+do+"?on=w1")))
		form.Set("on", "w1")
		if resp, page := b.post("/ui/do/"+do, form); resp.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(page, `role="alert"`) {
			t.Errorf("%s with %q: %d", do, extra, resp.StatusCode)
		}
	}
}
