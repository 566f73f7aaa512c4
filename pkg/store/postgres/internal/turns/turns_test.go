package turns

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// model fills places as the package comment describes, one at a time and without any data structure. For each
// place it looks at every job of every tenant.
type model struct {
	Rules
	tenants []*Tenant
	taken   map[*Tenant]int
	turns   map[*Group]int
	gone    map[ID]bool
}

func (m *model) fill() (picks []ID) {
	m.taken, m.turns, m.gone = map[*Tenant]int{}, map[*Group]int{}, map[ID]bool{}
	for range m.Places {
		var best *Tenant
		for _, t := range m.tenants {
			if _, _, ok := m.first(t); ok && (best == nil || m.before(t, best)) {
				best = t
			}
		}
		if best == nil {
			break
		}
		g, j, _ := m.first(best)
		m.taken[best]++
		m.turns[g]++
		m.gone[j.ID] = true
		for _, c := range j.Caps {
			m.Room[c]--
		}
		picks = append(picks, j.ID)
	}
	return picks
}

// before reports whether tenant a precedes b for a place.
func (m *model) before(a, b *Tenant) bool {
	share := func(t *Tenant) float64 { return float64(t.Held+m.taken[t]+1) / m.weight(t) }
	switch {
	case share(a) != share(b):
		return share(a) < share(b)
	case a.Waits != b.Waits:
		return a.Waits > b.Waits
	}
	return a.ID < b.ID
}

func (m *model) weight(t *Tenant) float64 {
	heaviest := 0.0
	for _, o := range m.tenants {
		heaviest = max(heaviest, o.Weight)
	}
	return min(t.Weight*math.Pow(2, float64(t.Waits/m.AgeEvery)), heaviest)
}

// first returns the tenant's job that is next in turn.
func (m *model) first(t *Tenant) (of *Group, first Job, ok bool) {
	if t.MaxRunning > 0 && t.Held+m.taken[t] >= t.MaxRunning {
		return nil, Job{}, false
	}
	top := int32(math.MinInt32)
	for _, g := range t.Groups {
		top = max(top, g.Priority)
	}
	least := math.Inf(1)
	for _, g := range t.Groups {
		behind := max(float64(min(g.Priority+int32(g.Age/m.AgeEvery), top)-top), -50)
		turn := math.Ceil(float64(g.Held+m.turns[g]+1)/float64(m.Quantum)) / math.Pow(2, behind)
		for _, s := range g.Sources {
			for _, j := range s.Jobs {
				full := slices.ContainsFunc(j.Caps, func(c string) bool { n, ok := m.Room[c]; return ok && n <= 0 })
				if m.gone[j.ID] || full {
					continue
				}
				if turn < least || turn == least && bytes.Compare(j.ID[:], first.ID[:]) < 0 {
					of, first, ok, least = g, j, true, turn
				}
			}
		}
	}
	return of, first, ok
}

func id(n int) (id ID) {
	binary.BigEndian.PutUint64(id[8:], uint64(n))
	return id
}

// draw draws tenants with their queues. The model receives all of it.
func draw(t *rapid.T) []*Tenant {
	n := 0
	job := func() Job {
		n++
		j := Job{ID: id(n)}
		for _, c := range []string{"a", "b"} {
			if rapid.IntRange(0, 5).Draw(t, "capped") == 0 {
				j.Caps = append(j.Caps, c)
			}
		}
		return j
	}
	var ts []*Tenant
	for i := range rapid.IntRange(1, 8).Draw(t, "tenants") {
		tenant := &Tenant{ID: int32(i + 1), Weight: rapid.SampledFrom([]float64{0.5, 1, 2, 3, 7}).Draw(t, "weight"),
			MaxRunning: rapid.SampledFrom([]int{0, 0, 3, 6}).Draw(t, "max running"), Held: rapid.IntRange(0, 5).Draw(t, "held"),
			Waits: time.Duration(rapid.IntRange(0, 3).Draw(t, "waits")) * time.Minute}
		for range rapid.IntRange(0, 5).Draw(t, "groups") {
			n++
			g := &Group{Batch: id(n), Priority: int32(rapid.IntRange(-3, 3).Draw(t, "priority")), Held: rapid.IntRange(0, 3).Draw(t, "held by batch"),
				Age: time.Duration(rapid.IntRange(0, 4).Draw(t, "age")) * time.Minute}
			for range rapid.IntRange(1, 2).Draw(t, "sources") {
				s := &Source{}
				for range rapid.IntRange(0, 12).Draw(t, "jobs") {
					s.Jobs = append(s.Jobs, job())
				}
				g.Sources = append(g.Sources, s)
			}
			tenant.Groups = append(tenant.Groups, g)
		}
		ts = append(ts, tenant)
	}
	return ts
}

