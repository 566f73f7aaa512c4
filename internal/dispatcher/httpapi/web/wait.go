package web

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

const (
	// MaxWait is the longest long poll. A longer ?wait= is cut to it, and the client polls again.
	MaxWait = 10 * time.Minute
	// Recheck is the first interval at which a waiting request polls; later intervals grow to maxRecheck. It must poll
	// because wake-ups are hints, and hints from other dispatchers may get lost.
	Recheck    = time.Second
	maxRecheck = 5 * time.Second
)

// Wait reads ?wait=, a Go duration. The default is def.
func Wait(r *http.Request, def time.Duration) (time.Duration, error) {
	text := r.URL.Query().Get("wait")
	if text == "" {
		return def, nil
	}
	d, err := Duration("wait", text)
	if err != nil {
		return 0, err
	}
	if d < 0 {
		return 0, job.Invalid("wait", "%.40q must not be negative", text)
	}
	return min(d, MaxWait), nil
}

// Duration parses a Go duration from the query.
func Duration(name, text string) (time.Duration, error) {
	d, err := job.ParseDuration(text)
	if err != nil {
		return 0, job.Invalid(name, "%s", strings.TrimPrefix(err.Error(), job.ErrInvalid.Error()+": "))
	}
	return d, nil
}

// Bool reads true or false from the query. Empty or absent is false.
func Bool(q url.Values, name string) (bool, error) {
	switch text := q.Get(name); text {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, job.Invalid(name, "%.40q must be true or false", text)
	}
}

// Int reads a whole number from the query, within [lo, hi].
func Int(r *http.Request, name string, def, lo, hi int64) (int64, error) {
	q := r.URL.Query()
	if !q.Has(name) {
		return def, nil
	}
	text := q.Get(name)
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < lo || n > hi {
		return 0, job.Invalid(name, "%.40q must be a whole number from %d to %d", text, lo, hi)
	}
	return n, nil
}

// Poll calls look until it is done, wait has passed or ctx ends. It calls look at least once, and again whenever
// changed yields. It returns the last result of look.
func Poll(ctx context.Context, wait time.Duration, changed <-chan struct{}, look func() (done bool, err error)) (bool, error) {
	deadline := time.Now().Add(wait)
	for pause := Recheck; ; pause = min(pause*3/2, maxRecheck) {
		done, err := look()
		left := time.Until(deadline)
		if done || err != nil || left <= 0 {
			return done, err
		}
		if Sleep(ctx, min(left, pause), changed) {
			deadline = time.Now() // one last look
		}
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
	}
}

// Sleep waits until changed yields, ctx ends, d has passed or the server shuts down. It reports whether the server
// shuts down.
func Sleep(ctx context.Context, d time.Duration, changed <-chan struct{}) (last bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	case <-Closing(ctx):
		return true
	case <-ctx.Done():
	}
	return false
}

// ID reads the {id} of the path.
func ID(r *http.Request) (job.ID, error) { return job.ParseID(r.PathValue("id")) }
