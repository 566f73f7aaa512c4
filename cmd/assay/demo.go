package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/assay-run/assay/examples/humaneval"
	"github.com/assay-run/assay/internal/cli/dev"
	"github.com/assay-run/assay/internal/cli/show"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

type demoCmd struct {
	Data string `placeholder:"DIR" help:"Data directory; makes the second run faster (default: assay-demo in $$XDG_CACHE_HOME or ~/.cache)."`
}

// Run starts a fleet, runs the demo's programs as one batch, checks every verdict and prints links.
// Then it stops the fleet. It fails unless every verdict is right.
func (c *demoCmd) Run(a *app) error {
	var err error
	if c.Data == "" {
		if c.Data, err = demoDir(); err != nil {
			return err
		}
	}
	cfg, err := (&devCmd{Data: c.Data, Listen: "127.0.0.1:0", Runtime: "containerd"}).config(a)
	if err != nil {
		return err
	}
	cfg.Env = append(cfg.Env, "ASSAY_TOKENS=") // only this machine reaches it, and this program is its only client
	fmt.Fprintln(a.stderr, "starting Postgres, NATS, containerd, a dispatcher and a worker …")
	began := time.Now()
	f, err := dev.StartFleet(a.ctx, cfg)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "ready on %s after %s\n", f.URL(), time.Since(began).Round(100*time.Millisecond))
	err = a.demonstrate(f, humaneval.Batch(""))
	fmt.Fprintln(a.stderr, "stopping the fleet …")
	return errors.Join(err, stopFleet(f))
}

// demoDir returns the demo's data directory, which differs from assay dev's.
func demoDir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache directory for the data: name one with --data: %w", err)
	}
	return filepath.Join(cache, "assay-demo"), nil
}

// demonstrate runs the programs through f and prints the report.
func (a *app) demonstrate(f *dev.Fleet, specs []job.Spec) error {
	ctx, cancel := context.WithCancelCause(a.ctx)
	defer cancel(nil)
	go func() {
		select {
		case err := <-f.Failed():
			cancel(err)
		case <-ctx.Done():
		}
	}()
	api, err := client.New(f.URL(), client.WithPatience(a.Patience))
	if err != nil {
		return err
	}
	began := time.Now()
	b, err := api.SubmitSpecs(ctx, client.BatchOptions{Name: "demo"}, slices.Values(specs))
	if err == nil {
		_, err = show.Follow(ctx, a.stderr, api, b.ID)
	}
	if err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	elapsed := time.Since(began)
	right, err := a.judge(ctx, api, b.ID)
	if err != nil {
		return err
	}
	a.printf("%d of %d verdicts right: %d programs in %s, %.1f a second\n",
		right, len(specs), len(specs), elapsed.Round(100*time.Millisecond), float64(len(specs))/elapsed.Seconds())
	a.printf("batch    %s\n", b.ID)
	a.printf("data     %s\n", f.Dir())
	a.printf("logs     %s, %s\n", filepath.Join(f.Dir(), "dispatcher.log"), filepath.Join(f.Dir(), "worker.log"))
	a.printf("look at it again: assay dev --data %s, then assay batch results %s\n", f.Dir(), b.ID)
	if right != len(specs) {
		return exitCode(1)
	}
	return nil
}

// judge counts the right verdicts and prints the first wrong ones. It counts duplicate results
// once.
func (a *app) judge(ctx context.Context, api *client.Client, id job.ID) (right int, err error) {
	const most = 10
	wrong := 0
	seen := map[string]bool{}
	for raw, err := range api.Results(ctx, id, true) {
		if err != nil {
			return right, err
		}
		var r job.Result
		if err := json.Unmarshal(raw, &r); err != nil {
			return right, fmt.Errorf("read result: %w", err)
		}
		if !seen[r.Name] && humaneval.Verdict(r) {
			seen[r.Name] = true
			right++
			continue
		}
		if wrong++; wrong <= most {
			a.printf("wrong: %s ended as %s: %s\n", r.Name, r.Outcome, show.Gist(&r))
		}
	}
	return right, nil
}
