package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

// uploaded is the number of jobs of TestUploadBrokenOff; by hand: -uploaded 1000000.
var uploaded = flag.Int("uploaded", 3000, "how many jobs are uploaded over connections that break")

// TestUploadBrokenOff checks that an upload whose connection breaks three times in the middle of
// chunks ends with exactly its jobs.
func TestUploadBrokenOff(t *testing.T) {
	t.Parallel()
	f := start(t)
	size := int64(*uploaded) * int64(len(uploadLine(0, padding())))
	p := newCutter(t, f.URL(), size/4)
	c, err := client.New("http://" + p.address)
	if err != nil {
		t.Fatal(err)
	}
	r, w := io.Pipe()
	go func() {
		pad := padding()
		var err error
		for i := 0; i < *uploaded && err == nil; i++ {
			_, err = io.WriteString(w, uploadLine(i, pad))
		}
		_ = w.CloseWithError(err)
	}()
	began := time.Now()
	b, err := c.Upload(t.Context(), client.BatchOptions{Name: "broken off"}, r)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d jobs, %d MiB, in %v", b.Total, size>>20, time.Since(began).Round(10*time.Millisecond))
	if n := p.cuts.Load(); n != 3 {
		t.Errorf("the connection was cut %d times, want 3", n)
	}
	if b.Total != int64(*uploaded) {
		t.Errorf("the batch has %d jobs, want %d", b.Total, *uploaded)
	}
	seen, want := map[string]bool{}, min(*uploaded, 200)
	for raw, err := range f.api.Results(t.Context(), b.ID, true, "name") {
		if err != nil {
			t.Fatal(err)
		}
		var r struct{ Name string }
		if err := json.Unmarshal(raw, &r); err != nil {
			t.Fatal(err)
		}
		if seen[r.Name] {
			t.Errorf("job %s is there twice", r.Name)
		}
		if seen[r.Name] = true; len(seen) == want {
			break
		}
	}
	if _, err := f.api.CancelBatch(t.Context(), b.ID); err != nil {
		t.Error(err)
	}
	// The fleet's last sandboxes identify its leftovers, and those of a large batch are long gone.
	if _, err := f.api.Run(t.Context(), job.Spec{Program: job.Program{Command: &job.Command{Argv: []string{"true"}}}}); err != nil {
		t.Error(err)
	}
}

// padding makes a few jobs as large as many chunks.
func padding() string { return strings.Repeat("x", max(0, 48<<20 / *uploaded - 100)) }

func uploadLine(i int, pad string) string {
	return fmt.Sprintf(`{"name": "%d", "program": {"command": {"argv": ["true", "%s"]}}}`+"\n", i, pad)
}

// cutter is a proxy to a server that breaks all connections three times.
type cutter struct {
	address string
	to      string
	every   int64 // bytes towards the server
	cuts    atomic.Int64
	passed  atomic.Int64

	mu    sync.Mutex
	conns map[net.Conn]bool
}

func newCutter(t *testing.T, server string, every int64) *cutter {
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &cutter{address: l.Addr().String(), to: u.Host, every: every, conns: map[net.Conn]bool{}}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { p.pass(conn) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); p.cut(); wg.Wait() })
	return p
}

// pass relays between a client and the server, until either ends or all connections are cut.
func (p *cutter) pass(client net.Conn) {
	server, err := net.Dial("tcp", p.to)
	if err != nil {
		_ = client.Close()
		return
	}
	p.mu.Lock()
	p.conns[client], p.conns[server] = true, true
	p.mu.Unlock()
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = io.Copy(client, server); _ = client.Close() })
	wg.Go(func() { _, _ = io.Copy(io.MultiWriter(server, p), client); _ = server.Close() })
	wg.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, client)
	delete(p.conns, server)
}

// Write counts the bytes to the server, and cuts the connections.
func (p *cutter) Write(b []byte) (int, error) {
	if n := p.passed.Add(int64(len(b))); n > p.every*(p.cuts.Load()+1) && p.cuts.Load() < 3 {
		p.cuts.Add(1)
		p.cut()
	}
	return len(b), nil
}

func (p *cutter) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}
