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
	sysmon.RelaxTimer()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second signal is not caught
	if err := program(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "dispatcher:", err)
		os.Exit(1)
	}
}

// program does what the arguments ask for: a command, if they begin with one.
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
	return run(ctx, args, os.Stderr)
}
