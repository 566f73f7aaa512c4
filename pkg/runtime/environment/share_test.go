package environment

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// bareShared is a fleet without built environments, which takes offers one by one.
type bareShared struct {
	offers chan bareOffer
}

// bareOffer waits until it is known what comes of it.
type bareOffer struct {
	name   string
	write  func(io.Writer) error
	result chan error
}

func (f *bareShared) Find(context.Context, string) (string, error) { return "", nil }

func (f *bareShared) Open(context.Context, string, string) (io.ReadCloser, error) {
	return nil, job.ErrNotFound
}

func (f *bareShared) Offer(ctx context.Context, name, _ string, _ bool, write func(io.Writer) error) error {
	o := bareOffer{name, write, make(chan error)}
	select {
	case f.offers <- o:
	case <-ctx.Done():
		return ctx.Err()
	}
	return <-o.result
}

// next is the next offer; it must be of this name.
func (f *bareShared) next(t *testing.T, s *Store, name string) bareOffer {
	t.Helper()
	select {
	case o := <-f.offers:
		if o.name != s.shareName(name) {
			t.Errorf("%s is offered, want %s", o.name, s.shareName(name))
		}
		return o
	case <-time.After(time.Minute):
		t.Fatalf("%s is not offered", name)
		return bareOffer{}
	}
}

// openShared has an environment that two lists of packages resolve to. The second list is about to be
// offered.
func openShared(t *testing.T) (s *Store, base Base, f *bareShared, first, second string, offer bareOffer) {
	t.Helper()
	s, _, base = openBare(t, 2500) // room for two
	f = &bareShared{offers: make(chan bareOffer)}
	s.shared = newSharing(f)
	get := func(i int, packages string) string {
		if _, err := s.Get(t.Context(), base, fmt.Sprint("tenant ", i), packages); err != nil {
			t.Fatal(err)
		}
		return ask(base, "", packages).shared
	}
	first = get(0, "one")
	f.next(t, s, first).result <- nil
	second = get(1, "one==1.0")
	return s, base, f, first, second, f.next(t, s, second)
}

// An environment is offered under each list of packages that comes to it, though it is mounted under one of them, and the
// directory of the other is removed meanwhile.
func TestOfferUnderASecondName(t *testing.T) {
	t.Parallel()
	s, base, f, first, second, offer := openShared(t)
	if _, err := s.Get(t.Context(), base, "tenant 2", "two"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(s.cfg.Dir, second)); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("the second directory is still there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(s.cfg.Dir, first)); err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	err := offer.write(&packed)
	if err != nil {
		t.Errorf("what is mounted cannot be packed: %v", err)
	} else if said, err := unpack(&packed, t.TempDir(), 1<<20, layerFiles); err != nil || len(said.Packages) != 1 {
		t.Errorf("packed: %+v, %v", said, err)
	}
	offer.result <- err
	f.next(t, s, ask(base, "", "two").shared).result <- nil
}

// TestOfferUnderASecondNameIsMadeAgain checks that a failed offer is repeated with the next recorded use,
// under any name.
func TestOfferUnderASecondNameIsMadeAgain(t *testing.T) {
	t.Parallel()
	s, base, f, _, second, offer := openShared(t)
	offer.result <- job.ErrUnavailable
	for forgotten := false; !forgotten; time.Sleep(time.Millisecond) { // until the failure is noted
		s.mu.Lock()
		_, there := s.shared.offered[second]
		forgotten = !there
		s.mu.Unlock()
	}
	s.mu.Lock()
	for _, m := range s.ready {
		m.noted = time.Now().Add(-time.Hour)
	}
	s.mu.Unlock()
	if _, err := s.Get(t.Context(), base, "tenant 0", "one"); err != nil {
		t.Fatal(err)
	}
	f.next(t, s, second).result <- nil
}
