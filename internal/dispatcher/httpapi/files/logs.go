package files

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/internal/dispatcher/share"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
)

const (
	// lookPeriod is the polling period of the worker. readPeriod is the polling period of the record without a hint of
	// a change.
	lookPeriod = 250 * time.Millisecond
	readPeriod = 3 * time.Second
	// askTime limits one call to the worker.
	askTime = 5 * time.Second
	// most limits the output in one event, in bytes. So a viewer costs only a few times that much memory.
	most = 64 << 10
	// viewers is the most viewers of a dispatcher at once, shared between tenants.
	viewers = 1000
)

// Logs streams the output of running jobs. While a client watches, the dispatcher polls the worker; without clients,
// nothing is sent or stored. When the job has ended, the rest is read from its record. Output is sent as JSON strings,
// or as base64 if it is not UTF-8.
type Logs struct {
	Store Store
	Files *Files
	Line  control.SessionCaller // nil: no live output
	Watch func(id job.ID) (changed <-chan struct{}, stop func())

	Viewers *share.Pot
}

// NewPot returns the room for the viewers of one dispatcher.
func NewPot() *share.Pot { return share.NewPot("viewers of logs", viewers) }

// Routes returns the routes of logs.
func (h *Logs) Routes() []web.Route {
	return []web.Route{web.At("GET /v1/jobs/{id}/logs", identity.Reader, h.logs)}
}

func (h *Logs) logs(w http.ResponseWriter, r *http.Request) error {
	id, err := web.ID(r)
	if err != nil {
		return err
	}
	from, err := parsePlace(r.Header.Get("Last-Event-ID"))
	if err != nil {
		return err
	}
	tenant := web.Tenant(r)
	j, err := h.Store.Job(r.Context(), tenant, id)
	if err != nil {
		return fmt.Errorf("read job %s: %w", id, err)
	}
	if err := h.Viewers.Take(tenant, 1); err != nil {
		return err
	}
	defer h.Viewers.Give(tenant, 1)
	changed, stop := h.Watch(id)
	defer stop()
	v := &viewer{Logs: h, tenant: tenant, id: id, changed: changed, Events: web.NewEvents(w), place: from}
	if err := v.run(r.Context(), j); err != nil && !errors.Is(err, errGone) {
		return err
	}
	return nil
}

// errGone ends a stream after the client disconnected or the server shut down.
var errGone = errors.New("the client has disconnected")

// viewer is one client that watches a job.
type viewer struct {
	*Logs
	*web.Events
	tenant  string
	id      job.ID
	changed <-chan struct{}
	place
	told api.LogState
}

// run follows the job to its end.
func (v *viewer) run(ctx context.Context, j *job.Job) error {
	for {
		if err := v.state(j); err != nil {
			return err
		}
		if j.State.Terminal() {
			return v.replay(ctx, j.Lease)
		}
		if err := v.follow(ctx, j); err != nil {
			return err
		}
		var err error
		if j, err = v.Store.Job(ctx, v.tenant, v.id); err != nil {
			if ctx.Err() != nil {
				return errGone
			}
			return fmt.Errorf("read job %s: %w", v.id, err)
		}
	}
}

// state sends the job's state if it changed. It does not send the final state: replay sends that with the outcome,
// after all output.
func (v *viewer) state(j *job.Job) error {
	s := api.LogState{State: j.State, Live: v.told.Live && j.State == job.Running}
	if j.State.Terminal() || s == v.told {
		return nil
	}
	return v.tell(s)
}

func (v *viewer) tell(s api.LogState) error {
	v.told = s
	return v.event("state", s)
}

// event sends an event. Its id is the place from which to resume.
func (v *viewer) event(name string, data any) error {
	raw, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("encode event: %w", err)
	}
	if v.Send("event: %s\nid: %s\ndata: %s\n\n", name, v.place, raw) != nil {
		return errGone
	}
	return nil
}

// follow passes on the program's output until the record may have changed.
func (v *viewer) follow(ctx context.Context, j *job.Job) error {
	for until := time.Now().Add(readPeriod); time.Now().Before(until); {
		more := false
		if j.State == job.Running && j.Worker != "" && v.Line != nil {
			var err error
			if more, err = v.look(ctx, j.Worker); err != nil {
				return err
			}
		}
		if more { // as fast as the client reads
			continue
		}
		if hinted, err := v.pause(ctx); hinted || err != nil {
			return err
		}
	}
	return nil
}

// pause waits until the next poll or a change of the record.
func (v *viewer) pause(ctx context.Context) (hinted bool, err error) {
	if time.Since(v.Spoke) > web.KeepAlive && v.Alive() != nil {
		return false, errGone
	}
	timer := time.NewTimer(lookPeriod)
	defer timer.Stop()
	select {
	case <-v.changed:
		return true, nil
	case <-timer.C:
		return false, nil
	case <-web.Closing(ctx):
		return false, errGone
	case <-ctx.Done():
		return false, errGone
	}
}

// look polls the worker once and passes on its reply. more reports whether to poll again at once.
func (v *viewer) look(ctx context.Context, worker string) (more bool, err error) {
	asking, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	reply, err := v.Line.CallSession(asking, worker, control.SessionCall{
		Op: control.SessionTail, Session: v.id, Tenant: v.tenant,
		Tail: &control.TailRequest{Lease: v.lease, Step: v.step, Stdout: v.out, Stderr: v.err, Most: most},
	})
	t := reply.Tail
	switch {
	case ctx.Err() != nil:
		return false, errGone
	case err != nil || t == nil: // the job has ended or not begun, or the worker is too old; the record decides
		return false, nil
	}
	if live := !t.Blind; live != v.told.Live {
		if err := v.tell(api.LogState{State: job.Running, Live: live}); err != nil {
			return false, err
		}
	}
	if !t.Begun || t.Stdout.Bytes < 0 || t.Stderr.Bytes < 0 || t.Stdout.Bytes+t.Stderr.Bytes != len(reply.Data) {
		return false, nil
	}
	return v.pass(t, reply.Data)
}

// pass passes on a reply of the worker.
func (v *viewer) pass(t *control.Tail, data []byte) (more bool, err error) {
	if v.lease != 0 && t.Lease != v.lease {
		v.place = place{lease: t.Lease}
		if err := v.event("restart", struct{}{}); err != nil {
			return false, err
		}
	}
	v.lease, v.step = t.Lease, t.Step
	out, sent, err := v.part("stdout", &v.out, t.Stdout, data[:t.Stdout.Bytes], t.Over)
	if err != nil {
		return false, err
	}
	errs, also, err := v.part("stderr", &v.err, t.Stderr, data[t.Stdout.Bytes:], t.Over)
	if err != nil {
		return false, err
	}
	if t.Over && !sent && !also {
		v.step, v.out, v.err = v.step+1, 0, 0
		return true, nil
	}
	return out || errs || t.Over, nil
}

// part passes on a part of one stream. It holds back an incomplete character unless last is set. full reports whether
// more may follow at once.
func (v *viewer) part(stream string, at *int64, w control.Written, data []byte, last bool) (full, sent bool, err error) {
	full = len(data) == most
	if !last {
		data = whole(data)
	}
	missed := max(w.At-*at, 0)
	if len(data) == 0 {
		return false, false, nil
	}
	*at = w.At + int64(len(data))
	return full, true, v.event(stream, logPart(w.At, missed, v.step, data))
}
