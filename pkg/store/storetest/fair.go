package storetest

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// testAgeing keeps urgent jobs queued all the time and waits for a patient job.
func testAgeing(t *testing.T, open Open) {
	const slots, rounds = 4, 100
	// released reports whether patient runs while urgent jobs arrive.
	released := func(t *testing.T, age time.Duration, sameBatch bool) bool {
		f := newFixture(t, open, Options{AgeEvery: age})
		urgent := func(n int) []store.NewJob {
			jobs := newJobs(n)
			for i := range jobs {
				jobs[i].Priority = 6
			}
			return jobs
		}
		patient := newJob("patient")
		if sameBatch {
			f.submit(append(urgent(slots), patient)...)
		} else {
			f.submit(patient)
		}
		var held []store.LeaseRef
		for range rounds {
			f.submit(urgent(slots)...)
			for _, d := range f.schedule(slots - len(held)) {
				if d.Job == patient.ID {
					return true
				}
				held = append(held, leaseOf(f.claim(d.Ref)[0]))
			}
			f.finish(held[0], job.Succeeded)
			held = held[1:]
		}
		return false
	}
	for _, sameBatch := range []bool{true, false} {
		t.Run(fmt.Sprintf("same batch %v", sameBatch), func(t *testing.T) {
			t.Parallel()
			if !released(t, time.Millisecond, sameBatch) {
				t.Errorf("not released in %d rounds, though it aged", rounds)
			}
			if released(t, time.Hour, sameBatch) {
				t.Error("released ahead of urgent jobs, though it had not aged")
			}
		})
	}
	t.Run("age wins nothing among equals", func(t *testing.T) {
		f := newFixture(t, open, Options{AgeEvery: time.Millisecond})
		flood, late := newJobs(20), newJobs(2)
		f.submit(flood...)
		first := f.schedule(4)
		f.eventually("ageing", func() bool { // by the store's clock
			j, err := f.Job(t.Context(), tenant, flood[0].ID)
			f.must(err)
			return time.Since(j.CreatedAt) > 20*time.Millisecond
		})
		f.submit(late...)
		for _, d := range first {
			f.claim(d.Ref)
		}
		for i, d := range f.schedule(2) {
			if d.Job != late[i].ID {
				t.Errorf("place %d is not the late batch's, which holds nothing", i)
			}
		}
	})
}

// fairTenant is the property test's view of a tenant in one run.
type fairTenant struct {
	name    string
	weight  float64
	batches map[job.ID]*fairBatch
}

type fairBatch struct{ queued, held int }

func (ft *fairTenant) sum() (queued, held int) {
	for _, b := range ft.batches {
		queued += b.queued
		held += b.held
	}
	return queued, held
}

// fair is a fleet of a few slots, its tenants and batches, under random arrivals and ends.
type fair struct {
	*fixture
	classes []string // of the jobs; the same workers run both
	slots   int
	tenants []*fairTenant
	of      map[job.ID]struct {
		tenant *fairTenant
		batch  *fairBatch
	}
	held []store.LeaseRef
}

// testFairness checks each choice under random arrivals and ends. A slot goes to the waiting tenant whose
// weighted share would then be the smallest. Within the tenant, it goes to the batch that holds the fewest
// slots.
//
// This limits lag: no tenant exceeds its ideal share by a slot while a waiting tenant is a whole job below
// its own. The two classes of the jobs change nothing.
func testFairness(t *testing.T, open Open) {
	f := newFixture(t, open, Options{})
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		m := &fair{fixture: f, classes: []string{fmt.Sprintf("fair-%d", run), fmt.Sprintf("fair-%d?memory=1Gi", run)}, slots: rapid.IntRange(1, 12).Draw(rt, "slots")}
		m.of = map[job.ID]struct {
			tenant *fairTenant
			batch  *fairBatch
		}{}
		for i := range rapid.IntRange(1, 4).Draw(rt, "tenants") {
			ft := &fairTenant{
				name: fmt.Sprintf("tenant-%d-%d", run, i), batches: map[job.ID]*fairBatch{},
				weight: rapid.SampledFrom([]float64{0.5, 1, 2, 3, 7}).Draw(rt, "weight"),
			}
			f.must(f.PutTenant(f.Context(), store.Tenant{Name: ft.name, Weight: ft.weight}))
			m.tenants = append(m.tenants, ft)
		}
		rt.Repeat(map[string]func(*rapid.T){"arrive": m.arrive, "end": m.end, "fill": m.fill})
	})
}

func (m *fair) arrive(t *rapid.T) {
	ft := rapid.SampledFrom(m.tenants).Draw(t, "tenant")
	jobs, b := newJobs(rapid.IntRange(1, 8).Draw(t, "jobs")), newBatch()
	b.Tenant = ft.name
	for i := range jobs {
		jobs[i].Tenant, jobs[i].Pool = ft.name, rapid.SampledFrom(m.classes).Draw(t, "class")
	}
	fb := &fairBatch{queued: len(jobs)}
	ft.batches[must(m.SubmitBatch(m.Context(), b, jobs))] = fb
	for _, j := range jobs {
		m.of[j.ID] = struct {
			tenant *fairTenant
			batch  *fairBatch
		}{ft, fb}
	}
}

func (m *fair) end(t *rapid.T) {
	if len(m.held) == 0 {
		t.Skip("none runs")
	}
	i := rapid.IntRange(0, len(m.held)-1).Draw(t, "which")
	l := m.held[i]
	m.held = append(m.held[:i], m.held[i+1:]...)
	m.finish(l, job.Succeeded)
	m.of[l.Job].batch.held--
}

func (m *fair) fill(t *rapid.T) {
	waiting := 0
	for _, ft := range m.tenants {
		queued, _ := ft.sum()
		waiting += queued
	}
	window := m.slots - len(m.held)
	ds := must(m.Schedule(m.Context(), m.classes, window))
	if want := min(window, waiting); len(ds) != want {
		t.Fatalf("%d slots free and %d jobs waiting: released %d", window, waiting, len(ds))
	}
	for _, d := range ds {
		c := m.of[d.Job]
		m.checkTenant(t, c.tenant)
		m.checkBatch(t, c.tenant, c.batch)
		c.batch.queued--
		c.batch.held++
		m.held = append(m.held, leaseOf(m.claim(d.Ref)[0]))
	}
}

func (m *fair) checkTenant(t *rapid.T, chosen *fairTenant) {
	_, held := chosen.sum()
	total := 0.0
	for _, ft := range m.tenants {
		total += ft.weight
	}
	share := func(ft *fairTenant) float64 { return float64(m.slots) * ft.weight / total }
	for _, ft := range m.tenants {
		queued, other := ft.sum()
		if queued == 0 || ft == chosen {
			continue
		}
		if a, b := float64(held+1)/chosen.weight, float64(other+1)/ft.weight; a > b+1e-9 {
			t.Fatalf("%s (weight %v, holds %d) goes ahead of %s (weight %v, holds %d)", chosen.name, chosen.weight, held, ft.name, ft.weight, other)
		}
		if float64(held+1) > share(chosen)+1e-9 && float64(other+1) <= share(ft)-1e-9 {
			t.Fatalf("%s goes above its share while %s lags by a job", chosen.name, ft.name)
		}
	}
}

func (m *fair) checkBatch(t *rapid.T, ft *fairTenant, chosen *fairBatch) {
	for id, b := range ft.batches {
		if b.queued > 0 && b.held < chosen.held {
			t.Fatalf("a batch that holds %d goes ahead of %s, which holds %d", chosen.held, id, b.held)
		}
	}
}
