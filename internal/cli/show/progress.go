package show

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/assay-run/assay/pkg/job"
)

// Progress shows the progress of a batch: a bar on a terminal, otherwise occasional lines.
type Progress struct {
	w     io.Writer
	bar   *progressbar.ProgressBar
	tty   bool
	lines time.Time // of the last line
	shown int64
}

const linePeriod = 5 * time.Second

// NewProgress starts a Progress on w.
func NewProgress(w io.Writer) *Progress {
	return &Progress{w: w, tty: IsTerminal(w), lines: time.Now()}
}

// Show shows b. Call it after each change of b.
func (p *Progress) Show(b *job.Batch) {
	done := b.Counts[job.Finished] + b.Counts[job.Canceled]
	if !p.tty {
		if b.Done() || time.Since(p.lines) >= linePeriod && done != p.shown {
			p.lines, p.shown = time.Now(), done
			fmt.Fprintf(p.w, "%d of %d done%s\n", done, b.Total, Outcomes(b))
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
	_ = p.bar.Set64(done) // ignore a closed terminal
}

// End moves the terminal's cursor to a new line.
func (p *Progress) End() {
	if p.bar != nil {
		_ = p.bar.Exit()
		fmt.Fprintln(p.w)
	}
}

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
