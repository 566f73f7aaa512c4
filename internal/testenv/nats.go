package testenv

import (
	"context"
	"log/slog"
	"testing"

	"github.com/assay-run/assay/internal/dev"
)

// NATS starts a server with an empty JetStream for this test alone, which takes milliseconds, and returns its URL. A test
// that restarts its server uses dev.StartNATS itself.
func NATS(t testing.TB) (url string) {
	t.Helper()
	Needs(t, "NATS")
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	n, err := dev.StartNATS(ctx, dev.NATSConfig{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Stop)
	return n.ClientURL()
}
