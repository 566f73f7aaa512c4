package session

import (
	"context"
	"fmt"
	"strings"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/queue"
)

// do does what a dispatcher asks of this session.
func (l *live) do(ctx context.Context, c queue.SessionCall) (r queue.SessionReply, err error) {
	switch c.Op {
	case queue.SessionExecute, queue.SessionShell:
		r.Execute = l.execute(ctx, c)
	case queue.SessionSet:
		_, err = l.request(ctx, map[string]any{"op": "set", "name": c.Name}, c.Data)
	case queue.SessionGet:
		var f *frame
		if f, err = l.request(ctx, map[string]any{"op": "get", "name": c.Name}); err == nil {
			r.Value = clipValue(f.Value)
		}
	case queue.SessionList:
		var f *frame
		if f, err = l.request(ctx, map[string]any{"op": "list"}); err == nil {
			r.Variables = clipVariables(f.Variables)
		}
	case queue.SessionReset:
		_, err = l.request(ctx, map[string]any{"op": "reset"})
	case queue.SessionInject:
		_, err = l.request(ctx, map[string]any{"op": "inject", "names": c.Names})
	case queue.SessionPut:
		_, err = l.request(ctx, map[string]any{"op": "put", "path": c.Path}, c.Data)
	case queue.SessionFile:
		var f *frame
		switch f, err = l.request(ctx, map[string]any{"op": "file", "path": c.Path}); {
		case err == nil:
			r.Data = f.Data
		case f != nil && strings.HasPrefix(f.Error, "FileNotFoundError"):
			err = fmt.Errorf("%w: the session has no file %.300q", job.ErrNotFound, c.Path)
		}
	case queue.SessionExport:
		err = l.export(ctx)
	case queue.SessionInterrupt:
		err = l.interrupt()
	case queue.SessionAnswer:
		err = l.answer(c)
	case queue.SessionPending:
		r.Pending = l.pending()
	case queue.SessionKeep:
	case queue.SessionClose:
		l.kill(job.Succeeded, "closed by its client")
		<-l.over
	default:
		err = job.Invalid("op", "%.40q is not known to this worker", c.Op)
	}
	return r, err
}

// request is for what takes a moment only. The load goes behind the frame.
func (l *live) request(ctx context.Context, m map[string]any, load ...[]byte) (*frame, error) {
	f, err := l.ask(ctx, m, requestTime, load...)
	return f, answered(f, err)
}

// answered is the error that an answer tells of.
func answered(f *frame, err error) error {
	switch {
	case err != nil:
		return err
	case f.Error == "not found":
		return fmt.Errorf("%w: no variable of that name", job.ErrNotFound)
	case f.Error != "":
		return fmt.Errorf("%w: %s", job.ErrInvalid, clip(f.Error, 1000))
	}
	return nil
}
