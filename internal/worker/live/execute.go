package live

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
)

const (
	// yieldTime is how long an interrupted execution may take to stop before the session is killed.
	yieldTime = 3 * time.Second
	// interruptEvery is the interval of repeated interrupts, because code may catch one.
	interruptEvery = 200 * time.Millisecond
	// requestTime limits requests other than executions.
	requestTime = 30 * time.Second
	// maxShown limits the displays of one execution.
	maxShown = 16
)

// ask sends a request and waits for its response, at most for wall.
func (l *live) ask(ctx context.Context, m map[string]any, wall time.Duration, load ...[]byte) (*message, error) {
	if err := l.await(ctx); err != nil {
		return nil, err
	}
	defer l.yieldTurn()
	f, _, err := l.exchange(m, nil, wall, false, load...)
	return f, err
}

// await waits for the turn to send a request.
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

// exchange is ask for a caller that has the turn. It interrupts an interruptible request at its
// limits, which must then stop soon. It returns the limit.
func (l *live) exchange(m map[string]any, files []*os.File, wall time.Duration, interruptible bool, load ...[]byte) (*message, limit, error) {
	answer, exceeded := make(chan *message, 1), make(chan limit, 1)
	l.mu.Lock()
	l.next++
	id := l.next
	l.waiting[id] = answer
	if interruptible {
		l.executing, l.asked, l.exceeded = id, false, exceeded
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
		return nil, "", errEnded
	}
	f, by := l.wait(id, answer, exceeded, wall, interruptible)
	if f == nil && by != "" {
		f = l.yield(id, answer, interruptible)
	}
	if f == nil && by != "" {
		outcome, message := l.broken(by, wall)
		l.kill(outcome, message+" and did not give way to an interrupt")
		<-l.over
	}
	if f == nil {
		return nil, by, errEnded
	}
	return f, by, nil
}

// wait waits for a response or a limit. It returns neither if the session has ended.
func (l *live) wait(id int64, answer <-chan *message, exceeded <-chan limit, wall time.Duration, watched bool) (*message, limit) {
	timer := time.NewTimer(wall)
	defer timer.Stop()
	pulse := newPulse(wall)
	defer pulse.Stop()
	if !watched {
		pulse.Stop()
	}
	defer func() {
		l.mu.Lock()
		l.waited = pulse.last
		l.mu.Unlock()
	}()
	for {
		select {
		case f := <-answer:
			return f, ""
		case <-l.over:
			return nil, ""
		case <-timer.C:
			left := pulse.left(l.waits)
			if left <= 0 {
				return nil, limitWall
			}
			timer.Reset(left)
		case by := <-exceeded:
			return nil, by
		case <-pulse.C:
			if by := l.beat(pulse, id); by != "" {
				return nil, by
			}
		}
	}
}

// waitedFor returns how long the last request waited for cores.
func (l *live) waitedFor() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waited
}

// yield interrupts a request until it stops. It returns nil if the request does not.
func (l *live) yield(id int64, answer <-chan *message, interruptible bool) *message {
	if !interruptible {
		return nil
	}
	patience := newPulse(yieldTime)
	defer patience.Stop()
	patience.waited(l.waits)
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
			left := patience.left(l.waits)
			if left <= 0 {
				return nil
			}
			over.Reset(left)
		case <-l.over:
			return nil
		}
	}
}

// interrupt interrupts the current execution, like Control-C.
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

// wall returns the time limit of an execution.
func (l *live) wall(asked job.Duration) time.Duration {
	if asked > 0 {
		return min(asked.D(), l.policy.Wall.D())
	}
	return l.policy.Wall.D()
}

// executionFrame returns the frame of an execution.
func (l *live) executionFrame(c control.SessionCall, wall time.Duration) map[string]any {
	m := map[string]any{
		"stdout": int64(l.policy.Stdout.Limit), "stderr": int64(l.policy.Stderr.Limit), "kill": killed(&l.policy),
	}
	if c.Op == control.SessionShell {
		m["op"], m["command"] = "shell", c.Code
		return m
	}
	m["op"], m["code"], m["variables"], m["wall"] = "execute", c.Code, c.Variables, wall.Seconds()
	if c.Tagged {
		m["tagged"] = true
	}
	if rules := l.policy.Imports; rules.Any() {
		m["imports"] = rules
	}
	return m
}

