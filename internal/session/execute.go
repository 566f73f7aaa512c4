package session

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/queue"
)

const (
	// yieldTime is how long an interrupted execute may take to give way before
	// the session is killed.
	yieldTime = 3 * time.Second
	// interruptEvery is how often it is interrupted meanwhile: code may catch one.
	interruptEvery = 200 * time.Millisecond
	// requestTime bounds what is no execute.
	requestTime = 30 * time.Second
	// maxShown bounds what one execute shows besides its output.
	maxShown = 16
)

// ask sends a request and waits for its answer, at most for wall, if it is not
// zero. then is called when its time is over, and may wait longer.
func (l *live) ask(ctx context.Context, m map[string]any, wall time.Duration, interruptible bool, load ...[]byte) (*frame, bool, error) {
	if err := l.await(ctx); err != nil {
		return nil, false, err
	}
	defer l.yieldTurn()
	return l.exchange(m, nil, wall, interruptible, load...)
}

// await waits for the turn to ask something.
func (l *live) await(ctx context.Context) error {
	select {
	case <-l.turn:
		return nil
	case <-l.over:
		return errEnded
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *live) yieldTurn() { l.turn <- struct{}{} }

// exchange is ask for who has the turn.
func (l *live) exchange(m map[string]any, files []*os.File, wall time.Duration, interruptible bool, load ...[]byte) (*frame, bool, error) {
	answer := make(chan *frame, 1)
	l.mu.Lock()
	l.next++
	id := l.next
	l.waiting[id] = answer
	if interruptible {
		l.executing, l.asked = id, false
	}
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		delete(l.waiting, id)
		if l.executing == id {
			l.executing = 0
		}
		l.used = time.Now()
		l.mu.Unlock()
	}()
	m["id"] = id
	if err := l.send(m, load, files...); err != nil {
		l.kill(job.Lost, "the session does not read any more: "+err.Error())
		<-l.over
		return nil, false, errEnded
	}
	timer := time.NewTimer(wall)
	defer timer.Stop()
	select {
	case f := <-answer:
		return f, false, nil
	case <-l.over:
		return nil, false, errEnded
	case <-timer.C:
	}
	f := l.yield(id, answer, interruptible)
	if f == nil {
		l.kill(job.TimedOut, fmt.Sprintf("it ran longer than %s and did not give way to an interrupt", wall))
		<-l.over
		return nil, true, errEnded
	}
	return f, true, nil
}

// yield interrupts a request until it gives way; nil if it does not.
func (l *live) yield(id int64, answer <-chan *frame, interruptible bool) *frame {
	if !interruptible {
		return nil
	}
	over := time.NewTimer(yieldTime)
	defer over.Stop()
	tick := time.NewTicker(interruptEvery)
	defer tick.Stop()
	for {
		l.say(map[string]any{"op": "interrupt", "id": id})
		select {
		case f := <-answer:
			return f
		case <-tick.C:
		case <-over.C:
			return nil
		case <-l.over:
			return nil
		}
	}
}

// interrupt ends what is executed, as by Control-C.
func (l *live) interrupt() error {
	l.mu.Lock()
	id := l.executing
	l.asked = id != 0
	l.mu.Unlock()
	if id == 0 {
		return nil // it has just ended
	}
	l.say(map[string]any{"op": "interrupt", "id": id})
	return nil
}

// wall is how long an execute may take. All cores at work for so long use no
// more than the policy's CPU time.
func (l *live) wall(asked job.Duration) time.Duration {
	wall := l.policy.Wall.D()
	if asked > 0 {
		wall = min(wall, asked.D())
	}
	if cores := l.policy.CPU; cores > 0 {
		wall = min(wall, time.Duration(float64(l.policy.CPUTime.D())/cores))
	}
	return wall
}

