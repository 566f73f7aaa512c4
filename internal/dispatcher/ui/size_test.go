package ui_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/dispatcher/ui"
	"github.com/assay-run/assay/internal/dispatcher/ui/display"
	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/store"
)

var (
	logSize = flag.Int64("ui.log", 64, "MiB of the output whose first screen is timed")
	inBatch = flag.Int("ui.batch", 100_000, "jobs in one batch of those")
	million = flag.Int("ui.jobs", 5_000, "jobs in the database when pages are timed")
	slowest = flag.Duration("ui.slowest", 5*time.Second, "the most that the 95th percentile of a page may take; 60ms is what a machine without others has to do")
)

// All scripts together have at most 120 kB, compressed. Each third-party script comes with its licence.
func TestScriptsAreSmall(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob(filepath.Join(testenv.RepoRoot(t), "internal/dispatcher/ui/assets/*.js"))
	if err != nil || len(names) < 6 {
		t.Fatalf("scripts %v: %v", names, err)
	}
	var b bytes.Buffer
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		z := gzip.NewWriter(&b)
		if _, err := z.Write(raw); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if t.Logf("%d bytes", b.Len()); b.Len() > 120_000 {
		t.Errorf("the scripts have %d bytes, compressed", b.Len())
	}
	for _, library := range []string{"htmx", "uplot"} {
		if _, err := os.Stat(filepath.Join(testenv.RepoRoot(t), "internal/dispatcher/ui/assets", library+".LICENSE.txt")); err != nil {
			t.Error(err)
		}
	}
}

// lines yields a number of bytes of a program's output.
type lines struct{ left int64 }

func (l *lines) Read(p []byte) (int, error) {
	if l.left == 0 {
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), l.left))
	for i := 0; i < n; i += 64 {
		copy(p[i:n], "a line of a very long output, which nobody reads as a whole ...\n")
	}
	l.left -= int64(n)
	return n, nil
}

// One screen of an output is read, regardless of its size: the first and the last of 1 GiB load within 300 ms.
func TestLongLog(t *testing.T) {
	f := newFleet(t)
	batch := f.submit("one", "b", nil, python("print"))
	size := *logSize << 20
	f.finish("w1", f.claim("w1"), func(c store.Claimed) job.Result {
		key, err := object.OutputKey("one", c.Job, c.Lease, "stdout", object.WholeOutput)
		if err != nil {
			t.Fatal(err)
		}
		info, err := f.objects.Put(t.Context(), key, &lines{size})
		if err != nil {
			t.Fatal(err)
		}
		return job.Result{Outcome: job.Succeeded, Stdout: job.Output{Text: "a line", Bytes: size, Stored: &job.StoredOutput{Bytes: info.Bytes, SHA256: info.SHA256, Object: key}}}
	})
	b := f.as(oneKey)
	at := "/ui/jobs/" + string(f.jobsOf("one", batch)[0].ID) + "/log/stdout"
	var took []time.Duration
	for range 5 {
		begun := time.Now()
		page := b.page(at)
		took = append(took, time.Since(begun))
		if len(page) > 200<<10 || !strings.Contains(page, display.Count(size)) {
			t.Fatalf("a screen has %d bytes: %.3000s", len(page), page)
		}
	}
	slices.Sort(took)
	if t.Logf("first screen of %d MiB: %v", *logSize, took); took[2] > 300*time.Millisecond {
		t.Errorf("the first screen takes %v", took[2])
	}
	begun := time.Now()
	if page := b.page(fmt.Sprintf("%s?at=%d", at, size-64)); !strings.Contains(page, "a line of a very long output") || time.Since(begun) > time.Second {
		t.Errorf("the last screen after %v: %.2000s", time.Since(begun), page)
	}
	if resp, _ := b.get(fmt.Sprintf("%s?at=%d", at, size+1)); resp.StatusCode != http.StatusNotFound {
		t.Errorf("behind the end: %d", resp.StatusCode)
	}
	if resp, body := b.get(strings.Replace(at, "/log/", "/output/", 1), "Range", "bytes=64-127"); resp.StatusCode != http.StatusPartialContent || len(body) != 64 || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") {
		t.Errorf("raw: %d %v", resp.StatusCode, resp.Header)
	}
}

// fill stores finished jobs in batches of -ui.batch jobs. Every tenth job failed, in different ways.
func (f *fleet) fill(n int) (batches []job.ID) {
	f.t.Helper()
	const part = 10_000
	most := *inBatch
	for len(batches)*most < n {
		b := store.NewBatch{ID: job.NewID(), Tenant: "one", Name: fmt.Sprintf("step-%d", len(batches)), Labels: map[string]string{"model": "m"}}
		id, _, err := f.store.OpenBatch(f.t.Context(), b)
		if err != nil {
			f.t.Fatal(err)
		}
		total := min(most, n-len(batches)*most)
		for from := 0; from < total; from += part {
			f.append(id, from, min(part, total-from))
		}
		if err := f.store.SealBatch(f.t.Context(), id, int64(total)); err != nil {
			f.t.Fatal(err)
		}
		batches = append(batches, id)
		for {
			cs := f.claim("w1")
			if len(cs) == 0 {
				break
			}
			f.finish("w1", cs, fillResult)
		}
	}
	return batches
}

