package hostile

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/assay-run/assay/pkg/job"
)

// Bait is resources of this machine that attacks are pointed to and must not reach: a port, a
// socket, a file. Close it after the attacks.
type Bait struct {
	file, secret string // file that no job may read, write or remove, and its content
	port         int    // that no job may reach
	abstract     string // socket that no job may reach
	visits       atomic.Int64
	listeners    []net.Listener
	accepting    sync.WaitGroup
}

// LayBait creates the bait. The directory for the file must exist.
func LayBait(dir string) (*Bait, error) {
	b := &Bait{file: filepath.Join(dir, "secret"), secret: "secret-" + string(job.NewID()), abstract: "@hostile-" + string(job.NewID())}
	if err := os.WriteFile(b.file, []byte(b.secret), 0o666); err != nil { // #nosec: it is bait
		return nil, err
	}
	tcp, err := b.listen("tcp", ":0")
	if err == nil {
		b.port = tcp.Addr().(*net.TCPAddr).Port
		_, err = b.listen("unix", b.abstract)
	}
	if err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// listen counts the connections to an address.
func (b *Bait) listen(network, address string) (net.Listener, error) {
	l, err := net.Listen(network, address)
	if err != nil {
		return nil, err
	}
	b.listeners = append(b.listeners, l)
	b.accepting.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			b.visits.Add(1)
			_ = c.Close()
		}
	})
	return l, nil
}

// Close ends the listeners. The caller removes the file with its directory.
func (b *Bait) Close() {
	for _, l := range b.listeners {
		_ = l.Close()
	}
	b.accepting.Wait()
}

// Env returns environment variables with the addresses of the bait for an attack. The mark
// identifies the attack's processes. cgroup is the control group of all jobs.
func (b *Bait) Env(mark, cgroup string) map[string]string {
	return map[string]string{
		"HOSTILE_MARK": mark, "HOSTILE_FILE": b.file, "HOSTILE_PORT": strconv.Itoa(b.port),
		"HOSTILE_SOCKET": b.abstract, "HOSTILE_ADDRESSES": strings.Join(addresses(), " "),
		"HOSTILE_CGROUP": cgroup,
	}
}

// addresses returns the addresses of this machine.
func addresses() []string {
	list := []string{"127.0.0.1", "::1"}
	found, _ := net.InterfaceAddrs()
	for _, a := range found {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			list = append(list, n.IP.String())
		}
	}
	return list
}

// Taken lists the violations since its last call.
func (b *Bait) Taken() (what []string) {
	if n := b.visits.Swap(0); n > 0 {
		what = append(what, fmt.Sprintf("%d connections reached the host", n))
	}
	if data, err := os.ReadFile(b.file); err != nil || string(data) != b.secret {
		what = append(what, fmt.Sprintf("the file on the host: %q, %v", data, err))
	}
	return what
}

// Secret returns the content of the file, which must appear in no output.
func (b *Bait) Secret() string { return b.secret }

// WithMark lists processes of this machine whose environment has mark.
func WithMark(mark string) (found []string) {
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, f := range all {
		if data, err := os.ReadFile(f); err == nil && strings.Contains(string(data), mark) {
			found = append(found, f)
		}
	}
	return found
}
