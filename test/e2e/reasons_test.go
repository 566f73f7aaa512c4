package e2e

import (
	"context"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
)

// reasonWithin is how long after the submission a waiting job's reason may be unknown. Without other
// tests beside this one it is known within 5 s.
const reasonWithin = 15 * time.Second

// TestReasonsForWaits has a real fleet make a job wait for each reason in turn. The API and the job's
// page must say soon why it waits, and what for.
func TestReasonsForWaits(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	const key = "the-key-of-a-tester"
	begin := func(t *testing.T, env ...string) waiters {
		f := start(t, append(env, "ASSAY_TOKENS="+key+"=tester:admin")...)
		f.api = f.as(t, key)
		return waiters{f, signedIn(t, f.URL(), key)}
	}
	f := begin(t, "ASSAY_CPU=2", "ASSAY_SLOTS=2", "ASSAY_MEMORY=2Gi", "ASSAY_POOLS=default,gpu")
	admin := f.api.Admin()
	sleep, loop := python("import time; time.sleep(600)"), python("while True: pass")
	long := []byte(`{"wall":"10m","cpu_time":"10m"}`)

	t.Run("needs", func(t *testing.T) {
		f.waits(t, job.Spec{Policy: []byte(`{"memory":"1Ti"}`)}, job.WaitsNeeds, "memory 1Ti")
	})
	t.Run("pool", func(t *testing.T) { f.waits(t, job.Spec{Pool: "gpu"}, job.WaitsPool, "gpu") })
	t.Run("paused", func(t *testing.T) {
		if _, err := admin.Pause(ctx, api.PauseRequest{Pool: "default", Reason: "an upgrade"}); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if _, err := admin.Resume(ctx, api.PauseRequest{Pool: "default"}); err != nil {
				t.Error(err)
			}
			f.settled(t, "working")
		}()
		f.settled(t, "cordoned")
		f.waits(t, job.Spec{}, job.WaitsPaused, ": an upgrade")
	})
	t.Run("worker", func(t *testing.T) {
		if _, err := admin.Cordon(ctx, "dev", "a new kernel"); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if _, err := admin.Uncordon(ctx, "dev", "done"); err != nil {
				t.Error(err)
			}
			f.settled(t, "working")
		}()
		f.settled(t, "cordoned")
		f.waits(t, job.Spec{}, job.WaitsWorker, "cordoned")
	})
	t.Run("quota", func(t *testing.T) {
		tenant := f.hold(t, job.Spec{Program: sleep, Policy: long}, 1, 0)
		if _, err := f.api.PutTenant(ctx, tenant, api.TenantGrant{MaxRunning: 1}, -1); err != nil {
			t.Fatal(err)
		}
		f.waits(t, job.Spec{}, job.WaitsQuota, "max_running")
		if _, err := f.api.PutTenant(ctx, tenant, api.TenantGrant{}, -1); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("cores", func(t *testing.T) {
		f.hold(t, job.Spec{Program: loop, Policy: long}, 2, 20) // some more than slots: long jobs return theirs
		f.waits(t, job.Spec{}, job.WaitsCores, "use")
	})
	t.Run("slot", func(t *testing.T) {
		half := []byte(`{"wall":"10m","memory":"1200Mi"}`) // sleeping jobs return their slots, but not their memory
		f.hold(t, job.Spec{Program: sleep, Policy: half}, 1, 20)
		f.waits(t, job.Spec{Policy: half}, job.WaitsSlot, "slots")
	})
	t.Run("image", func(t *testing.T) {
		f := begin(t, "ASSAY_IMAGES=python")
		if r, err := f.api.Run(ctx, job.Spec{Program: python("1")}); err != nil || r.Outcome != job.Succeeded {
			t.Fatalf("a job with the reserved image: %s, %v", seen(r), err)
		}
		f.waits(t, job.Spec{Image: "other"}, job.WaitsImage, "reserved")
	})
}

// waiters is a fleet whose jobs wait, and a browser that is signed in.
type waiters struct {
	*fleet
	browser *http.Client
}

var formValue = regexp.MustCompile(`name="form" value="([^"]+)"`)

// signedIn returns a browser that is signed in at the page.
func signedIn(t *testing.T, base, key string) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	form := formValue.FindStringSubmatch(got(t, browser, base+"/ui/signin"))
	if form == nil {
		t.Fatal("the sign-in page has no form")
	}
	rq, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/ui/signin", strings.NewReader(url.Values{"form": {form[1]}, "key": {key}, "to": {"/ui/"}}.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	rq.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	rq.Header.Set("Origin", base)
	answer(t, browser, rq)
	return browser
}

