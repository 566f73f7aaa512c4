package browse

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/assay-run/assay/internal/dispatcher/admit"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// maxText is the longest text of a filter, in bytes.
const maxText = 256

// Filter parses the filter of a list of jobs.
func Filter(q url.Values) (f store.JobFilter, err error) {
	for _, read := range []func(url.Values, *store.JobFilter) error{readEnd, readTimes, readDurations, readTexts} {
		if err := read(q, &f); err != nil {
			return f, err
		}
	}
	if text := q.Get("batch"); text != "" {
		if f.Batch, err = job.ParseID(text); err != nil {
			return f, job.Invalid("batch", "%.40q is not the id of a batch", text)
		}
	}
	f.Labels, err = Labels(q)
	return f, err
}

// Outcome reads ?outcome=.
func Outcome(r *http.Request) (job.Outcome, error) { return readOutcome(r.URL.Query()) }

func readOutcome(q url.Values) (o job.Outcome, err error) { return oneOf(q, "outcome", job.Outcomes) }

// oneOf parses a parameter that must be one of the outcomes in all.
func oneOf(q url.Values, name string, all []job.Outcome) (o job.Outcome, err error) {
	text := q.Get(name)
	if o = job.Outcome(text); text != "" && !slices.Contains(all, o) {
		return o, job.Invalid(name, "%.40q must be one of %s", text, strings.Trim(fmt.Sprint(all), "[]"))
	}
	return o, nil
}

// readEnd parses the filters for state, outcome and failure.
func readEnd(q url.Values, f *store.JobFilter) (err error) {
	if text := q.Get("state"); text != "" {
		if f.State = job.State(text); !f.State.Valid() {
			return job.Invalid("state", "%.40q must be queued, dispatched, running, finished or canceled", text)
		}
	}
	if f.Outcome, err = readOutcome(q); err != nil {
		return err
	}
	if f.Outcome != "" && f.State != "" && f.State != f.Outcome.State() {
		return job.Invalid("outcome", "contradicts state %s: no job has both", f.State)
	}
	if f.Failure, err = oneOf(q, "failure", job.Failures()); err != nil {
		return err
	}
	f.Failed, err = web.Bool(q, "failed")
	return err
}

func readTimes(q url.Values, f *store.JobFilter) (err error) {
	if f.Since, err = readTime(q, "since"); err != nil {
		return err
	}
	if f.Until, err = readTime(q, "until"); err == nil && !f.Until.IsZero() && f.Until.Before(f.Since) {
		err = job.Invalid("until", "is before since; give a later time")
	}
	return err
}

func readTime(q url.Values, name string) (t time.Time, err error) {
	text := q.Get(name)
	if text == "" {
		return t, nil
	}
	if t, err = time.Parse(time.RFC3339, text); err != nil || t.Year() < 1970 || t.Year() > 9999 {
		return t, job.Invalid(name, "%.40q must be a time such as 2026-01-31T08:00:00Z", text)
	}
	return t, nil
}

func readDurations(q url.Values, f *store.JobFilter) (err error) {
	for _, d := range []struct {
		name string
		into *time.Duration
	}{{"min_duration", &f.MinDuration}, {"max_duration", &f.MaxDuration}} {
		if text := q.Get(d.name); text != "" {
			if *d.into, err = web.Duration(d.name, text); err != nil {
				return err
			}
			if *d.into < time.Microsecond {
				return job.Invalid(d.name, "%.40q must be 1µs or more", text)
			}
		}
	}
	if f.MaxDuration > 0 && f.MaxDuration < f.MinDuration {
		return job.Invalid("max_duration", "is less than min_duration; give a longer duration")
	}
	return nil
}

func readTexts(q url.Values, f *store.JobFilter) error {
	for _, t := range []struct {
		name string
		into *string
	}{{"name", &f.Name}, {"name_prefix", &f.NamePrefix}, {"image", &f.Image}, {"worker", &f.Worker}, {"message", &f.Text}} {
		if *t.into = q.Get(t.name); len(*t.into) > maxText || !utf8.ValidString(*t.into) || strings.ContainsRune(*t.into, 0) {
			return job.Invalid(t.name, "must be text of at most %d bytes", maxText)
		}
	}
	return nil
}

// Labels reads ?label=KEY=VALUE, which may be repeated.
func Labels(q url.Values) (map[string]string, error) {
	var labels map[string]string
	for _, text := range q["label"] {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return nil, job.Invalid("label", "%.80q must be KEY=VALUE", text)
		}
		if labels == nil {
			labels = map[string]string{}
		}
		if was, ok := labels[key]; ok && was != value {
			return nil, job.Invalid("label", "%.80q has two values; no job has both", key)
		}
		labels[key] = value
	}
	var field *job.FieldError
	if err := admit.CheckBatch(store.NewBatch{Labels: labels}); errors.As(err, &field) {
		return nil, job.Invalid("label", "%s", field.Problem)
	}
	return labels, nil
}
