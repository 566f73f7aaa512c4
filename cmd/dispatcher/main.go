// Command dispatcher accepts jobs over HTTP, hands them to the workers through
// NATS and writes down what becomes of them in Postgres. Any number of them run
// side by side. On SIGTERM it drains; a second signal ends it at once.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/assay-run/assay/internal/sysmon"
)

func main() {
	if asked, err := keys(os.Args[1:], os.Stdout); asked {
		if err != nil {
			fmt.Fprintln(os.Stderr, "dispatcher:", err)
			os.Exit(1)
		}
		return
	}
	sysmon.Calm()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second signal is not caught
	if err := run(ctx, os.Args[1:], os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "dispatcher:", err)
		os.Exit(1)
	}
}
