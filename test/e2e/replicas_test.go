package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

// Two dispatchers side by side: each learns of jobs that the other accepts, and wakes for them.
// When one is killed, no job is lost or recorded twice.
func secondDispatcher(t *testing.T, f *fleet) {
	second, stop := f.secondDispatcher(t)
	accepted, err := second.Submit(t.Context(), spec(t, python("print('by the second')"), "cell", nil, ""))
	if err != nil {
		t.Fatal(err)
	}
	if r, err := f.api.Result(t.Context(), accepted.ID); err != nil || r.Stdout.Text != "by the second\n" {
		t.Errorf("asked of the first: %+v, %v", r, err)
	}

	const n = 100
	ids := make([]job.ID, 2)
	var both sync.WaitGroup
	for i, api := range []*client.Client{f.api, second} {
		both.Go(func() {
			b, err := api.SubmitSpecs(t.Context(), client.BatchOptions{Name: fmt.Sprint("replica ", i)}, numbered(t, n, 0.05))
			if err != nil {
				t.Error(err)
				return
			}
			ids[i] = b.ID
		})
	}
	if both.Wait(); t.Failed() {
		t.FailNow()
	}
	eventually(t, "a part of it is recorded", func() bool {
		b, err := second.Batch(t.Context(), ids[0], 0)
		return err == nil && b.Counts[job.Finished] > n/10
	})
	stop()
	for _, id := range ids {
		f.allOnce(t, id, n)
	}
}

// secondDispatcher starts another dispatcher with the environment of the fleet's own. stop kills
// it, and so does the end of the test.
func (f *fleet) secondDispatcher(t *testing.T) (api *client.Client, stop func()) {
	t.Helper()
	return f.dispatcherAt(t, testenv.Address(t))
}

// dispatcherAt is secondDispatcher at a given address.
func (f *fleet) dispatcherAt(t *testing.T, listen string) (api *client.Client, stop func()) {
	t.Helper()
	cmd, log := f.another(t, "dispatcher", "ASSAY_LISTEN="+listen)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the second dispatcher:\n%s", log.Bytes())
		}
	})
	t.Cleanup(stop)
	api, err := client.New("http://" + listen)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the second dispatcher is ready", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return api.Ready(ctx) == nil
	})
	return api, stop
}

// another returns a command for a further process of one of the fleet's programs, with its
// environment and some more variables. It is not started, and dies with the test at the latest.
func (f *fleet) another(t *testing.T, program string, env ...string) (cmd *exec.Cmd, log *bytes.Buffer) {
	t.Helper()
	path := filepath.Join(f.bin, program)
	pids := started(path)
	if len(pids) != 1 {
		t.Fatalf("processes of the %s: %v", program, pids)
	}
	raw, err := os.ReadFile(filepath.Join("/proc", pids[0], "environ"))
	if err != nil {
		t.Fatal(err)
	}
	cmd, log = exec.Command(path), &bytes.Buffer{}
	cmd.Env = append(strings.Split(strings.TrimRight(string(raw), "\x00"), "\x00"), env...)
	cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	cmd.Stderr = log
	return cmd, log
}

// numbered returns n jobs that sleep for some seconds and print their name.
func numbered(t *testing.T, n int, seconds float64) func(func(job.Spec) bool) {
	return func(yield func(job.Spec) bool) {
		for i := range n {
			s := spec(t, python(fmt.Sprintf("import time; time.sleep(%g)\nprint(%d)", seconds, i)), "cell", nil, "")
			s.Name = fmt.Sprint(i)
			if !yield(s) {
				return
			}
		}
	}
}

// allOnce waits for a batch of numbered jobs and checks that each succeeded and is recorded exactly
// once. It returns how many took more than one attempt.
func (f *fleet) allOnce(t *testing.T, batch job.ID, n int) (again int) {
	t.Helper()
	done, err := f.api.Batch(t.Context(), batch, 2*time.Minute)
	if err != nil || done.Counts[job.Finished] != int64(n) || done.Outcomes[job.Succeeded] != int64(n) {
		t.Fatalf("got %+v, %v", done, err)
	}
	seen := map[string]bool{}
	for raw, err := range f.api.Results(t.Context(), batch, false) {
		if err != nil {
			t.Fatal(err)
		}
		var r job.Result
		if err := json.Unmarshal(raw, &r); err != nil {
			t.Fatal(err)
		}
		if seen[r.Name] || r.Stdout.Text != r.Name+"\n" {
			t.Errorf("job %s: recorded before: %v, stdout %q", r.Name, seen[r.Name], r.Stdout.Text)
		}
		seen[r.Name] = true
		if len(r.Attempts) > 1 {
			again++
		}
	}
	if len(seen) != n {
		t.Errorf("%d results of %d", len(seen), n)
	}
	return again
}
