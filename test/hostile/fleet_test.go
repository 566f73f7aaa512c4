package hostile

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/cli/dev"
	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// These attacks are on a fleet, through its API. The user of the fleet is its administrator.

// fleet is a running one.
type fleet struct {
	url   string
	admin *client.Client
	log   string // of the worker
}

func startFleet(t *testing.T) *fleet {
	t.Helper()
	archive := filepath.Join(testenv.RepoRoot(t), ".cache", "images", "python.tar")
	if _, err := os.Stat(archive); err != nil {
		t.Fatalf("the default image is not built: %v; run: make image", err)
	}
	dir := testenv.FleetDir(t, archive)
	running, err := dev.StartFleet(t.Context(), dev.FleetConfig{
		Dir: dir, Listen: testenv.Address(t), BinDir: testenv.Programs(t), ImageArchives: []string{archive},
		Env:    []string{"ASSAY_CPU=4", "ASSAY_RUNTIMES=gvisor=" + testenv.Runsc(t)},
		Stderr: t.Output(), Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := running.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	f := &fleet{url: running.URL(), log: filepath.Join(dir, "worker.log")}
	if f.admin, err = client.New(f.url); err != nil {
		t.Fatal(err)
	}
	return f
}

// as returns a client with a key of its own.
func (f *fleet) as(t *testing.T, q api.KeyRequest) *client.Client {
	t.Helper()
	q.Name = "attack"
	k, err := f.admin.CreateKey(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(f.url, client.WithToken(k.Token))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestFleet attacks a fleet with what its clients send.
func TestFleet(t *testing.T) {
	f := startFleet(t)
	t.Run("policies that no sandbox can have", f.impossiblePolicies)
	t.Run("helpers of restricted keys", f.helpersOfRestrictedKeys)
	t.Run("pages of other sites", f.foreignPages)
}

// impossible are policies that a sandbox cannot have: paths of the audit, and others of their kind.
var impossible = []string{
	`{"write": ["/run/assay"]}`, `{"write": ["/run"]}`, `{"write": ["/` + strings.Repeat("n", 300) + `"]}`, `{"write": ["/etc/passwd"]}`, `{"write": ["/usr/bin/env"]}`,
	`{"read": ["/etc/passwd"]}`, `{"read": ["/run/assay"]}`,
	// Below a file of the image, through its links, over its interpreter, and names that are too long in bytes alone.
	`{"write": ["/etc/passwd/x"]}`, `{"read": ["/usr/bin/env/x/y"]}`, `{"write": ["/bin/sh"]}`, `{"write": ["/lib64/x"]}`, `{"write": ["/var/run/assay"]}`,
	`{"write": ["/usr/bin"]}`, `{"write": ["/` + strings.Repeat("é", 128) + `"]}`, `{"write": ["` + strings.Repeat("/"+strings.Repeat("n", 250), 4) + `"]}`,
	// Limits with which nothing can begin.
	`{"disk": "64Ki", "files": 16}`, `{"memory": "16Mi", "stack": "16Mi"}`, `{"open_files": 16, "processes": 1}`, `{"wall": "1ms", "cpu_time": "1ms"}`,
}

// impossiblePolicies: each job of two tenants is refused, or ends at its first attempt, and a third tenant's jobs do not wait.
func (f *fleet) impossiblePolicies(t *testing.T) {
	bystander := f.as(t, api.KeyRequest{Tenant: "bystander"})
	honest := func() time.Duration {
		began := time.Now()
		r, err := bystander.Run(t.Context(), job.Spec{Program: job.Program{Python: &job.Python{Code: "print(1)"}}})
		if err != nil || r.Outcome != job.Succeeded {
			t.Errorf("the bystander's job: %+v, %v", r, err)
		}
		return time.Since(began)
	}
	honest() // makes its cell
	for _, level := range []policy.Isolation{policy.Cell, policy.Task, policy.GVisor} {
		policies := part(t, level, impossible)
		var attackers sync.WaitGroup
		for _, tenant := range []string{"one", "two"} {
			c := f.as(t, api.KeyRequest{Tenant: tenant})
			attackers.Go(func() {
				for _, p := range policies {
					f.oneAttempt(t, c, level, p)
				}
			})
		}
		over := make(chan struct{})
		go func() { attackers.Wait(); close(over) }()
		worst := time.Duration(0)
		for running := true; running; {
			select {
			case <-over:
				running = false
			default:
				worst = max(worst, honest())
			}
		}
		t.Logf("%s: the bystander waited at most %v", level, worst)
		if worst > 5*time.Second {
			t.Errorf("%s: the bystander waited for %v", level, worst)
		}
	}
	log, err := os.ReadFile(f.log)
	if err != nil || strings.Contains(string(log), "circuit breaker open") {
		t.Errorf("the worker stopped taking jobs (%v)", err)
	}
}

// oneAttempt runs a program under a policy, which may be refused.
func (f *fleet) oneAttempt(t *testing.T, c *client.Client, level policy.Isolation, rest string) {
	raw := json.RawMessage(`{"isolation": "` + string(level) + `", ` + rest[1:])
	r, err := c.Run(t.Context(), job.Spec{Program: job.Program{Command: &job.Command{Argv: []string{"true"}}}, Policy: raw})
	switch {
	case err != nil:
		if !errors.Is(err, job.ErrInvalid) || !strings.Contains(err.Error(), "policy.") {
			t.Errorf("%s, %.100s: %v, want a refusal that names the field", level, rest, err)
		}
	case len(r.Attempts) != 1 || r.Outcome == job.Lost:
		t.Errorf("%s, %.100s: %s (%s) after %d attempts", level, rest, r.Outcome, r.Message, len(r.Attempts))
	}
}

// taken is python that uses more than the policy of the restricted key allows, and reports each success.
const taken = `import subprocess, sys, time
def attempt(name, f):
    try: f()
    except BaseException: return
    print("ESCAPED", name, file=sys.stderr, flush=True)
attempt("memory", lambda: bytearray(200 << 20))
attempt("subprocess", lambda: subprocess.run(["true"], check=True))
`

// helpersOfRestrictedKeys: neither checker, nor interactor, nor compiler has more than the policy of the key.
func (f *fleet) helpersOfRestrictedKeys(t *testing.T) {
	if err := f.admin.PutPolicy(t.Context(), "narrow", []byte(`{"memory":"64Mi","wall":"5s","syscalls":"strict","subprocesses":false}`)); err != nil {
		t.Fatal(err)
	}
	c := f.as(t, api.KeyRequest{Policy: "narrow"})
	python := func(source string) *job.Code { return &job.Code{Language: "python", Source: source} }
	graded := func(edit func(*job.Tests)) job.Program {
		tests := &job.Tests{Code: "print(1)", Stdio: []job.Stdio{{Stdout: "1"}}}
		edit(tests)
		return job.Program{Tests: tests}
	}
	wrapper := []string{"-wrapper", "python3,-c," + "import sys; bytearray(200 << 20); sys.exit('ESCAPED')"}
	for name, p := range map[string]job.Program{
		"program": {Python: &job.Python{Code: taken}},
		"checker": graded(func(x *job.Tests) { x.Checker = &job.Checker{Code: python(taken + "sys.exit(43)")} }),
		"checker with more": graded(func(x *job.Tests) {
			x.Checker = &job.Checker{Code: python(taken + "sys.exit(43)"), Memory: job.GiB, Wall: job.Duration(time.Minute)}
		}),
		"interactor":           graded(func(x *job.Tests) { x.Interactor = &job.Checker{Code: python(taken + "sys.exit(43)")} }),
		"checker of the image": graded(func(x *job.Tests) { x.Checker = &job.Checker{Argv: []string{"python3", "-c", taken + "sys.exit(43)"}} }),
		"interactor of the image": graded(func(x *job.Tests) {
			x.Interactor = &job.Checker{Argv: []string{"python3", "-c", taken + "sys.exit(43)"}}
		}),
		"compiler":           {Code: &job.Code{Language: "c", Source: "int main(void) { return 0; }", Compile: &job.Compile{Flags: wrapper}}},
		"compiler with more": {Code: &job.Code{Language: "c", Source: "int main(void) { return 0; }", Compile: &job.Compile{Memory: job.GiB, Flags: wrapper}}},
		"compiler of a checker": graded(func(x *job.Tests) {
			x.Checker = &job.Checker{Code: &job.Code{Language: "c", Source: "int main(void) { return 42; }", Compile: &job.Compile{Flags: wrapper}}}
		}),
		"check": {Tests: &job.Tests{Code: "def f(): pass", Function: "f", Check: taken + "def check(candidate): candidate()\n"}},
		"setup": {Tests: &job.Tests{Code: "def f(): pass", Function: "f", Setup: taken, Cases: []job.Case{{}}}},
		"steps": {Command: &job.Command{Steps: []job.Step{{Name: "one", Argv: []string{"python3", "-c", taken}}}}},
	} {
		r, err := c.Run(t.Context(), job.Spec{Program: p})
		if err != nil {
			if !errors.Is(err, job.ErrRefused) && !errors.Is(err, job.ErrInvalid) {
				t.Errorf("%s: %v, want a refusal", name, err)
			}
			continue
		}
		if raw, _ := json.Marshal(r); strings.Contains(string(raw), "ESCAPED") || r.Usage.MemoryPeakBytes > 70<<20 {
			t.Errorf("%s: %.2000s", name, raw)
		}
	}
}

// foreignPages: what a browser sends for a page of another site changes nothing and reads nothing.
func (f *fleet) foreignPages(t *testing.T) {
	const pause = `{"tenant":"default","reason":"a page"}`
	for _, a := range []struct {
		name, method, path, body, host string
		header                         []string
	}{
		{"a blob without a type", "POST", "/v1/admin/pause", pause, "", []string{"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"}},
		{"a run", "POST", "/v1/run", `{"program":{"python":{"code":"print(1)"}}}`, "", []string{"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"}},
		{"a rebound name", "GET", "/v1/jobs", "", "rebound.evil.example", []string{"Sec-Fetch-Site", "same-origin", "User-Agent", "Mozilla/5.0"}},
		{"keys by a rebound name", "POST", "/v1/keys", `{"name":"x","role":"admin"}`, "rebound.evil.example", []string{"Content-Type", "application/json"}},
		{"a form", "POST", "/v1/admin/pause", pause, "", []string{"Content-Type", "text/plain", "Origin", "null"}},
		{"a form of an old browser", "POST", "/v1/admin/pause", pause, "", []string{"Content-Type", "application/x-www-form-urlencoded", "Referer", "http://evil.example/", "User-Agent", "Mozilla/5.0"}},
		{"another port of this host", "POST", "/v1/admin/pause", pause, "", []string{"Content-Type", "application/json", "Origin", "http://127.0.0.1:1", "Sec-Fetch-Site", "same-site"}},
		{"a name that begins with an address", "GET", "/v1/jobs", "", "127.0.0.1.evil.example", []string{"User-Agent", "Mozilla/5.0"}},
		{"a picture", "GET", "/v1/jobs", "", "", []string{"Sec-Fetch-Dest", "image", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Site", "cross-site"}},
		{"a worker's beacon", "POST", "/v1/jobs/cancel", `{"labels":{"a":"b"}}`, "", []string{"Content-Type", "text/plain;charset=UTF-8", "Origin", "https://evil.example", "Sec-Fetch-Mode", "no-cors"}},
		{"a session", "POST", "/v1/sessions", `{}`, "localhost.evil.example", []string{"Content-Type", "application/json", "Origin", "http://localhost.evil.example"}},
	} {
		r, err := http.NewRequestWithContext(t.Context(), a.method, f.url+a.path, strings.NewReader(a.body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(a.header); i += 2 {
			r.Header.Set(a.header[i], a.header[i+1])
		}
		if a.host != "" {
			r.Host = a.host
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		// 422 refuses a Content-Type that a page can send without asking first.
		if !slices.Contains([]int{http.StatusForbidden, http.StatusUnauthorized, http.StatusUnprocessableEntity}, resp.StatusCode) {
			t.Errorf("%s: %d %.200s", a.name, resp.StatusCode, body)
		}
	}
	if r, err := f.admin.Run(t.Context(), job.Spec{Program: job.Program{Python: &job.Python{Code: "print(1)"}}}); err != nil || r.Outcome != job.Succeeded {
		t.Errorf("a job afterwards: %+v, %v", r, err)
	}
}
