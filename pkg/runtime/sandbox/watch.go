package sandbox

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/cores"
	"github.com/assay-run/assay/pkg/runtime/sandbox/owntime"
)

const (
	MeterEvery = 20 * time.Millisecond  // how late a CPU or memory limit may be detected
	MeterIdle  = 320 * time.Millisecond // the same for a program that has been idle for a while
	earlyEvery = 3 * time.Millisecond   // between the early looks at a new program, which may wait for its core
	earlyLooks = 4
	newFor     = 50 * time.Millisecond // CPU time for which a new program has priority over longer running ones
)

// watch supervises one program and ends it at its limits, or before.
type watch struct {
	*Place
	box    Box
	limits *policy.Policy
	stop   *stopper
	own    *owntime.Clock
	meter  *meter
	seat   *cores.Seat
	waits  *runtime.Waits // of the program and those that share its time
	before time.Duration  // the waits before it started
	looked socketsLook
	stream *Stream         // nil: none
	enough <-chan struct{} // closed when the caller has called Stop
	yields bool            // it yields to others after it has worked for a while
	asked  bool            // another component looks at its clock while that counts: see runtime.Forker
	ran    time.Duration   // its CPU time at the last early look
	over   time.Time       // when it was first seen to have ended without a report

	patience runtime.Patience
}

// watch stops the program of a box at a limit, at the end of ctx, or when its caller stops it. The
// returned function ends the watch of an ended program, and returns an error of the meter.
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
		if err = w.run(ctx, done); err != nil { // its limits cannot be measured: end it
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

// all returns the program's waits, including those of programs that share its time.
func (w *watch) all(ended time.Time) (time.Duration, error) {
	if !w.own.Sums() {
		return w.own.LastWait(), nil
	}
	u, err := w.meter.progress()
	if err != nil {
		return w.own.LastWait(), err
	}
	return w.own.All(ended, u.CPU)
}

func (w *watch) run(ctx context.Context, done <-chan struct{}) error {
	wall := time.NewTimer(time.Until(w.own.Began.Add(w.limits.Wall.D())))
	defer wall.Stop()
	every, cpu := MeterEvery, time.Duration(0)
	tick := time.NewTimer(every)
	defer tick.Stop()
	early, earlyLeft := time.NewTimer(earlyEvery), earlyLooks
	defer early.Stop()
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
		case <-early.C:
			if earlyLeft > 0 && w.seat.MaySwitch() {
				earlyLeft--
				w.switchCore(ctx)
				early.Reset(earlyEvery)
			}
			continue
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
		// Hundreds of idle sessions must not cost a core.
		if every = min(2*every, MeterIdle); used > cpu+every/20 {
			every = MeterEvery
		}
		cpu = used
		tick.Reset(every)
	}
}

// switchCore moves a program to another core if it has hardly run since the last early look. It is
// bound to one core, so the kernel does not move it to an idle one. A program that sleeps loses
// nothing by the move, and a failure only time.
func (w *watch) switchCore(ctx context.Context) {
	u, err := w.meter.progress()
	if ran := u.CPU - w.ran; err == nil && ran < earlyEvery/2 {
		w.seat.Switch()
		err = w.bind(w.seat.Set())
	}
	w.ran = u.CPU
	if err != nil {
		slog.DebugContext(ctx, "program not moved to another core", "error", err)
	}
}

// look reads the meters, enforces their limits, and returns the used CPU time.
func (w *watch) look(over bool) (time.Duration, error) {
	now, tooMuch := time.Now(), false
	u, err := w.meter.progress()
	if err != nil {
		return 0, err
	}
	if !over && !w.asked && w.own.Due(now) { // at its end, left looks
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

// newsEvery is the interval between checks of an ended program without a report.
const newsEvery = 20 * time.Millisecond

// left returns the rest of the program's wall limit in its own time; cpu is its used CPU time. It
// stops the program when nothing is left, or when its patience is over.
//
// A program that has ended, or has sent the expected message, has kept its limit. A worker without
// a core may read this late. If the report does not arrive within GateTime, the worker has failed.
func (w *watch) left(cpu time.Duration) (left time.Duration, ended bool) {
	waited, now := w.waits.Total()-w.before, time.Now()
	left = w.own.Left(now, w.limits.Wall.D(), waited, owntime.Needed(cpu, w.limits.CPU))
	over := left <= 0 && (w.box.Over() || w.waits.Responses() > 0 && w.stream.unread())
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

// stopper kills a sandbox once, and records the first reason.
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
		_ = s.kill() // await reports a sandbox that survives this
	}
}

func (s *stopper) reason() stopReason {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.why
}
