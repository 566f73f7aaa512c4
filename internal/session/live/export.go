package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime"
)

// exportTime bounds an export: whoever asked waits, and so does who wants to execute.
const exportTime = 2 * time.Minute

// Exporter takes what one session leaves behind to where it is read from.
type Exporter interface {
	// Begin begins an export.
	Begin() Exporting
}

// Exporting is an export that is under way.
type Exporting interface {
	// Collect is a runtime.Collector.
	Collect(ctx context.Context, path string, size int64, r io.Reader) error
	// Seal has what was collected be the session's artifacts, instead of those of the
	// export before. refused is what the policy names besides.
	Seal(ctx context.Context, refused []string) error
}

// export is an export that does not fail: what cannot be stored is missed, and said.
type export struct {
	Exporting
	until  time.Time // when what is not stored yet is not stored any more; zero: not begun
	missed []string
	more   int
}

// maxMissed is how many files are named that could not be stored.
const maxMissed = 20

// take is a runtime.Collector.
func (e *export) take(ctx context.Context, path string, size int64, r io.Reader) error {
	if e.until.IsZero() {
		e.until = time.Now().Add(exportTime)
	}
	ctx, cancel := context.WithDeadline(ctx, e.until)
	defer cancel()
	err := ctx.Err()
	if err == nil && len(e.missed) == 0 { // a store that is away is not waited for twice
		err = e.Collect(ctx, path, size, r)
	}
	switch {
	case err == nil && len(e.missed) == 0:
	case len(e.missed) >= maxMissed:
		e.more++
	case err == nil:
		e.missed = append(e.missed, fmt.Sprintf("artifact %.300q: is not stored, as one before it", path))
	default:
		e.missed = append(e.missed, fmt.Sprintf("artifact %.300q: cannot be stored: %.300s", path, err.Error()))
	}
	return nil
}

// seal says what is missed, too.
func (e *export) seal(ctx context.Context, refused []string) error {
	if e.more > 0 {
		e.missed = append(e.missed, fmt.Sprintf("… and %d more are not stored", e.more))
	}
	return e.Seal(ctx, append(refused, e.missed...))
}

// exports begins an export, nil if the policy names no files or there is nowhere to take them.
func (l *live) exports() *export {
	if l.exporter == nil || len(l.policy.Artifacts.Paths) == 0 {
		return nil
	}
	return &export{Exporting: l.exporter.Begin()}
}

// gathered is told how to collect artifacts while the session lives.
func (l *live) gathered(g runtime.Gather) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gather = g
}

// export keeps the files that the policy names, as they are between two executes. If the
// session ends under it, so it has when export returns, and has exported for the last time.
func (l *live) export(ctx context.Context) error {
	e := l.exports()
	if e == nil {
		return job.Invalid("policy.artifacts.paths", "names no files to export")
	}
	if err := l.await(ctx); err != nil {
		return err
	}
	defer l.yieldTurn()
	l.gathers(true)
	err := l.exportNow(ctx, e)
	l.gathers(false)
	if errors.Is(err, errEnded) {
		<-l.over
	}
	return err
}

// gathers says that an export is under way, which makes the session a used one.
func (l *live) gathers(yes bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gathering, l.used = yes, time.Now()
}

func (l *live) exportNow(ctx context.Context, e *export) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l.exporting.Lock() // its end waits, and then its files are gone
	defer l.exporting.Unlock()
	defer context.AfterFunc(l.running, cancel)()
	l.mu.Lock()
	gather := l.gather
	l.mu.Unlock()
	if l.running.Err() != nil {
		return errEnded
	}
	if gather == nil {
		return fmt.Errorf("%w: this session's files cannot be collected while it lives", job.ErrUnavailable)
	}
	refused, err := gather(ctx, e.take)
	if l.running.Err() != nil {
		return errEnded
	}
	if err != nil {
		return fmt.Errorf("export artifacts: %w", err)
	}
	return e.seal(ctx, refused)
}

// leave keeps what an ended session has left, unless the runtime failed to look. The
// session has its end for another reason, so what goes wrong is in its message.
func (l *live) leave(ctx context.Context, e *export, rep *runtime.Report, err error) {
	if e == nil || err != nil || rep.Outcome == job.OutcomeCanceled {
		return
	}
	if err := e.seal(ctx, rep.Feedback); err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.end.Message = job.Clip(l.end.Message+"; its artifacts could not be kept: "+err.Error(), 1000)
	}
}
