package dropin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

const printed = `{"id":"` + jobID + `","state":"finished","outcome":"succeeded","stdout":{"text":"1\n","bytes":2,"truncated":false}}`

var requests = map[string]struct {
	body string
	time time.Duration // how long its client waits
}{
	"/sandboxfusion/run_code": {`{"language":"python","code":"print(1)","compile_timeout":2,"run_timeout":1.5}`, 13500 * time.Millisecond},
	"/piston/api/v2/execute":  {`{"language":"python","version":"*","files":[{"content":"print(1)"}]}`, 30 * time.Second},
}

// Without room a request waits, and then gets the program's result.
func TestWaitsForRoom(t *testing.T) {
	t.Parallel()
	for path, q := range requests {
		for _, full := range []error{
			fmt.Errorf("%w: %w", job.ErrTooMany, job.Invalid("jobs", "there are as many as there may be")), job.ErrUnavailable, context.DeadlineExceeded,
		} {
			synctest.Test(t, func(t *testing.T) {
				f := &fleet{err: full, result: json.RawMessage(printed)}
				go func() {
					time.Sleep(5 * time.Second)
					f.err = nil
				}()
				if resp := f.post(t, path, []byte(q.body)); resp.Code != http.StatusOK || !strings.Contains(resp.Body.String(), `"stdout":"1\n"`) {
					t.Errorf("%s after %v: %d %s", path, full, resp.Code, resp.Body)
				}
				if f.runs < 3 || f.runs > 100 {
					t.Errorf("%s was tried %d times", path, f.runs)
				}
				synctest.Wait()
			})
		}
	}
}

// A request that runs out of time responds before its client gives up, with the status after which the client retries.
// Its job is canceled.
func TestTooLate(t *testing.T) {
	t.Parallel()
	for path, q := range requests {
		for name, f := range map[string]*fleet{"no room": {err: job.ErrTooMany}, "no result": {hang: true}} {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				resp := f.post(t, path, []byte(q.body))
				took := time.Since(start)
				if resp.Code != http.StatusGatewayTimeout || !strings.Contains(resp.Body.String(), "send it again") || !json.Valid(resp.Body.Bytes()) {
					t.Errorf("%s, %s: %d %s", path, name, resp.Code, resp.Body)
				}
				if took >= q.time || took < q.time/2 {
					t.Errorf("%s, %s: answered after %v, and its client waits for %v", path, name, took, q.time)
				}
				if f.hang && (len(f.canceled) != 1 || f.canceled[0] != jobID) {
					t.Errorf("%s, %s: canceled %v", path, name, f.canceled)
				}
			})
		}
	}
}

// The job of a disconnected client is canceled and not retried.
func TestClientGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		f := &fleet{hang: true}
		go func() {
			time.Sleep(time.Second)
			cancel()
		}()
		const path = "/sandboxfusion/run_code"
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, path, strings.NewReader(requests[path].body))
		r.Header.Set("Content-Type", "application/json")
		f.send(t, r)
		if f.runs != 1 || len(f.canceled) != 1 {
			t.Errorf("%d tries, canceled %v", f.runs, f.canceled)
		}
	})
}

// In a batch, a submission that did not run in time gets the result for a retry, and no verdict.
func TestLateSubmission(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{hang: true}
		resp := f.post(t, "/code-judge/judge", []byte(`{"type":"python","solution":"print(1)","expected_output":"1"}`))
		var got struct {
			Success bool
			Reason  string
		}
		if err := json.Unmarshal(resp.Body.Bytes(), &got); err != nil || resp.Code != http.StatusOK || got.Success || got.Reason != "queue_timeout" {
			t.Errorf("%d %s", resp.Code, resp.Body)
		}
	})
}

// Values that are too large or invalid text get an error that names the field.
func TestBadText(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"language":"python","code":"1","stdin":"\ud800"}`:           "stdin: must not contain NUL bytes, nor text that is not Unicode",
		"{\"language\":\"python\",\"code\":\"1\",\"stdin\":\"\xff\"}": "stdin: must not contain NUL bytes, nor text that is not Unicode",
		`[1]`: "must be",
		``:    "is empty",
		`{"language":"python","code":"1","stdin":"` + strings.Repeat("y", 9<<20) + `"}`: "stdin: is 9437184 bytes; at most 8Mi",
		`{"language":"python","code":"1","run_timeout":1e999}`:                          "run_timeout",
		`{"language":"python","code":"1","run_timeout":-1}`:                             "run_timeout: -1 must be more than 0",
	} {
		resp := (&fleet{}).post(t, "/run_code", []byte(body))
		if resp.Code/100 != 4 || !strings.Contains(resp.Body.String(), want) {
			t.Errorf("%.60s: %d %s, want %q", body, resp.Code, resp.Body, want)
		}
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/code-judge/status": `{"queue":7,"num_workers":2}`, "/code-judge/ping": `"pong"`, "/sandboxfusion/v1/ping": `"pong"`, "/v1/ping": `"pong"`,
	} {
		resp := (&fleet{}).send(t, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if got := strings.TrimSpace(resp.Body.String()); resp.Code != http.StatusOK || got != want {
			t.Errorf("%s: %d %s", path, resp.Code, got)
		}
	}
}

// Clients can send the listed runtimes back.
func TestRuntimes(t *testing.T) {
	t.Parallel()
	resp := (&fleet{}).send(t, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/piston/api/v2/runtimes", nil))
	var all []struct {
		Language, Version string
		Aliases           []string
	}
	if err := json.Unmarshal(resp.Body.Bytes(), &all); err != nil || len(all) < 4 {
		t.Fatalf("%v in %s", err, resp.Body)
	}
	for _, r := range all {
		for _, name := range append(r.Aliases, r.Language) {
			f := &fleet{result: json.RawMessage(printed)}
			body := fmt.Sprintf(`{"language":%q,"version":%q,"files":[{"content":"x"}]}`, name, r.Version)
			if resp := f.post(t, "/piston/api/v2/execute", []byte(body)); resp.Code != http.StatusOK || !strings.Contains(resp.Body.String(), `"language":"`+r.Language+`"`) {
				t.Errorf("%s: %d %s", body, resp.Code, resp.Body)
			}
		}
	}
}
