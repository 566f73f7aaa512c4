package testenv

import (
	"context"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/cli/dev"
)

// NATS starts a server with an empty JetStream for this test alone, which takes milliseconds, and
// returns its URL. A test that restarts its server uses RestartNATS.
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

// RestartNATS starts a server at a port that may have been used before. A child process that this
// process was just starting still holds the port until it executes its own program. On a busy
// machine that takes a while, and RestartNATS waits for it. The caller stops the server.
func RestartNATS(t testing.TB, cfg dev.NATSConfig) *dev.NATS {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	cfg.Logger = slog.New(slog.DiscardHandler)
	for {
		n, err := dev.StartNATS(ctx, cfg)
		if err == nil {
			return n
		}
		if ctx.Err() != nil || !strings.Contains(err.Error(), syscall.EADDRINUSE.Error()) {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
