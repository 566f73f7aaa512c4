package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/assay-run/assay/pkg/netrule"
)

// opened returns a network whose names are the keys of known.
func opened(t *testing.T, o Operator, known names) *Network {
	t.Helper()
	n, err := open(t.Context(), o, known.resolve)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return n
}

// try reports the host that a client reached, or the reason why not.
func try(c Config, host string, port uint16) string {
	c.Dial = func(_ context.Context, to netip.AddrPort) (net.Conn, error) {
		near, far := net.Pipe()
		_ = far.Close()
		return near, nil
	}
	t := target{name: host, port: port}
	if a, err := netip.ParseAddr(host); err == nil {
		t = target{addr: a.Unmap(), port: port}
	}
	p := New(c)
	defer p.Close()
	conn, to, no := p.connect(t)
	if no != nil {
		return no.reason
	}
	_ = conn.Close()
	return to.String()
}

// TestOperatorsWord checks that a private address is reached only if both the operator and the tenant's own
// list allow it.
func TestOperatorsWord(t *testing.T) {
	t.Parallel()
	known := names{"db.corp": "10.1.2.3", "db.example.org": "10.1.2.3", "public.example.org": "8.8.8.8", "meta.example.org": "169.254.169.254"}
	tenant := rules(t, "10.1.2.3:5432", "10.1.2.4:*", "*.example.org:*", "db.corp:5432", "169.254.169.254:80", "8.8.8.8:53")
	for _, c := range []struct {
		private, host string
		port          uint16
		open          bool // the tenant's network is open
		want          string
	}{
		{"", "10.1.2.3", 5432, false, "private" + notOpened},
		{"", "db.corp", 5432, false, innerName},
		{"", "db.example.org", 5432, false, "private" + notOpened + ", where the name leads"},
		{"10.0.0.0/8:5432", "10.1.2.3", 5432, false, "10.1.2.3"},
		{"10.0.0.0/8:5432", "db.corp", 5432, false, "10.1.2.3"},
		{"10.0.0.0/8:5432", "db.example.org", 5432, false, "10.1.2.3"},
		{"10.0.0.0/8:5432", "db.example.org", 22, false, "private" + notOpened + ", where the name leads"},
		{"10.0.0.0/8:5432", "10.1.2.4", 22, false, "private" + notOpened},
		{"10.0.0.0/8:5432", "10.1.2.9", 5432, false, notListed},
		{"10.0.0.0/8:5432", "10.1.2.9", 5432, true, "10.1.2.9"},
		{"0.0.0.0/0:*", "10.1.2.3", 5432, false, "private" + notOpened}, // a wide range opens nothing
		{"169.254.0.0/16:*", "169.254.169.254", 80, false, "metadata" + notOpened},
		{"169.254.0.0/16:*", "meta.example.org", 80, false, "metadata" + notOpened + ", where the name leads"},
		{"169.254.169.254:80", "meta.example.org", 80, false, "169.254.169.254"},
		{"", "public.example.org", 443, false, "8.8.8.8"},
		{"", "8.8.8.8", 53, false, "8.8.8.8"},
		{"", "8.8.8.8", 54, false, notListed},
	} {
		list := tenant
		if c.open {
			list = netrule.Any()
		}
		var private []string
		if c.private != "" {
			private = []string{c.private}
		}
		byTenant := Config{Rules: list, Private: rules(t, private...), Resolve: known.resolve}
		byWorker := Config{Rules: list, Network: opened(t, Operator{Private: private}, nil), Resolve: known.resolve}
		for who, cfg := range map[string]Config{"ceiling": byTenant, "worker": byWorker} {
			if got := try(cfg, c.host, c.port); got != c.want {
				t.Errorf("%s opens %q: %s:%d: %s, want %s", who, c.private, c.host, c.port, got, c.want)
			}
		}
	}
}

// TestFleetsOwn checks that the fleet's own hosts are closed by name and by their present and past addresses,
// on public and on opened addresses.
func TestFleetsOwn(t *testing.T) {
	t.Parallel()
	known := names{"nats.example.org": "10.0.0.5 198.41.0.4", "alias.example.net": "198.41.0.4", "other.example.net": "10.0.0.5"}
	n := opened(t, Operator{Private: []string{"10.0.0.0/8:*"}, Never: []string{"nats.example.org:4222", "gone.example.org", "203.0.113.0/24", "10.0.0.6:5432"}}, known)
	cfg := Config{Rules: netrule.Any(), Private: rules(t, "10.0.0.5:4222", "203.0.113.0/24:*"), Network: n, Resolve: known.resolve}
	refused := func(host string, port uint16) {
		t.Helper()
		if got := try(cfg, host, port); !strings.HasPrefix(got, notOurs) {
			t.Errorf("%s:%d: %s", host, port, got)
		}
	}
	refused("nats.example.org", 4222)
	refused("alias.example.net", 4222)
	refused("other.example.net", 4222)
	refused("10.0.0.5", 4222)
	refused("::ffff:10.0.0.5", 4222)
	refused("198.41.0.4", 4222)
	refused("203.0.113.9", 1)
	refused("10.0.0.6", 5432)
	for host, port := range map[string]uint16{"10.0.0.6": 80, "198.41.0.4": 443, "10.0.0.5": 443} { // a shared host's other services
		if got := try(cfg, host, port); got != host {
			t.Errorf("%s:%d: %s", host, port, got)
		}
	}
	// It moves, and both places stay closed; a resolver that fails opens nothing.
	moving := names{"nats.example.org": "198.41.0.9"}
	n.resolve = moving.resolve
	if err := n.refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	refused("198.41.0.9", 4222)
	refused("198.41.0.4", 4222)
	n.resolve = names{}.resolve
	if err := n.refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	refused("198.41.0.9", 4222)
	refused("10.0.0.5", 4222)
}

