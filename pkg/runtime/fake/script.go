package fake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/assay-run/assay/pkg/job"
	rt "github.com/assay-run/assay/pkg/runtime"
)

// A script is a job's instructions for this runtime. It follows "fake:" on a line of its Python
// code (in a comment, so that the same code also runs for real), or is in the arguments of a
// command whose argv[0] is "fake". Words are separated by spaces and performed in order. A value
// with spaces is a quoted Go string.
//
//	sleep=50ms              take time (the policy's wall clock and kills apply)
//	output=text stderr=text write to a stream
//	fill=16777216           write this many control characters to each stream
//	cat=/workspace/in.txt   write an input file to stdout
//	artifact=/path:content  leave a file behind
//	exit=3                  end with an exit code: failed, unless it is 0
//	exception=Type:message  end with an exception
//	outcome=out_of_memory   end with this outcome
//	error=text              fail on our side: Run returns an error
//	starved=always          have no core for longer than the limit
//	broken=once             break the sandbox unless it is exclusive to the job; always: break that, too
//	panic=text              panic inside Run
//	crash=text              kill this whole process, like the kernel's OOM killer
type script []word

type word struct{ verb, arg string }

func parse(p job.Program) (script, error) {
	var text string
	switch {
	case p.Python != nil:
		for line := range strings.Lines(p.Python.Code) {
			if _, after, ok := strings.Cut(line, "fake:"); ok {
				text += strings.TrimSpace(after) + " "
			}
		}
	case p.Command != nil && len(p.Command.Argv) > 0 && p.Command.Argv[0] == "fake":
		text = strings.Join(p.Command.Argv[1:], " ")
	}
	var out script
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		verb, rest, ok := strings.Cut(text, "=")
		if !ok {
			return nil, fmt.Errorf("fake script: %q is not verb=argument", text)
		}
		arg, tail, _ := strings.Cut(rest, " ")
		if quoted, err := strconv.QuotedPrefix(rest); err == nil {
			arg, _ = strconv.Unquote(quoted)
			tail = rest[len(quoted):]
		}
		out = append(out, word{verb, arg})
		text = tail
	}
	return out, nil
}

// runScript performs the attempt's script.
func runScript(ctx context.Context, key rt.Key, a rt.Attempt) (*rt.Report, error) {
	words, err := parse(a.Program)
	if err != nil {
		return nil, err
	}
	started := time.Now()
	if ctx.Err() != nil {
		return ended(ctx, started)
	}
	rep := &rt.Report{StartedAt: started}
	rep.Outcome = job.Succeeded
	rep.ExitCode = new(int)
	rep.ImageDigest = digestOf(key.Image)
	rep.Enforcement = unenforced(a.Plan)
	wall := newWall(a)
	defer wall.Stop()
	for _, w := range words {
		if w.verb == "broken" && (w.arg == "always" || key.SandboxGroup == "") {
			return nil, rt.ErrBroken
		}
		done, err := w.perform(ctx, a, rep, wall.C)
		if err != nil {
			return nil, err
		}
		if done {
			break
		}
	}
	if ctx.Err() != nil {
		return ended(ctx, started)
	}
	if a.Output != nil {
		_, _ = io.WriteString(a.Output, rep.Stdout.Text)
	}
	rep.Usage.WallMS = job.Milliseconds(time.Since(started))
	return rep, nil
}

func newWall(a rt.Attempt) *time.Timer {
	if a.Plan == nil || a.Plan.Policy.Wall <= 0 {
		return time.NewTimer(time.Hour)
	}
	return time.NewTimer(a.Plan.Policy.Wall.D())
}

// perform performs one word. done ends the script.
func (w word) perform(ctx context.Context, a rt.Attempt, rep *rt.Report, wall <-chan time.Time) (done bool, err error) {
	switch w.verb {
	case "sleep":
		return sleep(ctx, w.arg, rep, wall)
	case "output":
		write(&rep.Stdout, w.arg)
	case "stderr":
		write(&rep.Stderr, w.arg)
	case "fill":
		n, err := strconv.Atoi(w.arg)
		if err != nil || n < 0 {
			return true, fmt.Errorf("fake script: fill=%s", w.arg)
		}
		text := strings.Repeat("\x01", n)
		write(&rep.Stdout, text)
		write(&rep.Stderr, text)
	case "cat":
		text, err := content(ctx, a.Files, w.arg)
		write(&rep.Stdout, text)
		return false, err
	case "artifact":
		name, text, _ := strings.Cut(w.arg, ":")
		if a.Collect == nil {
			return false, nil
		}
		return false, a.Collect(ctx, name, int64(len(text)), strings.NewReader(text))
	case "exit":
		code, err := strconv.Atoi(w.arg)
		*rep.ExitCode = code
		if code != 0 {
			rep.Outcome = job.Failed
		}
		return true, err
	case "exception":
		kind, msg, _ := strings.Cut(w.arg, ":")
		rep.Outcome, *rep.ExitCode = job.Exception, 1
		rep.Exception = &job.ExceptionInfo{Type: kind, Message: msg}
		return true, nil
	case "outcome":
		rep.Outcome = job.Outcome(w.arg)
		return true, nil
	case "broken": // see runScript
	case "error":
		return true, errors.New(w.arg)
	case "starved":
		return true, rt.ErrStarved
	case "panic":
		panic(w.arg)
	case "crash":
		return true, syscall.Kill(os.Getpid(), syscall.SIGKILL)
	default:
		return true, fmt.Errorf("fake script: unknown verb %q", w.verb)
	}
	return false, nil
}

func sleep(ctx context.Context, arg string, rep *rt.Report, wall <-chan time.Time) (done bool, err error) {
	d, err := time.ParseDuration(arg)
	if err != nil {
		return true, fmt.Errorf("fake script: %w", err)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return false, nil
	case <-ctx.Done():
	case <-wall:
		rep.Outcome, rep.ExitCode, rep.Signal = job.TimedOut, nil, "SIGKILL"
	}
	return true, nil
}

func write(o *job.Output, text string) {
	o.Text += text
	o.Bytes += int64(len(text))
}

func content(ctx context.Context, files []rt.File, path string) (string, error) {
	for _, f := range files {
		switch {
		case f.Path != path:
		case f.Data != nil || f.Open == nil:
			return string(f.Data), nil
		default:
			r, err := f.Open(ctx)
			if err != nil {
				return "", err
			}
			defer r.Close()
			b, err := io.ReadAll(r)
			return string(b), err
		}
	}
	return "", fmt.Errorf("fake script: no file %s", path)
}
