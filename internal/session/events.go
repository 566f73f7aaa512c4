package session

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
)

// heardMost is how many events may wait for whoever listens.
const heardMost = 1024

// Listen returns the events of a live session of the tenant's, as its worker tells them, until
// ctx ends; and the lease of its client, 0 if it has none. Events are hints: pending calls can
// be asked for (control.SessionPending).
func (s *Service) Listen(ctx context.Context, tenant string, id job.ID) (events <-chan control.SessionEvent, lease time.Duration, err error) {
	at, err := s.place(ctx, tenant, id)
	if err != nil {
		return nil, 0, err
	}
	heard := make(chan control.SessionEvent, heardMost)
	err = s.Line.OnTold(ctx, control.SessionTopic(id), func(worker string, payload []byte) {
		var e control.SessionEvent
		if worker != at.worker || json.Unmarshal(payload, &e) != nil {
			return // it does not hold the session, or it speaks another language
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
