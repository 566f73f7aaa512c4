package compile

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/language"
	"github.com/assay-run/assay/pkg/runtime"
)

// notBegun is the shells' exit code for a missing program.
const notBegun = 127

// compile compiles p. lasting reports whether the result is reproducible.
func (c *Cache) compile(ctx context.Context, p *Program, run Make) (_ *entry, lasting bool, err error) {
	tmp, err := os.MkdirTemp(c.dir, "made-")
	if err != nil {
		return nil, false, fmt.Errorf("make a directory for the compiled program: %w", err)
	}
	t := &compilerOutput{dir: tmp}
	defer func() {
		if err != nil || len(t.files) == 0 {
			_ = os.RemoveAll(tmp)
		}
	}()
	r := p.request(t.take)
	rep, err := run(ctx, r)
	if err != nil {
		return nil, false, err
	}
	switch {
	case rep.Outcome == job.OutcomeCanceled:
		return nil, false, runtime.ErrCanceled
	case rep.Unbegun:
		return nil, false, p.missing(r.Command.Argv, rep)
	case rep.ExitCode != nil && *rep.ExitCode == notBegun: // from a script, or from the compiler with another meaning
		if err := p.checkImage(ctx, run); err != nil {
			return nil, false, err
		}
	}
	e := &entry{digest: rep.ImageDigest, compiled: job.Compiled{
		Language: p.Language.Name, Outcome: rep.Outcome, ExitCode: rep.ExitCode, Stdout: rep.Stdout, Stderr: rep.Stderr, Usage: rep.Usage,
	}}
	e.why = p.refusal(rep, t)
	switch {
	case e.why != "" && rep.Outcome == job.Failed:
		e.feedback = diagnostics(rep)
	case e.why != "":
		e.feedback = []string{e.why}
	}
	if e.why == "" {
		e.dir, e.files = t.dir, t.files
	} else {
		t.files = nil
	}
	e.bytes = t.bytes + int64(len(rep.Stdout.Text)+len(rep.Stderr.Text)) + int64(1+len(t.files))*4096
	return e, rep.Outcome == job.Succeeded || rep.Outcome == job.Failed, nil
}

// checkImage returns an error if the image lacks the language.
func (p *Program) checkImage(ctx context.Context, run Make) error {
	if len(p.Language.Version) == 0 {
		return nil
	}
	r := p.version()
	rep, err := run(ctx, r)
	if err != nil {
		return err
	}
	if rep.Unbegun || rep.ExitCode != nil && *rep.ExitCode == notBegun {
		return p.missing(r.Command.Argv, rep)
	}
	return nil
}

// compilerOutput holds the collected output of a compiler, in its own directory.
type compilerOutput struct {
	dir   string
	files []file
	bytes int64
}

// take is a runtime.Collector.
func (t *compilerOutput) take(_ context.Context, name string, size int64, r io.Reader) error {
	rel, ok := strings.CutPrefix(name, language.Out+"/")
	if !ok || name == keep {
		return nil
	}
	if len(t.files) >= maxFiles || t.bytes+size > int64(maxBytes) { // the runtime enforces this; this is the last check
		return fmt.Errorf("compiled file %s: %w", name, job.ErrTooLarge)
	}
	f, err := os.OpenFile(filepath.Join(t.dir, strconv.Itoa(len(t.files))), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(f, io.LimitReader(r, size))
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("keep compiled file %s: %w", name, err)
	}
	t.files, t.bytes = append(t.files, file{rel, n}), t.bytes+n
	return nil
}

// refusal returns in a sentence why p does not compile, or "".
func (p *Program) refusal(rep *runtime.Report, t *compilerOutput) string {
	title := p.Language.Title
	switch rep.Outcome {
	case job.Succeeded:
		for _, f := range rep.Feedback {
			if strings.HasPrefix(f, "artifact ") && !strings.Contains(f, "matched nothing") {
				return fmt.Sprintf("%s: the compiled program cannot be kept (at most %d files of %s): %s", title, maxFiles, maxBytes, job.Clip(f, 300))
			}
		}
		if len(t.files) == 0 {
			return title + ": the compiler made nothing of it that can be run"
		}
		return ""
	case job.Failed:
		return title + ": it does not compile: " + diagnostics(rep)[0]
	}
	return title + ": it was not compiled to the end: the compiler failed: " + job.Clip(rep.Message, 300)
}

// plain returns the printable start of a line.
func plain(line string) string {
	return job.Clip(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\t' || unicode.Is(unicode.Cf, r) {
			return '\uFFFD'
		}
		return r
	}, line), 300)
}
