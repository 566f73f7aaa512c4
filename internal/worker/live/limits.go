package live

import (
	"fmt"
	"math"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

// limit is the limit that interrupted an execution, or "".
type limit string

// The limits. Those for streams have the streams' names.
const (
	limitWall   limit = "wall"
	limitCPU    limit = "cpu_time"
	limitStdout limit = "stdout"
	limitStderr limit = "stderr"
)

const (
	// beatFirst is the first and shortest interval between checks of an execution that uses CPU. A
	// limit may be noticed this much later.
	beatFirst = 20 * time.Millisecond
	// beatLast is the longest interval, for an execution that waits, perhaps for its client.
	beatLast = 320 * time.Millisecond
	// deathTime is how long the certain end of a session may take.
	deathTime = 10 * time.Second
)

// meters measure the usage of a session. The policy's cpu_time applies to each execution, from the
// end of the previous execution to its own. So background work in between counts. An execution at
// its limit is interrupted. If it does not stop, or background work continues, the budget is
// exhausted and the session is killed.
type meters struct {
	budget *runtime.CPUBudget
	waits  *runtime.Waits // for cores
	meter  runtime.Meter  // nil until the program starts
	last   runtime.Spent  // at the end of the last execution
	final  runtime.Spent  // at the end of the session
}

func newMeters(p *policy.Policy) meters {
	m := meters{budget: runtime.NewCPUBudget(0), waits: new(runtime.Waits)}
	m.allow(p, true)
	return m
}

// allow sets the CPU time at which the session is killed.
func (m *meters) allow(p *policy.Policy, executes bool) {
	limit := m.last.CPU + p.CPUTime.D()
	if executes { // it is interrupted first
		limit += (yieldTime + time.Second) * time.Duration(math.Ceil(max(p.CPU, 1)))
	}
	m.budget.Allow(limit)
}

// metered sets the meter of the session's program.
func (l *live) metered(m runtime.Meter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.meter = m
}

// spent returns the session's usage, or false if unknown.
func (l *live) spent() (runtime.Spent, bool) {
	l.mu.Lock()
	meter := l.meter
	l.mu.Unlock()
	if meter == nil {
		return runtime.Spent{}, false
	}
	s, err := meter.Spent()
	return s, err == nil
}

// starts records that the interpreter is ready. Usage until then counts for no execution. The
// caller holds the lock.
func (l *live) starts(now runtime.Spent) {
	l.last = now
	l.allow(&l.policy, false)
}

// begins records the start of an execution.
func (l *live) begins() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.allow(&l.policy, true)
}

