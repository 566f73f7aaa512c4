package owntime

import (
	"io/fs"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/runtime/cgroup"
)

// fakeThreads are the threads of a program, as the kernel reports them.
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

// TestClockStandsWhileAProgramWaits checks that a program's time is the elapsed time without its waits for a
// core, and at least the CPU time that it used.
func TestClockStandsWhileAProgramWaits(t *testing.T) {
	const ms = time.Millisecond
	type look struct { // 100 ms after the last look: events since then
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
			k := &Clock{threads: f, timeOf: f.timeOf, runnable: f.runnable, since: func(time.Time) time.Duration { return c.late }, host: func() (time.Duration, error) { return 0, nil }, Began: began, at: began, seen: map[int]threadTime{}}
			cpu, now, sums := time.Duration(0), began, map[int]cgroup.ThreadTime{}
			for _, l := range c.looks {
				now, cpu = now.Add(100*ms), cpu+l.cpu
				f.times, f.runs, f.throttled = map[int]cgroup.ThreadTime{}, map[int]bool{l.runs: true}, f.throttled+l.throttled
				for id, more := range l.threads {
					sums[id] = cgroup.ThreadTime{Ran: sums[id].Ran + more[0], Waited: sums[id].Waited + more[1]}
					f.times[id] = sums[id]
				}
				if err := k.Look(now, cpu); err != nil {
					t.Fatal(err)
				}
			}
			if k.waited != c.want {
				t.Errorf("waited %v, want %v", k.waited, c.want)
			}
			if own := time.Second - k.Left(now, time.Second, k.LastWait(), 0); own != now.Sub(began)-c.want || own < min(cpu, now.Sub(began)) {
				t.Errorf("its own time is %v after %v, of which it used %v", own, now.Sub(began), cpu)
			}
		})
	}
}

// TestClockOfASum checks a program that is one of many. In a stretch without a look, the unused time counts
// as waited, as far as the host was busy. So the waits of all programs at their ends do not add up to a
// limit.
func TestClockOfASum(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		looks     int // 100 ms apart, of a thread that ran for 20 ms and waited for 80
		after     time.Duration
		cpu, held time.Duration // after the last look
		stalled   time.Duration // of the host, after the last look
		unknown   bool          // the host reports nothing
		want      time.Duration
	}{
		"it ends before a look, and waited":         {after: 90 * ms, cpu: 10 * ms, stalled: 85 * ms, want: 80 * ms},
		"it ends before a look, on an idle host":    {after: 90 * ms, cpu: 10 * ms, want: 0},
		"it slept beside somebody who waited":       {after: 90 * ms, cpu: 10 * ms, stalled: 5 * ms, want: 5 * ms},
		"it waits at its end":                       {looks: 3, after: 250 * ms, cpu: 20 * ms, stalled: 250 * ms, want: 470 * ms},
		"it runs to its end":                        {looks: 3, after: 50 * ms, cpu: 50 * ms, stalled: 50 * ms, want: 240 * ms},
		"it is held back by its limit":              {looks: 3, after: 90 * ms, cpu: 10 * ms, held: 80 * ms, stalled: 90 * ms, want: 240 * ms},
		"nobody says whether the host is busy":      {after: 90 * ms, cpu: 10 * ms, unknown: true, want: 80 * ms},
		"nobody says so, of a look that comes late": {after: time.Minute, cpu: 10 * ms, unknown: true, want: doubtful / 2},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			f, host := &fakeThreads{throttled: time.Second}, time.Hour // of those before it
			k := New(nil, nil, nil)
			k.Start(began)
			k.threads, k.timeOf, k.runnable, k.since = f, f.timeOf, f.runnable, func(time.Time) time.Duration { return 0 }
			k.host = func() (time.Duration, error) {
				if c.unknown {
					return 0, fs.ErrNotExist
				}
				return host, nil
			}
			k.begin()
			k.Sum()
			now, cpu := began, time.Duration(0)
			for i := range c.looks {
				now, cpu, host = now.Add(100*ms), cpu+20*ms, host+80*ms
				n := time.Duration(i + 1)
				f.times = map[int]cgroup.ThreadTime{1: {Ran: n * 20 * ms, Waited: n * 80 * ms}}
				if err := k.Look(now, cpu); err != nil {
					t.Fatal(err)
				}
			}
			f.throttled, host = f.throttled+c.held, host+c.stalled
			if all, err := k.All(now.Add(c.after), cpu+c.cpu); err != nil || all != c.want {
				t.Errorf("waited %v, %v, want %v", all, err, c.want)
			}
		})
	}
}

// scriptedMessages are the messages of a program.
type scriptedMessages struct{ unread, read bool }

func (m *scriptedMessages) Unread() bool { return m.unread }
func (m *scriptedMessages) Read() bool   { return m.read }

// TestClockGivesTheBenefitOfTheDoubt checks that time that no look covers counts as waited, as far as the
// host had tasks without a core.
func TestClockGivesTheBenefitOfTheDoubt(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		cpu, ran, stalled time.Duration // of 100 ms
		gone              bool          // no thread is left
		messages          *scriptedMessages
		want              time.Duration
	}{
		"asleep on a busy host":                       {stalled: 100 * ms, want: 0},
		"a process ended":                             {cpu: 10 * ms, ran: ms, stalled: 100 * ms, want: 90 * ms},
		"a process ended, on an idle host":            {cpu: 10 * ms, ran: ms, want: 0},
		"a process ended, on a host that was busy":    {cpu: 10 * ms, ran: ms, stalled: 40 * ms, want: 40 * ms},
		"counters differ":                             {cpu: 10 * ms, ran: 10*ms - unseen, stalled: 100 * ms, want: 0},
		"its message was read late":                   {stalled: 100 * ms, messages: &scriptedMessages{read: true}, want: 100 * ms},
		"its message was read late, on an idle host":  {messages: &scriptedMessages{read: true}, want: 0},
		"its message is not read yet":                 {stalled: 100 * ms, messages: &scriptedMessages{unread: true}, want: 0},
		"it sent nothing, and sleeps on a busy host":  {stalled: 100 * ms, messages: &scriptedMessages{}, want: 0},
		"it read one message, and another one waits":  {stalled: 100 * ms, messages: &scriptedMessages{read: true, unread: true}, want: 100 * ms},
		"it has ended, and no look knows when it did": {cpu: ms, stalled: 100 * ms, gone: true, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			f, host, began := &fakeThreads{times: map[int]cgroup.ThreadTime{1: {}}}, time.Hour, time.Now()
			k := &Clock{threads: f, timeOf: f.timeOf, runnable: f.runnable, since: func(time.Time) time.Duration { return 0 }, host: func() (time.Duration, error) { return host, nil }, seen: map[int]threadTime{}}
			if c.messages != nil {
				k.messages = c.messages
			}
			k.begin()
			k.Start(began)
			host += c.stalled
			f.times[1] = cgroup.ThreadTime{Ran: c.ran}
			if c.gone {
				f.times = nil
			}
			if err := k.Look(began.Add(100*ms), c.cpu); err != nil {
				t.Fatal(err)
			}
			if k.waited != c.want {
				t.Errorf("waited %v, want %v", k.waited, c.want)
			}
			if unknown := c.gone || c.messages != nil && c.messages.unread && !c.messages.read; k.at.Equal(began) != unknown {
				t.Errorf("the look counts: %v, want %v", !k.at.Equal(began), !unknown)
			}
			if all, err := k.All(began.Add(100*ms), c.cpu); c.gone && (err != nil || all != 99*ms) {
				t.Errorf("waited %v in all, %v, want all but the CPU time", all, err)
			}
		})
	}
}
