// Command dispatcher accepts jobs over HTTP, sends them to the workers through NATS and records
// their results in Postgres. Any number of dispatchers can run together. On SIGTERM it drains; a
// second signal ends it at once.
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
	sysmon.RelaxTimer()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second signal is not caught
	if err := program(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "dispatcher:", err)
		os.Exit(1)
	}
}

// program runs the command in the arguments, or the dispatcher.
func program(ctx context.Context, args []string) error {
	if asked, err := keys(args, os.Stdout); asked {
		return err
	}
	if asked, err := migrate(ctx, args, os.Stdout); asked {
		return err
	}
	if asked, err := issue(ctx, args, os.Stdout); asked {
		return err
	}
	if asked, err := check(ctx, args, os.Stdout); asked {
		return err
	}
	return run(ctx, args, os.Stdout, os.Stderr)
}
