package egress

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/netrule"
)

// newNamespace makes a network namespace with loopback up, and returns its path.
func newNamespace(t *testing.T) string {
	t.Helper()
	at := filepath.Join(t.TempDir(), "netns")
	if err := os.WriteFile(at, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with this goroutine
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			err = upLoopback()
		}
		if err == nil {
			err = unix.Mount(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()), at, "", unix.MS_BIND, "")
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return at
}

// inside listens at addr in the namespace at path and answers with text.
func inside(t *testing.T, path, addr, text string) (port string) {
	t.Helper()
	ns, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	var l net.Listener
	err = inNamespace(ns.Fd(), func() (err error) {
		l, err = net.Listen("tcp", addr)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })}
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close() })
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return port
}

// With a namespace of its own the proxy meets nothing of the worker's: neither
// what listens on its loopback nor on its other addresses, even where a mistake of
// the operator's opens all of them.
func TestDialsFromItsNamespace(t *testing.T) {
	testenv.Needs(t, "root")
	control, jobs := newNamespace(t), newNamespace(t)
	secret := inside(t, control, "127.0.0.1:0", "the control plane")
	other := inside(t, jobs, "127.0.0.1:0", "what jobs may reach")
	all := []string{"127.0.0.0/8:*"}
	list, err := netrule.ParseRules(all)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		from, port, body string
		code             int
	}{
		{jobs, other, "what jobs may reach", 200},
		{jobs, secret, "assay: network failed: cannot connect\n", 502},
		{control, secret, "the control plane", 200}, // as from a worker's own network
		{control, other, "assay: network failed: cannot connect\n", 502},
	} {
		n, err := Open(t.Context(), Operator{Private: all, Namespace: c.from})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(n.Close)
		_, at := serve(t, Config{Rules: list, Network: n})
		if code, body := ask(t, through(at), "http://127.0.0.1:"+c.port+"/"); code != c.code || body != c.body {
			t.Errorf("%s:%s: %d %q", filepath.Base(filepath.Dir(c.from)), c.port, code, body)
		}
	}
}

// The addresses of the namespace's own interfaces are this host's, too.
func TestAddressesOfTheNamespace(t *testing.T) {
	testenv.Needs(t, "root")
	at := newNamespace(t)
	ns, err := os.Open(at)
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	// An address that no interface of the worker's has.
	err = inNamespace(ns.Fd(), func() error { return addAddress("lo", [4]byte{198, 41, 0, 78}) })
	if err != nil {
		t.Fatal(err)
	}
	n, err := Open(t.Context(), Operator{Namespace: at})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	if got := try(Config{Rules: netrule.Any(), Network: n}, "198.41.0.78", 22); got != "this host's own"+notOpened {
		t.Errorf("got %s", got)
	}
}

// addAddress gives an interface of this thread's namespace an address.
func addAddress(name string, a [4]byte) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	if err := req.SetInet4Addr(a[:]); err != nil {
		return err
	}
	return unix.IoctlIfreq(fd, unix.SIOCSIFADDR, req)
}