func (f *fleet) append(id job.ID, from, n int) {
	f.t.Helper()
	jobs := make([]store.NewJob, n)
	for i := range jobs {
		spec := python("print(1)")
		spec.Name, spec.Labels = fmt.Sprintf("problem-%06d", from+i), map[string]string{"problem": fmt.Sprint((from + i) % 1000)}
		raw, err := json.Marshal(spec)
		if err != nil {
			f.t.Fatal(err)
		}
		jobs[i] = store.NewJob{ID: job.NewID(), Tenant: "one", Pool: placement.Any, Spec: raw}
	}
	if err := f.store.AppendJobs(f.t.Context(), id, jobs); err != nil {
		f.t.Fatal(err)
	}
}

func fillResult(c store.Claimed) job.Result {
	n := int(c.Job[len(c.Job)-1]) * 7 % 10
	r := job.Result{Outcome: job.Succeeded, Stdout: job.Output{Text: "1\n", Bytes: 2}, Timings: job.Timings{RunMS: float64(n * n)}}
	if n == 3 {
		r.Outcome, r.Message = job.Exception, "ValueError: no value 17"
		r.Exception = &job.ExceptionInfo{Type: "ValueError", Message: "no value 17", Line: 1}
	}
	return r
}

// Pages stay fast with any number of jobs: with -ui.jobs=1000000 the 95th percentile of each is at most 60 ms.
func TestPagesOfAMillionJobs(t *testing.T) {
	f := newFleet(t, func(c *ui.Config) { c.Waits = 0 })
	f.putWorkers()
	begun := time.Now()
	batches := f.fill(*million)
	other := f.submit("one", "last", nil, python("1"))
	t.Logf("%d jobs in %v", *million, time.Since(begun))
	b := f.as(opKey)
	id := f.jobsOf("one", batches[0])[0].ID
	first, last := string(batches[0]), string(batches[len(batches)-1])
	begun = time.Now()
	b.get("/ui/compare?b="+first+"&b="+string(batches[len(batches)/2]), "HX-Request", "true")
	t.Logf("the first comparison of two batches: %v", time.Since(begun))
	for _, path := range []string{
		"/ui/", "/ui/batches", "/ui/batches/" + first, "/ui/batches/" + last + "?outcome=exception", "/ui/batches/" + last + "?failed=true", "/ui/batches/" + first + "?message=value", "/ui/jobs", "/ui/jobs?outcome=exception", "/ui/jobs?label=problem%3D7",
		"/ui/jobs?name_prefix=problem-0001", "/ui/jobs?outcome=oom", "/ui/jobs/" + string(id), "/ui/jobs/" + string(id) + "/log/stdout", "/ui/workers", "/ui/tenants", "/ui/sessions", "/ui/audit",
		"/ui/compare?b=" + last + "&b=" + string(other), "/ui/compare?b=" + last + "&b=" + first,
		"/ui/do/cancel-batch?on=" + string(other),
	} {
		b.time(path)
		if path == "/ui/" || strings.HasPrefix(path, "/ui/compare") || strings.HasPrefix(path, "/ui/batches/") {
			b.time(path, "HX-Request", "true")
		}
	}
	b.time("/ui/batches/" + first + "/at/99")
	begun = time.Now()
	if page := b.page("/ui/batches/" + first + "/map"); len(page) < min(*million, 100_000) {
		t.Errorf("the map has %d bytes", len(page))
	}
	t.Logf("map of %d jobs: %v", min(*million, 100_000), time.Since(begun))
	b.time("/ui/batches/" + first + "/map")
}

// time gets a page many times. The first request may be slower, because it fills a cache.
func (b *browser) time(path string, header ...string) {
	b.f.t.Helper()
	const times = 40
	var took []time.Duration
	for range times + 1 {
		begun := time.Now()
		if resp, body := b.get(path, header...); resp.StatusCode >= http.StatusBadRequest {
			b.f.t.Fatalf("%s: %d\n%.2000s", path, resp.StatusCode, body)
		}
		took = append(took, time.Since(begun))
	}
	first := took[0]
	took = took[1:]
	slices.Sort(took)
	p95, what := took[len(took)*95/100], path
	if header != nil {
		what = "part of " + path
	}
	if b.f.t.Logf("%-110s first %8v p50 %8v p95 %8v", what, first.Round(100*time.Microsecond), took[len(took)/2].Round(100*time.Microsecond), p95.Round(100*time.Microsecond)); p95 > *slowest {
		b.f.t.Errorf("%s takes %v", what, p95)
	}
}

// A page with forty times as many jobs takes no longer, within the noise of a busy machine.
func TestPagesDoNotGrowWithJobs(t *testing.T) {
	f := newFleet(t, func(c *ui.Config) { c.Waits = 0 })
	b := f.as(opKey)
	fastest := func(batch job.ID) (all []time.Duration) {
		for _, path := range []string{
			"/ui/batches", "/ui/batches/" + string(batch), "/ui/batches/" + string(batch) + "?outcome=exception", "/ui/jobs", "/ui/jobs?label=problem%3D7",
			"/ui/compare?b=" + string(batch) + "&b=" + string(f.submit("one", "other", nil, python("1"))),
		} {
			least := time.Hour
			for range 12 {
				begun := time.Now()
				b.page(path)
				least = min(least, time.Since(begun))
			}
			all = append(all, least)
		}
		return all
	}
	few := fastest(f.fill(500)[0])
	many := fastest(f.fill(20_000)[0])
	t.Logf("of 500 jobs: %v; of 20,000: %v", few, many)
	for i, took := range many {
		if took > 4*few[i]+40*time.Millisecond {
			t.Errorf("page %d takes %v with 500 jobs, %v with 20,000", i, few[i], took)
		}
	}
}