func got(t *testing.T, browser *http.Client, url string) string {
	t.Helper()
	rq, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return answer(t, browser, rq)
}

// answer returns the body of the response to rq, which must succeed.
func answer(t *testing.T, browser *http.Client, rq *http.Request) string {
	t.Helper()
	re, err := browser.Do(rq)
	if err != nil {
		t.Fatal(err)
	}
	defer re.Body.Close()
	body, err := io.ReadAll(re.Body)
	if err != nil || re.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %s %v\n%s", rq.Method, rq.URL, re.Status, err, body)
	}
	return string(body)
}

// settled waits until the fleet shows its worker in a state.
func (f waiters) settled(t *testing.T, state string) {
	t.Helper()
	eventually(t, "the worker is "+state, func() bool {
		now, err := f.api.Now(t.Context())
		return err == nil && len(now.Workers) == 1 && string(now.Workers[0].State()) == state
	})
}

// hold has n jobs run until the end of the test, and queues more after them. It returns their tenant.
func (f waiters) hold(t *testing.T, s job.Spec, n, more int) (tenant string) {
	t.Helper()
	mark := map[string]string{"held": string(job.NewID())}
	s.Labels = mark
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if _, err := f.api.CancelLabeled(ctx, mark); err != nil {
			t.Error(err)
		}
		eventually(t, "the held jobs have ended", func() bool {
			now, err := f.api.Now(ctx)
			return err == nil && len(now.Pools) > 0 && now.Pools[0].Running == 0
		})
	})
	for range n {
		a, err := f.api.Submit(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		var j *job.Job
		for began := time.Now(); j == nil || j.State != job.Running; {
			if j, err = f.api.Job(t.Context(), a.ID, time.Second); err != nil {
				t.Fatal(err)
			}
			if time.Since(began) > time.Minute {
				t.Fatalf("a job is %s for a minute, and waits for %q, %q", j.State, j.WaitsFor, j.Message)
			}
		}
		tenant = j.Tenant
	}
	for range more {
		if _, err := f.api.Submit(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	return tenant
}

// waits checks that the API and the page give the reason for a job's wait in time, and ends the job.
func (f waiters) waits(t *testing.T, s job.Spec, want job.Wait, words string) {
	t.Helper()
	s.Program = python("1")
	began := time.Now()
	a, err := f.api.Submit(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if _, err := f.api.Cancel(t.Context(), a.ID); err != nil {
			t.Error(err)
		}
	}()
	var j *job.Job
	for {
		if j, err = f.api.Job(t.Context(), a.ID, 0); err != nil {
			t.Fatal(err)
		}
		page := html.UnescapeString(got(t, f.browser, f.URL()+"/ui/jobs/"+string(a.ID)))
		if want == job.WaitsCores && j.WaitsFor == job.WaitsSlot { // other processes use some of the cores
			words = "slots"
		}
		is := j.WaitsFor == want || want == job.WaitsCores && j.WaitsFor == job.WaitsSlot
		if is && j.Message != "" && strings.Contains(j.Message, words) && strings.Contains(page, j.Message) {
			t.Logf("after %v: %s", time.Since(began).Round(10*time.Millisecond), j.Message)
			return
		}
		if time.Since(began) > reasonWithin {
			t.Fatalf("after %v the job waits for %q, %q, and is %s; want %q with %q, and the same on the page:\n%s", reasonWithin, j.WaitsFor, j.Message, j.State, want, words, page)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
