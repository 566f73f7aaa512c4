package show

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

// Follow shows a batch's progress until it is done.
func Follow(ctx context.Context, w io.Writer, api *client.Client, id job.ID) (*job.Batch, error) {
	bar := NewProgress(w)
	last := &job.Batch{ID: id}
	for b, err := range api.Progress(ctx, id) {
		if err != nil {
			bar.End()
			return last, err
		}
		last = b
		bar.Show(b)
	}
	bar.End()
	return last, nil
}

// Batch prints the progress of a batch.
func Batch(w io.Writer, b *job.Batch) {
	printf := func(format string, args ...any) { fmt.Fprintf(w, format, args...) }
	printf("batch %s", b.ID)
	if b.Name != "" {
		printf(" (%s)", b.Name)
	}
	if b.Tenant != "" {
		printf(" of %s", b.Tenant)
	}
	done := b.Counts[job.Finished] + b.Counts[job.Canceled]
	printf(": %d of %d done", done, b.Total)
	if !b.EndedAt.IsZero() {
		printf(" in %s", b.EndedAt.Sub(b.CreatedAt).Round(time.Millisecond))
	}
	printf("%s\n", Outcomes(b))
	if b.RetryOf != "" {
		printf("  repeats the failures of %s\n", b.RetryOf)
	}
	if b.Paused {
		printf("  paused by an operator\n")
	}
	if b.Abandoned {
		printf("  abandoned: no renewal by its client for %v\n", b.Lease.D())
	}
	if b.Callback != nil {
		printf("  callback %s\n", callbackProgress(b.Callback))
	}
}

// callbackProgress returns the progress of a callback.
func callbackProgress(d *job.Delivery) string {
	switch {
	case !d.DeliveredAt.IsZero():
		return "delivered to " + d.URL
	case !d.GivenUpAt.IsZero():
		return fmt.Sprintf("to %s given up after %d tries: %s", d.URL, d.Tries, d.LastError)
	case d.LastError != "":
		return fmt.Sprintf("to %s failed %d times so far: %s", d.URL, d.Tries, d.LastError)
	}
	return "goes to " + d.URL
}

// Outcomes lists a batch's outcomes, most frequent first.
func Outcomes(b *job.Batch) string {
	var parts []string
	for _, o := range slices.Clone(job.Outcomes) {
		if n := b.Outcomes[o]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, strings.ReplaceAll(string(o), "_", " ")))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}
