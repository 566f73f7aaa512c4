package toll

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// long is how long one piece of work runs before it yields to the work for other jobs.
	long = 5 * time.Millisecond
	// much is the work for one job after which all further work for it yields at once.
	much = 50 * time.Millisecond
	// wideFor is how long the process uses more cores after such work.
	wideFor = time.Second
	// lowest is the nice value of a thread that yields.
	lowest = 19
)

// process is the state of this process's cores and priority.
var process struct {
	usual, most int  // cores; 0: as the Go runtime chose
	nice        int  // usual nice value
	lowers      bool // it may lower a thread's priority, because it may restore it

	mu   sync.Mutex   // held to change the number of cores
	last atomic.Int64 // when there was long work; ns since 1970
	wide atomic.Bool
}

// UseCores limits the Go code of this process to the usual number of cores at once, and to most
// cores during long work for one job. With one core, each goroutine that becomes ready waits up to
// 10 ms for that work, and a short job takes a dozen such steps. A program calls UseCores at its
// start.
func UseCores(usual, most int) {
	runtime.GOMAXPROCS(usual)
	process.usual, process.most = usual, most
	tried := make(chan struct{})
	go func() {
		defer close(tried)
		runtime.LockOSThread() // until the end of the thread, whose priority may remain low
		value, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
		if err != nil {
			return
		}
		process.nice = 20 - value // the system call's own unit
		process.lowers = setNice(unix.Gettid(), lowest) == nil && setNice(unix.Gettid(), process.nice) == nil
	}()
	<-tried
}

func setNice(thread, nice int) error { return unix.Setpriority(unix.PRIO_PROCESS, thread, nice) }

// widen lets the process use more cores for a while.
func widen() {
	if process.most <= process.usual {
		return
	}
	process.last.Store(time.Now().UnixNano())
	if process.wide.Load() {
		return
	}
	process.mu.Lock()
	defer process.mu.Unlock()
	if process.wide.CompareAndSwap(false, true) {
		runtime.GOMAXPROCS(process.most)
		time.AfterFunc(wideFor, narrow)
	}
}

// narrow returns to the usual number of cores, unless there has been long work meanwhile.
func narrow() {
	process.mu.Lock()
	defer process.mu.Unlock()
	if left := wideFor - time.Since(time.Unix(0, process.last.Load())); left > 0 {
		time.AfterFunc(left, narrow)
		return
	}
	runtime.GOMAXPROCS(process.usual)
	process.wide.Store(false)
}

// piece is a piece of work that yields when it becomes long: its thread gets the lowest priority, and
// the process more cores.
type piece struct {
	mu     sync.Mutex
	thread int
	timer  *time.Timer
	yields bool
	ended  bool
}

// startPiece starts a piece on the calling thread, which the goroutine keeps until end. yields has
// it yield at once.
func startPiece(yields bool) *piece {
	if process.most <= process.usual {
		return nil
	}
	p := &piece{thread: unix.Gettid()}
	p.mu.Lock() // goOn may run before p.timer is set: the kernel may stop this thread here for long
	defer p.mu.Unlock()
	if yields {
		p.yield()
	}
	p.timer = time.AfterFunc(long, p.goOn)
	return p
}

// goOn notes that p is long.
func (p *piece) goOn() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	p.yield()
	widen()
	p.timer.Reset(wideFor / 2)
}

func (p *piece) yield() {
	if process.lowers && !p.yields {
		p.yields = setNice(p.thread, lowest) == nil
	}
}

func (p *piece) end() {
	if p == nil {
		return
	}
	p.timer.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	if p.yields {
		_ = setNice(p.thread, process.nice) // UseCores has seen it succeed
	}
}
