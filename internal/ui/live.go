package ui

import (
	"context"

	"github.com/assay-run/assay/internal/ui/live"
)

// logs streams what a running job writes: the events of the API, in which text is what may be shown of it, with its colours
// as classes. ?from= is the id of the last event that was seen, where the browser's own header does not say it.
func (s *Server) logs(v *visit) error {
	id, err := v.id()
	if err != nil {
		return err
	}
	ctx, cancel := v.r.Context(), context.CancelFunc(func() {})
	if v.Who != nil {
		ctx, cancel = context.WithDeadline(ctx, v.Until)
	}
	defer cancel()
	r := v.r.Clone(ctx)
	if from := r.URL.Query().Get("from"); from != "" && r.Header.Get("Last-Event-ID") == "" {
		r.Header.Set("Last-Event-ID", from)
	}
	r.Header.Set("Accept-Encoding", "identity") // what is read here is not packed
	v.api().Pass(&live.Events{ResponseWriter: v.w}, r, "/v1/jobs/"+string(id)+"/logs", nil)
	return nil
}
