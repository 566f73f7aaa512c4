package dispatcher

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// upkept records the times of maintenance and removal.
type upkept struct {
	store.Store
	began      time.Time
	maintained []time.Duration
	forgotten  []time.Duration
	busy       time.Time // end of a backup
}

func (u *upkept) Maintain(context.Context) error {
	u.maintained = append(u.maintained, time.Since(u.began))
	return nil
}

func (u *upkept) Forget(_ context.Context, age time.Duration) (store.Forgotten, error) {
	u.forgotten = append(u.forgotten, time.Since(u.began))
	if time.Now().Before(u.busy) {
		return store.Forgotten{}, job.ErrUnavailable
	}
	return store.Forgotten{Days: 1}, nil
}

// TestKeeper checks that only the leader runs chores, once an hour, and that it retries failed ones after minutes.
func TestKeeper(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := &upkept{began: time.Now(), busy: time.Now().Add(20 * time.Minute)}
		m, err := newMetrics()
		if err != nil {
			t.Fatal(err)
		}
		log := slog.New(slog.DiscardHandler)
		leads := newLeader(nil, log)
		leads.until.Store(int64(100 * time.Minute))
		keeper := keeper{store: u, leader: leads, metrics: m, log: log, retention: time.Hour}
		k := keeper.start()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { k.run(ctx); close(done) }()
		time.Sleep(90 * time.Minute)
		synctest.Wait()
		if want := []time.Duration{0, time.Hour}; !slices.Equal(u.maintained, want) {
			t.Errorf("maintained after %v, want %v", u.maintained, want)
		}
		if diff := cmp.Diff([]time.Duration{0, time.Minute, 3 * time.Minute, 7 * time.Minute, 15 * time.Minute, 31 * time.Minute}, u.forgotten); diff != "" {
			t.Errorf("tried to forget (-want +got):\n%s", diff)
		}
		if at := k.chores[1].done.Load(); at != u.began.Add(31*time.Minute).Unix() {
			t.Errorf("last done at %v", time.Unix(at, 0))
		}
		leads.until.Store(0)
		n := len(u.maintained) + len(u.forgotten)
		time.Sleep(5 * time.Hour)
		if now := len(u.maintained) + len(u.forgotten); now != n {
			t.Errorf("%d tasks were done by a dispatcher that does not lead", now-n)
		}
		cancel()
		<-done
	})
}
