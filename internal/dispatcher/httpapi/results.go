package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/browse"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// listResults responds with one page of a batch's results as NDJSON, one result a line, in the order in which they
// became visible. The cursor of the next page is in a header, before the first line: a client that loses the body
// requests the page again, without losses or duplicates.
func (s *Server) listResults(w http.ResponseWriter, r *http.Request) error {
	id, err := web.ID(r)
	if err != nil {
		return err
	}
	after, err := web.Int(r, "after", 0, 0, 1<<62)
	if err != nil {
		return err
	}
	limit, err := web.Int(r, "limit", 500, 1, web.MaxPage)
	if err != nil {
		return err
	}
	wait, err := web.Wait(r, 0)
	if err != nil {
		return err
	}
	v, err := parseFields(r, resultFields)
	if err != nil {
		return err
	}
	outcome, err := browse.Outcome(r)
	if err != nil {
		return err
	}
	s.leases.KeepAlive(r.Context(), web.Tenant(r), id)
	p, err := s.awaitPage(r, id, page{cursor: store.Cursor(after), limit: int(limit), outcome: outcome}, wait)
	if err != nil {
		return fmt.Errorf("read results of batch %s: %w", id, err)
	}
	for i, raw := range p.results {
		if p.results[i], err = v.result(raw); err != nil {
			return err
		}
	}
	h := w.Header()
	h.Set("Content-Type", api.NDJSON)
	h.Set("Cache-Control", "no-store")
	h.Set(api.HeaderCursor, strconv.FormatInt(int64(p.cursor), 10))
	h.Set(api.HeaderComplete, strconv.FormatBool(p.complete))
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(web.StallLimit))
	for _, raw := range p.results {
		if _, err := w.Write(append(raw, '\n')); err != nil {
			return nil // the client is gone; it will request the page again
		}
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	return nil
}

type page struct {
	cursor   store.Cursor
	limit    int
	outcome  job.Outcome // empty for all
	results  []json.RawMessage
	complete bool
}

// awaitPage reads the page after p.cursor. While the page is empty and the batch is not done, it waits.
func (s *Server) awaitPage(r *http.Request, id job.ID, p page, wait time.Duration) (page, error) {
	var changed <-chan struct{}
	if wait > 0 {
		c, stop := s.Watcher.WatchBatch(id)
		defer stop()
		changed = throttle(r.Context(), c)
	}
	tenant := web.Tenant(r)
	_, err := web.Poll(r.Context(), wait, changed, func() (bool, error) {
		// Read the progress first: if the batch was done before the page is read, a page that is not full is the last.
		far, err := s.watching.Far(r.Context(), tenant, id)
		if err != nil {
			return false, err
		}
		// In a batch that is done, deleted results leave gaps: cursors may exceed the number of results.
		if far.Recorded <= p.cursor && !far.Done { // nothing to read yet, the usual case for waiting readers
			return false, nil
		}
		read := p.cursor
		err = s.reads.Do(r.Context(), tenant, func() (err error) {
			p.results, p.cursor, p.complete, err = s.readPage(r.Context(), tenant, id, p, far)
			return err
		})
		return len(p.results) > 0 || p.complete || p.cursor > read, err
	})
	return p, err
}

// readPage reads the results after p.cursor. far is the batch's progress as read before.
func (s *Server) readPage(ctx context.Context, tenant string, id job.ID, p page, far store.Progress) (rs []json.RawMessage, next store.Cursor, last bool, err error) {
	if p.outcome != "" {
		rs, next, more, err := s.Store.ResultsOf(ctx, tenant, id, p.outcome, p.cursor, p.limit)
		return rs, next, far.Done && !more, err
	}
	rs, next, err = s.Store.Results(ctx, tenant, id, p.cursor, p.limit)
	return rs, next, far.Done && len(rs) < p.limit && sizeOf(rs) < store.PageBytes, err
}

func sizeOf(results []json.RawMessage) (n int) {
	for _, raw := range results {
		n += len(raw)
	}
	return n
}

// calmPeriod is how often a waiting reader of a busy batch polls. Waking up for each result would cost a query for
// each.
const calmPeriod = 50 * time.Millisecond

// throttle passes on at most one change per calmPeriod and never drops the last one. It ends with ctx.
func throttle(ctx context.Context, changed <-chan struct{}) <-chan struct{} {
	if changed == nil {
		return nil
	}
	out := make(chan struct{})
	go func() {
		for {
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
			select {
			case out <- struct{}{}:
			case <-ctx.Done():
				return
			}
			select {
			case <-time.After(calmPeriod):
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}
