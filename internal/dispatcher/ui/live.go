package ui

import (
	"context"
)

// logs streams the output of a running job: the events of the API with displayable text, whose colours are classes.
// ?from= replaces a missing Last-Event-ID header.
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
	r.Header.Set("Accept-Encoding", "identity") // the stream is parsed here
	v.api().Pass(&liveEvents{ResponseWriter: v.w}, r, "/v1/jobs/"+string(id)+"/logs", nil)
	return nil
}
