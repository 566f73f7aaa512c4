package egress

import (
	"context"
	"net"
	"net/netip"
	"time"

	"github.com/assay-run/assay/pkg/netrule"
	"github.com/assay-run/assay/pkg/runtime/toll"
)

// Config is what one job may reach. The zero value reaches nothing.
type Config struct {
	Rules    netrule.Rules // of the tenant, unless Trusted
	Private  netrule.Rules // addresses that are not public and that an operator has opened to this tenant
	Network  *Network      // of the worker; nil: its own, which opens and closes nothing more
	Trusted  bool          // Rules are an operator's: its ranges are open, and its names may lead into private networks
	MaxBytes int64         // to and from hosts together, and of the names that are looked up; 0: no limit

	MaxConns    int           // at once; the others wait to be accepted. 0: 64
	MaxAttempts int           // kept in the report, of each kind. 0: 100
	Idle        time.Duration // of a connection; 0: five minutes

	// Toll measures the work for the job, and rations what the proxy does for it. nil: neither.
	Toll *toll.Meter

	// Resolve and Dial stand in for the host's resolver and network. Dial gets an
	// address that was judged, and nothing else is ever dialled.
	Resolve func(ctx context.Context, name string) ([]netip.Addr, error)
	Dial    func(ctx context.Context, to netip.AddrPort) (net.Conn, error)
}

// How patient the proxy is.
const (
	headTime    = 30 * time.Second // for a client to say where it wants to go
	resolveTime = 10 * time.Second
	dialTime    = 10 * time.Second // for each address
	maxAddrs    = 8                // of a name that are tried
)

// What the work for a client costs about that several threads do. Reading and writing are measured.
const (
	connCost   = 40 * time.Microsecond  // to accept a connection, to parse what the client asks for, to record it, and to close it
	lookUpCost = 100 * time.Microsecond // to resolve a name
	dialCost   = 100 * time.Microsecond // to connect to an address
)

func (c Config) withDefaults() Config {
	if c.MaxConns == 0 {
		c.MaxConns = 64
	}
	if c.MaxAttempts == 0 {
		c.MaxAttempts = 100
	}
	if c.Idle == 0 {
		c.Idle = 5 * time.Minute
	}
	if c.Resolve == nil {
		c.Resolve = resolve
	}
	if c.Dial == nil {
		c.Dial = c.Network.dial()
	}
	return c
}

// resolve asks the host's resolver. The dot at the end keeps it from trying the
// name below the host's own search domains, which no rule has judged.
func resolve(ctx context.Context, name string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name+".")
}
