// Command guest is process 1 of a sandbox: see package internal/guest/launcher. In a sandbox for
// agents it also runs the agents' programs and changes files for them: see packages
// internal/guest/processes and internal/guest/files. The worker mounts it into every sandbox; it is
// not for use by hand.
package main

import (
	"fmt"
	"math"
	"os"
	"os/signal"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/guest"
	"github.com/assay-run/assay/internal/guest/files"
	"github.com/assay-run/assay/internal/guest/launcher"
	"github.com/assay-run/assay/internal/guest/processes"
	"github.com/assay-run/assay/internal/sysmon"
	"github.com/assay-run/assay/internal/version"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "guest:", err)
		os.Exit(1)
	}
}

// run serves the worker that listens on the socket args[1].
func run(args []string) error {
	if len(args) == 1 && args[0] == "--version" {
		fmt.Println("guest", version.String())
		return nil
	}
	if len(args) == 2 && args[0] == "task" {
		return launcher.Task(args[1])
	}
	if len(args) == 3 && args[0] == "cell" {
		share, err := guest.ParseShare(args[2])
		if err != nil {
			return err
		}
		sysmon.RelaxTimer()
		return launcher.Cell(args[1], share)
	}
	if len(args) == 3 && args[0] == "limit" {
		return limit(args[1], args[2])
	}
	if len(args) == 1 && args[0] == "probe" {
		return launcher.Probe()
	}
	if len(args) == 2 && args[0] == "machine" {
		sysmon.RelaxTimer()
		return machine(args[1])
	}
	if len(args) == 2 && args[0] == "file" {
		os.Exit(files.Main(args[1], os.Stdin, os.Stdout, os.Stderr))
	}
	return fmt.Errorf("unknown arguments %q; the worker starts it as: guest task SOCKET, guest cell SOCKET SHARE, guest machine SOCKET, guest limit PID SHARE, or guest file REQUEST", args)
}

// machine runs programs for the worker that listens on a socket.
func machine(socket string) error {
	conn, err := launcher.Machine(socket)
	if err != nil {
		return err
	}
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil { // programs inherit nothing
		return err
	}
	signal.Notify(make(chan os.Signal)) // no program can end process 1; programs do not inherit the handlers
	return processes.Serve(conn)
}

// limit sets the container's share of the host's inotify, given one of its processes.
func limit(process, text string) error {
	pid, err := strconv.Atoi(process)
	if err != nil {
		return err
	}
	share, err := guest.ParseShare(text)
	if err != nil {
		return err
	}
	return launcher.LimitWatches(pid, share)
}
