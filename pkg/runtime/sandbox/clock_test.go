package sandbox

import (
	"io/fs"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/runtime/cgroup"
)

// fakeThreads are the threads of a program, as the kernel tells of them.
type fakeThreads struct {
	times     map[int]cgroup.ThreadTime
	runs      map[int]bool
	throttled time.Duration
}

func (f *fakeThreads) Threads() ([]int, error)           { return slices.Collect(maps.Keys(f.times)), nil }
func (f *fakeThreads) Throttled() (time.Duration, error) { return f.throttled, nil }
func (f *fakeThreads) timeOf(id int) (cgroup.ThreadTime, error) {
	t, ok := f.times[id]
	if !ok {
		return t, fs.ErrNotExist
	}
	return t, nil
}
func (f *fakeThreads) runnable(id int) (bool, error) { return f.runs[id], nil }

// TestClockStandsWhileAProgramWaits: the time of a program is what passed without what it
// waited for a core, and never less than the CPU time that it used.
func TestClockStandsWhileAProgramWaits(t *testing.T) {
	const ms = time.Millisecond
	type look struct { // 100 ms after the one before; what has happened since
		cpu, throttled time.Duration
		threads        map[int][2]time.Duration // ran and waited
		runs           int                      // a thread that could run
	}
	for name, c := range map[string]struct {
		looks []look
		want  time.Duration // waited, in all
		late  time.Duration // how long a look takes
	}{
		"asleep":                          {[]look{{}, {}}, 0, 0},
		"alone":                           {[]look{{cpu: 100 * ms, threads: map[int][2]time.Duration{1: {100 * ms, 0}}}}, 0, 0},
		"one of four on a core":           {[]look{{cpu: 25 * ms, threads: map[int][2]time.Duration{1: {25 * ms, 75 * ms}}}}, 75 * ms, 0},
		"half asleep":                     {[]look{{cpu: 25 * ms, threads: map[int][2]time.Duration{1: {25 * ms, 25 * ms}}}}, 25 * ms, 0},
		"its threads wait for each other": {[]look{{cpu: 200 * ms, threads: map[int][2]time.Duration{1: {50 * ms, 50 * ms}, 2: {50 * ms, 50 * ms}, 3: {50 * ms, 50 * ms}, 4: {50 * ms, 50 * ms}}}}, 0, 0},
		"two threads and half a core":     {[]look{{cpu: 50 * ms, threads: map[int][2]time.Duration{1: {25 * ms, 75 * ms}, 2: {25 * ms, 75 * ms}}}}, 50 * ms, 0},
		"a thread that ended":             {[]look{{cpu: 25 * ms, threads: map[int][2]time.Duration{1: {25 * ms, 75 * ms}}}, {}}, 75 * ms, 0},
		"held back by its own limit": {[]look{{cpu: 50 * ms, threads: map[int][2]time.Duration{1: {50 * ms, 0}}},
			{cpu: 50 * ms, throttled: 50 * ms, threads: map[int][2]time.Duration{1: {50 * ms, 50 * ms}}}}, 0, 0},
		"a wait that lasts": {[]look{{threads: map[int][2]time.Duration{1: {0, 0}}}, {threads: map[int][2]time.Duration{1: {0, 0}}, runs: 1},
			{threads: map[int][2]time.Duration{1: {0, 0}}, runs: 1}}, 100 * ms, 0},
		"a wait that lasted": {[]look{{threads: map[int][2]time.Duration{1: {0, 0}}}, {threads: map[int][2]time.Duration{1: {0, 0}}, runs: 1},
			{cpu: 10 * ms, threads: map[int][2]time.Duration{1: {10 * ms, 190 * ms}}}}, 190 * ms, 0},
		"a wait that began after it ran, and lasts": {[]look{{cpu: 10 * ms, threads: map[int][2]time.Duration{1: {10 * ms, 0}}, runs: 1},
			{threads: map[int][2]time.Duration{1: {0, 0}}, runs: 1}, {cpu: 10 * ms, threads: map[int][2]time.Duration{1: {10 * ms, 280 * ms}}}}, 280 * ms, 0},
		"it sleeps, and runs at each look": {[]look{{threads: map[int][2]time.Duration{1: {0, 0}}, runs: 1}, {threads: map[int][2]time.Duration{1: {1, 0}}, runs: 1},
			{threads: map[int][2]time.Duration{1: {1, 0}}, runs: 1}}, 0, 0},
		"looks that take long": {[]look{{cpu: 20 * ms, threads: map[int][2]time.Duration{1: {10 * ms, 90 * ms}}},
			{cpu: 0, threads: map[int][2]time.Duration{1: {10 * ms, 90 * ms}}}}, 180 * ms, 10 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			f := &fakeThreads{}
			k := &clock{threads: f, timeOf: f.timeOf, runnable: f.runnable, since: func(time.Time) time.Duration { return c.late }, began: began, at: began, seen: map[int]threadTime{}}
			cpu, now, sums := time.Duration(0), began, map[int]cgroup.ThreadTime{}
			for _, l := range c.looks {
				now, cpu = now.Add(100*ms), cpu+l.cpu
				f.times, f.runs, f.throttled = map[int]cgroup.ThreadTime{}, map[int]bool{l.runs: true}, f.throttled+l.throttled
				for id, more := range l.threads {
					sums[id] = cgroup.ThreadTime{Ran: sums[id].Ran + more[0], Waited: sums[id].Waited + more[1]}
					f.times[id] = sums[id]
				}
				if err := k.look(now, cpu); err != nil {
					t.Fatal(err)
				}
			}
			if k.waited != c.want {
				t.Errorf("waited %v, want %v", k.waited, c.want)
			}
			if own := time.Second - k.left(now, time.Second, k.known(), 0); own != now.Sub(began)-c.want || own < min(cpu, now.Sub(began)) {
				t.Errorf("its own time is %v after %v, of which it used %v", own, now.Sub(began), cpu)
			}
		})
	}
}

// TestClockEnds: nobody waits for ever for a program that gets no core.
func TestClockEnds(t *testing.T) {
	began := time.Now()
	k, late := &clock{began: began}, began.Add(80*time.Second)
	if k.starved(late.Add(-1), time.Second) {
		t.Error("it is given up too early")
	}
	if !k.starved(late, time.Second) {
		t.Error("it is waited for for ever")
	}
}
