// Command assay is the command line of a fleet: it submits programs, watches them and fetches their
// results. `assay dev` runs a whole fleet itself.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/assay-run/assay/internal/sysmon"
)

func main() {
	sysmon.RelaxTimer() // assay dev runs NATS in this process
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
