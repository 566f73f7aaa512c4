package main

import (
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/assay-run/assay/pkg/job"
)

// progress shows how far a batch is: a bar on a terminal, elsewhere a line now
// and then.
type progress struct {
	w     io.Writer
	bar   *progressbar.ProgressBar
	tty   bool
	lines time.Time // of the last line
	shown int64
}

const linePeriod = 5 * time.Second

func newProgress(w io.Writer) *progress {
	return &progress{w: w, tty: isTerminal(w), lines: time.Now()}
}

// show shows b. It is called whenever b changed.
func (p *progress) show(b *job.Batch) {
	done := b.Counts[job.Finished] + b.Counts[job.Canceled]
	if !p.tty {
		if b.Done() || time.Since(p.lines) >= linePeriod && done != p.shown {
			p.lines, p.shown = time.Now(), done
			fmt.Fprintf(p.w, "%d of %d done%s\n", done, b.Total, outcomes(b))
		}
		return
	}
	if p.bar == nil {
		p.bar = progressbar.NewOptions64(b.Total,
			progressbar.OptionSetWriter(p.w),
			progressbar.OptionSetDescription("running"),
			progressbar.OptionShowCount(),
			progressbar.OptionShowIts(),
			progressbar.OptionSetItsString("jobs"),
			progressbar.OptionSetPredictTime(true),
			progressbar.OptionFullWidth(),
			progressbar.OptionThrottle(50*time.Millisecond),
		)
	}
	_ = p.bar.Set64(done) // a terminal that is gone is no reason to stop
}

// end leaves the terminal's cursor on a line of its own.
func (p *progress) end() {
	if p.bar != nil {
		_ = p.bar.Exit()
		fmt.Fprintln(p.w)
	}
}
