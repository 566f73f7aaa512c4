package dev_test

import (
	"bufio"
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/cli/dev"
	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

// TestFleet builds the real programs once, for all tests that need them.
func TestFleet(t *testing.T) {
	bin := testenv.Programs(t, "faults") // with a worker that can run without containerd
	for name, test := range map[string]func(*testing.T, dev.FleetConfig){
		"heals": fleetHeals, "stops and comes back": fleetComesBack, "as a command": fleetCommand, "cannot start": fleetCannotStart,
		"asks for tokens": fleetAsksForTokens, "asks for tokens of the environment": fleetAsksForInheritedTokens, "is not another one": fleetIsNotAnother,
	} {
		t.Run(name, func(t *testing.T) {
			test(t, dev.FleetConfig{Dir: t.TempDir(), Listen: "127.0.0.1:0", BinDir: bin, Runtime: "noop",
				Stderr: t.Output(), Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
		})
	}
}

// childrenOf lists the live processes whose command line names path.
func childrenOf(path string) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range all {
		raw, err := os.ReadFile(f)
		if err != nil || !strings.Contains(string(raw), path) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f))); err == nil && pid != os.Getpid() && alive(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func submit(t *testing.T, url string, n int) (*client.Client, *job.Batch) {
	t.Helper()
	c, err := client.New(url)
	if err != nil {
		t.Fatal(err)
	}
	b, err := c.SubmitSpecs(t.Context(), client.BatchOptions{}, func(yield func(job.Spec) bool) {
		for i := range n {
			if !yield(job.Spec{Name: strconv.Itoa(i), Program: job.Program{Python: &job.Python{Code: "1"}}, Policy: []byte(`{"enforce":"report"}`)}) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return c, b
}

// fleetHeals checks that both programs restart after kill -9, and that every job is recorded once.
func fleetHeals(t *testing.T, cfg dev.FleetConfig) {
	cfg.Env = []string{"ASSAY_LEASE_TTL=5s"} // the leases of the dead worker must expire first
	f, err := dev.StartFleet(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.Stop(stopContext(t)); err != nil {
			t.Error(err)
		}
	}()
	const n = 3000
	c, b := submit(t, f.URL(), n)
	for _, name := range []string{"worker", "dispatcher"} {
		for _, pid := range childrenOf(filepath.Join(cfg.BinDir, name)) {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	done, err := c.Batch(t.Context(), b.ID, 90*time.Second)
	if err != nil || done.Counts[job.Finished] != n || done.Outcomes[job.Succeeded] != n {
		t.Fatalf("got %+v, %v", done, err)
	}
	names := map[string]bool{}
	for raw, err := range c.Results(t.Context(), b.ID, true) {
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(raw), `"name":"`)
		name, _, _ := strings.Cut(rest, `"`)
		if names[name] {
			t.Errorf("job %s has two results", name)
		}
		names[name] = true
	}
	if len(names) != n {
		t.Errorf("%d results of %d", len(names), n)
	}
	if _, err := dev.StartFleet(t.Context(), cfg); !errors.Is(err, dev.ErrLocked) {
		t.Errorf("a second fleet on the same data: %v", err)
	}
}

// fleetComesBack checks that a stopped fleet leaves no processes, and finds its data again.
func fleetComesBack(t *testing.T, cfg dev.FleetConfig) {
	var first job.ID
	for round := range 2 {
		f, err := dev.StartFleet(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		c, b := submit(t, f.URL(), 10)
		if _, err := c.Batch(t.Context(), b.ID, time.Minute); err != nil {
			t.Error(err)
		}
		if round == 0 {
			first = b.ID
		} else if got, err := c.Batch(t.Context(), first, 0); err != nil || got.Counts[job.Finished] != 10 {
			t.Errorf("the batch of before: %+v, %v", got, err)
		}
		if err := f.Stop(stopContext(t)); err != nil {
			t.Error(err)
		}
		if left := append(childrenOf(cfg.Dir), childrenOf(filepath.Join(cfg.BinDir, "worker"))...); len(left) > 0 {
			t.Errorf("round %d: processes are left: %v", round, left)
		}
	}
}

// fleetCommand checks that the command prints one line when it is ready, and ends on SIGTERM. After kill -9 no
// process of the fleet continues.
func fleetCommand(t *testing.T, cfg dev.FleetConfig) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		cmd := exec.Command(filepath.Join(cfg.BinDir, "assay"), "dev", "--runtime", "noop", "--data", cfg.Dir, "--listen", "127.0.0.1:0")
		cmd.Stderr = t.Output()
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		if !lines.Scan() || !strings.HasPrefix(lines.Text(), "assay: ready on http://127.0.0.1:") {
			t.Errorf("said %q", lines.Text())
		}
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		if lines.Scan() {
			t.Errorf("said more: %q", lines.Text())
		}
		if err := cmd.Wait(); (err == nil) != (sig == syscall.SIGTERM) {
			t.Errorf("%s: %v", sig, err)
		}
		eventually(t, "nothing goes on after "+sig.String(), func() bool {
			return len(childrenOf(cfg.Dir)) == 0 && len(childrenOf(filepath.Join(cfg.BinDir, "dispatcher"))) == 0 && len(childrenOf(filepath.Join(cfg.BinDir, "worker"))) == 0
		})
	}
}

// fleetCannotStart checks that a failed start returns an error with the program's log, and leaves no processes.
func fleetCannotStart(t *testing.T, cfg dev.FleetConfig) {
	cfg.Env = []string{"ASSAY_LEASE_TTL=soon"}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := dev.StartFleet(ctx, cfg)
	if err == nil || !strings.Contains(err.Error(), "dispatcher keeps ending") || !strings.Contains(err.Error(), "lease-ttl") {
		t.Errorf("got %v", err)
	}
	if left := childrenOf(cfg.Dir); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
	cfg.Env, cfg.BinDir = nil, t.TempDir()
	if _, err := dev.StartFleet(ctx, cfg); err == nil || !strings.Contains(err.Error(), "make build") {
		t.Errorf("without programs: %v", err)
	}
}

// fleetAsksForTokens checks that a fleet with tokens creates one for its own use. It passes no token to the worker,
// which runs beside untrusted code.
func fleetAsksForTokens(t *testing.T, cfg dev.FleetConfig) {
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte("of-a=a,of-b=b\nof-operator=ops:operator\n# of nobody"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.Env = []string{"ASSAY_TOKENS=@" + file}
	f, err := dev.StartFleet(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.Stop(stopContext(t)); err != nil {
			t.Error(err)
		}
	}()
	for token, want := range map[string]struct{ job, worker bool }{
		"of-a": {job: true}, "of-b": {job: true}, "of-operator": {job: true, worker: true}, f.OperatorToken(): {job: true, worker: true}, "": {}, "of-c": {},
	} {
		c, err := client.New(f.URL(), client.WithToken(token))
		if err != nil {
			t.Fatal(err)
		}
		r, err := c.Run(t.Context(), job.Spec{Program: job.Program{Python: &job.Python{Code: "1"}}, Policy: []byte(`{"enforce":"report"}`)})
		if ran := err == nil && r.Outcome == job.Succeeded; ran != want.job {
			t.Errorf("with token %q a job gave %+v, %v", token, r, err)
		}
		if ws, err := c.Workers(t.Context()); len(ws) > 0 != want.worker {
			t.Errorf("with token %q there are workers %+v, %v", token, ws, err)
		}
	}
	for _, pid := range childrenOf(filepath.Join(cfg.BinDir, "worker")) {
		env, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
		if err != nil || strings.Contains(string(env), "_TOKENS=") || strings.Contains(string(env), f.OperatorToken()) {
			t.Errorf("the worker is told of tokens: %q, %v", env, err)
		}
	}
}

// fleetAsksForInheritedTokens checks that the environment's tokens reach the dispatcher.
func fleetAsksForInheritedTokens(t *testing.T, cfg dev.FleetConfig) {
	t.Setenv("ASSAY_TOKENS", "of-a=a")
	f, err := dev.StartFleet(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.Stop(stopContext(t)); err != nil {
			t.Error(err)
		}
	}()
	for token, want := range map[string]bool{"of-a": true, "": false} {
		c, err := client.New(f.URL(), client.WithToken(token))
		if err != nil {
			t.Fatal(err)
		}
		if r, err := c.Run(t.Context(), job.Spec{Program: job.Program{Python: &job.Python{Code: "1"}}, Policy: []byte(`{"enforce":"report"}`)}); (err == nil) != want {
			t.Errorf("with token %q: %+v, %v", token, r, err)
		}
	}
}

// fleetIsNotAnother checks that a fleet ignores the environment's addresses and directories of another fleet.
func fleetIsNotAnother(t *testing.T, cfg dev.FleetConfig) {
	for name, value := range map[string]string{
		"ASSAY_CONTAINERD_ADDRESS": "/nonexistent/containerd.sock",
		"ASSAY_DATABASE_URL":       "postgres://127.0.0.1:1/none",
		"ASSAY_ENVIRONMENTS":       "/proc/nonexistent",
		"ASSAY_IMAGE_ARCHIVES":     "/nonexistent.tar",
		"ASSAY_LISTEN":             "no address",
		"ASSAY_METRICS_LISTEN":     "no address",
		"ASSAY_NATS_DIR":           "/nonexistent",
		"ASSAY_NATS_URL":           "nats://127.0.0.1:1",
		"ASSAY_OBJECTS_URL":        "s3://nowhere?region=x",
		"ASSAY_RUNTIME":            "containerd",
		"ASSAY_SECRETS_KEY":        "none",
		"ASSAY_STATE_DIR":          "/proc/nonexistent",
		"ASSAY_STREAM_REPLICAS":    "3",
		"ASSAY_WORKERS_KEY":        "none",
		"ASSAY_WORKERS_REFUSED":    "dev",
		"ASSAY_WORKER_ID":          "another",
		"ASSAY_WORKER_TOKEN":       "of another",
		"ASSAY_TOKEN":              "of-another-fleet",
		"ASSAY_URL":                "https://another.example",
		"ASSAY_EGRESS_NEVER":       "10.1.2.3",
	} {
		t.Setenv(name, value)
	}
	f, err := dev.StartFleet(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.Stop(stopContext(t)); err != nil {
			t.Error(err)
		}
	}()
	c, b := submit(t, f.URL(), 3)
	if done, err := c.Batch(t.Context(), b.ID, time.Minute); err != nil || done.Outcomes[job.Succeeded] != 3 {
		t.Errorf("got %+v, %v", done, err)
	}
	for _, pid := range childrenOf(filepath.Join(cfg.BinDir, "worker")) {
		env, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
		if never := "ASSAY_EGRESS_NEVER=" + strings.TrimPrefix(f.URL(), "http://") + ",10.1.2.3\x00"; err != nil || !strings.Contains(string(env), never) {
			t.Errorf("the worker is not told %q: %q, %v", never, env, err)
		}
	}
}
