package live

import (
	"context"
	"fmt"
	"strings"

	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
)

// do runs a dispatcher's request for this session.
func (l *live) do(ctx context.Context, c control.SessionCall) (r control.SessionReply, err error) {
	switch c.Op {
	case control.SessionExecute, control.SessionShell:
		r.Execute = l.execute(ctx, c)
	case control.SessionSet:
		_, err = l.request(ctx, map[string]any{"op": "set", "name": c.Name, "tagged": c.Tagged}, c.Data)
	case control.SessionGet:
		var f *message
		if f, err = l.request(ctx, map[string]any{"op": "get", "name": c.Name}); err == nil {
			r.Value, r.Data, r.Size, r.Tagged = clipValue(f.Value), f.Data, f.Size, f.Tagged
		}
	case control.SessionList:
		var f *message
		if f, err = l.request(ctx, map[string]any{"op": "list"}); err == nil {
			r.Variables = clipVariables(f.Variables)
		}
	case control.SessionReset:
		var f *message
		if f, err = l.request(ctx, map[string]any{"op": "reset"}); err == nil {
			r.Reset = clipReset(f.Reset)
		}
	case control.SessionInject:
		_, err = l.request(ctx, map[string]any{"op": "inject", "names": c.Names})
	case control.SessionPut:
		_, err = l.request(ctx, map[string]any{"op": "put", "path": c.Path}, c.Data)
	case control.SessionFile:
		var f *message
		m := map[string]any{"op": "file", "path": c.Path}
		if c.Length > 0 { // otherwise all of it, for dispatchers of older releases
			m["offset"], m["length"] = c.Offset, c.Length
		}
		switch f, err = l.request(ctx, m); {
		case err == nil && c.Length == 0 && f.Size > int64(len(f.Data)):
			err = job.Invalid("path", "the file has %d bytes; read it in ranges", f.Size)
		case err == nil:
			r.Data, r.Size = f.Data, f.Size
		case f != nil && strings.HasPrefix(f.Error, "FileNotFoundError"):
			err = fmt.Errorf("%w: the session has no file %.300q", job.ErrNotFound, c.Path)
		}
	case control.SessionExport:
		err = l.export(ctx)
	case control.SessionInterrupt:
		err = l.interrupt()
	case control.SessionAnswer:
		err = l.answer(c)
	case control.SessionPending:
		r.Pending = l.pending()
	case control.SessionKeep:
	case control.SessionClose:
		l.kill(job.Succeeded, "closed by its client")
		<-l.over
	default:
		err = job.Invalid("op", "%.40q is not known to this worker", c.Op)
	}
	return r, err
}

// clipReset limits a session's report of its reset. The worker adds the other state that survived.
func clipReset(in *job.SessionReset) *job.SessionReset {
	out := &job.SessionReset{Kept: []string{"files", "os.environ and the directory of python", "modules of the image and of packages", "threads and processes that run"}}
	if in != nil {
		out.Dropped, out.Modules, out.Functions = clipNames(in.Dropped), clipNames(in.Modules), clipNames(in.Functions)
	}
	return out
}

func clipNames(in []string) []string {
	out := make([]string, 0, min(len(in), 1000))
	for _, name := range in[:min(len(in), 1000)] {
		out = append(out, job.Clip(strings.ToValidUTF8(name, "\uFFFD"), 256))
	}
	return out
}

// request sends a short request. The load follows the frame.
func (l *live) request(ctx context.Context, m map[string]any, load ...[]byte) (*message, error) {
	f, err := l.ask(ctx, m, requestTime, load...)
	return f, answered(f, err)
}

// answered returns the error in a response.
func answered(f *message, err error) error {
	switch {
	case err != nil:
		return err
	case f.Error == "not found":
		return fmt.Errorf("%w: no variable of that name", job.ErrNotFound)
	case f.Error != "":
		return fmt.Errorf("%w: %s", job.ErrInvalid, job.Clip(f.Error, 1000))
	}
	return nil
}
