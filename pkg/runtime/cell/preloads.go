package cell

import (
	"context"
	"errors"
	"log/slog"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/assay-run/assay/pkg/runtime/tracee"
)

// preloadKey identifies a preload and its programs.
type preloadKey struct {
	owner
	zygote  byte   // the kind of zygote of its own interpreter
	modules string // separated by spaces, sorted
	cores   int    // of the programs, because libraries start as many threads
}

// preloads manages the preloaded interpreters and information about imports. No program waits for
// one: without a matching preload it runs normally, and repeated requests start one.
type preloads struct {
	cells *Cells
	meter *preloadMeter
	time  time.Duration // time limit for a preload's imports

	mu     sync.Mutex
	live   map[preloadKey]*preloaded
	wanted map[preloadKey]int // how often each was missed
	bad    map[preloadKey]badPreload
	known  map[string]moduleInfo // about modules, by digest and name
	making map[owner]bool
	closed bool
}

// preloaded is a preload, or nil while it is being created.
type preloaded struct {
	*preload
	used time.Time
}

// badPreload is a failed preload, and when to retry.
type badPreload struct {
	why   error
	until time.Time
}

// moduleInfo is the information about a module of an image.
type moduleInfo struct {
	took   float64         // import time, in milliseconds of CPU
	inside map[string]bool // the names of its submodules
}

// Thresholds for preloading.
const (
	preloadHeavy  = 4.0             // minimum import time in milliseconds
	preloadAfter  = 2               // number of programs that missed it
	preloadAgain  = 5 * time.Minute // after it proved unusable
	preloadMost   = 16              // modules of one program that are considered
	preloadMemory = 4096            // entries of each cache
)

func newPreloads(c *Cells) *preloads {
	ps := &preloads{cells: c, time: preloadTime}
	ps.live, ps.wanted, ps.bad, ps.known = map[preloadKey]*preloaded{}, map[preloadKey]int{}, map[preloadKey]badPreload{}, map[string]moduleInfo{}
	ps.meter = newPreloadMeter(ps.levels)
	ps.making = map[owner]bool{}
	return ps
}

