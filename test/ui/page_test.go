//go:build ui

package ui

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

// The users' actions on the page, with a real browser, over a real fleet.
func TestPage(t *testing.T) {
	f := start(t)
	d := f.fill(t)
	for _, c := range []struct {
		name string
		test func(t *testing.T, f *fleet, d data)
	}{
		{"canary", testCanary}, {"sign-in", testSignIn}, {"actions", testActions}, {"session", testSession}, {"issuer", testIssuer}, {"keys", testKeys}, {"grant", testGrant}, {"logs", testLogs}, {"link", testLink}, {"delete", testDelete},
		{"live", testLive}, {"charts", testCharts}, {"keyboard", testKeyboard},
		{"markup", testMarkup}, {"log", testLog}, {"filters", testFilters}, {"pages", testPages},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, f, d) })
	}
}

// Executed markup would be detected: without the page's protections each kind is.
func testCanary(t *testing.T, f *fleet, _ data) {
	ill := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var n int
		if _, err := fmt.Sscanf(r.URL.Path, "/%d", &n); err != nil || n < 0 || n >= len(markups) {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		m := markups[n]
		fmt.Fprintf(w, "<!doctype html><title>%s</title><main><textarea>%s</textarea><input value=\"%s\"><input value='%s'><pre>%s</pre>%s</main>", m, m, m, m, m, m)
	}))
	defer ill.Close()
	b := f.tab(t)
	for n := range markups {
		b.run(chromedp.Navigate(fmt.Sprintf("%s/%d", ill.URL, n)))
		b.until(fmt.Sprintf("the canary saw %s", markups[n]), `window.executed > 0`)
	}
	b.mu.Lock()
	b.wrong, b.strange = nil, nil // expected here
	b.mu.Unlock()
}

func testSignIn(t *testing.T, f *fleet, _ data) {
	b := f.tab(t)
	b.open("/")
	b.until("it asks for a key", `location.pathname === "/ui/signin" && document.activeElement.id === "key"`)
	b.run(chromedp.SendKeys("#key", "not a key\r"))
	b.says("is unknown")
	b.run(chromedp.SendKeys("#key", submitterKey+"\r"))
	b.says("Last hour")
	if cookie := eval[string](b, `document.cookie`); cookie != "" {
		t.Errorf("scripts read the cookie: %s", cookie)
	}
	b.press("Sign out")
	b.until("signed out", `location.pathname === "/ui/signin"`)
	b.open("/ui/jobs")
	b.until("it asks again", `location.pathname === "/ui/signin" && location.search.includes("jobs")`)
}

