package session

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
)

// heardMost is the most pending events of a listener.
const heardMost = 1024

// Listen returns the events of a tenant's live session until ctx ends, and its client's lease, or
// 0. Events are hints: a caller can request pending calls (control.SessionPending).
func (s *Service) Listen(ctx context.Context, tenant string, id job.ID) (events <-chan control.SessionEvent, lease time.Duration, err error) {
	at, err := s.place(ctx, tenant, id)
	if err != nil {
		return nil, 0, err
	}
	heard := make(chan control.SessionEvent, heardMost)
	err = s.Line.OnWorkerEvent(ctx, control.SessionTopic(id), func(worker string, payload []byte) {
		var e control.SessionEvent
		if worker != at.worker || json.Unmarshal(payload, &e) != nil {
			return // it does not hold the session, or has another protocol
		}
		select {
		case heard <- e:
		case <-ctx.Done():
		}
	})
	if err != nil {
		return nil, 0, fmt.Errorf("listen to session: %w", err)
	}
	return heard, at.lease, nil
}
