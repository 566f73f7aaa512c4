package ui_test

import (
	"flag"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/dispatcher/ui"
	"github.com/assay-run/assay/pkg/job"
)

var (
	viewers = flag.Int("ui.viewers", 60, "pages that are open at once")
	watched = flag.Duration("ui.watched", 3*time.Second, "how long they are")
)

// crowd keeps n pages open for a time. Each polls every two seconds. It returns the costs.
func (f *fleet) crowd(n int, path func(i int) string) (asked int64, parts int, p95 time.Duration, heap uint64) {
	f.t.Helper()
	one := f.as(oneKey)
	one.c.Transport = &http.Transport{MaxIdleConnsPerHost: n}
	before, end := f.asked.n.Load(), time.Now().Add(*watched)
	var mu sync.Mutex
	var took []time.Duration
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			for next := time.Now().Add(time.Duration(i) * 2 * time.Second / time.Duration(n)); next.Before(end); next = next.Add(2 * time.Second) {
				time.Sleep(time.Until(next))
				begun := time.Now()
				resp, body := one.get(path(i), "HX-Request", "true")
				mu.Lock()
				took = append(took, time.Since(begun))
				mu.Unlock()
				if resp.StatusCode != http.StatusOK || !strings.Contains(body, `id="live"`) {
					f.t.Errorf("%d: %.300s", resp.StatusCode, body)
					return
				}
			}
		})
	}
	gone := make(chan struct{})
	go func() { all.Wait(); close(gone) }()
	for open := true; open; {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		heap = max(heap, m.HeapInuse)
		select {
		case <-gone:
			open = false
		case <-time.After(50 * time.Millisecond):
		}
	}
	one.c.CloseIdleConnections()
	slices.Sort(took)
	return f.asked.n.Load() - before, len(took), took[len(took)*95/100], heap
}

// Any number of open pages of a batch queries the database as often as one page. The cache for different pages is
// bounded.
func TestManyOpenPages(t *testing.T) {
	f := newFleet(t, func(c *ui.Config) { c.Waits = 0 })
	batches := make([]job.ID, max(*viewers/5, 1))
	for i := range batches {
		var specs []job.Spec
		for range 60 {
			specs = append(specs, python("1"))
		}
		batches[i] = f.submit("one", "b", nil, specs...)
	}
	same := func(int) string { return "/ui/batches/" + string(batches[0]) }
	alone, _, _, _ := f.crowd(1, same)
	asked, parts, p95, heap := f.crowd(*viewers, same)
	t.Logf("one page: %d questions; %d of one batch: %d questions for %d parts, p95 %v, heap %d MiB", alone, *viewers, asked, parts, p95, heap>>20)
	// A cached response lasts a second, so a page that polls every two seconds never uses its own.
	if most := 3*int64(*watched/time.Second) + 6; asked > most {
		t.Errorf("%d questions, of at most %d", asked, most)
	}
	asked, parts, p95, heap = f.crowd(*viewers, func(i int) string { return "/ui/batches/" + string(batches[i%len(batches)]) })
	t.Logf("%d of %d batches: %d questions for %d parts, p95 %v, heap %d MiB", *viewers, len(batches), asked, parts, p95, heap>>20)
	if heap > 400<<20 {
		t.Errorf("the heap has %d MiB", heap>>20)
	}
}

// The next part of a page shows the visitor's action.
func TestPartsAreNotOldForWhoActs(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	batch := f.submit("one", "b", nil, python("1"))
	b := f.as(oneKey)
	at := "/ui/batches/" + string(batch)
	if _, part := b.get(at, "HX-Request", "true"); !strings.Contains(part, "under way") {
		t.Fatalf("%.2000s", part)
	}
	ask := "/ui/do/cancel-batch?on=" + string(batch)
	form := formOf(t, b.page(ask))
	if resp, body := b.post(ask, map[string][]string{"form": {form}, "on": {string(batch)}}); resp.StatusCode != http.StatusSeeOther {
		t.Fatalf("%d %.2000s", resp.StatusCode, body)
	}
	if _, part := b.get(at, "HX-Request", "true"); !strings.Contains(part, "canceled") { // the list of jobs; the counts follow
		t.Errorf("%s", part)
	}
}

// A page does not wait for slow data: it announces more, has the script request it, and has a link for visitors without
// scripts.
func TestPageDoesNotWait(t *testing.T) {
	t.Parallel()
	f := newFleet(t, func(c *ui.Config) { c.Waits = time.Nanosecond })
	x, y := f.submit("one", "b", nil, python("1")), f.submit("one", "c", nil, python("1"))
	f.finish("w1", f.claim("w1"), fillResult)
	b := f.as(oneKey)
	for _, path := range []string{"/ui/", "/ui/batches/" + string(x), "/ui/compare?b=" + string(x) + "&b=" + string(y)} {
		page := b.page(path)
		if !strings.Contains(page, `hx-trigger="load, every 2s"`) || !strings.Contains(page, "whole=true") {
			t.Errorf("%s: %s", path, page)
		}
		whole := path + "?whole=true"
		if strings.Contains(path, "?") {
			whole = path + "&whole=true"
		}
		_, part := b.get(path, "HX-Request", "true")
		for _, body := range []string{part, b.page(whole)} {
			if strings.Contains(body, "worked out") || strings.Contains(body, `hx-trigger="load`) {
				t.Errorf("%s: %s", path, body)
			}
		}
	}
}