// execute runs one snippet or script.
func (l *live) execute(ctx context.Context, c control.SessionCall) *job.Execute {
	e := &job.Execute{ID: c.Execute, SessionID: l.id}
	if err := l.await(ctx); err != nil {
		return l.lostResult(e, err)
	}
	defer l.yieldTurn()
	l.mu.Lock()
	made := l.made
	l.mu.Unlock()
	l.begins()
	began, wall := time.Now(), l.wall(c.Wall)
	f, by, err := l.exchange(l.executionFrame(c, wall), nil, wall, true)
	usage, now, before := l.ends()
	usage.WallMS, usage.WaitedMS = job.Milliseconds(time.Since(began)), job.Milliseconds(l.waitedFor())
	e.Usage = usage
	if err != nil || l.dying(now) {
		return l.lostResult(e, err)
	}
	l.mu.Lock()
	e.Calls, e.Alive = l.made-made, true
	canceled := l.asked
	l.mu.Unlock()
	l.fill(e, f)
	if by == "" {
		by = l.overrun(f)
	}
	l.judge(e, f, by, wall, canceled)
	l.explain(e, now, before)
	bound(e)
	return e
}

// lostResult returns the result of an execution whose session has ended.
func (l *live) lostResult(e *job.Execute, err error) *job.Execute {
	e.Outcome = job.Lost
	if err != nil {
		e.Message = err.Error()
	}
	if end := l.ended(); end != nil {
		e.Outcome, e.Message = end.Outcome, "the session has ended: "+end.Message
	}
	return e
}

// judge sets the outcome of an execution that the session survived. Our own interventions take
// precedence over its report.
func (l *live) judge(e *job.Execute, f *message, by limit, wall time.Duration, canceled bool) {
	switch {
	case by != "":
		e.Outcome, e.Message = l.broken(by, wall)
		e.Message += "; the session is alive"
	case canceled && f.Interrupted:
		e.Outcome, e.Message = job.OutcomeCanceled, "interrupted by the client"
	case f.Violation != "":
		e.Outcome, e.Message = job.PolicyViolation, "policy.imports: "+job.Clip(f.Violation, 1000)
	case f.Error != "":
		e.Outcome, e.Message = job.Failed, job.Clip(f.Error, 1000)
	case f.Exception != nil:
		e.Outcome, e.Message = job.Exception, "it ended with an uncaught exception"
	case f.Code != nil && *f.Code != 0:
		e.Outcome, e.Message = job.Failed, fmt.Sprintf("it ended with exit code %d", *f.Code)
	default:
		e.Outcome = job.Succeeded
	}
}

const (
	// maxText limits a repr, a message or a traceback, in bytes.
	maxText = 64 << 10
	// maxSource limits the name of a snippet.
	maxSource = 64
)

// fill copies the session's report of an execution, cut to its limits.
func (l *live) fill(e *job.Execute, f *message) {
	e.ExitCode, e.WallMS, e.Source = f.Code, f.WallMS, job.Clip(f.Source, maxSource)
	e.Value = clipValue(f.Value)
	if x := f.Exception; x != nil {
		e.Exception = &job.ExceptionInfo{Type: job.Clip(x.Type, 256), Message: job.Clip(x.Message, maxText), Line: x.Line, Source: job.Clip(x.Source, maxSource), Traceback: job.Clip(x.Traceback, maxText)}
	}
	e.Variables = clipVariables(f.Variables)
	if len(f.Display) > maxShown {
		f.Display = f.Display[:maxShown]
	}
	e.Display = f.Display
	limits := map[string]int{"stdout": int(l.policy.Stdout.Limit), "stderr": int(l.policy.Stderr.Limit)}
	texts := map[string]*strings.Builder{"stdout": {}, "stderr": {}}
	cut := map[string]int64{}
	for name, limit := range limits { // the cut part is above its limit, or does not fit into a frame
		if kept := int64(sizeOf(f.Output, name) + sizeOf(f.Tail, name)); f.Bytes[name] > min(int64(limit), kept) {
			cut[name] = max(f.Bytes[name]-kept, 1)
		}
	}
	add := func(chunks [][2]string) {
		for _, c := range chunks {
			if texts[c[0]] == nil {
				continue
			}
			text := job.Clip(strings.ToValidUTF8(c[1], "\uFFFD"), max(4*limits[c[0]]-texts[c[0]].Len(), 0))
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
	out := &job.Value{Type: job.Clip(v.Type, 256), Repr: job.Clip(v.Repr, maxText)}
	if len(v.JSON) <= 4*maxText {
		out.JSON = v.JSON
	}
	if len(v.Tagged) <= 4*maxText {
		out.Tagged = v.Tagged
	}
	return out
}

func clipVariables(in map[string]job.Variable) map[string]job.Variable {
	out := make(map[string]job.Variable, min(len(in), 1000))
	for name, v := range in {
		if len(out) < 1000 && len(name) <= 256 {
			out[name] = job.Variable{Type: job.Clip(v.Type, 256), Repr: job.Clip(v.Repr, maxText)}
		}
	}
	return out
}
