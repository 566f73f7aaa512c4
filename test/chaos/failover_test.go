package chaos

import (
	"context"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/cli/dev"
	"github.com/assay-run/assay/pkg/job"
)

// pair is a Postgres and its standby, without which it commits nothing.
type pair struct{ primary, standby *dev.Postgres }

func newPair(t *testing.T, dir string) *pair {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	start := func(cfg dev.PostgresConfig) *dev.Postgres {
		pg, err := dev.StartPostgres(ctx, cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = pg.Stop(context.Background()) })
		return pg
	}
	// A killed server has written its data; only a power cut needs it synced.
	primary := start(dev.PostgresConfig{Dir: filepath.Join(dir, "a"), Settings: map[string]string{"fsync": "off", "synchronous_standby_names": "ANY 1 (standby)"}})
	return &pair{primary, start(dev.PostgresConfig{Dir: filepath.Join(dir, "b"), Of: primary, Settings: map[string]string{"fsync": "off"}})}
}

// dsn returns an address of the server that accepts writes.
func (p *pair) dsn(t *testing.T) string {
	t.Helper()
	u, err := url.Parse(p.primary.DSN())
	if err != nil {
		t.Fatal(err)
	}
	other, err := url.Parse(p.standby.DSN())
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	for _, part := range []string{"host", "port"} {
		q.Set(part, q.Get(part)+","+other.Query().Get(part))
	}
	q.Set("target_session_attrs", "read-write")
	u.RawQuery = q.Encode()
	return u.String()
}

// promoted kills the primary for good and promotes the standby, while jobs run, are claimed and are
// recorded.
func promoted(t *testing.T) {
	for range *losses {
		failOver(t)
	}
}

func failOver(t *testing.T) {
	p := newPair(t, t.TempDir())
	f := newFleet(t, shape{workers: 2, pair: p, lease: 8 * time.Second})
	const n = 300
	f.batch(n, always("sleep=50ms"))
	eventually(t, "a part is done", func() bool { return f.in(job.Finished) > 50 })
	before := f.in(job.Finished)
	killed := time.Now()
	p.primary.Kill(t.Context())
	if err := p.standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	promoted := time.Since(killed)
	f.db.Reset()
	// The new primary's leases are far above all that the standby may have missed.
	const again = "SELECT count(*) FROM jobs WHERE lease > 1000000000"
	eventually(t, "jobs are recorded again", func() bool { return f.count(again+" AND state = 'finished'") > 0 })
	t.Logf("promoted %v after the end of the primary, which had recorded %d or more; jobs recorded again after %v", promoted, before, time.Since(killed))
	if v := f.check(); v.jobs != n {
		t.Errorf("%+v", v)
	}
	// No lease is issued twice, whatever the standby missed.
	if jumped := f.count(again); jumped == 0 || jumped > n-before {
		t.Errorf("%d jobs have leases of the new primary's, of %d that it recorded", jumped, n-before)
	}
}
