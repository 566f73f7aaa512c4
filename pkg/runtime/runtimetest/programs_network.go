package runtimetest

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// outside starts a web server on the worker's own loopback and returns its address. Sandboxes must
// only reach it through the proxy.
func outside(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/much" {
			_, _ = io.WriteString(w, strings.Repeat("x", 1<<20))
			return
		}
		_, _ = io.WriteString(w, "hello from outside")
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

func allow(entries ...string) func(*policy.Policy) {
	return func(p *policy.Policy) {
		p.Network.Mode, p.Network.Allow = policy.NetworkAllow, entries
	}
}

// fetch is a snippet that requests a URL.
const fetch = `
import urllib.request, urllib.error
def fetch(url):
    try:
        return urllib.request.urlopen(url, timeout=5).read()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode().strip()
    except OSError as e:
        return "no way"
`

// socks is a snippet that uses SOCKS5 with the proxy.
const socks = `
import os, socket, struct
from urllib.parse import urlsplit
def socks(ip, port):
    proxy = urlsplit(os.environ["ALL_PROXY"])
    s = socket.create_connection((proxy.hostname, proxy.port), timeout=5)
    s.sendall(b"\x05\x01\x00")
    assert s.recv(2) == b"\x05\x00"
    s.sendall(b"\x05\x01\x00\x01" + socket.inet_aton(ip) + struct.pack(">H", port))
    return s, s.recv(10)[1]
`

// networks returns programs that use the network.
func networks(t *testing.T) []program {
	at := outside(t)
	_, port, _ := net.SplitHostPort(at)
	other := outside(t)
	raw := fmt.Sprintf(`
import os, socket
print([name for _, name in socket.if_nameindex()])
for address, port in ("127.0.0.1", %s), ("1.1.1.1", 443), ("169.254.169.254", 80):
    try:
        socket.create_connection((address, port), timeout=2)
        print("connected to", address)
    except OSError:
        pass
try:
    print("resolved", socket.getaddrinfo("example.org", 80))
except OSError:
    pass`, port)
	return []program{
		{name: "network allowed", outcome: job.Succeeded, edit: allow(at), run: py(fetch + "print(fetch('http://" + at + "/'))"),
			check: func(t *testing.T, r *ran) {
				stdoutIs("b'hello from outside'\n")(t, r)
				a := attempts(t, r, 1)[0]
				if a.Decision != "allowed" || a.Protocol != "http" || a.Host != "127.0.0.1" || a.Address != "127.0.0.1" || a.Count != 1 {
					t.Errorf("attempt %+v", a)
				}
				if n := r.Usage.NetworkBytes; n < 100 || n != r.Network.SentBytes+r.Network.ReceivedBytes {
					t.Errorf("%d bytes metered, %+v", n, r.Network)
				}
			}},
		{name: "network not allowed", outcome: job.Succeeded, run: py(fetch + "print(fetch('http://" + at + "/'))"),
			check: func(t *testing.T, r *ran) {
				stdoutIs("no way\n")(t, r)
				if r.Network != nil {
					t.Errorf("a report of no network: %+v", r.Network)
				}
			}},
		{name: "another host", outcome: job.Succeeded, edit: allow(at), run: py(fetch + "print(fetch('http://" + other + "/'))\nprint(fetch('http://secret.evil.test/'))"),
			check: func(t *testing.T, r *ran) {
				stdoutIs(strings.Repeat("(403, 'assay: network refused: not on the allow-list')\n", 2))(t, r)
				for _, a := range attempts(t, r, 2) {
					if a.Decision != "refused" || a.Reason == "" {
						t.Errorf("attempt %+v", a)
					}
				}
			}},
		{name: "network of a command", outcome: job.Succeeded, edit: allow(at),
			run: command("python3", "-c", fetch+"print(fetch('http://"+at+"/'))"), check: stdoutIs("b'hello from outside'\n")},
		{name: "SOCKS5", outcome: job.Succeeded, edit: allow(at), run: py(socks + fmt.Sprintf(`
s, code = socks("127.0.0.1", %s)
s.sendall(b"GET / HTTP/1.0\r\n\r\n")
print(code, s.makefile("rb").read().split(b"\r\n\r\n")[1])
print(socks("127.0.0.1", 1)[1], socks("169.254.169.254", 80)[1])`, port)), check: stdoutIs("0 b'hello from outside'\n2 2\n")},
		{name: "no way around the proxy", outcome: job.Succeeded, edit: allow(at), run: py(raw), check: stdoutIs("['lo']\n")},
		{name: "open network", outcome: job.Succeeded, edit: func(p *policy.Policy) { p.Network.Mode = policy.NetworkOpen },
			run: py(socks + "print([socks(a, 80)[1] for a in ('10.0.0.1', '169.254.169.254', '0.0.0.0')])\n" + raw), check: stdoutIs("[2, 2, 2]\n['lo']\n")},
		{name: "bytes of the network", outcome: job.Succeeded, run: py(fetch + "try: print(len(fetch('http://" + at + "/much')))\nexcept Exception as e: print('cut')\nprint(fetch('http://" + at + "/')[0])"),
			edit: func(p *policy.Policy) { allow(at)(p); p.Network.MaxBytes = 100 * job.KiB },
			check: func(t *testing.T, r *ran) {
				stdoutIs("cut\n403\n")(t, r)
				if r.Network == nil || !r.Network.Exceeded || r.Usage.NetworkBytes != 100<<10 {
					t.Errorf("network %+v, %d bytes", r.Network, r.Usage.NetworkBytes)
				}
			}},
		{name: "the job's own servers", outcome: job.Succeeded, edit: allow("example.org:443"), run: py(fetch + `
import http.server, threading
class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"mine")
    def log_message(self, *args): pass
own = http.server.HTTPServer(("127.0.0.1", 0), Hello)
threading.Thread(target=own.serve_forever, daemon=True).start()
print(fetch("http://127.0.0.1:%d/" % own.server_port))`), check: stdoutIs("b'mine'\n")},
	}
}

func attempts(t *testing.T, r *ran, n int) []job.NetworkAttempt {
	t.Helper()
	if r.Network == nil || len(r.Network.Attempts) != n {
		t.Fatalf("network %+v, want %d attempts", r.Network, n)
	}
	return r.Network.Attempts
}
