package egress

import (
	"context"
	"net"
	"net/netip"
	"time"

	"github.com/assay-run/assay/pkg/netrule"
	"github.com/assay-run/assay/pkg/runtime/toll"
)

// Config is the destinations that one job may reach. The zero value allows none.
type Config struct {
	Rules    netrule.Rules // of the tenant, unless Trusted
	Private  netrule.Rules // private addresses that an operator has opened to this tenant
	Network  *Network      // of the worker; nil: the worker's own network without further rules
	Trusted  bool          // Rules are an operator's: their ranges are open, and their names may lead into private networks
	MaxBytes int64         // both directions together, including looked-up names; 0: unlimited

	MaxConns    int           // concurrent; others wait for acceptance. 0: 64
	MaxAttempts int           // in the report, for each kind. 0: 100
	Idle        time.Duration // of a connection; 0: five minutes

	// Toll measures and limits the proxy's work for the job. Nil: neither.
	Toll *toll.Meter

	// Resolve and Dial replace the host's resolver and network. Dial only gets checked addresses.
	Resolve func(ctx context.Context, name string) ([]netip.Addr, error)
	Dial    func(ctx context.Context, to netip.AddrPort) (net.Conn, error)
}

// Time limits and counts of the proxy.
const (
	headTime    = 30 * time.Second // for a client to send its destination
	resolveTime = 10 * time.Second
	dialTime    = 10 * time.Second // for each address
	maxAddrs    = 8                // addresses of a name that are tried
)

// Estimated costs of work for a client in which several threads take part. Reads and writes are
// measured.
const (
	connCost   = 40 * time.Microsecond  // to accept a connection, parse its request, record it, and close it
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

// resolve queries the host's resolver. The final dot prevents the use of the host's search domains,
// for which there is no rule.
func resolve(ctx context.Context, name string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name+".")
}
