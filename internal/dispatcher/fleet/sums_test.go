package fleet

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/store"
)

// countCrews returns the same as Crews by going over every worker for every class.
func (f *Fleet) countCrews(classes ...string) (crews []Crew) {
	known := map[string]int{}
	for _, class := range classes {
		need, c, who := placement.ParseClass(class), Crew{}, ""
		for _, id := range slices.Sorted(maps.Keys(f.members)) {
			m := f.members[id]
			if m.Slots == 0 || m.rest() > 0 || !m.offer.Takes(m.pool, need) {
				continue
			}
			who += id + " "
			c.Size = Size{c.Slots + m.Slots, c.Free + m.Free}
			if !slices.Contains(c.Pools, m.pool) {
				c.Pools = append(c.Pools, m.pool)
			}
		}
		if c.Slots == 0 {
			continue
		}
		i, seen := known[who]
		if !seen {
			i = len(crews)
			known[who] = i
			slices.Sort(c.Pools)
			crews = append(crews, c)
		}
		crews[i].Classes = append(crews[i].Classes, class)
	}
	return crews
}

// TestSumsEqualACount compares the sums with a count over all workers, while workers report, take jobs, change
// offers, are cordoned and quarantined, and leave.
func TestSumsEqualACount(t *testing.T) {
	t.Parallel()
	classes := []string{placement.Any, "p", "q", "?memory=1Gi", "p?memory=2Gi", "?memory=8Gi", "?label.a=b"}
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(*testing.T) {
			f, l := newTestFleet()
			worker := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"})
			info := func(rt *rapid.T) control.WorkerInfo {
				w := control.WorkerInfo{ID: worker.Draw(rt, "worker"), Pool: rapid.SampledFrom([]string{"p", "q"}).Draw(rt, "pool"),
					Slots: rapid.IntRange(0, 8).Draw(rt, "slots"), Draining: rapid.IntRange(0, 5).Draw(rt, "draining") == 0}
				w.Busy = rapid.IntRange(0, 8).Draw(rt, "busy")
				w.Offer.Memory = job.Size(rapid.SampledFrom([]int{1, 2, 8}).Draw(rt, "memory")) * job.GiB
				if rapid.Bool().Draw(rt, "labeled") {
					w.Offer.Labels = map[string]string{"a": "b"}
				}
				return w
			}
			rt.Repeat(map[string]func(*rapid.T){
				"report": func(rt *rapid.T) { f.RecordHeartbeat(info(rt)) },
				"take":   func(rt *rapid.T) { f.Took(worker.Draw(rt, "worker"), rapid.IntRange(-4, 4).Draw(rt, "jobs")) },
				"wait":   func(rt *rapid.T) { time.Sleep(time.Duration(rapid.IntRange(1, 20).Draw(rt, "seconds")) * time.Second) },
				"refresh": func(rt *rapid.T) {
					for id, w := range l.ws {
						w.Cordon, w.Quarantine = nil, nil
						switch rapid.IntRange(0, 5).Draw(rt, "fate") {
						case 0:
							delete(l.ws, id)
							continue
						case 1:
							w.Cordon = &store.Cordon{}
						case 2:
							w.Quarantine = &store.Quarantine{Left: 10 * time.Second}
						}
						l.ws[id] = w
					}
					if err := f.Refresh(t.Context()); err != nil {
						rt.Fatal(err)
					}
				},
				"": func(rt *rapid.T) {
					if diff := cmp.Diff(f.countCrews(classes...), f.Crews(classes...)); diff != "" {
						rt.Fatalf("crews (-count +sums):\n%s", diff)
					}
				},
			})
		})
	})
}

// BenchmarkCrew measures the cost of a single job for fleets of 1 and of 2,000 workers.
func BenchmarkCrew(b *testing.B) {
	for _, n := range []int{1, 2000} {
		f, _ := newTestFleet()
		for i := range n {
			f.RecordHeartbeat(control.WorkerInfo{ID: fmt.Sprint(i), Pool: "p", Slots: 32, Offer: placement.Offer{Memory: 64 * job.GiB, Labels: map[string]string{"host": fmt.Sprint(i)}}})
		}
		b.Run(fmt.Sprintf("workers=%d", n), func(b *testing.B) {
			for b.Loop() {
				f.Crew("p")
			}
		})
	}
}
