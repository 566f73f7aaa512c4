// Command worker runs jobs in containerd sandboxes. It gets jobs and reports results through NATS,
// and stores artifacts in the object store. On SIGTERM it drains; a second signal ends it at once.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	if os.Getpid() == 1 {
		os.Exit(first())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second signal is not caught
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}
