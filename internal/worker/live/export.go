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

// exportTime limits an export, because the caller and later executions wait for it.
const exportTime = 2 * time.Minute

// Exporter stores the artifacts of one session.
type Exporter interface {
	// Begin starts an export.
	Begin() Exporting
}

// Exporting is an export in progress.
type Exporting interface {
	// Collect is a runtime.Collector.
	Collect(ctx context.Context, path string, size int64, r io.Reader) error
	// Seal replaces the session's artifacts with the collected ones. refused lists files in the
	// policy that were not collected, with reasons.
	Seal(ctx context.Context, refused []string) error
}

// export is an export that does not fail: it records files that cannot be stored.
type export struct {
	Exporting
	until  time.Time // deadline for storing files; zero: not started
	missed []string
	more   int
}

// maxMissed is the most names of files that could not be stored.
const maxMissed = 20

// take is a runtime.Collector.
func (e *export) take(ctx context.Context, path string, size int64, r io.Reader) error {
	if e.until.IsZero() {
		e.until = time.Now().Add(exportTime)
	}
	ctx, cancel := context.WithDeadline(ctx, e.until)
	defer cancel()
	err := ctx.Err()
	if err == nil && len(e.missed) == 0 { // does not wait again for an unavailable store
		err = e.Collect(ctx, path, size, r)
	}
	switch {
	case err == nil && len(e.missed) == 0:
	case len(e.missed) >= maxMissed:
		e.more++
	case err == nil:
		e.missed = append(e.missed, fmt.Sprintf("artifact %.300q: is not stored, since a previous one failed", path))
	default:
		e.missed = append(e.missed, fmt.Sprintf("artifact %.300q: cannot be stored: %.300s", path, err.Error()))
	}
	return nil
}

// seal includes the missed files.
func (e *export) seal(ctx context.Context, refused []string) error {
	if e.more > 0 {
		e.missed = append(e.missed, fmt.Sprintf("… and %d more are not stored", e.more))
	}
	return e.Seal(ctx, append(refused, e.missed...))
}

// exports starts an export. It returns nil if the policy lists no files or there is no exporter.
func (l *live) exports() *export {
	if l.exporter == nil || len(l.policy.Artifacts.Paths) == 0 {
		return nil
	}
	return &export{Exporting: l.exporter.Begin()}
}

// gathered sets how to collect artifacts of the live session.
func (l *live) gathered(g runtime.Gather) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gather = g
}

// export exports the policy's files between two executions. If the session ends meanwhile, its
// final export is complete when export returns.
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

// gathers records whether an export is in progress, during which the session is not idle.
func (l *live) gathers(yes bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gathering, l.used = yes, time.Now()
}

func (l *live) exportNow(ctx context.Context, e *export) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l.exporting.Lock() // the end waits for it and then removes the files
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

// leave exports the files of an ended session, unless the runtime could not read them. Errors go
// into the session's message, because it already has an outcome.
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
