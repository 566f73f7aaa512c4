package chaos

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A namespace is a network namespace with one cable to this host's: a separate machine, as far as a
// partition is concerned.
type namespace struct{ name, cable, host string }

// newNamespace makes a namespace. The near end of its cable has the address host.
func newNamespace(t *testing.T) *namespace {
	t.Helper()
	id := os.Getpid() % 60000
	n := &namespace{name: fmt.Sprintf("chaos-%d", id), cable: fmt.Sprintf("chaos%d", id), host: fmt.Sprintf("10.%d.%d.1", 200+id/250%50, id%250)}
	far := n.host[:len(n.host)-1] + "2"
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", n.name).Run() }) // deleting its end of the cable deletes this end, too
	for _, args := range [][]string{
		{"netns", "add", n.name},
		{"link", "add", n.cable, "type", "veth", "peer", "name", "eth0", "netns", n.name},
		{"addr", "add", n.host + "/30", "dev", n.cable},
		{"-n", n.name, "addr", "add", far + "/30", "dev", "eth0"},
		{"-n", n.name, "link", "set", "lo", "up"},
		{"-n", n.name, "link", "set", "eth0", "up"},
		{"link", "set", n.cable, "up"},
	} {
		ip(t, args...)
	}
	return n
}

func ip(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Errorf("ip %v: %v: %s (package iproute2)", args, err, out)
	}
}

// cut unplugs the cable: nothing arrives, and no error is reported.
func (n *namespace) cut(t *testing.T)  { ip(t, "link", "set", n.cable, "down") }
func (n *namespace) join(t *testing.T) { ip(t, "link", "set", n.cable, "up") }

// addWorkerIn starts a worker in a namespace. It shares this host's mounts, which containerd has to
// see.
func (f *fleet) addWorkerIn(n *namespace, name string, env ...string) *process {
	f.t.Helper()
	p := f.workerOf(name, n.host, env...)
	p.path, p.args = "/usr/bin/nsenter", []string{"--net=" + filepath.Join("/run/netns", n.name), p.path}
	p.start(f.t)
	return p
}
