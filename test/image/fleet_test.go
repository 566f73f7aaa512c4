//go:build image

package image

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/cli/dev"
	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// patience is for a busy machine with two cores.
const patience = 3 * time.Minute

// fleet is Postgres and NATS of this host, and a dispatcher in a container.
type fleet struct {
	t    *testing.T
	api  *client.Client
	nats string
	env  *testenv.Env // its containerd replaces the engine that runs images
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	nats, err := dev.StartNATS(t.Context(), dev.NATSConfig{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nats.Stop)
	listen := testenv.Address(t)
	f := &fleet{t: t, nats: nats.ClientURL(), env: testenv.Containerd(t)}
	if f.api, err = client.New("http://" + listen); err != nil {
		t.Fatal(err)
	}
	f.load("dispatcher")
	d := f.start("dispatcher", unique("image-dispatcher"), "--read-only", "--mount", "type=tmpfs,src=tmpfs,dst=/tmp,options=mode=1777",
		"--env", "ASSAY_DATABASE_URL="+overTCP(t, testenv.Postgres(t)), "--env", "ASSAY_NATS_URL="+f.nats, "--env", "ASSAY_LISTEN="+listen,
		"--env", "ASSAY_OBJECTS_URL=file:///tmp/objects")
	f.until("the dispatcher is ready", func() bool { return f.api.Ready(t.Context()) == nil })
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.pid))
	if err != nil || !strings.Contains(string(status), "Uid:\t65532\t65532\t65532\t65532") {
		t.Errorf("the dispatcher does not run as 65532: %v\n%s", err, status)
	}
	return f
}

// overTCP relays to a server on a Unix socket of this host, which the dispatcher's container does
// not have.
func overTCP(t *testing.T, dsn string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	socket := filepath.Join(q.Get("host"), ".s.PGSQL."+q.Get("port"))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns sync.WaitGroup
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(func() { stop(); _ = l.Close(); conns.Wait() })
	conns.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() { join(ctx, from, socket) })
		}
	})
	host, port, _ := net.SplitHostPort(l.Addr().String())
	q.Set("host", host)
	q.Set("port", port)
	u.RawQuery = q.Encode()
	return u.String()
}

// join copies between a connection and a socket until either ends, or ctx does.
func join(ctx context.Context, from net.Conn, socket string) {
	defer from.Close()
	to, err := net.Dial("unix", socket)
	if err != nil {
		return
	}
	defer to.Close()
	defer context.AfterFunc(ctx, func() { _ = from.Close(); _ = to.Close() })()
	var back sync.WaitGroup
	back.Go(func() { _, _ = io.Copy(from, to); _ = from.Close() })
	_, _ = io.Copy(to, from)
	_ = to.Close()
	back.Wait()
}

// until waits for a condition.
func (f *fleet) until(what string, cond func() bool) {
	f.t.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			f.t.Fatalf("never: %s", what)
		}
	}
}

// run runs a job and returns its output.
func (f *fleet) run(p job.Program, level policy.Isolation, packages ...string) string {
	f.t.Helper()
	raw, err := json.Marshal(map[string]any{"isolation": level, "packages": packages, "wall": "2m"})
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	res, err := f.api.Run(ctx, job.Spec{Program: p, Policy: raw})
	if err != nil {
		f.t.Errorf("%s: %v", level, err)
		return ""
	}
	if res.Outcome != job.Succeeded {
		f.t.Errorf("%s: %s (%s)\n%s", level, res.Outcome, res.Message, res.Stderr.Text)
	}
	return res.Stdout.Text
}

// container is a running container of an image.
type container struct {
	f       *fleet
	id, log string
	pid     int // first process, by its pid on this host
}

// unique returns a name that no other run has: runc keeps the state of killed runs, even if its
// containerd is gone.
func unique(name string) string { return fmt.Sprintf("%s-%d", name, time.Now().UnixNano()) }

// start runs an image. The end of the test stops it.
func (f *fleet) start(image, id string, args ...string) *container {
	f.t.Helper()
	c := &container{f: f, id: id, log: filepath.Join(f.t.TempDir(), id+".log")}
	f.ctr(append(append([]string{"run", "--detach", "--net-host", "--log-uri", "file://" + c.log}, args...), "assay.local/"+image+":latest", id)...)
	f.t.Cleanup(func() {
		if f.t.Failed() {
			f.t.Logf("the log of %s:\n%s", id, tail(c.log))
		}
		c.remove()
	})
	for line := range strings.Lines(f.ctr("task", "list")) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == id {
			c.pid, _ = strconv.Atoi(fields[1])
		}
	}
	if c.pid == 0 {
		f.t.Fatalf("%s has no task", id)
	}
	return c
}

// ctr calls the engine's client.
func (f *fleet) ctr(args ...string) string {
	f.t.Helper()
	out, err := f.tryCtr(args...)
	if err != nil {
		f.t.Fatal(err)
	}
	return out
}

func (f *fleet) tryCtr(args ...string) (string, error) {
	cmd := exec.Command("ctr", append([]string{"--address", f.env.Address, "--namespace", f.env.Namespace}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%v: %w\n%s", cmd.Args, err, out)
	}
	return string(out), nil
}

// stop ends the container as an engine does, and waits until it is gone.
func (c *container) stop() {
	c.f.t.Helper()
	c.f.ctr("task", "kill", "--signal", "SIGTERM", c.id)
	c.f.until(c.id+" stops", func() bool { return !alive(c.pid) })
	c.remove()
}

func (c *container) remove() {
	_, _ = c.f.tryCtr("task", "delete", "--force", c.id) // missing if it was stopped
	_, _ = c.f.tryCtr("container", "delete", c.id)
	_, _ = c.f.tryCtr("snapshot", "remove", c.id) // already removed with the container, unless that failed
}

func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// below lists the processes of this host under a process, by name and state.
func below(pid int) (found map[int]string) {
	found = map[int]string{}
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range threads {
		more, _ := os.ReadFile(file)
		text = append(append(text, ' '), more...)
	}
	for _, word := range strings.Fields(string(text)) {
		child, _ := strconv.Atoi(word)
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child))
		if name, rest, ok := strings.Cut(string(stat), ") "); ok {
			_, name, _ = strings.Cut(name, "(")
			found[child] = name + " " + rest[:1]
		}
		for k, v := range below(child) {
			found[k] = v
		}
	}
	return found
}

func tail(file string) string {
	raw, _ := os.ReadFile(file)
	return string(raw[max(0, len(raw)-8000):])
}
