package cgroup

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// Stalled returns how long at least one task of the host was runnable without a core, since boot.
// The error is os.ErrNotExist or unix.EOPNOTSUPP if the kernel does not measure that.
func Stalled() (time.Duration, error) { return host.total() }

var host = pressure{read: readStalled, now: time.Now}

// pressureAge is how old a reused reading may be. The kernel drops stalls since the previous
// reading if that is less than a tick old. So with frequent readings a busy host would seem idle.
const pressureAge = 50 * time.Millisecond

// pressure reads the kernel's counter of stalled time at most once in pressureAge. In between it
// extrapolates the last rate.
type pressure struct {
	read func() (time.Duration, error)
	now  func() time.Time

	mu    sync.Mutex
	at    time.Time
	value time.Duration // at that time
	rate  float64       // stalled share of the time since the previous reading
	most  time.Duration // highest returned value
}

func (p *pressure) total() (time.Duration, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	passed := now.Sub(p.at)
	if p.at.IsZero() || passed >= pressureAge {
		value, err := p.read()
		if err != nil {
			return 0, err
		}
		if !p.at.IsZero() {
			p.rate = min(max(float64(value-p.value)/float64(passed), 0), 1)
		}
		p.at, p.value, passed = now, value, 0
	}
	p.most = max(p.most, p.value+time.Duration(p.rate*float64(passed)))
	return p.most, nil
}

// readStalled reads the total of the line "some" of /proc/pressure/cpu.
func readStalled() (time.Duration, error) {
	const file = "/proc/pressure/cpu"
	text, err := read(file)
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(text, "\n")
	_, total, ok := strings.Cut(line, " total=")
	if !ok || !strings.HasPrefix(line, "some ") {
		return 0, fmt.Errorf("%s: no total in %q", file, line)
	}
	n, err := parseInt(file, total)
	return time.Duration(n) * time.Microsecond, err
}
