package httpapi

import (
	"crypto/sha256"
	"fmt"
	"net/http"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

func (s *Server) getBatch(w http.ResponseWriter, r *http.Request) error {
	id, err := web.ID(r)
	if err != nil {
		return err
	}
	wait, err := web.Wait(r, 0)
	if err != nil {
		return err
	}
	s.leases.KeepAlive(r.Context(), web.Tenant(r), id)
	var changed <-chan struct{}
	if wait > 0 {
		c, stop := s.Watcher.WatchBatch(id)
		defer stop()
		changed = c
	}
	// A waiting client gets the batch at its end or at the end of the wait, so polls in between need only the progress.
	if wait > 0 {
		_, err = web.Poll(r.Context(), wait, throttle(r.Context(), changed), func() (bool, error) {
			far, err := s.watching.Far(r.Context(), web.Tenant(r), id)
			return far.Done, err
		})
	}
	var b *job.Batch
	if err == nil {
		b, err = s.watching.Batch(r.Context(), web.Tenant(r), id)
	}
	if err != nil {
		return fmt.Errorf("read batch %s: %w", id, err)
	}
	return web.WriteTaggedJSON(w, r, b)
}

func (s *Server) cancelBatch(w http.ResponseWriter, r *http.Request) error {
	id, err := s.ownBatch(r)
	if err != nil {
		return err
	}
	for {
		var running []store.Canceling
		err := s.reads.Do(r.Context(), web.Tenant(r), func() (err error) {
			running, err = s.Store.CancelBatch(r.Context(), id)
			return err
		})
		s.stop(r, running...) // also those found before an error
		if err != nil {
			return fmt.Errorf("cancel batch %s: %w", id, err)
		}
		b, err := s.Store.Batch(r.Context(), web.Tenant(r), id)
		if err != nil {
			return fmt.Errorf("read batch %s: %w", id, err)
		}
		if b.Counts[job.Queued]+b.Counts[job.Dispatched] == 0 {
			return web.WriteJSON(w, http.StatusOK, b)
		}
	}
}

// keepBatch renews the lease of a batch.
func (s *Server) keepBatch(w http.ResponseWriter, r *http.Request) error {
	id, err := web.ID(r)
	if err != nil {
		return err
	}
	b, err := s.Store.KeepBatch(r.Context(), web.Tenant(r), id)
	if err != nil {
		return fmt.Errorf("keep batch %s: %w", id, err)
	}
	return web.WriteJSON(w, http.StatusOK, b)
}

// retryBatch submits the unsuccessful jobs of a batch again, as a new batch.
func (s *Server) retryBatch(w http.ResponseWriter, r *http.Request) error {
	id, err := s.ownBatch(r)
	if err != nil {
		return err
	}
	key, err := web.IdempotencyKey(r)
	if err != nil {
		return err
	}
	b := newBatch(r)
	if key != "" {
		b.Idempotency = store.Idempotency{Key: key, Hash: web.RequestHash(r, sha256.Sum256(nil))}
	}
	var made job.ID
	var replayed bool
	err = s.reads.Do(r.Context(), web.Tenant(r), func() (err error) {
		made, replayed, err = s.Intake.RetryBatch(r.Context(), id, b)
		return err
	})
	if err != nil {
		return err
	}
	return s.answerBatch(w, r, made, replayed)
}

// ownBatch returns the path's {id} if that batch belongs to the tenant.
func (s *Server) ownBatch(r *http.Request) (job.ID, error) {
	id, err := web.ID(r)
	if err != nil {
		return "", err
	}
	if _, err := s.Store.Batch(r.Context(), web.Tenant(r), id); err != nil {
		return "", fmt.Errorf("read batch %s: %w", id, err) // 404 for another tenant's batch
	}
	return id, nil
}

// answerBatch responds to a submission with the current batch.
func (s *Server) answerBatch(w http.ResponseWriter, r *http.Request, id job.ID, replayed bool) error {
	b, err := s.Store.Batch(r.Context(), web.Tenant(r), id)
	if err != nil {
		return fmt.Errorf("read batch %s: %w", id, err)
	}
	if r.URL.Query().Get("ids") == "true" {
		if b, err = s.withIDs(r, b); err != nil {
			return err
		}
	}
	w.Header().Set("Location", "/v1/batches/"+string(id))
	if replayed {
		w.Header().Set(api.HeaderReplayed, "true")
	}
	return web.WriteJSON(w, http.StatusCreated, b)
}

// withIDs returns the batch with the ids of its jobs in submission order. Batches of more than store.MaxMap jobs get
// none: GET /v1/batches/{id}/map lists their ids in pages.
func (s *Server) withIDs(r *http.Request, b *job.Batch) (*job.Batch, error) {
	with := *b
	with.IDs = make([]job.ID, 0, min(b.Total, store.MaxMap))
	if b.Total > store.MaxMap {
		return &with, nil
	}
	for after := job.ID(""); ; {
		m, err := s.Store.BatchMap(r.Context(), web.Tenant(r), b.ID, after, store.MaxMap)
		if err != nil {
			return nil, fmt.Errorf("read the jobs of batch %s: %w", b.ID, err)
		}
		for _, c := range m.Cells {
			with.IDs = append(with.IDs, c.ID)
		}
		if after = m.Next; after == "" {
			return &with, nil
		}
	}
}