func rules(t *rapid.T) Rules {
	return Rules{Places: rapid.IntRange(1, 60).Draw(t, "places"), Quantum: rapid.IntRange(1, 3).Draw(t, "quantum"), AgeEvery: time.Minute,
		Room: map[string]int{"a": rapid.IntRange(0, 4).Draw(t, "room of a"), "b": rapid.IntRange(0, 4).Draw(t, "room of b")}}
}

func ids(picks []Pick) (ids []ID) {
	for _, p := range picks {
		ids = append(ids, p.Job)
	}
	return ids
}

// TestFillEqualsModel compares Fill with the model. Fill gets either all jobs at once, or a few of its
// missing jobs at a time.
func TestFillEqualsModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		all, r := draw(t), rules(t)
		got, short := Fill(r, all)
		if len(short) > 0 {
			t.Fatalf("short of %v, though everything is known", short)
		}
		want := (&model{Rules: Rules{r.Places, r.Quantum, r.AgeEvery, map[string]int{"a": r.Room["a"], "b": r.Room["b"]}}, tenants: all}).fill()
		if diff := cmp.Diff(want, ids(got)); diff != "" {
			t.Fatalf("picks (-model +Fill):\n%s", diff)
		}
		lazily := fillLazily(t, r, all)
		if diff := cmp.Diff(want, lazily); diff != "" {
			t.Fatalf("picks of what was read lazily (-model +Fill):\n%s", diff)
		}
	})
}

// fillLazily calls Fill first with only the tenants, and then with the missing jobs.
func fillLazily(t *rapid.T, r Rules, all []*Tenant) []ID {
	whole := map[*Source]*Source{}
	unknown := make([]*Tenant, len(all))
	for i, a := range all {
		copied := *a
		copied.Index, copied.Groups, copied.More = i, nil, true
		unknown[i] = &copied
	}
	for range 200 {
		picks, short := Fill(r, unknown)
		if len(short) == 0 {
			return ids(picks)
		}
		for _, s := range short {
			if s.Group == nil {
				s.Tenant.More = false
				for _, g := range all[s.Tenant.Index].Groups {
					copied := *g
					copied.Sources = nil
					for _, src := range g.Sources {
						part := &Source{More: true}
						whole[part] = src
						copied.Sources = append(copied.Sources, part)
					}
					s.Tenant.Groups = append(s.Tenant.Groups, &copied)
				}
				continue
			}
			for _, part := range s.Group.Sources {
				n := min(len(part.Jobs)+rapid.IntRange(1, 3).Draw(t, "read"), len(whole[part].Jobs))
				part.Jobs, part.More = whole[part].Jobs[:n], n < len(whole[part].Jobs)
			}
		}
	}
	t.Fatal("Fill is short of jobs after 200 calls")
	return nil
}

// TestNoTenantStarves fills one place at a time, while all tenants have short jobs waiting. Each tenant,
// heavy or light, gets places.
func TestNoTenantStarves(t *testing.T) {
	t.Parallel()
	const places, looks = 4, 400
	var ts []*Tenant
	got := map[int32]int{}
	for i := range int32(20) {
		weight := 1.0
		if i%2 == 0 {
			weight = 8
		}
		ts = append(ts, &Tenant{ID: i + 1, Weight: weight, Groups: []*Group{{Sources: []*Source{{Jobs: []Job{{ID: id(1)}, {ID: id(2)}, {ID: id(3)}, {ID: id(4)}}}}}}})
	}
	for range looks {
		picks, _ := Fill(Rules{Places: places, Quantum: 1, AgeEvery: 20 * time.Second}, ts)
		for _, tenant := range ts {
			tenant.Waits += time.Second
		}
		for _, p := range picks {
			got[p.Tenant.ID]++
			p.Tenant.Waits = 0
		}
	}
	for _, tenant := range ts {
		if n := got[tenant.ID]; n < looks/100 || tenant.Weight == 8 && n < looks*places/40 {
			t.Errorf("tenant %d of weight %v got %d of %d places", tenant.ID, tenant.Weight, n, looks*places)
		}
	}
}

func BenchmarkFill(b *testing.B) {
	for _, tenants := range []int{1, 5000} {
		ts := make([]*Tenant, tenants)
		for i := range ts {
			ts[i] = &Tenant{ID: int32(i + 1), Weight: 1, More: true}
		}
		b.Run(map[int]string{1: "one tenant", 5000: "5000 tenants"}[tenants], func(b *testing.B) {
			for b.Loop() {
				Fill(Rules{Places: 16, Quantum: 1, AgeEvery: time.Minute}, ts)
			}
		})
	}
}
