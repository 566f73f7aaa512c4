package sandbox

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/cores"
	"github.com/assay-run/assay/pkg/runtime/sandbox/owntime"
)

const (
	MeterEvery = 20 * time.Millisecond  // how late a CPU or memory limit may be noticed
	MeterIdle  = 320 * time.Millisecond // the same for a program that has done nothing for a while
	newFor     = 50 * time.Millisecond  // CPU time for which a program has its cores before those that have had as much
)

// watch is one program, and who ends it at its limits, or before.
type watch struct {
	*Place
	box    Box
	limits *policy.Policy
	stop   *stopper
	own    *owntime.Clock
	meter  *meter
	seat   *cores.Seat
	waits  *runtime.Waits // the program's, and of those that it shares its time with
	before time.Duration  // what was waited before it began
	looked socketsLook
	stream *Stream         // nil: none
	enough <-chan struct{} // closed when whoever started it has heard enough
	yields bool            // it gives way to others once it has worked for a while
	asked  bool            // somebody else looks at its clock while that counts: see runtime.Forker
	over   time.Time       // when it was first found to be over, though nobody has said so

	patience runtime.Patience
}

// watch stops the program of a box when a limit, ctx or whoever started it says so. The returned
// function ends the watch of a program that has ended, and reports whether the meter failed.
func (s *Place) watch(ctx context.Context, b Box, stop *stopper, p *Program, own *owntime.Clock, m *meter, t *cores.Seat) func(ended time.Time) error {
	w := &watch{
		Place: s, box: b, limits: p.Limits, stop: stop, own: own, meter: m, seat: t, waits: p.waits, stream: p.stream, enough: p.stream.stop(),
		looked: socketsLook{at: own.Began}, yields: !p.Forks, asked: p.Forks,
		patience: runtime.NewPatience(own.Began, p.Limits.Wall.D()),
	}
	if w.waits == nil {
		w.waits = new(runtime.Waits)
	}
	w.before = w.waits.Total()
	unfollow := w.waits.Follow(own.Read)
	done := make(chan struct{})
	var wg sync.WaitGroup
	var err error
	wg.Go(func() {
		if err = w.run(ctx, done); err != nil { // a limit that nobody watches: end it
			stop.now(stopOurs)
		}
	})
	return func(ended time.Time) error {
		close(done)
		wg.Wait()
		all, e := w.all(ended)
		unfollow(all)
		return errors.Join(err, e)
	}
}

// all is what the program waited, as whoever it shares its time with has it.
func (w *watch) all(ended time.Time) (time.Duration, error) {
	if !w.own.Sums() {
		return w.own.Known(), nil
	}
	u, err := w.meter.usage()
	if err != nil {
		return w.own.Known(), err
	}
	return w.own.All(ended, u.CPU)
}

func (w *watch) run(ctx context.Context, done <-chan struct{}) error {
	wall := time.NewTimer(time.Until(w.own.Began.Add(w.limits.Wall.D())))
	defer wall.Stop()
	every, cpu := MeterEvery, time.Duration(0)
	tick := time.NewTimer(every)
	defer tick.Stop()
	for {
		over := false
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), runtime.ErrCanceled) {
				w.stop.now(stopCanceled)
			} else {
				w.stop.now(stopOurs)
			}
			return nil
		case <-w.enough:
			w.stop.now(stopDone)
			return nil
		case <-wall.C:
			over = true
		case <-tick.C:
		}
		used, err := w.look(over)
		if err != nil {
			return err
		}
		if over {
			left, ended := w.left(used)
			if ended {
				return nil
			}
			wall.Reset(left)
			continue
		}
		// Hundreds of sessions that wait for their clients must not cost a core.
		if every = min(2*every, MeterIdle); used > cpu+every/20 {
			every = MeterEvery
		}
		cpu = used
		tick.Reset(every)
	}
}

// look reads the meters, ends what exceeds a limit that they know of, and returns the CPU
// time that was used.
func (w *watch) look(over bool) (time.Duration, error) {
	now, tooMuch := time.Now(), false
	u, err := w.meter.usage()
	if err != nil {
		return 0, err
	}
	if !over && !w.asked && w.own.Due(now) { // when it is over, left looks
		err = w.own.Look(now, u.CPU)
		if err == nil && w.seat.Look(w.own.Worked()) {
			err = w.bind(w.seat.Set())
		}
	}
	if err == nil && w.looked.due(u.CPU, now, w.meter.toll.Affords(now)) {
		end := w.meter.toll.Begin()
		tooMuch, err = w.socketsExceed(w.box.Init().PID, int64(w.limits.Memory))
		end()
	}
	if err == nil && w.yields && u.CPU >= newFor {
		w.yields, err = false, w.Group.Yield()
	}
	switch {
	case err != nil:
	case u.OOMKills > 0 || tooMuch:
		w.stop.now(stopMemory)
	case w.meter.exhausts(u, w.limits.CPUTime.D()):
		w.stop.now(stopCPU)
	}
	return u.CPU, err
}

// newsEvery is how often a program that is over is asked for that nobody has said so of.
const newsEvery = 20 * time.Millisecond

// left returns the rest of the program's wall limit, in its own time; cpu is the CPU time that it has used. left stops the program
// when nothing is left, or when its patience is over.
//
// A program that has ended, or has sent the message that the worker waits for, has kept its limit. The worker may have no core and
// read the news late. If the news does not come within GateTime, the worker has failed.
func (w *watch) left(cpu time.Duration) (left time.Duration, ended bool) {
	waited, now := w.waits.Total()-w.before, time.Now()
	left = w.own.Left(now, w.limits.Wall.D(), waited, owntime.Needed(cpu, w.limits.CPU))
	over := left <= 0 && (w.box.Over() || w.waits.Heard() > 0 && w.stream.unread())
	if over && w.over.IsZero() {
		w.over = now
	}
	switch {
	case over && now.Sub(w.over) < GateTime:
		return newsEvery, false
	case over:
		w.stop.now(stopUnread)
	case left <= 0:
		w.stop.now(stopWall)
	case w.patience.Over(now, left):
		w.stop.now(stopStarved)
	default:
		return max(left, time.Millisecond), false
	}
	return 0, true
}

// stopper kills a sandbox once, and remembers the first reason.
type stopper struct {
	mu   sync.Mutex
	why  stopReason
	kill func() error
}

func newStopper(kill func() error) *stopper { return &stopper{kill: kill} }

func (s *stopper) now(why stopReason) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why == "" {
		s.why = why
		_ = s.kill() // a sandbox that outlives this is reported by await
	}
}

func (s *stopper) reason() stopReason {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.why
}
