package toll

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// niceOf returns the nice value of the calling thread.
func niceOf(t *testing.T) int {
	t.Helper()
	value, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		t.Fatal(err)
	}
	return 20 - value
}

func burn(d time.Duration) {
	for began := threadTime(); threadTime()-began < d; {
	}
}

// TestLongWork checks that long work for a job gives its thread the lowest priority and lets the process
// use more cores, and that both end with it. Short work does neither, until there was much of it.
func TestLongWork(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	UseCores(1, 3)
	t.Cleanup(func() {
		process.usual, process.most = 0, 0
		runtime.GOMAXPROCS(before)
	})
	if !process.lowers {
		t.Fatal("this process may not change its priority; run the tests as root")
	}
	usual := niceOf(t)
	seen := func(m *Meter, d time.Duration) (nice, cores int) {
		m.Measure(func() {
			burn(d)
			nice, cores = niceOf(t), runtime.GOMAXPROCS(0)
		})
		return nice, cores
	}
	var m Meter
	if nice, cores := seen(&m, 0); nice != usual || cores != 1 {
		t.Errorf("short work has nice %d on %d cores, want %d on 1", nice, cores, usual)
	}
	if nice, cores := seen(&m, 200*time.Millisecond); nice != lowest || cores != 3 {
		t.Errorf("long work has nice %d on %d cores, want %d on 3", nice, cores, lowest)
	}
	if nice, _ := seen(&m, 0); nice != lowest {
		t.Errorf("short work after much has nice %d, want %d", nice, lowest)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	m.Measure(func() {})
	if nice := niceOf(t); nice != usual {
		t.Errorf("a thread has nice %d after its work, want %d", nice, usual)
	}
	for end := time.Now().Add(20 * time.Second); runtime.GOMAXPROCS(0) != 1; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d cores long after the work, want 1", runtime.GOMAXPROCS(0))
		}
	}
	var short Meter
	for range 10 {
		short.Measure(func() { burn(much / 9) })
	}
	if cores := runtime.GOMAXPROCS(0); cores != 3 {
		t.Errorf("%d cores after %v in short pieces, want 3", cores, short.Spent())
	}
}
