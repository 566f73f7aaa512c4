package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/testenv"
)

const patience = 30 * time.Second

func TestBadFlagsAreNamed(t *testing.T) {
	database := "--database-url=postgres://127.0.0.1:1/none"
	for says, args := range map[string][]string{
		"--database-url":    {},
		"--lease-ttl":       {database, "--lease-ttl=1s"},
		"soon":              {database, "--lease-ttl=soon"},
		"tokens":            {database, "--tokens=secret"},
		"file:///":          {database, "--objects-url=ftp://x/"},
		"no-such-flag":      {database, "--no-such-flag"},
		"pool_max_conns":    {database + "?pool_max_conns=many"},
		"--log-level":       {database, "--log-level=loud"},
		"--stream-replicas": {database, "--stream-replicas=0"},
	} {
		err := run(t.Context(), args, io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v, want an error that names %s", args, err, says)
			continue
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("the error shows a token: %v", err)
		}
	}
}

func TestHelp(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"--help"}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"--listen", "$ASSAY_LISTEN", "--tokens"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("help lacks %s", want)
		}
	}
}

// TestUntilSIGTERM starts a dispatcher, asks it for everything that an operator
// asks for, and ends it as an operator does, with a request under way.
func TestUntilSIGTERM(t *testing.T) {
	args := []string{
		"--listen=127.0.0.1:0", "--database-url=" + testenv.Postgres(t), "--nats-url=" + testenv.NATS(t),
		"--objects-url=file://" + filepath.Join(t.TempDir(), "objects"), "--log-level=debug",
	}
	ctx, stop := signal.NotifyContext(t.Context(), syscall.SIGTERM)
	defer stop()
	d := start(ctx, t, args)
	for path, want := range map[string]string{
		"/healthz":      `"status":"ok"`,
		"/readyz":       `"status":"ok"`,
		"/metrics":      "go_goroutines",
		"/openapi.json": "openapi",
	} {
		if status, body := d.get(d.addr, path); status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d %.200s, want %s", path, status, body, want)
		}
	}
	if status, body := d.get(d.addr, "/debug/pprof/heap?debug=1"); status != http.StatusOK || !strings.Contains(body, "heap profile") {
		t.Errorf("no profile: %d", status)
	}
	if status, _ := d.get(d.addr, "/debug/pprof/cmdline"); status != http.StatusNotFound {
		t.Errorf("the command line, where a token may be: %d", status)
	}
	if err := run(ctx, append(args, "--listen="+d.addr), io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "--listen") {
		t.Errorf("a second one on the same address: %v, want an error that names --listen", err)
	}

	// No worker will run it: only the end of the dispatcher ends the wait.
	waiting := make(chan int, 1)
	go func() {
		resp, err := http.Post("http://"+d.addr+"/v1/run?wait=10m", "application/json", strings.NewReader(`{"image":"python","program":{"python":{"code":"1"}}}`))
		if err != nil {
			waiting <- 0
			return
		}
		defer resp.Body.Close()
		waiting <- resp.StatusCode
	}()
	await(t, "accepted", func() bool {
		_, body := d.get(d.addr, "/metrics")
		return strings.Contains(body, "\nassay_jobs_accepted_total 1\n")
	})
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := d.ended(); err != nil {
		t.Errorf("run: %v", err)
	}
	if status := <-waiting; status != http.StatusAccepted {
		t.Errorf("the waiting request got %d, want 202 with the job", status)
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// process is a dispatcher that runs within the test.
type process struct {
	t    *testing.T
	addr string
	done chan error
}

// start runs a dispatcher and returns once its log says where it serves.
func start(ctx context.Context, t *testing.T, args []string) *process {
	t.Helper()
	r, w := io.Pipe()
	d := &process{t: t, done: make(chan error, 1)}
	go func() {
		d.done <- run(ctx, args, io.Discard, w)
		w.Close()
	}()
	lines := bufio.NewScanner(r)
	for d.addr == "" && lines.Scan() {
		var line struct{ Msg, Address string }
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Errorf("log line %q: %v", lines.Text(), err)
		}
		if line.Msg == "serving" {
			d.addr = line.Address
		}
	}
	go func() { _, _ = io.Copy(io.Discard, r) }()
	if d.addr == "" {
		t.Fatalf("never served: %v", d.ended())
	}
	if _, _, err := net.SplitHostPort(d.addr); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *process) get(addr, path string) (int, string) {
	d.t.Helper()
	resp, err := http.Get("http://" + addr + path)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func (d *process) ended() error {
	d.t.Helper()
	select {
	case err := <-d.done:
		return err
	case <-time.After(patience):
		d.t.Fatal("the dispatcher never ended")
		return nil
	}
}

func await(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !cond(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("never %s", what)
		}
	}
}