// Every action asks for confirmation, acts and reports.
func testActions(t *testing.T, f *fleet, d data) {
	b := f.tab(t)
	b.signIn(operatorKey)
	id := f.submit(t, "import time; time.sleep(300)")
	b.open("/ui/jobs/" + string(id))
	b.says("running")
	b.press("Cancel job")
	b.says("Cancel job " + string(id) + "?")
	b.press("Leave it")
	b.says("running")
	b.press("Cancel job")
	b.press("Cancel job")
	b.says("The worker will stop the job.")
	b.says("canceled")

	b.open("/ui/workers")
	for _, c := range []struct{ press, fill, said string }{
		{"Cordon", "reason", "takes no more jobs"}, {"Uncordon", "", "takes jobs again"},
		{"Quarantine", "reason", "is in quarantine"}, {"End quarantine", "", "is out of quarantine"}, {"Requeue", "reason", "are queued again"},
	} {
		b.press(c.press)
		b.until("it asks", `location.pathname.startsWith("/ui/do/")`)
		if c.fill != "" {
			b.run(chromedp.SendKeys("#f-"+c.fill, "a test"))
		}
		b.press(c.press)
		b.says(c.said)
	}
	b.press("Pause")
	b.press("Pause")
	b.says("is paused")
	b.press("Resume")
	b.press("Resume")
	b.says("goes on")

	b.open("/ui/tenants?tenant=default")
	b.press("Change limits")
	b.run(chromedp.SendKeys("#f-weight", "2"))
	b.press("Change limits")
	b.says("has other limits now")
	b.open("/ui/tenants?tenant=default")
	b.press("End change of limits")
	b.press("End change of limits")
	b.says("is as it is granted")
	b.open("/ui/tenants?tenant=default")
	b.press("Pause")
	b.press("Pause")
	b.says("is paused")
	b.open("/ui/tenants?tenant=default")
	b.press("Resume")
	b.press("Resume")
	b.says("goes on")

	slow, err := f.api.SubmitSpecs(t.Context(), client.BatchOptions{Name: "slow"}, func(yield func(job.Spec) bool) {
		for range 40 {
			if !yield(job.Spec{Program: job.Program{Python: &job.Python{Code: "import time; time.sleep(100)"}}}) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	b.open("/ui/batches/" + string(slow.ID))
	for _, action := range []struct{ press, confirm, said string }{{"Pause", "Pause", "is paused"}, {"Resume", "Resume", "goes on"}, {"Cancel batch", "Cancel batch", "The batch is canceled"},
		{"Retry unsuccessful jobs", "Retry batch", "40 jobs are submitted again"}} {
		b.press(action.press)
		b.until("it asks", `location.pathname.startsWith("/ui/do/")`)
		b.press(action.confirm)
		b.says(action.said)
	}
	b.press("Cancel batch")
	b.until("it asks", `location.pathname.startsWith("/ui/do/")`)
	b.press("Cancel batch")
	b.says("The batch is canceled")
	b.open("/ui/audit")
	for _, what := range []string{"cordon", "uncordon", "quarantine", "unquarantine", "requeue", "pause", "resume", "override", "restore", "a test"} {
		b.says(what)
	}
}

func (f *fleet) submit(t *testing.T, code string) job.ID {
	t.Helper()
	a, err := f.api.Submit(t.Context(), job.Spec{Program: job.Program{Python: &job.Python{Code: code}}})
	if err != nil {
		t.Fatal(err)
	}
	return a.ID
}

func testSession(t *testing.T, f *fleet, d data) {
	b := f.tab(t)
	b.signIn(submitterKey)
	b.open("/ui/sessions/" + string(d.session))
	b.run(chromedp.SendKeys("#code", "answer = 6 * 7\nprint('<b>said</b>')\nanswer"), chromedp.KeyEvent(kb.Enter, chromedp.KeyModifiers(2)))
	b.says("<b>said</b>")
	b.until("the variable is there", `document.querySelector("#variables + .scroll, #variables ~ .scroll").innerText.includes("answer")`)
	// Another client executes code: the page shows it, and typed text stays.
	b.run(chromedp.SendKeys("#code", "half of a"))
	if _, err := f.api.Execute(t.Context(), d.session, executeRequest("seen_by_itself = 1")); err != nil {
		t.Fatal(err)
	}
	b.says("seen_by_itself")
	if typed := eval[string](b, `document.querySelector("#code").value`); typed != "half of a" {
		t.Errorf("what was typed is %q now", typed)
	}
	b.open("/ui/sessions")
	b.run(chromedp.SetValue("#name", "another"))
	b.press("Open session")
	b.says("The session is open.")
	b.press("End session")
	b.press("End session")
	b.says("The session has ended.")
}

// A page updates by itself without jumping, keeps its focused and opened elements, and stops
// polling when it is complete.
func testLive(t *testing.T, f *fleet, _ data) {
	b := f.tab(t)
	b.signIn(submitterKey)
	live, err := f.api.SubmitSpecs(t.Context(), client.BatchOptions{Name: "live"}, func(yield func(job.Spec) bool) {
		for i := range 12 {
			if !yield(job.Spec{Name: fmt.Sprint("job ", i), Program: job.Program{Python: &job.Python{Code: fmt.Sprintf("import time; time.sleep(%d)", 1+i)}}}) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	b.open("/ui/batches/" + string(live.ID))
	b.run(chromedp.Evaluate(`window.shifts = 0; new PerformanceObserver((l) => { for (const e of l.getEntries()) if (!e.hadRecentInput) window.shifts += e.value; }).observe({ type: "layout-shift" }); window.stays = document.querySelector("h1"); document.querySelector("#list a").focus(); window.focused = document.activeElement.id`, nil))
	b.says("of 12 (")
	b.until("it is done", `document.querySelector("#live .headline").innerText.startsWith("done")`)
	if !eval[bool](b, `window.stays === document.querySelector("h1")`) {
		t.Error("the page was loaded anew")
	}
	if !eval[bool](b, `window.focused !== "" && document.activeElement.id === window.focused`) {
		t.Errorf("the focus is gone from %s", eval[string](b, `window.focused`))
	}
	if shifts := eval[float64](b, `window.shifts`); shifts > 0.1 {
		t.Errorf("the layout jumped: %.3f", shifts)
	}
	if eval[bool](b, `document.querySelector("#live").hasAttribute("hx-get")`) {
		t.Error("it asks on although it is done")
	}
}

func testKeyboard(t *testing.T, f *fleet, d data) {
	b := f.tab(t)
	b.signIn(submitterKey)
	b.open("/ui/batches/" + string(d.after.ID))
	b.run(chromedp.KeyEvent(kb.Tab))
	if !eval[bool](b, `document.activeElement.classList.contains("skip") && document.activeElement.getBoundingClientRect().left >= 0`) {
		t.Error("the first thing that Tab reaches is not the way past the menu, or it is not seen")
	}
	b.run(chromedp.KeyEvent(kb.Enter))
	b.until("the menu is passed", `document.activeElement.id === "main"`)
	b.run(chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Tab))
	if id := eval[string](b, `document.activeElement.id`); id != "heat" {
		t.Fatalf("Tab reaches %q and not the map", id)
	}
	if !eval[bool](b, `getComputedStyle(document.querySelector("#heat canvas")).outlineStyle === "solid"`) {
		t.Error("the focus of the map is not seen")
	}
	b.until("the map is there", `document.querySelector("#heat").dataset.cells === "48"`)
	b.run(chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent(kb.ArrowRight))
	b.until("the map says where it is", `document.querySelector("#heat output").innerText.startsWith("Job 3 of 48: ")`)
	b.run(chromedp.KeyEvent(kb.Enter))
	b.says("problem-02")
	// Every link and button can be reached, and is then visible.
	b.open("/ui/batches")
	for range 12 {
		b.run(chromedp.KeyEvent(kb.Tab))
		if !eval[bool](b, `document.activeElement !== document.body && document.activeElement.matches(":focus-visible")`) {
			t.Errorf("the focus is not seen on %s", eval[string](b, `document.activeElement.outerHTML.slice(0, 200)`))
		}
	}
}

// Markup of programs runs no code, sends no requests, and is shown as text.
func testMarkup(t *testing.T, f *fleet, d data) {
	b := f.tab(t)
	b.signIn(operatorKey)
	made, err := f.api.CreateSession(t.Context(), job.SessionSpec{Name: markups[2]})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range markups {
		quoted, _ := json.Marshal(m)
		if _, err := f.api.Execute(t.Context(), made.ID, executeRequest(fmt.Sprintf("v = %s\nprint(v)\nv", quoted))); err != nil {
			t.Fatal(err)
		}
	}
	paths := []string{"/ui/", "/ui/batches", "/ui/batches/" + string(d.hostile.ID), "/ui/jobs?batch=" + string(d.hostile.ID), "/ui/compare?b=" + string(d.hostile.ID) + "&b=" + string(d.before.ID), "/ui/sessions", "/ui/sessions/" + string(made.ID)}
	for _, id := range d.hostiles {
		paths = append(paths, "/ui/jobs/"+string(id), "/ui/jobs/"+string(id)+"/log/stderr")
	}
	for _, m := range markups {
		paths = append(paths, "/ui/jobs?label="+q(m), "/ui/do/cordon?on="+q(m), "/ui/audit?subject="+q(m), "/ui/signin?to="+q(m))
	}
	seen := 0
	for _, path := range paths {
		b.open(path)
		if n := eval[int](b, `window.executed`); n != 0 {
			t.Errorf("%s executed markup", path)
		}
		seen += eval[int](b, `document.body.innerText.split("canary").length - 1`)
	}
	if seen < 1000 {
		t.Errorf("markup is seen as text %d times only", seen)
	}
	if err := f.end(t.Context(), made.ID); err != nil {
		t.Fatal(err)
	}
}

func (f *fleet) end(ctx context.Context, id job.ID) error {
	_, err := f.api.CloseSession(ctx, id)
	return err
}

// A long output is read a screen at a time.
func testLog(t *testing.T, f *fleet, d data) {
	b := f.tab(t)
	b.signIn(submitterKey)
	b.open("/ui/jobs/" + string(d.ansi) + "/log/stdout")
	b.says("line 0 of a long output")
	if !eval[bool](b, `document.querySelector("pre.log .a-f1") !== null && document.querySelector("pre.log").innerText.length < 70000`) {
		t.Error("colours are not shown, or more than a screen is")
	}
	b.press("Last")
	b.says("line 199999 of a long output")
	b.press("Before")
	b.press("First")
	b.says("line 0 of a long output")
}

func testFilters(t *testing.T, f *fleet, d data) {
	b := f.tab(t)
	b.signIn(submitterKey)
	b.open("/ui/batches/" + string(d.after.ID))
	b.run(chromedp.SetValue("#outcome", "failed"), chromedp.Click(`.filters button`))
	b.until("the filter is in the address", `location.search.includes("outcome=failed")`)
	rows, failed := eval[int](b, `document.querySelectorAll("#list tbody tr").length`), int(d.after.Outcomes[job.Failed])
	if rows != failed || rows == 0 {
		t.Errorf("%d rows of jobs that failed, and %d of them failed", rows, failed)
	}
	b.open("/ui/batches")
	for _, batch := range []*job.Batch{d.before, d.after} {
		b.run(chromedp.Click("#c-" + string(batch.ID)))
	}
	b.press("Compare selected")
	b.says("Flipped verdicts")
	if n := eval[int](b, `document.querySelectorAll("main tbody tr").length`); n == 0 {
		t.Error("nothing flipped")
	}
}

// Every page, in both themes: no serious finding of axe, no page wider than a telephone, and a
// picture.
func testPages(t *testing.T, f *fleet, d data) {
	script := axeScript(t)
	b := f.tab(t)
	pages := map[string]string{
		"overview": "/ui/", "batches": "/ui/batches", "batch": "/ui/batches/" + string(d.after.ID), "compare": "/ui/compare?b=" + string(d.before.ID) + "&b=" + string(d.after.ID),
		"jobs": "/ui/jobs", "job": "/ui/jobs/" + string(d.failed), "job-files": "/ui/jobs/" + string(d.artifact), "log": "/ui/jobs/" + string(d.ansi) + "/log/stdout",
		"hostile": "/ui/jobs/" + string(d.hostiles[0]), "sessions": "/ui/sessions", "session": "/ui/sessions/" + string(d.session), "workers": "/ui/workers",
		"tenants": "/ui/tenants", "tenant": "/ui/tenants?tenant=default", "keys": "/ui/keys", "make-key": "/ui/do/make-key?on=default", "grant": "/ui/do/grant?on=other", "audit": "/ui/audit", "confirm": "/ui/do/quarantine?on=w1", "problem": "/ui/none", "empty": "/ui/jobs?name_prefix=nothing",
	}
	look := func(name, path string) {
		for _, theme := range []string{"light", "dark"} {
			b.run(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}, {Name: "prefers-reduced-motion", Value: "reduce"}}))
			b.open(path)
			if strings.Contains(path, "/batches/") {
				b.until("the map is there", `document.querySelector("#heat").dataset.cells > 0`)
			}
			b.inspect(name, theme, script)
			b.picture(name, theme)
		}
		b.run(emulation.SetDeviceMetricsOverride(390, 800, 1, true))
		b.open(path)
		if wide := eval[int](b, `document.documentElement.scrollWidth`); wide > 390 {
			t.Errorf("%s is %d wide on a narrow screen: %s", name, wide, eval[string](b, `[...document.querySelectorAll("main *")].filter((e) => e.getBoundingClientRect().right > 391 && !e.parentElement.closest(".scroll")).slice(0, 3).map((e) => e.outerHTML.slice(0, 120)).join("\n")`))
		}
		b.picture(name, "narrow")
		b.run(emulation.ClearDeviceMetricsOverride())
	}
	look("signin", "/ui/signin")
	b.signIn(operatorKey)
	for name, path := range pages {
		look(name, path)
	}
}

func axeScript(t *testing.T) string {
	t.Helper()
	script, err := os.ReadFile(*axe)
	if err != nil {
		t.Fatalf("-ui.axe: %v", err)
	}
	return string(script)
}

// inspect runs axe on the page.
func (b *tab) inspect(name, theme, script string) {
	b.t.Helper()
	b.run(chromedp.Evaluate(script, nil))
	found := eval[[]struct {
		ID, Impact, Help string
		Nodes            []struct{ HTML, FailureSummary string }
	}](b, `axe.run(document, { resultTypes: ["violations"] }).then((r) => r.violations.map((v) => ({ ID: v.id, Impact: v.impact, Help: v.help, Nodes: v.nodes.slice(0, 3).map((n) => ({ HTML: n.html.slice(0, 300), FailureSummary: n.failureSummary })) })))`)
	for _, v := range found {
		text := fmt.Sprintf("%s, %s: %s (%s): %s", name, theme, v.ID, v.Impact, v.Help)
		for _, n := range v.Nodes {
			text += "\n  " + n.HTML + "\n  " + strings.ReplaceAll(n.FailureSummary, "\n", "\n  ")
		}
		if v.Impact == "serious" || v.Impact == "critical" {
			b.t.Error(text)
		} else {
			b.t.Log(text)
		}
	}
}

// documented are the pages with pictures in the documentation.
var documented = map[string]bool{"overview": true, "batches": true, "batch": true, "job": true, "session": true, "workers": true, "audit": true}

// picture takes a picture.
func (b *tab) picture(name, theme string) {
	b.t.Helper()
	if *shots != "" {
		b.shoot(filepath.Join(*shots, name+"-"+theme+".png"), true)
	}
	if *pictures != "" && theme == "light" && documented[name] {
		b.shoot(filepath.Join(*pictures, "web-"+name+".png"), false)
	}
}

func (b *tab) shoot(path string, whole bool) {
	b.t.Helper()
	var raw []byte
	b.run(chromedp.ActionFunc(func(ctx context.Context) (err error) {
		raw, err = page.CaptureScreenshot().WithFormat(page.CaptureScreenshotFormatPng).WithCaptureBeyondViewport(whole).Do(ctx)
		return err
	}))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, raw, 0o644); err != nil {
		b.t.Fatal(err)
	}
}