// A host's own public address is in no registry of special ones. Worked on
// 5ee7338 for every list that held it, and for open networks.
func TestHostsOwnAddresses(t *testing.T) {
	t.Parallel()
	const own = "198.41.0.77"
	n := opened(t, Operator{}, nil)
	n.own = append(n.own, netip.MustParseAddr(own), netip.MustParseAddr("10.0.0.7"))
	known := names{"own.example.org": own, "mapped.example.org": "::ffff:" + own}
	for _, list := range []netrule.Rules{netrule.Any(), rules(t, own+":*", "*.example.org:*"), rules(t, "0.0.0.0/0:*", "own.example.org:22", "mapped.example.org:22")} {
		for _, host := range []string{own, "own.example.org", "mapped.example.org", "::ffff:" + own} {
			if got := try(Config{Rules: list, Network: n, Resolve: known.resolve}, host, 22); !strings.HasPrefix(got, "this host's own") {
				t.Errorf("%s: %s", host, got)
			}
		}
	}
	// A range that holds it does not open it, its own address does.
	for private, want := range map[string]string{"10.0.0.0/8:22": "this host's own" + notOpened, "10.0.0.7:22": "10.0.0.7"} {
		if got := try(Config{Rules: netrule.Any(), Private: rules(t, private), Network: n}, "10.0.0.7", 22); got != want {
			t.Errorf("%s: %s, want %s", private, got, want)
		}
	}
}

// TestNoLookupOfInnerNames checks that a forbidden name is not looked up, because the resolver would pass it
// on. Worked on 5ee7338 for open networks and listed names.
func TestNoLookupOfInnerNames(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var asked []string
	look := func(_ context.Context, name string) ([]netip.Addr, error) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, name)
		return nil, errors.New("no such name")
	}
	n := opened(t, Operator{Never: []string{"nats.example.org"}}, nil)
	inner := []string{"nats", "localhost", "secret.cluster.local", "metadata.google.internal", "s3cr3t.corp", "1.0.0.10.in-addr.arpa"}
	listed := rules(t, "nats:*", "localhost:*", "*.local:*", "*.internal:*", "*.corp:*", "*.arpa:*", "nats.example.org:*")
	for _, list := range []netrule.Rules{netrule.Any(), listed} {
		for _, name := range append(inner, "nats.example.org") {
			if got := try(Config{Rules: list, Network: n, Resolve: look}, name, 80); got != innerName && got != notOurs {
				t.Errorf("%s: %s", name, got)
			}
		}
	}
	if len(asked) > 0 {
		t.Errorf("looked up %v", asked)
	}
}

// TestNamesAreMetered checks that looked-up names count as sent bytes. Worked on 5ee7338: a program sent an
// open network's name servers any amount of data.
func TestNamesAreMetered(t *testing.T) {
	t.Parallel()
	asked := 0
	p := New(Config{Rules: netrule.Any(), MaxBytes: 1000, Dial: noDial(t), Resolve: func(context.Context, string) ([]netip.Addr, error) {
		asked++
		return nil, errors.New("no such name")
	}})
	for range 100 {
		_, _, _ = p.connect(target{name: strings.Repeat("a", 60) + "." + strings.Repeat("b", 60) + ".example.org", port: 443})
	}
	if r := p.Close(); asked > 1000/120 || !r.Exceeded || r.Sent != 1000 {
		t.Errorf("%d names of 133 bytes were looked up; report %+v", asked, r)
	}
}

func TestOperatorCheck(t *testing.T) {
	t.Parallel()
	for _, bad := range []Operator{{Private: []string{"db.internal:5432"}}, {Private: []string{"10.0.0.0/8"}}, {Never: []string{"*.example.org"}}, {Never: []string{""}}} {
		if err := bad.Check(); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
	if _, err := Open(t.Context(), Operator{Namespace: "/run/netns/there-is-no-such"}); err == nil {
		t.Error("a namespace that is not there was accepted")
	}
}
