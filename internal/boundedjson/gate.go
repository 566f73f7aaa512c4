package boundedjson

import "sync"

// Gate lets as many in as it has room for, in the order in which they came.
type Gate struct {
	size int

	mu    sync.Mutex
	taken int
	queue []waiter
}

type waiter struct {
	n    int
	here chan struct{}
}

// NewGate returns a gate with room for size.
func NewGate(size int) *Gate { return &Gate{size: size} }

// Enter waits for room for n, at most all that there is, and returns what gives
// it back.
func (g *Gate) Enter(n int) (leave func()) {
	n = min(n, g.size)
	g.mu.Lock()
	if len(g.queue) == 0 && g.taken+n <= g.size {
		g.taken += n
		g.mu.Unlock()
	} else {
		w := waiter{n, make(chan struct{})}
		g.queue = append(g.queue, w)
		g.mu.Unlock()
		<-w.here
	}
	return sync.OnceFunc(func() { g.leave(n) })
}

func (g *Gate) leave(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.taken -= n
	for len(g.queue) > 0 && g.taken+g.queue[0].n <= g.size {
		w := g.queue[0]
		g.queue = g.queue[1:]
		g.taken += w.n
		close(w.here)
	}
}
