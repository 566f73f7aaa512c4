package chaos

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

// The bounds of the fleet are in README.md. The defaults are for a machine that runs other tests,
// and detect jobs that wait for a whole crowd.
var (
	crowdJobs   = flag.Int("chaos.crowd", 400, "jobs of the crowds of row 44")
	crowdFactor = flag.Float64("chaos.crowd.factor", 10, "how many times as long as on an idle fleet 20 jobs of another tenant may take there")
	crowdMore   = flag.Duration("chaos.crowd.more", 20*time.Second, "and how much longer than that")
)

// crowd is a fleet of two tenants: a sends many requests, b few.
type crowd struct {
	*fleet
	a, b *client.Client
}

// crowded sends 20 small jobs of b beside each kind of load that a may cause.
func crowded(t *testing.T) {
	f := newFleet(t, shape{workers: -1, env: []string{twoTenants}, unwatched: true})
	f.addWorker("worker0", "ASSAY_MEMORY=16Gi")
	f.ready()
	c := &crowd{f, f.as("token-of-a"), f.as("token-of-b")}
	c.twenty() // warm-up
	idle := slices.Max([]time.Duration{c.twenty(), c.twenty(), c.twenty()})
	most := time.Duration(*crowdFactor*float64(idle)) + *crowdMore
	for _, s := range []struct {
		name string
		come func() (leave func())
	}{
		{"an upload that is not sealed, of jobs that expire", c.unsealed},
		{"64 readers of large pages", c.readers},
		{"single jobs", c.singles},
		{"20 sizes of memory", c.sizes},
		{"classes that nobody serves", c.unserved},
		{"the largest outputs", c.outputs},
	} {
		leave := s.come()
		rounds := []time.Duration{c.twenty(), c.twenty(), c.twenty()}
		took := slices.Max(rounds)
		leave()
		peak := f.dispatchers[0].peak(t)
		t.Logf("beside %s: 20 jobs take %v, %v on an idle fleet; the dispatcher's peak is %d MB", s.name, rounds, idle, peak/1_000_000)
		if took > most {
			t.Errorf("beside %s 20 jobs take %v, more than %v; on an idle fleet %v", s.name, took, most, idle)
		}
		if peak > 400_000_000 {
			t.Errorf("after %s the dispatcher had %d MB, want at most 400", s.name, peak/1_000_000)
		}
	}
	f.check()
}

// twenty returns the time of ten single jobs and a batch of ten, until b has all results.
func (c *crowd) twenty() time.Duration {
	c.t.Helper()
	began := time.Now()
	batch, err := c.submitBatch(c.b, 10, always("sleep=5ms"))
	if err != nil {
		c.t.Fatal(err)
	}
	for range 10 {
		r, err := c.b.Run(c.t.Context(), scripted("sleep=5ms"))
		if err != nil || r.Outcome != job.Succeeded {
			c.t.Fatalf("%+v, %v", r, err)
		}
	}
	for {
		b, err := c.b.Batch(c.t.Context(), batch.ID, time.Minute)
		switch {
		case err != nil:
			c.t.Fatal(err)
		case b.Outcomes[job.Succeeded] == 10:
			return time.Since(began)
		case time.Since(began) > 3*time.Minute:
			c.t.Fatalf("ten jobs are not done: %+v", b)
		}
	}
}

// canceled cancels all waiting and running jobs of a.
func (c *crowd) canceled() {
	c.t.Helper()
	if _, err := c.a.CancelLabeled(c.t.Context(), map[string]string{"crowd": "a"}); err != nil {
		c.t.Fatal(err)
	}
	c.rested()
}

// ofA returns a job that canceled finds.
func ofA(script string) job.Spec {
	s := scripted(script)
	s.Labels = map[string]string{"crowd": "a"}
	return s
}

func (c *crowd) singles() (leave func()) {
	n := *crowdJobs
	left := make(chan struct{}, n)
	for range n {
		left <- struct{}{}
	}
	close(left)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range left {
				if _, err := c.a.Submit(c.t.Context(), ofA("sleep=50ms")); err != nil {
					c.t.Error(err)
					return
				}
			}
		})
	}
	eventually(c.t, "single jobs wait", func() bool { return c.in(job.Queued) >= n/8 })
	return func() { wg.Wait(); c.canceled() }
}

func (c *crowd) sizes() (leave func()) {
	var jobs []job.Spec
	for i := range *crowdJobs {
		s := ofA("sleep=50ms")
		s.Policy = json.RawMessage(fmt.Sprintf(`{"enforce":"report","memory":"%dMi"}`, 520+64*(i%20)))
		jobs = append(jobs, s)
	}
	c.specs(c.a, jobs...)
	return c.canceled
}

