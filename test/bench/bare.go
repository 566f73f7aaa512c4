package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// hostPython returns the path of this host's Python. The python3 in PATH may be a wrapper script,
// whose extra time would favour the fleet.
func hostPython(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "python3", "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		return "", fmt.Errorf("look for the interpreter of this host: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// bareCommand returns code in an interpreter that can also import the packages below site.
func bareCommand(ctx context.Context, python, site, code string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, python, "-B", "-c", code)
	cmd.Env = []string{"PYTHONPATH=" + site, "HOME=/nonexistent", "OPENBLAS_NUM_THREADS=1"}
	return cmd
}

// barePerSecond runs code in interpreters of this host, at as many at once, and returns how many it ran
// a second.
func barePerSecond(ctx context.Context, site, code string, at int, d time.Duration) (float64, error) {
	python, err := hostPython(ctx)
	if err != nil {
		return 0, err
	}
	var n atomic.Int64
	began := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for range at {
		group.Go(func() error {
			for time.Since(began) < d && ctx.Err() == nil {
				if out, err := bareCommand(ctx, python, site, code).CombinedOutput(); err != nil {
					return fmt.Errorf("a bare interpreter: %w\n%s", err, out)
				}
				n.Add(1)
			}
			return nil
		})
	}
	err = group.Wait()
	return float64(n.Load()) / time.Since(began).Seconds(), err
}

// bareCPU returns the mean CPU time of code in an interpreter of this host, over n sequential runs. The
// interpreters see no installed packages, which would cost more.
func bareCPU(ctx context.Context, code string, n int) (sum time.Duration, err error) {
	python, err := hostPython(ctx)
	if err != nil {
		return 0, err
	}
	for range n {
		cmd := exec.CommandContext(ctx, python, "-I", "-S", "-c", code)
		if err := cmd.Run(); err != nil {
			return 0, fmt.Errorf("a bare interpreter: %w", err)
		}
		sum += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	return sum / time.Duration(n), nil
}
