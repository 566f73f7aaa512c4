package top

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/assay-run/assay/internal/cli/show"
	"github.com/assay-run/assay/pkg/fleet"
)

// Batch returns a view of a batch until it is done.
func Batch(look func(context.Context) (*fleet.BatchSummary, error)) func(context.Context) (View, error) {
	return func(ctx context.Context) (View, error) {
		s, err := look(ctx)
		if err != nil {
			return View{}, err
		}
		return View{At: time.Now(), Lines: BatchLines(s), Over: s.Batch.Done()}, nil
	}
}

// BatchLines formats a batch: its progress, the outcomes and durations of its jobs, and the reasons
// of failures.
func BatchLines(s *fleet.BatchSummary) []string {
	var b bytes.Buffer
	show.Batch(&b, &s.Batch)
	if s.Rate > 0 && !s.Batch.Done() {
		fmt.Fprintf(&b, "  %.1f jobs/s", s.Rate)
		if s.ETA > 0 {
			fmt.Fprintf(&b, ", %s to go", s.ETA.D().Round(time.Second))
		}
		b.WriteByte('\n')
	}
	if infra := blamed(s); infra > 0 {
		fmt.Fprintf(&b, "  %d ended by failures of the fleet\n", infra)
	}
	durations(&b, s.Durations)
	clusters(&b, s)
	return strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
}

func blamed(s *fleet.BatchSummary) (n int64) {
	for _, k := range s.Reasons {
		n += k
	}
	return n
}

// widest is the longest bar of the histogram, in characters.
const widest = 40

func durations(b *bytes.Buffer, all []fleet.DurationBucket) {
	var most int64
	for _, d := range all {
		most = max(most, d.Jobs)
	}
	if most == 0 {
		return
	}
	b.WriteString("\nDURATION  JOBS\n")
	for _, d := range all {
		fmt.Fprintf(b, "%8s %5d %s\n", "≤"+time.Duration(d.UpToMS*float64(time.Millisecond)).Round(time.Millisecond).String(), d.Jobs,
			strings.Repeat("█", int((d.Jobs*widest+most-1)/most)))
	}
}

func clusters(b *bytes.Buffer, s *fleet.BatchSummary) {
	if len(s.Clusters) == 0 {
		return
	}
	b.WriteString("\nFAILURES")
	if s.Sampled < s.SampledOf {
		fmt.Fprintf(b, " of %d jobs looked at, of %d", s.Sampled, s.SampledOf)
	}
	b.WriteByte('\n')
	for _, c := range s.Clusters {
		what := strings.TrimSpace(c.Exception + " " + c.Message)
		fmt.Fprintf(b, "%6d %-16s %s  %s\n", c.Jobs, cmp.Or(c.Failure, c.Outcome), show.Plain(what), c.Example)
	}
}
