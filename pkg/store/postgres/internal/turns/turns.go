// Package turns decides which queued jobs get the free places of a window.
//
// It is pure: the scheduler gives it the tenants and the jobs that it has read, and Fill
// returns the jobs for the places. Where the result depends on jobs that were not read yet, Fill
// returns a Shortage for them. The scheduler reads these and calls Fill again, so it never
// reads much more than it dispatches.
//
// The rules:
//
//   - Each place goes to the tenant that would then hold the least for its weight. Of equal
//     tenants the one that waits longest is first. Waiting for AgeEvery doubles a weight, up to
//     the highest one, so heavy tenants starve no light one.
//   - Batches of a tenant take turns of Quantum jobs; the batch that holds least is first.
//   - A point of priority doubles a batch's share. Waiting for AgeEvery is worth a point, up to
//     the tenant's highest priority.
//   - A tenant holds at most MaxRunning jobs, and a cap has at most its Room.
package turns

import (
	"bytes"
	"container/heap"
	"maps"
	"math"
	"time"
)

// ID is the id of a job or a batch. IDs sort by the time at which they were made.
type ID [16]byte

// Job is a queued job that may run now.
type Job struct {
	ID   ID
	Caps []string // keys of Rules.Room
}

// Source is the jobs of a group that one scan of an index finds.
type Source struct {
	Jobs []Job // by id
	More bool  // jobs may follow that were not read
}

// Group is the queued jobs of a batch with one priority.
type Group struct {
	Batch    ID
	Priority int32
	Age      time.Duration // of the first job
	Held     int           // jobs of the batch that are dispatched or running
	Sources  []*Source
}

// Tenant is a tenant with queued jobs.
type Tenant struct {
	ID         int32
	Index      int // for the caller
	Weight     float64
	MaxRunning int           // 0: no limit
	Held       int           // jobs that are dispatched or running
	Waits      time.Duration // since the last place
	Groups     []*Group
	More       bool // groups may follow that were not read
	Read       int  // places for which the groups suffice if there are more
}

// Rules is how places are filled.
type Rules struct {
	Places   int
	Quantum  int // jobs of a batch in one turn
	AgeEvery time.Duration
	Room     map[string]int // places that each cap has left; without an entry: no bound
}

// Shortage is places that jobs would get which were not read yet.
type Shortage struct {
	Tenant *Tenant
	Group  *Group // nil: groups of the tenant were not read
	Places int
}

// Pick is a job that gets a place.
type Pick struct {
	Job    ID
	Tenant *Tenant
}

// Fill returns the jobs for the places, the first place first. While it returns shortages, the picks follow from the
// jobs read so far.
func Fill(r Rules, tenants []*Tenant) (picks []Pick, short []Shortage) {
	f := &filling{Rules: r, room: maps.Clone(r.Room), short: map[shortOf]int{}}
	heaviest := 0.0
	for _, t := range tenants {
		heaviest = max(heaviest, t.Weight)
	}
	lines := make([]line, len(tenants))
	queue := make(lineQueue, 0, len(tenants))
	for i, t := range tenants {
		lines[i] = line{Tenant: t, weight: r.weightOf(t, heaviest)}
		lines[i].key = float64(t.Held+1) / lines[i].weight
		queue = append(queue, &lines[i])
	}
	heap.Init(&queue)
	for places := r.Places; places > 0 && len(queue) > 0; {
		l := queue[0]
		id, ok := ID{}, false
		switch {
		case l.MaxRunning > 0 && l.Held+l.taken >= l.MaxRunning:
		case l.More && l.taken >= l.Read:
			f.short[shortOf{l.Tenant, nil}]++
			ok = true
		default:
			id, ok = l.next(f)
		}
		if !ok {
			heap.Pop(&queue)
			continue
		}
		if id != (ID{}) {
			picks = append(picks, Pick{Job: id, Tenant: l.Tenant})
		}
		places--
		l.taken++
		l.key = float64(l.Held+l.taken+1) / l.weight
		heap.Fix(&queue, 0)
	}
	for of, places := range f.short {
		short = append(short, Shortage{Tenant: of.tenant, Group: of.group, Places: places})
	}
	return picks, short
}

