//go:build ui

package ui

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/assay-run/assay/pkg/job"
)

// A user who signs in at the issuer has the issuer's identity and the role of the group, until the
// issuer's statement expires.
func testIssuer(t *testing.T, f *fleet, _ data) {
	f.issuer.SignsIn(map[string]any{"email": "ada@example.com", "groups": []string{"lookers"}, "exp": time.Now().Add(time.Hour).Unix()})
	b := f.tab(t)
	b.open("/ui/jobs?outcome=failed")
	b.press("Sign in with your organization")
	b.until("it is the page that was asked for", `location.pathname === "/ui/jobs" && location.search === "?outcome=failed"`)
	if who := eval[string](b, `document.querySelector(".who").innerText`); !strings.Contains(who, "ada@example.com") || !strings.Contains(who, "reader of default") {
		t.Errorf("signed in as %q", who)
	}
	if cookie := eval[string](b, `document.cookie`); cookie != "" {
		t.Errorf("scripts read the cookie: %s", cookie)
	}
	b.open("/ui/audit")
	b.says("and yours is reader")
	b.press("Sign out")
	f.issuer.SignsIn(map[string]any{"email": "eve@example.com", "groups": []string{"strangers"}})
	b.open("/ui/signin")
	b.press("Sign in with your organization")
	b.until("who is in no group is refused", `document.querySelector("[role=alert]") !== null && location.pathname === "/ui/signin/callback"`)
}

// A key is created, shown once, valid for its scope, and revoked. The audit log has all of it.
func testKeys(t *testing.T, f *fleet, _ data) {
	b := f.tab(t)
	b.signIn(operatorKey)
	b.open("/ui/keys")
	b.press("Make key")
	b.run(chromedp.SendKeys("#f-name", markups[2]), chromedp.SetValue("#f-role", "reader"), chromedp.SendKeys("#f-reason", "a test of keys"))
	b.press("Make key")
	b.says("It is not shown again")
	token := eval[string](b, `document.querySelector("#once").innerText.trim()`)
	if b.picture("key-made", "light"); len(token) != 49 || !strings.HasPrefix(token, "assay_") {
		t.Fatalf("the token is %q", token)
	}
	asks := func() int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.url+"/v1/jobs", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	if got := asks(); got != http.StatusOK {
		t.Errorf("the new key is answered %d", got)
	}
	other := f.tab(t)
	other.signIn(token)
	b.press("Go on")
	b.says(markups[2])
	if text := eval[string](b, `document.documentElement.outerHTML`); strings.Contains(text, token) {
		t.Error("the token is seen again")
	}
	b.run(chromedp.Click(`main td a[href*="revoke-key"]`), chromedp.WaitReady("#f-reason"))
	b.press("Revoke key")
	b.says("is revoked.")
	for end := time.Now().Add(time.Second); asks() != http.StatusUnauthorized; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a revoked key is good for longer than a second")
		}
	}
	other.open("/ui/jobs")
	other.until("whose key has ended is asked to sign in", `location.pathname === "/ui/signin"`)
	b.open("/ui/audit?action=make+key")
	b.says("a test of keys")
	if eval[bool](b, `[...document.querySelectorAll("main tbody td:nth-child(3)")].some((e) => e.innerText.trim() !== "make key")`) {
		t.Error("the audit shows more than its filter says")
	}
	if n := eval[int](b, `window.executed`); n != 0 {
		t.Error("the name of a key is executed")
	}
}

// A tenant's grants are changed once, by a user who has seen their current values.
func testGrant(t *testing.T, f *fleet, _ data) {
	b, slower := f.tab(t), f.tab(t)
	for _, tab := range []*tab{b, slower} {
		tab.signIn(operatorKey)
		tab.open("/ui/tenants?tenant=other")
		tab.press("Grant")
	}
	for _, c := range []struct {
		b                    *tab
		weight, most, reason string
	}{{b, "3", "7", "they asked"}, {slower, "5", "9", "too late"}} {
		c.b.run(chromedp.SetValue("#f-weight", c.weight), chromedp.SetValue("#f-max_running", c.most), chromedp.SendKeys("#f-reason", c.reason))
		c.b.press("Grant")
	}
	b.says("other is granted weight 3 and at most 7 running jobs now: version")
	slower.says("default has changed this tenant at")
	slower.says("look again")
	b.open("/ui/audit?subject=other")
	b.says("they asked")
	b.until("it says what changed", `[...document.querySelectorAll(".diff ins")].some((e) => e.innerText.includes("max_running: 7"))`)
	b.open("/ui/tenants")
	b.until("all tenants are listed", `[...document.querySelectorAll("main tbody tr")].some((e) => e.innerText.startsWith("other") && e.innerText.includes("7"))`)
}

// A job's output is visible while it runs, is text, and becomes the stored output.
func testLogs(t *testing.T, f *fleet, _ data) {
	b := f.tab(t)
	b.signIn(operatorKey)
	code := fmt.Sprintf("import sys, time\nm = %q\nfor i in range(60):\n    print(f'\\x1b[3{i %% 8}mline {i}\\x1b[0m', m, flush=True)\n    print('to stderr', i, '\\u202e', file=sys.stderr, flush=True)\n    time.sleep(0.2)\n", markups[2])
	id := f.submit(t, code)
	b.open("/ui/jobs/" + string(id))
	b.until("its output is seen while it runs", `document.querySelector("[data-stream=stdout]")?.innerText.includes("line 2 ") && document.querySelector("[data-stream=stderr]").innerText.includes("to stderr 2 ⟨U+202E⟩") && document.querySelector("#live .headline").innerText.includes("running")`)
	if !eval[bool](b, `document.querySelector("[data-stream=stdout] .a-f1") !== null && document.querySelector("[data-stream=stdout]").querySelector(":not(span)") === null && window.executed === 0`) {
		t.Error("colours are not shown, or there is more than text")
	}
	b.picture("job-live", "light")
	if *axe != "" {
		b.inspect("job-live", "light", axeScript(t))
	}
	b.until("it becomes what is stored", `document.querySelector("#logs") === null && document.querySelector("#live").innerText.includes("line 59") && document.querySelector("#live .headline").innerText.includes("succeeded")`)
	b.press("Delete job")
	b.press("Delete job")
	b.says("Job " + string(id) + " is deleted.")
	if _, err := f.api.Job(t.Context(), id, 0); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("a job that was deleted: %v", err)
	}
}

// A link to a file works without a key.
func testLink(t *testing.T, f *fleet, d data) {
	b := f.tab(t)
	b.signIn(submitterKey)
	b.open("/ui/jobs/" + string(d.artifact))
	b.run(chromedp.Click(`a[href*="link-artifact"]`), chromedp.WaitReady("#f-expires_in"))
	b.press("Make link")
	b.says("needs no key")
	resp, err := http.Get(eval[string](b, `document.querySelector("#once").innerText.trim()`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || string(raw) != "hello\n" {
		t.Errorf("the link leads to %d %q %v", resp.StatusCode, raw, err)
	}
}

// A finished batch is deleted with its jobs.
func testDelete(t *testing.T, f *fleet, _ data) {
	gone := f.batch(t, "to be deleted", []job.Spec{{Program: job.Program{Python: &job.Python{Code: "1"}}}})
	b := f.tab(t)
	b.signIn(operatorKey)
	b.open("/ui/batches/" + string(gone.ID))
	b.press("Delete batch")
	b.press("Delete batch")
	b.says("and its jobs are deleted.")
	b.open("/ui/batches/" + string(gone.ID))
	b.says("found")
}