// execute runs one snippet or script.
func (l *live) execute(ctx context.Context, c queue.SessionCall) *job.Execute {
	l.mu.Lock()
	before := l.called
	l.mu.Unlock()
	m := map[string]any{"op": "execute", "code": c.Code, "variables": c.Variables,
		"stdout": int64(l.policy.Stdout.Limit), "stderr": int64(l.policy.Stderr.Limit)}
	if c.Op == queue.SessionShell {
		m = map[string]any{"op": "shell", "command": c.Code, "stdout": m["stdout"], "stderr": m["stderr"]}
	}
	wall := l.wall(c.Wall)
	f, late, err := l.ask(ctx, m, wall, true)
	e := &job.Execute{ID: c.Execute, SessionID: l.id}
	if err != nil {
		e.Outcome, e.Message = job.Lost, err.Error()
		if end := l.ended(); end != nil {
			e.Outcome, e.Message = end.Outcome, "the session has ended: "+end.Message
		}
		return e
	}
	l.mu.Lock()
	e.Calls, e.Alive = l.called-before, true
	canceled := l.asked
	l.mu.Unlock()
	l.fill(e, f)
	switch {
	case late && f.Interrupted:
		e.Outcome, e.Message = job.TimedOut, fmt.Sprintf("it ran longer than its limit of %s; the session is alive", wall)
	case canceled && f.Interrupted:
		e.Outcome, e.Message = job.OutcomeCanceled, "interrupted by the client"
	case f.Error != "":
		e.Outcome, e.Message = job.Failed, clip(f.Error, 1000)
	case f.Exception != nil:
		e.Outcome, e.Message = job.Exception, "it ended with an uncaught exception"
	case f.Code != nil && *f.Code != 0:
		e.Outcome, e.Message = job.Failed, fmt.Sprintf("it ended with exit code %d", *f.Code)
	default:
		e.Outcome = job.Succeeded
	}
	return e
}

// maxText bounds a repr, a message or a traceback, in bytes.
const maxText = 64 << 10

// fill takes over what the session says about an execute, cut to what it may be.
func (l *live) fill(e *job.Execute, f *frame) {
	e.ExitCode, e.WallMS = f.Code, f.WallMS
	e.Value = clipValue(f.Value)
	if x := f.Exception; x != nil {
		e.Exception = &job.ExceptionInfo{Type: clip(x.Type, 256), Message: clip(x.Message, maxText), Line: x.Line, Traceback: clip(x.Traceback, maxText)}
	}
	e.Variables = clipVariables(f.Variables)
	if len(f.Display) > maxShown {
		f.Display = f.Display[:maxShown]
	}
	e.Display = f.Display
	limits := map[string]int{"stdout": int(l.policy.Stdout.Limit), "stderr": int(l.policy.Stderr.Limit)}
	texts := map[string]*strings.Builder{"stdout": {}, "stderr": {}}
	cut := map[string]int64{}
	for name, limit := range limits {
		if kept := sizeOf(f.Output, name) + sizeOf(f.Tail, name); f.Bytes[name] > int64(limit) {
			cut[name] = max(f.Bytes[name]-int64(kept), 1)
		}
	}
	add := func(chunks [][2]string) {
		for _, c := range chunks {
			if texts[c[0]] == nil {
				continue
			}
			text := clip(strings.ToValidUTF8(c[1], "\uFFFD"), max(4*limits[c[0]]-texts[c[0]].Len(), 0))
			texts[c[0]].WriteString(text)
			e.Output = append(e.Output, job.Chunk{Stream: c[0], Text: text})
		}
	}
	add(f.Output)
	for _, name := range []string{"stdout", "stderr"} {
		if n := cut[name]; n > 0 {
			add([][2]string{{name, fmt.Sprintf("\n… %d bytes cut …\n", n)}})
		}
	}
	add(f.Tail)
	e.Stdout = job.Output{Text: texts["stdout"].String(), Bytes: f.Bytes["stdout"], Truncated: cut["stdout"] > 0}
	e.Stderr = job.Output{Text: texts["stderr"].String(), Bytes: f.Bytes["stderr"], Truncated: cut["stderr"] > 0}
}

func sizeOf(chunks [][2]string, stream string) (n int) {
	for _, c := range chunks {
		if c[0] == stream {
			n += len(c[1])
		}
	}
	return n
}

func clipValue(v *job.Value) *job.Value {
	if v == nil {
		return nil
	}
	out := &job.Value{Type: clip(v.Type, 256), Repr: clip(v.Repr, maxText)}
	if len(v.JSON) <= 4*maxText {
		out.JSON = v.JSON
	}
	return out
}

func clipVariables(in map[string]job.Variable) map[string]job.Variable {
	out := make(map[string]job.Variable, min(len(in), 1000))
	for name, v := range in {
		if len(out) < 1000 && len(name) <= 256 {
			out[name] = job.Variable{Type: clip(v.Type, 256), Repr: clip(v.Repr, maxText)}
		}
	}
	return out
}
