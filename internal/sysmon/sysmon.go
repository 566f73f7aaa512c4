// Package sysmon makes the monitor thread of the Go runtime wake up less often.
//
// That thread takes the processor from goroutines that block in a system call. While a program is active, it looks
// for them every 20 µs. This project's programs work for some microseconds and then wait for a message. So the thread
// wakes up more often than they do, on the cores of the jobs. That took a fifth of the worker's CPU time and a tenth
// of the client's waiting time.
package sysmon

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// slack is how late the thread's timers may be. It is also the longest extra wait behind a goroutine in a long system
// call.
const slack = "1000000" // nanoseconds

// RelaxTimer allows the kernel to delay the timers of the monitor thread and join them with other timers of its core.
// Without CAP_SYS_NICE it has no effect.
func RelaxTimer() {
	if id := thread(); id != 0 {
		_ = os.WriteFile(filepath.Join("/proc", strconv.Itoa(id), "timerslack_ns"), []byte(slack), 0)
	}
}

// thread returns the id of the monitor thread, which is the first thread that the runtime starts; 0 if there is none.
func thread() int {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return 0
	}
	var ids []int
	for _, t := range tasks {
		if id, err := strconv.Atoi(t.Name()); err == nil && id > os.Getpid() {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return 0
	}
	return slices.Min(ids)
}
