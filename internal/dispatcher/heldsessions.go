package dispatcher

import (
	"context"
	"fmt"

	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// lostOf returns the sessions of a worker that the store counts as lost. It returns job.ErrInvalid for an invalid id.
func (r *recorder) lostOf(ctx context.Context, req control.HeartbeatRequest) (ids []job.ID, err error) {
	held := make([]store.HeldSession, len(req.Sessions))
	for i, id := range req.Sessions {
		if _, err := job.ParseID(string(id)); err != nil {
			return nil, fmt.Errorf("%w: session %.80q", job.ErrInvalid, id)
		}
		held[i] = store.HeldSession{Session: id, Worker: req.Worker.ID}
	}
	lost, err := r.held.do(ctx, held)
	for i, isLost := range lost {
		if isLost {
			ids = append(ids, req.Sessions[i])
		}
	}
	return ids, err
}

func (r *recorder) lostSessions(ctx context.Context, held []store.HeldSession) ([]bool, error) {
	lost, err := r.store.LostSessions(ctx, held)
	if err != nil {
		return nil, err
	}
	at := make(map[store.HeldSession]bool, len(lost))
	for _, h := range lost {
		at[h] = true
	}
	out := make([]bool, len(held))
	for i, h := range held {
		out[i] = at[h]
	}
	return out, nil
}
