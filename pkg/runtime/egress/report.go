package egress

import (
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
)

// Decision is the result of an attempt.
type Decision string

// The decisions.
const (
	Allowed Decision = "allowed" // connected
	Refused Decision = "refused" // the proxy did not try
	Failed  Decision = "failed"  // allowed, but the name or the host was unreachable
)

// Attempt is one or more equal tries to connect.
type Attempt struct {
	Protocol string     // connect, http, socks5; "" if unknown
	Host     string     // normalized, or quoted as written if malformed
	Port     uint16     // 0 if unknown
	Address  netip.Addr // the dialled address, or the zero Addr
	Decision Decision
	Reason   string // "" if allowed
	Count    int
	Sent     int64 // bytes to the host
	Received int64 // bytes from the host
}

// Report is a job's use of its network.
type Report struct {
	Attempts []Attempt // in order of their first time, at most MaxAttempts allowed and MaxAttempts others
	Unlisted int       // attempts beyond the limit of the list
	Sent     int64     // bytes to hosts
	Received int64     // bytes from hosts
	Exceeded bool      // the job reached MaxBytes
}

// entry is a listed attempt. Bytes are added while connections live.
type entry struct {
	Attempt
	sent, received atomic.Int64
}

// journal is the list of attempts. Refused attempts do not displace successful ones.
type journal struct {
	max int // of each kind

	mu       sync.Mutex
	list     []*entry
	index    map[Attempt]*entry
	allowed  int
	unlisted int
}

// add records an attempt and returns its entry, which is unlisted above the limit.
func (j *journal) add(a Attempt) *entry {
	count.attempt(a.Decision)
	j.mu.Lock()
	defer j.mu.Unlock()
	if e := j.index[a]; e != nil {
		e.Count++
		return e
	}
	e := &entry{Attempt: a}
	e.Count = 1
	others := len(j.list) - j.allowed
	if a.Decision == Allowed && j.allowed >= j.max || a.Decision != Allowed && others >= j.max {
		j.unlisted++
		return e
	}
	if a.Decision == Allowed {
		j.allowed++
	}
	if j.index == nil {
		j.index = map[Attempt]*entry{}
	}
	j.list = append(j.list, e)
	j.index[a] = e
	return e
}

func (j *journal) report() Report {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := Report{Attempts: make([]Attempt, 0, len(j.list)), Unlisted: j.unlisted}
	for _, e := range j.list {
		a := e.Attempt
		a.Sent, a.Received = e.sent.Load(), e.received.Load()
		r.Attempts = append(r.Attempts, a)
	}
	return r
}

// written returns a client's text in a form that is safe to store and show.
func written(s string) string {
	if len(s) > 255 {
		s = s[:255]
	}
	return strconv.QuoteToASCII(s)
}
