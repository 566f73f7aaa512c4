package storetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// third is three eighths of the maximum size of a response: three of them fill it.
const third = store.ClaimBytes * 3 / 8

// testBytes checks that responses have a bounded size, and that repeated calls return everything.
func testBytes(t *testing.T, open Open) {
	t.Run("claims", func(t *testing.T) { testClaimBytes(t, newFixture(t, open, Options{})) })
	t.Run("pages", func(t *testing.T) { testPageBytes(t, newFixture(t, open, Options{})) })
}

func testClaimBytes(_ *testing.T, f *fixture) {
	jobs := newJobs(7)
	for i := range jobs {
		jobs[i].Spec = fmt.Appendf(nil, `{"name":"job-%d","program":{"python":{"code":%q}}}`, i, strings.Repeat("x", third))
	}
	f.submit(jobs...)
	var refs []store.Ref
	for _, d := range f.schedule(100) {
		refs = append(refs, d.Ref)
	}
	leases, specs := map[job.ID]job.Lease{}, map[job.ID]bool{}
	for round := 0; len(refs) > 0; round++ {
		if round > 4 {
			f.Fatalf("%d specs are still to come", len(refs))
		}
		var rest []store.Ref
		bytes := 0
		for _, c := range f.claim(refs...) {
			if was := leases[c.Job]; c.Lease == 0 || c.Tenant != tenant || was != 0 && was != c.Lease {
				f.Fatalf("claim %+v, lease was %d", c.Ref, was)
			}
			leases[c.Job] = c.Lease
			if bytes += len(c.Spec); len(c.Spec) == 0 {
				rest = append(rest, c.Ref)
				continue
			}
			if specs[c.Job] = true; len(c.Spec) < third {
				f.Errorf("a spec of %d bytes", len(c.Spec))
			}
		}
		if bytes == 0 || bytes > store.ClaimBytes+third+1000 {
			f.Errorf("an answer of %d bytes", bytes)
		}
		refs = rest
	}
	if len(specs) != len(jobs) {
		f.Errorf("%d specs of %d", len(specs), len(jobs))
	}
	one := newJob("alone")
	one.Spec = fmt.Appendf(nil, `{"program":{"python":{"code":%q}}}`, strings.Repeat("x", 2*store.ClaimBytes))
	f.submitJob(one)
	if c := f.claim(f.schedule(100)[0].Ref)[0]; len(c.Spec) < 2*store.ClaimBytes {
		f.Errorf("a claim of one came with %d bytes", len(c.Spec))
	}
}

func testPageBytes(_ *testing.T, f *fixture) {
	batch := f.submit(newJobs(8)...)
	for i, c := range f.run() {
		fin := finishOf(leaseOf(c), job.Succeeded)
		if size := third; i != 3 { // a small one among them
			fin.Result = fmt.Appendf(nil, `{"stdout":{"text":%q}}`, strings.Repeat("x", size))
		}
		_, err := f.Finish(f.Context(), []store.Finish{fin})
		f.must(err)
	}
	seen, pages := map[job.ID]bool{}, 0
	for after := store.Cursor(0); ; pages++ {
		raws, next, err := f.Results(f.Context(), tenant, batch, after, 100)
		f.must(err)
		if len(raws) == 0 {
			break
		}
		bytes := 0
		for _, raw := range raws {
			bytes += len(raw)
			seen[f.decode(raw).ID] = true
		}
		if bytes > store.PageBytes+third+1000 {
			f.Errorf("a page of %d bytes", bytes)
		}
		if len(seen) < 8 && bytes < store.PageBytes {
			f.Errorf("a page ended with %d bytes, and more follow", bytes)
		}
		after = next
	}
	if len(seen) != 8 || pages < 3 {
		f.Errorf("%d results on %d pages", len(seen), pages)
	}
	if raws, _, err := f.Results(f.Context(), tenant, batch, 0, 1); err != nil || len(raws) != 1 {
		f.Errorf("a page of one: %d, %v", len(raws), err)
	}
}
