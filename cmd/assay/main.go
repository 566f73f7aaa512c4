// Command assay is the fleet from a terminal: it submits programs, watches and
// fetches their results, and with `assay dev` is a whole fleet itself.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/assay-run/assay/internal/sysmon"
)

func main() {
	sysmon.RelaxTimer() // NATS is in this process, in assay dev
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
