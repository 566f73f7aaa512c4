package live

import (
	"fmt"
	"math"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

// limit is one that an execution has run into, and is interrupted for; "" for none.
type limit string

// The limits. Those of the streams have their names.
const (
	limitWall   limit = "wall"
	limitCPU    limit = "cpu_time"
	limitStdout limit = "stdout"
	limitStderr limit = "stderr"
)

const (
	// beatFirst is how soon after its beginning an execution is looked at, and how
	// often one that uses CPU is: so much later a limit may be noticed.
	beatFirst = 20 * time.Millisecond
	// beatLast is the same for one that waits, for its client perhaps.
	beatLast = 320 * time.Millisecond
	// deathTime is how long a session may live on whose end is certain.
	deathTime = 10 * time.Second
)

// meters are what a session uses. Its policy's cpu_time is for each execution: from
// the end of the one before it to its own, so that what runs in between counts, and
// what ran before does not. An execution that uses it up is interrupted. What does not
// give way, or runs while nothing is executed, uses up the budget and is killed.
type meters struct {
	budget *runtime.CPUBudget
	waits  *runtime.Waits // for cores
	read   runtime.Meter  // nil until the program begins
	last   runtime.Spent  // at the end of the last execute
	final  runtime.Spent  // at the end of the session
}

func newMeters(p *policy.Policy) meters {
	m := meters{budget: runtime.NewCPUBudget(0), waits: new(runtime.Waits)}
	m.allow(p, true)
	return m
}

// allow sets how much CPU time the session may have used until it is killed.
func (m *meters) allow(p *policy.Policy, executes bool) {
	limit := m.last.CPU + p.CPUTime.D()
	if executes { // it is interrupted first
		limit += (yieldTime + time.Second) * time.Duration(math.Ceil(max(p.CPU, 1)))
	}
	m.budget.Allow(limit)
}

// metered is told how to read the session's meters.
func (l *live) metered(read runtime.Meter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.read = read
}

// spent is what the session has used; false: nobody knows.
func (l *live) spent() (runtime.Spent, bool) {
	l.mu.Lock()
	read := l.read
	l.mu.Unlock()
	if read == nil {
		return runtime.Spent{}, false
	}
	s, err := read()
	return s, err == nil
}

// starts says that the interpreter is ready: what it used until then counts for no
// execute. The caller holds the lock.
func (l *live) starts(now runtime.Spent) {
	l.last = now
	l.allow(&l.policy, false)
}

// begins says that an execution does.
func (l *live) begins() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.allow(&l.policy, true)
}

// ends says that an execution did, and returns what was used since the one before,
// and in all.
func (l *live) ends() (since job.Usage, now, before runtime.Spent) {
	now, ok := l.spent()
	l.mu.Lock()
	known := l.read != nil
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

// settle takes over what the whole session used.
func (m *meters) settle(u job.Usage) {
	m.final = runtime.Spent{
		CPU: time.Duration(u.CPUMS * float64(time.Millisecond)), MemoryPeak: u.MemoryPeakBytes, ProcessesPeak: u.ProcessesPeak,
	}
}

// pulse is how often an execution is looked at, and what it waited for cores.
type pulse struct {
	*time.Ticker
	every  time.Duration
	cpu    time.Duration
	began  time.Time
	before time.Duration // what the session had waited at the first look
	last   time.Duration // what it had waited since then at the last one
	looked bool

	wall     time.Duration // its limit
	patience runtime.Patience
}

// newPulse returns the pulse of an execution that begins now.
func newPulse(wall time.Duration) *pulse {
	now := time.Now()
	return &pulse{Ticker: time.NewTicker(beatFirst), every: beatFirst, began: now, wall: wall, patience: runtime.NewPatience(now, wall)}
}

// waited is for how long the execute could run and had no core, since the first look at it:
// short ones are not looked at.
func (p *pulse) waited(w *runtime.Waits) time.Duration {
	all := w.Total()
	if !p.looked {
		p.looked, p.before = true, all
	}
	p.last = all - p.before
	return p.last
}

// left returns the rest of the wall limit, in the session's own time. It returns 0 if the execution has gone without a core for
// too long.
func (p *pulse) left(w *runtime.Waits) time.Duration {
	now := time.Now()
	left := p.wall - (now.Sub(p.began) - p.waited(w))
	if p.patience.Over(now, left) {
		return 0
	}
	return left
}

// beat looks at what executes, and says which limit it has run into.
func (l *live) beat(p *pulse, id int64) limit {
	p.waited(l.waits)
	if len(killed(&l.policy)) > 0 {
		l.say(map[string]any{"op": "look", "id": id}) // at what others than python write
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

// killed lists the streams whose limit ends an execution.
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

// exceeds passes on that what executes wrote too much.
func (l *live) exceeds(f *message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f.ID != l.executing || f.ID == 0 {
		return // that is over
	}
	for _, name := range killed(&l.policy) {
		if name == f.Stream {
			select {
			case l.exceeded <- limit(name):
			default: // it has been said
			}
		}
	}
}

// broken is the outcome of an execution that ran into a limit.
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

// overrun says which stream passed a limit that ends an execution.
func (l *live) overrun(f *message) limit {
	most := map[string]job.Size{"stdout": l.policy.Stdout.Limit, "stderr": l.policy.Stderr.Limit}
	for _, name := range killed(&l.policy) {
		if f.Bytes[name] > int64(most[name]) {
			return limit(name)
		}
	}
	return ""
}

// explain says, as of a job, which limit of the session a failed execute has run into.
func (l *live) explain(e *job.Execute, now, before runtime.Spent) {
	if e.Outcome != job.Failed && e.Outcome != job.Exception {
		return
	}
	switch {
	case now.ForksRefused > before.ForksRefused:
		e.Outcome = job.ProcessLimit
		e.Message = fmt.Sprintf("%s after it asked for more than its limit of %d processes", e.Message, l.policy.Processes)
	case now.NoSpace:
		e.Outcome = job.DiskLimit
		e.Message = fmt.Sprintf("%s with its limit of %s of disk used up", e.Message, l.policy.Disk)
	case now.NoInodes:
		e.Outcome = job.DiskLimit
		e.Message = fmt.Sprintf("%s with its limit of %d files used up", e.Message, l.policy.Files)
	}
}

// dying waits for the end of a session in which the kernel killed something for its
// memory: the runtime is about to kill the rest. It reports whether it was so.
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
