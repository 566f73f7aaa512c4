package dispatcher

import (
	"context"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

const (
	leaderRole = store.DispatchRole
	// leaderTTL is how long scheduling pauses after the leader is killed. Single jobs are not affected: they are
	// dispatched when they are accepted.
	leaderTTL = 3 * time.Second
)

// leader tracks whether this dispatcher leads. The leader schedules and reaps. Every dispatcher publishes the jobs it
// accepts, and republishes unclaimed ones.
type leader struct {
	store  store.Leaders
	log    *slog.Logger
	holder string
	gained chan struct{} // holds one hint: this dispatcher leads now

	began time.Time
	until atomic.Int64 // end of the leadership as a time since began, by the local clock
	term  atomic.Int64
}

func newLeader(s store.Leaders, log *slog.Logger) *leader {
	return &leader{store: s, log: log, holder: hostName() + "/" + string(job.NewID()), gained: make(chan struct{}, 1), began: time.Now()}
}

// hostName returns the name of the host, for operators; "unknown" on failure.
func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return name
}

// is reports whether this dispatcher leads.
func (l *leader) is() bool { return time.Since(l.began) < time.Duration(l.until.Load()) }

// run renews or seeks the leadership until ctx ends, then resigns.
func (l *leader) run(ctx context.Context) {
	tick := time.NewTicker(leaderTTL / 3)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			l.stand(ctx)
			continue
		case <-ctx.Done():
		}
		break
	}
	if l.is() {
		l.until.Store(0)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaderTTL)
		defer cancel()
		if err := l.store.Resign(ctx, leaderRole, l.holder); err != nil {
			l.log.WarnContext(ctx, "leadership not resigned; another dispatcher takes over at its expiry", "error", err)
		}
	}
}

// stand tries to become or stay the leader. On failure an existing leadership lasts until its expiry.
func (l *leader) stand(ctx context.Context) {
	was, sent := l.is(), time.Since(l.began)
	term, err := l.store.Lead(ctx, leaderRole, l.holder, leaderTTL)
	switch {
	case err != nil:
		if ctx.Err() == nil {
			l.log.WarnContext(ctx, "leader unknown", "error", err)
		}
		return
	case term == 0:
		l.until.Store(0)
	default:
		l.term.Store(term)
		l.until.Store(int64(sent + leaderTTL))
	}
	if now := l.is(); now != was {
		l.log.InfoContext(ctx, "leadership changed", "leads", now, "term", term)
		if now {
			offer(l.gained)
		}
	}
}