// choose returns the modules of the best preload for a program of home that imports modules, or "".
// Repeated requests start a better one.
func (ps *preloads) choose(ctx context.Context, home owner, zygote byte, modules string, cores int) string {
	if modules == "" || ps.cells.cfg.PreloadMemory <= 0 || !tracee.Supported {
		return ""
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	heavy, all := ps.heavy(home.digest, modules)
	if len(heavy) == 0 {
		return ""
	}
	best := ""
	for key, have := range ps.live {
		if key.owner == home && key.zygote == zygote && key.cores == cores && have.preload != nil && len(key.modules) > len(best) && containsAll(strings.Fields(key.modules), all) && have.alive() {
			best = key.modules
		}
	}
	want := preloadKey{home, zygote, strings.Join(heavy, " "), cores}
	if best != "" {
		ps.live[preloadKey{home, zygote, best, cores}].used = time.Now()
	}
	ps.meter.chosen(ctx, best == want.modules)
	if best != want.modules {
		ps.miss(want)
	}
	return best
}

// heavy returns the modules that are worth preloading, or may be, and all modules that they
// certainly import. The caller holds the lock.
func (ps *preloads) heavy(digest, modules string) (heavy []string, all map[string]bool) {
	all = map[string]bool{}
	for _, m := range strings.Fields(modules) {
		if from, name, is := strings.Cut(m, ":"); is {
			if !ps.known[digest+" "+from].inside[name] {
				continue // not a module, or not known yet
			}
			m = from + "." + name
		}
		if k, is := ps.known[digest+" "+m]; (!is || k.took >= preloadHeavy) && len(heavy) < preloadMost {
			heavy = append(heavy, m)
		}
		for part := m; part != ""; part = part[:max(strings.LastIndexByte(part, '.'), 0)] {
			all[part] = true
		}
	}
	slices.Sort(heavy)
	return slices.Compact(heavy), all
}

// containsAll reports whether all of some are in others.
func containsAll(some []string, others map[string]bool) bool {
	for _, s := range some {
		if !others[s] {
			return false
		}
	}
	return true
}

// miss records that a preload would have been useful, and starts it after enough misses. The caller
// holds the lock.
func (ps *preloads) miss(want preloadKey) {
	now := time.Now()
	if ps.live[want] != nil || ps.closed || now.Before(ps.bad[want].until) {
		return
	}
	// Their cost is not charged to a job, so their number is limited.
	if ps.making[want.owner] || len(ps.making) >= max(goruntime.NumCPU()/2, 1) {
		return
	}
	if len(ps.wanted) > preloadMemory {
		clear(ps.wanted)
	}
	if ps.wanted[want]++; ps.wanted[want] < preloadAfter {
		return
	}
	delete(ps.wanted, want)
	ps.live[want], ps.making[want.owner] = &preloaded{used: now}, true
	if !ps.cells.background.Spawn(func() { ps.make(want) }) {
		delete(ps.live, want)
	}
}

// make creates a preload. If some of its modules prove light, it creates one with the others.
func (ps *preloads) make(want preloadKey) {
	ctx, cancel := context.WithCancel(ps.cells.background.Context())
	defer cancel()
	p, err := ps.start(ctx, want)
	ps.mu.Lock()
	defer ps.mu.Unlock()
	delete(ps.live, want)
	delete(ps.making, want.owner)
	if err != nil {
		if len(ps.bad) > preloadMemory {
			clear(ps.bad)
		}
		ps.bad[want] = badPreload{err, time.Now().Add(preloadAgain)}
		if u := new(unusable); errors.As(err, &u) || ctx.Err() != nil {
			slog.DebugContext(ctx, "imports not suitable for preloading", "modules", want.modules, "reason", err)
		} else {
			slog.WarnContext(ctx, "imports not preloaded", "modules", want.modules, "error", err)
		}
		ps.meter.failed(ctx)
		return
	}
	if len(ps.known) > preloadMemory {
		clear(ps.known)
	}
	var heavy []string
	for m, k := range p.known {
		ps.known[want.digest+" "+m] = k
		if k.took >= preloadHeavy {
			heavy = append(heavy, m)
		}
	}
	slices.Sort(heavy)
	p.modules = strings.Join(heavy, " ")
	if len(heavy) == 0 || ps.live[p.preloadKey] != nil || ps.closed {
		p.close()
		return
	}
	ps.live[p.preloadKey] = &preloaded{preload: p, used: time.Now()}
	ps.meter.made(ctx)
	ps.shrink()
}

// start creates a preload in the cell of its programs.
func (ps *preloads) start(ctx context.Context, key preloadKey) (*preload, error) {
	home, err := ps.cells.home(ctx, key.owner)
	if err != nil {
		return nil, err
	}
	defer ps.cells.leave(home)
	ctx, cancel := context.WithTimeout(ctx, ps.time)
	defer cancel()
	p, err := home.newPreload(ctx, key, ps.cells.cfg.PreloadMemory)
	if err != nil {
		return nil, err
	}
	if err := p.tryForks(ctx); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// of returns a usable preload, or nil.
func (ps *preloads) of(key preloadKey) *preload {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	have := ps.live[key]
	if have == nil || have.preload == nil || !have.alive() {
		return nil
	}
	return have.preload
}

// shrink ends the least recently used preloads until the rest is within the budget. The caller
// holds the lock.
func (ps *preloads) shrink() {
	for {
		var sum int64
		var oldest *preloaded
		for _, have := range ps.live {
			if have.preload == nil {
				continue
			}
			sum += have.memory
			if oldest == nil || have.used.Before(oldest.used) {
				oldest = have
			}
		}
		if oldest == nil || sum <= int64(ps.cells.cfg.PreloadMemory) {
			return
		}
		ps.drop(oldest.preload)
	}
}

// drop stops further forks of p, and ends it after its forks. The caller holds the lock.
func (ps *preloads) drop(p *preload) {
	delete(ps.live, p.preloadKey)
	end := func() {
		ps.cells.pool.Flush(p.poolKey())
		select {
		case <-p.slot.family.end():
		case <-p.frozen.Done():
		}
		p.close()
	}
	if !ps.cells.background.Spawn(end) {
		p.close()
	}
}

// poolKey returns the key of slots forked from p.
func (p *preload) poolKey() slotKey {
	return slotKey{owner: p.owner, zygote: p.zygote, preload: p.modules, cores: p.cores}
}

// expire ends unused and dead preloads, and preloads in ending cells.
func (ps *preloads) expire(now time.Time) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for _, have := range ps.live {
		if have.preload != nil && (now.Sub(have.used) > ps.cells.cfg.PreloadIdle || !have.alive()) {
			ps.drop(have.preload)
		}
	}
}

// close ends all preloads and their forks.
func (ps *preloads) close() {
	defer ps.meter.close() // without the lock
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.closed = true
	for key, have := range ps.live {
		if have.preload != nil {
			delete(ps.live, key)
			have.close()
		}
	}
}

// levels returns the number of preloads and their memory.
func (ps *preloads) levels() (count, memory int64) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for _, have := range ps.live {
		if have.preload != nil {
			count++
			memory += have.memory
		}
	}
	return count, memory
}
