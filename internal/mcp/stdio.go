package mcp

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/assay-run/assay/pkg/job"
)

// Serve serves one client over in and out, line by line, until in or ctx ends. It then closes the
// sessions that the client created.
func Serve(ctx context.Context, c Config, in io.ReadCloser, out io.WriteCloser) error {
	t := &tools{Config: c, mine: &sessions{fleet: c.Fleet}}
	err := t.mine.during(ctx, func(ctx context.Context) error {
		return t.server().Run(withWanted(ctx, ctx), &sdk.IOTransport{Reader: in, Writer: out})
	})
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// lease is how long a session survives a killed server. It is renewed three times in that period.
const lease = time.Minute

// sessions are the sessions of one connection.
type sessions struct {
	fleet Fleet

	mu  sync.Mutex
	ids map[job.ID]bool
}

func (s *sessions) add(id job.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ids == nil {
		s.ids = map[job.ID]bool{}
	}
	s.ids[id] = true
}

func (s *sessions) drop(id job.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ids, id)
}

// each calls a function for all sessions concurrently.
func (s *sessions) each(do func(job.ID)) {
	var wg sync.WaitGroup
	s.mu.Lock()
	for id := range s.ids {
		wg.Go(func() { do(id) })
	}
	s.mu.Unlock()
	wg.Wait()
}

// during keeps sessions alive while f runs, and closes them afterwards.
func (s *sessions) during(ctx context.Context, f func(context.Context) error) error {
	own, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { s.renew(own) })
	err := f(ctx)
	cancel()
	wg.Wait()
	after, stop := afterwards(ctx)
	defer stop()
	s.each(func(id job.ID) { _, _ = s.fleet.CloseSession(after, id) }) // otherwise its lease ends it
	return err
}

// renew renews the leases of all sessions until ctx ends.
func (s *sessions) renew(ctx context.Context) {
	tick := time.NewTicker(lease / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.each(func(id job.ID) {
			if err := s.fleet.KeepSession(ctx, id); errors.Is(err, job.ErrNotFound) || errors.Is(err, job.ErrGone) {
				s.drop(id) // it has ended
			}
		})
	}
}