// weightOf returns the weight of a tenant, raised by its wait.
func (r Rules) weightOf(t *Tenant, heaviest float64) float64 {
	points := math.Floor(float64(t.Waits) / float64(r.AgeEvery))
	return min(t.Weight*math.Exp2(min(points, 64)), heaviest)
}

// filling is one call of Fill.
type filling struct {
	Rules
	room  map[string]int
	short map[shortOf]int
}

type shortOf struct {
	tenant *Tenant
	group  *Group
}

// fits reports whether all caps of a job have room.
func (f *filling) fits(j Job) bool {
	for _, c := range j.Caps {
		if n, bounded := f.room[c]; bounded && n <= 0 {
			return false
		}
	}
	return true
}

// take uses up the caps of a job.
func (f *filling) take(j Job) {
	for _, c := range j.Caps {
		if _, bounded := f.room[c]; bounded {
			f.room[c]--
		}
	}
}

// line is the queued jobs of a tenant, in its own order.
type line struct {
	*Tenant
	weight, key float64
	taken       int
	begun       bool
	groups      groupQueue
}

// next takes the first job of the tenant. A zero id stands for an unread job; ok is false if there are no more.
func (l *line) next(f *filling) (id ID, ok bool) {
	if !l.begun {
		l.begun = true
		l.begin(f)
	}
	for len(l.groups) > 0 {
		g := l.groups[0]
		j, known := g.head()
		switch {
		case !known && !g.more():
			heap.Pop(&l.groups)
			continue
		case !known:
			f.short[shortOf{l.Tenant, g.Group}]++
		case !f.fits(j):
			g.skip()
			l.order(f, g)
			continue
		default:
			f.take(j)
			g.skip()
			id = j.ID
		}
		g.taken++
		l.order(f, g)
		return id, true
	}
	if l.More {
		f.short[shortOf{l.Tenant, nil}]++
	}
	return ID{}, l.More
}

func (l *line) begin(f *filling) {
	if len(l.Groups) == 0 {
		return
	}
	top := l.Groups[0].Priority
	for _, g := range l.Groups {
		top = max(top, g.Priority)
	}
	l.groups = make(groupQueue, len(l.Groups))
	for i, g := range l.Groups {
		points := math.Floor(float64(max(g.Age, 0)) / float64(f.AgeEvery))
		behind := min(float64(g.Priority)+points, float64(top)) - float64(top)
		l.groups[i] = &turnGroup{Group: g, at: make([]int, len(g.Sources)), share: math.Exp2(max(behind, -50))}
		l.groups[i].rank(f)
	}
	heap.Init(&l.groups)
}

// order puts the first group, which has changed, into its place.
func (l *line) order(f *filling, g *turnGroup) {
	g.rank(f)
	heap.Fix(&l.groups, 0)
}

// turnGroup is a group with jobs in some places.
type turnGroup struct {
	*Group
	at    []int // in each source, the next job
	taken int
	share float64
	key   float64 // its next turn
	id    ID      // its next job, or the last one read
}

// rank works out when the group has its next turn.
func (g *turnGroup) rank(f *filling) {
	g.key = math.Ceil(float64(g.Held+g.taken+1)/float64(f.Quantum)) / g.share
	if j, known := g.head(); known {
		g.id = j.ID
	}
}

// head returns the first job without a place; known is false if it was not read.
func (g *turnGroup) head() (first Job, known bool) {
	for i, s := range g.Sources {
		switch {
		case g.at[i] < len(s.Jobs):
			if j := s.Jobs[g.at[i]]; !known || bytes.Compare(j.ID[:], first.ID[:]) < 0 {
				first, known = j, true
			}
		case s.More:
			return Job{}, false
		}
	}
	return first, known
}

// more reports whether jobs of the group may follow that were not read.
func (g *turnGroup) more() bool {
	for i, s := range g.Sources {
		if s.More && g.at[i] >= len(s.Jobs) {
			return true
		}
	}
	return false
}

// skip goes past the first job.
func (g *turnGroup) skip() {
	least := -1
	for i, s := range g.Sources {
		if g.at[i] < len(s.Jobs) && (least < 0 || bytes.Compare(s.Jobs[g.at[i]].ID[:], g.Sources[least].Jobs[g.at[least]].ID[:]) < 0) {
			least = i
		}
	}
	g.at[least]++
}
