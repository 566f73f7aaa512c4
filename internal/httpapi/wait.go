package httpapi

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

const (
	// maxWait is the longest long poll; a longer ?wait= is cut to it, and the
	// client asks again.
	maxWait = 10 * time.Minute
	// A waiting request looks for itself, because wake-ups are hints and those of
	// another dispatcher may get lost: after recheck, then less and less often.
	recheck    = time.Second
	maxRecheck = 5 * time.Second
)

// waitParam reads ?wait=, a Go duration; none is def.
func waitParam(r *http.Request, def time.Duration) (time.Duration, error) {
	text := r.URL.Query().Get("wait")
	if text == "" {
		return def, nil
	}
	d, err := durationParam("wait", text)
	if err != nil {
		return 0, err
	}
	if d < 0 {
		return 0, job.Invalid("wait", "%.40q must not be negative", text)
	}
	return min(d, maxWait), nil
}

// durationParam reads a Go duration from the query.
func durationParam(name, text string) (time.Duration, error) {
	d, err := job.ParseDuration(text)
	if err != nil {
		return 0, job.Invalid(name, "%s", strings.TrimPrefix(err.Error(), job.ErrInvalid.Error()+": "))
	}
	return d, nil
}

// intParam reads a whole number from the query, within [lo, hi].
func intParam(r *http.Request, name string, def, lo, hi int64) (int64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return def, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < lo || n > hi {
		return 0, job.Invalid(name, "%.40q must be a whole number from %d to %d", text, lo, hi)
	}
	return n, nil
}

// poll calls look until it is done, wait has passed or ctx ends; it looks at
// least once, and again whenever changed yields. It returns look's last answer.
func poll(ctx context.Context, wait time.Duration, changed <-chan struct{}, look func() (done bool, err error)) (bool, error) {
	deadline := time.Now().Add(wait)
	for pause := recheck; ; pause = min(pause*3/2, maxRecheck) {
		done, err := look()
		left := time.Until(deadline)
		if done || err != nil || left <= 0 {
			return done, err
		}
		if doze(ctx, min(left, pause), changed) {
			deadline = time.Now() // one last look
		}
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
	}
}

// doze waits until changed yields, ctx ends, the time is over or the server is
// about to close, and reports whether it was that.
func doze(ctx context.Context, d time.Duration, changed <-chan struct{}) (last bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	case <-closing(ctx):
		return true
	case <-ctx.Done():
	}
	return false
}

// idParam reads the {id} of the path.
func idParam(r *http.Request) (job.ID, error) { return job.ParseID(r.PathValue("id")) }
