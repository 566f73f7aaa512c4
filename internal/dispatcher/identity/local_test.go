package identity_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"testing"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/pkg/job"
)

// local serves a gate on loopback. The returned function sends a request and returns the gate's error.
func local(t *testing.T, g identity.Gate, address string) func(edit func(*http.Request)) error {
	t.Helper()
	said := make(chan error, 1)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, err := g.Identify(r)
		said <- err
	}))
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	_ = srv.Listener.Close()
	srv.Listener, srv.Config.ConnContext = l, identity.WithPeer
	srv.Start()
	t.Cleanup(srv.Close)
	return func(edit func(*http.Request)) error {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if edit != nil {
			edit(r)
		}
		resp, err := srv.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		return <-said
	}
}

// TestLocalUsers checks that the user who runs a fleet needs no token. Other users, browsers and pages need one.
func TestLocalUsers(t *testing.T) {
	t.Parallel()
	me := os.Geteuid()
	mine, others := identity.Local{me: identity.LocalAdmin}, identity.Local{me + 1: identity.LocalAdmin}
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	host := func(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }
	addresses := []string{"127.0.0.1:0"}
	if l, err := net.Listen("tcp", "[::1]:0"); err == nil { // a host may lack IPv6
		_ = l.Close()
		addresses = append(addresses, "[::1]:0")
	}
	for _, address := range addresses {
		ask, askOther := local(t, mine, address), local(t, others, address)
		for name, edit := range map[string]func(*http.Request){"plain": nil, "localhost": host("localhost:8080"), "an address": host("192.0.2.7"), "IPv6": host("[::1]:8080"), "upper case": host("LocalHost.")} {
			if err := ask(edit); err != nil {
				t.Errorf("%s: %s: %v", address, name, err)
			}
		}
		if err := askOther(nil); !errors.Is(err, api.ErrUnauthorized) {
			t.Errorf("%s: another user: %v", address, err)
		}
		for name, edit := range map[string]func(*http.Request){
			"Origin": header("Origin", "http://127.0.0.1"), "null origin": header("Origin", "null"), "Sec-Fetch-Site": header("Sec-Fetch-Site", "none"),
			"Sec-Fetch-Mode": header("Sec-Fetch-Mode", "navigate"), "Referer": header("Referer", "http://a"), "Cookie": header("Cookie", "a=b"),
			"User-Agent": header("User-Agent", "Mozilla/5.0 (X11)"), "a proxy": header("X-Forwarded-For", "192.0.2.7"), "a proxy by RFC 7239": header("Forwarded", "for=192.0.2.7"), "a forwarded host": header("X-Forwarded-Host", "localhost"),
			"a token": header("Authorization", "Bearer x"), "no token": header("Authorization", "Basic x"),
		} {
			if err := ask(edit); !errors.Is(err, api.ErrUnauthorized) {
				t.Errorf("%s: %s: %v", address, name, err)
			}
		}
		for _, name := range []string{"evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", "localhost:1:2"} {
			if err := ask(host(name)); !errors.Is(err, job.ErrRefused) {
				t.Errorf("%s: Host %s: %v", address, name, err)
			}
		}
	}
	r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "http://localhost/", nil)
	if _, err := mine.Identify(r); !errors.Is(err, api.ErrUnauthorized) {
		t.Errorf("a request without a connection: %v", err)
	}
}

// TestLocalUsersOverLoopbackOnly checks that requests through another user's proxy, or from another machine, belong
// to no local user.
func TestLocalUsersOverLoopbackOnly(t *testing.T) {
	t.Parallel()
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		ip, ok := a.(*net.IPNet)
		if !ok || ip.IP.IsLoopback() || ip.IP.To4() == nil {
			continue
		}
		ask := local(t, identity.Local{os.Geteuid(): identity.LocalAdmin}, net.JoinHostPort(ip.IP.String(), "0"))
		if err := ask(nil); !errors.Is(err, api.ErrUnauthorized) {
			t.Errorf("over %s: %v", ip.IP, err)
		}
	}
}

// TestLocalUsersInTokens checks that "uid:NUMBER" in the list of tokens is a user of this machine, and no token.
func TestLocalUsersInTokens(t *testing.T) {
	t.Parallel()
	uid := "uid:" + strconv.Itoa(os.Geteuid())
	g, err := identity.ReadTokens("secret=a:reader," + uid + "=b:operator")
	if err != nil {
		t.Fatal(err)
	}
	ask := local(t, g, "127.0.0.1:0")
	if err := ask(nil); err != nil {
		t.Errorf("the user: %v", err)
	}
	for token, want := range map[string]error{"secret": nil, uid: api.ErrUnauthorized} {
		if err := ask(func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }); !errors.Is(err, want) {
			t.Errorf("Bearer %s: %v, want %v", token, err, want)
		}
	}
	for _, bad := range []string{"uid:=a", "uid:-1=a", "uid:x=a", "uid:4294967296=a", "uid:1=a b"} {
		if _, err := identity.ReadTokens(bad); !errors.Is(err, job.ErrInvalid) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// TestNeedsNoToken checks that gates that admit requests without a token are found among several.
func TestNeedsNoToken(t *testing.T) {
	t.Parallel()
	tokens := identity.Tokens{}
	for _, c := range []struct {
		gate       identity.Gate
		open, none bool
	}{
		{identity.Open{}, true, true}, {identity.Local{}, false, true}, {tokens, false, false},
		{identity.All(tokens, identity.Local{}), false, true}, {identity.All(tokens, identity.Open{}), true, true},
		{identity.All(identity.All(tokens, identity.Local{}), tokens), false, true}, {identity.All(tokens, tokens), false, false},
	} {
		if open, none := identity.IsOpen(c.gate), identity.NeedsNoToken(c.gate); open != c.open || none != c.none {
			t.Errorf("%#v: open %v, needs no token %v", c.gate, open, none)
		}
	}
}