// unserved submits jobs with 256 labels that no worker has, one after the other. Those above a
// tenant's limit of classes are refused.
func (c *crowd) unserved() (leave func()) {
	accepted := 0
	for i := range 256 {
		s := ofA("")
		s.Requires = map[string]string{"rack": fmt.Sprint(i)}
		raw, err := json.Marshal(s)
		if err != nil {
			c.t.Fatal(err)
		}
		switch status := c.say(http.MethodPost, "/v1/jobs", string(raw)); {
		case status/100 == 2:
			accepted++
		case status != http.StatusTooManyRequests:
			c.t.Fatalf("class %d: %d", i, status)
		}
	}
	c.t.Logf("of 256 classes %d were accepted", accepted)
	if accepted == 0 {
		c.t.Error("no class was accepted")
	}
	return c.canceled
}

func (c *crowd) outputs() (leave func()) {
	c.specs(c.a, slices.Repeat([]job.Spec{ofA("fill=16777216")}, 1+*crowdJobs/2500)...)
	return func() {
		within(c.t, 5*time.Minute, "the large ones are over", func() bool {
			return c.count("SELECT count(*) FROM jobs WHERE state NOT IN ('finished', 'canceled')") == 0
		})
	}
}

// unsealed uploads jobs that may wait for one second, and ends their upload when it leaves. The
// second counts from then.
func (c *crowd) unsealed() (leave func()) {
	const n = 5000
	s := ofA("")
	s.ExpiresIn = job.Duration(time.Second)
	line, err := json.Marshal(s)
	if err != nil {
		c.t.Fatal(err)
	}
	r, w := io.Pipe()
	ended := make(chan error, 1)
	var batch *job.Batch
	go func() {
		var err error
		batch, err = c.a.SubmitBatch(c.t.Context(), client.BatchOptions{}, r)
		_ = r.CloseWithError(io.ErrClosedPipe) // the writer gets the error
		ended <- err
	}()
	for range n {
		if _, err := fmt.Fprintf(w, "%s\n", line); err != nil {
			c.t.Fatalf("upload: %v, %v", err, <-ended)
		}
	}
	ctx, stop := context.WithCancel(c.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { // an upload that stalls is refused
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_, _ = io.WriteString(w, "\n")
			case <-ctx.Done():
				return
			}
		}
	})
	eventually(c.t, "most of it has arrived", func() bool {
		return c.count("SELECT count(*) FROM jobs j JOIN batches b ON b.id = j.batch_id WHERE b.sealed_at IS NULL AND j.state = 'queued'") >= n/2
	})
	return func() {
		stop()
		wg.Wait()
		_ = w.Close()
		if err := <-ended; err != nil {
			c.t.Fatal(err)
		}
		eventually(c.t, "all have run or expired", func() bool {
			return c.count("SELECT count(*) FROM jobs WHERE batch_id = $1 AND outcome IN ('expired', 'succeeded')", string(batch.ID)) == n
		})
	}
}

func (c *crowd) readers() (leave func()) {
	large := c.specs(c.a, slices.Repeat([]job.Spec{ofA("fill=40000")}, 16)...)
	c.rested()
	ctx, stop := context.WithCancel(c.t.Context())
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for ctx.Err() == nil {
				status := c.sayIn(ctx, http.MethodGet, "/v1/batches/"+string(large)+"/results?limit=16", "")
				if ctx.Err() == nil && status != http.StatusOK && status != http.StatusTooManyRequests {
					c.t.Errorf("a reader: %d", status)
					return
				}
			}
		})
	}
	return func() { stop(); wg.Wait() }
}

// say sends a's request once and reads the whole answer.
func (c *crowd) say(method, path, body string) (status int) {
	return c.sayIn(c.t.Context(), method, path, body)
}

func (c *crowd) sayIn(ctx context.Context, method, path, body string) (status int) {
	rq, err := http.NewRequestWithContext(ctx, method, "http://"+c.listen(0)+path, strings.NewReader(body))
	if err != nil {
		c.t.Error(err)
		return 0
	}
	rq.Header.Set("Authorization", "Bearer token-of-a")
	if body != "" {
		rq.Header.Set("Content-Type", "application/json")
	}
	rs, err := http.DefaultClient.Do(rq)
	if err != nil {
		return 0
	}
	defer rs.Body.Close()
	_, _ = io.Copy(io.Discard, rs.Body)
	return rs.StatusCode
}
