package main

import (
	"fmt"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// first is process 1 of a container, with the worker as its child. It reaps orphaned processes,
// mostly containerd's shims. It forwards signals and returns the worker's exit code. When it exits,
// the kernel kills the rest.
func first() int {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals)
	files := []*os.File{os.Stdin, os.Stdout, os.Stderr}
	worker, err := os.StartProcess("/proc/self/exe", os.Args, &os.ProcAttr{Files: files})
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		return 1
	}
	go func() {
		for s := range signals {
			switch s {
			case unix.SIGCHLD, unix.SIGURG, unix.SIGPIPE: // the runtime's own, or about this process
			default:
				_ = worker.Signal(s)
			}
		}
	}()
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			fmt.Fprintln(os.Stderr, "worker: wait for it:", err)
			return 1
		case pid != worker.Pid:
		case status.Signaled():
			return 128 + int(status.Signal())
		case status.Exited():
			return status.ExitStatus()
		}
	}
}