// ends records the end of an execution. It returns the usage since the previous one, and in total.
func (l *live) ends() (since job.Usage, now, before runtime.Spent) {
	now, ok := l.spent()
	l.mu.Lock()
	known := l.meter != nil
	l.mu.Unlock()
	if !ok && known { // it is about to end, or has ended
		select {
		case <-l.over:
		case <-time.After(deathTime):
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	before = l.last
	if !ok {
		now = l.final
	}
	l.last = now
	l.allow(&l.policy, false)
	return job.Usage{CPUMS: job.Milliseconds(now.CPU - before.CPU), MemoryPeakBytes: now.MemoryPeak, ProcessesPeak: now.ProcessesPeak}, now, before
}

// settle takes over the final usage of the session.
func (m *meters) settle(u job.Usage) {
	m.final = runtime.Spent{
		CPU: time.Duration(u.CPUMS * float64(time.Millisecond)), MemoryPeak: u.MemoryPeakBytes, ProcessesPeak: u.ProcessesPeak,
	}
}

// pulse schedules checks of an execution and tracks its waits for cores.
type pulse struct {
	*time.Ticker
	every  time.Duration
	cpu    time.Duration
	began  time.Time
	before time.Duration // the session's waits at the first check
	last   time.Duration // waits since then at the latest check
	looked bool

	wall     time.Duration // its limit
	patience runtime.Patience
}

// newPulse returns the pulse of an execution that starts now.
func newPulse(wall time.Duration) *pulse {
	now := time.Now()
	return &pulse{Ticker: time.NewTicker(beatFirst), every: beatFirst, began: now, wall: wall, patience: runtime.NewPatience(now, wall)}
}

// waited returns how long the execution was runnable without a core since its first check. Short
// executions have no checks.
func (p *pulse) waited(w *runtime.Waits) time.Duration {
	all := w.Total()
	if !p.looked {
		p.looked, p.before = true, all
	}
	p.last = all - p.before
	return p.last
}

// left returns the rest of the wall limit in the session's own time. It returns 0 after too long
// without a core.
func (p *pulse) left(w *runtime.Waits) time.Duration {
	now := time.Now()
	left := p.wall - (now.Sub(p.began) - p.waited(w))
	if p.patience.Over(now, left) {
		return 0
	}
	return left
}

// beat checks an execution and returns the exceeded limit.
func (l *live) beat(p *pulse, id int64) limit {
	p.waited(l.waits)
	if len(killed(&l.policy)) > 0 {
		l.say(map[string]any{"op": "look", "id": id}) // for output of programs other than Python
	}
	s, ok := l.spent()
	if !ok {
		return ""
	}
	if p.every = min(2*p.every, beatLast); s.CPU > p.cpu+p.every/20 {
		p.every = beatFirst
	}
	p.cpu = s.CPU
	p.Reset(p.every)
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.CPU-l.last.CPU >= l.policy.CPUTime.D() {
		return limitCPU
	}
	return ""
}

// killed lists the streams whose limits end an execution.
func killed(p *policy.Policy) []string {
	names := []string{}
	if p.Stdout.OnExceed == policy.Kill {
		names = append(names, string(limitStdout))
	}
	if p.Stderr.OnExceed == policy.Kill {
		names = append(names, string(limitStderr))
	}
	return names
}

// exceeds forwards the report that an execution exceeded a stream's limit.
func (l *live) exceeds(f *message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f.ID != l.executing || f.ID == 0 {
		return // it has ended
	}
	for _, name := range killed(&l.policy) {
		if name == f.Stream {
			select {
			case l.exceeded <- limit(name):
			default: // already reported
			}
		}
	}
}

// broken returns the outcome of an execution that exceeded a limit.
func (l *live) broken(by limit, wall time.Duration) (job.Outcome, string) {
	switch by {
	case limitCPU:
		return job.TimedOut, fmt.Sprintf("it used more CPU time than its limit of %s", l.policy.CPUTime)
	case limitStdout:
		return job.OutputLimit, fmt.Sprintf("it wrote more than %s to stdout", l.policy.Stdout.Limit)
	case limitStderr:
		return job.OutputLimit, fmt.Sprintf("it wrote more than %s to stderr", l.policy.Stderr.Limit)
	}
	return job.TimedOut, fmt.Sprintf("it ran longer than its limit of %s", wall)
}

// overrun returns the stream whose limit ends the execution.
func (l *live) overrun(f *message) limit {
	most := map[string]job.Size{"stdout": l.policy.Stdout.Limit, "stderr": l.policy.Stderr.Limit}
	for _, name := range killed(&l.policy) {
		if f.Bytes[name] > int64(most[name]) {
			return limit(name)
		}
	}
	return ""
}

// explain sets the limit that made an execution fail, as for a job.
func (l *live) explain(e *job.Execute, now, before runtime.Spent) {
	if e.Outcome != job.Failed && e.Outcome != job.Exception {
		return
	}
	if now.ForksRefused > before.ForksRefused {
		e.Outcome = job.ProcessLimit
		e.Message = fmt.Sprintf("%s after it asked for more than its limit of %d processes", e.Message, l.policy.Processes)
		return
	}
	l.mu.Lock()
	meter := l.meter
	l.mu.Unlock()
	if meter == nil {
		return
	}
	space, files, err := meter.Full()
	switch {
	case err != nil: // the session has ended
	case space:
		e.Outcome = job.DiskLimit
		e.Message = fmt.Sprintf("%s with its limit of %s of disk used up", e.Message, l.policy.Disk)
	case files:
		e.Outcome = job.DiskLimit
		e.Message = fmt.Sprintf("%s with its limit of %d files used up", e.Message, l.policy.Files)
	}
}

// dying waits for the end of a session after an out-of-memory kill: the runtime is about to kill
// the rest. It reports whether there was one.
func (l *live) dying(now runtime.Spent) bool {
	if now.OOMKills == 0 {
		return false
	}
	select {
	case <-l.over:
		return true
	case <-time.After(deathTime):
		return false
	}
}
