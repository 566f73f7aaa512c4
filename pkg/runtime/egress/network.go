package egress

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/assay-run/assay/pkg/netrule"
)

// Operator is the configuration of a worker's network.
type Operator struct {
	// Private are private addresses that jobs may reach if their policies allow it: ranges with
	// ports. Empty: none.
	Private []string
	// Never are names, addresses and ranges, each with a port or for all ports, that no job may reach
	// under any rule: the fleet's own.
	Never []string
	// Namespace is the path of the network namespace for connections, such as /run/netns/jobs. Empty:
	// the worker's own.
	Namespace string
}

// Check returns an error for a wrong setting, except a missing namespace.
func (o Operator) Check() error {
	if _, err := netrule.ParseRanges(o.Private); err != nil {
		return fmt.Errorf("private%w", err)
	}
	for _, entry := range o.Never {
		if _, err := netrule.ParseHost(entry); err != nil {
			return fmt.Errorf("never: %w", err)
		}
	}
	return nil
}

// Network is the origin of connections of a worker's proxies, and their forbidden destinations. It
// is safe for concurrent use.
type Network struct {
	private netrule.Rules
	never   []netrule.Host // by address
	names   []netrule.Host // by name; found has their addresses
	ns      *os.File       // nil: the worker's own
	resolve func(context.Context, string) ([]netip.Addr, error)

	stop context.CancelFunc
	wg   sync.WaitGroup

	mu    sync.RWMutex
	found map[neverAt]time.Time // time of the last sighting
	own   []netip.Addr          // addresses of this host's interfaces
}

// neverAt is a resolved address of a forbidden name, and the index of the name.
type neverAt struct {
	addr netip.Addr
	name int
}

const (
	refreshEach = 15 * time.Second
	// rememberFor is how long a former address of a name stays forbidden: the name may return to it,
	// and connections outlive the resolver's answer.
	rememberFor = time.Hour
)

// Open returns the network of a worker. Until Close it tracks the names in o.Never and the
// addresses of this host's interfaces.
func Open(ctx context.Context, o Operator) (*Network, error) { return open(ctx, o, resolve) }

func open(ctx context.Context, o Operator, lookup func(context.Context, string) ([]netip.Addr, error)) (n *Network, err error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	n = &Network{resolve: lookup, found: map[neverAt]time.Time{}, stop: func() {}}
	if n.private, err = netrule.ParseRanges(o.Private); err != nil {
		return nil, err
	}
	for _, entry := range o.Never {
		h, err := netrule.ParseHost(entry)
		if err != nil {
			return nil, err
		}
		if h.Name() == "" {
			n.never = append(n.never, h)
		} else if !slices.Contains(n.names, h) {
			n.names = append(n.names, h)
		}
	}
	if o.Namespace != "" {
		if n.ns, err = os.Open(o.Namespace); err != nil {
			return nil, fmt.Errorf("the network namespace that jobs' connections are made from: %w", err)
		}
	}
	if err := n.refresh(ctx); err != nil {
		n.Close()
		return nil, err
	}
	ctx, n.stop = context.WithCancel(context.WithoutCancel(ctx))
	n.wg.Go(func() { n.follow(ctx) })
	return n, nil
}

// Close stops the tracking. Proxies of n must not be in use any more.
func (n *Network) Close() {
	n.stop()
	n.wg.Wait()
	if n.ns != nil {
		_ = n.ns.Close() // it was only read
	}
}

func (n *Network) follow(ctx context.Context) {
	tick := time.NewTicker(refreshEach)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := n.refresh(ctx); err != nil && ctx.Err() == nil {
				slog.WarnContext(ctx, "host addresses not readable; the previous ones stay blocked for jobs", "error", err)
			}
		case <-ctx.Done():
			return
		}
	}
}

// refresh looks up the forbidden destinations. An unresolvable name keeps its previous addresses.
// Other problems are errors.
func (n *Network) refresh(ctx context.Context) error {
	seen := map[neverAt]time.Time{}
	for i, h := range n.names {
		ctx, cancel := context.WithTimeout(ctx, resolveTime)
		addrs, err := n.resolve(ctx, h.Name())
		cancel()
		if err != nil && ctx.Err() == nil {
			slog.DebugContext(ctx, "blocked host not resolved", "host", h.Name(), "error", err)
		}
		for _, a := range addrs {
			seen[neverAt{a.Unmap(), i}] = time.Now()
		}
	}
	own, err := addressesIn(nil)
	if err == nil && n.ns != nil {
		var more []netip.Addr
		more, err = addressesIn(n.ns)
		own = append(own, more...)
	}
	if err != nil {
		return fmt.Errorf("read the addresses of this host: %w", err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for at, when := range n.found {
		if _, again := seen[at]; !again && time.Since(when) < rememberFor {
			seen[at] = when
		}
	}
	n.found, n.own = seen, own
	return nil
}

// closes reports whether a is forbidden at port.
func (n *Network) closes(a netip.Addr, port uint16) bool {
	if n == nil {
		return false
	}
	if slices.ContainsFunc(n.never, func(h netrule.Host) bool { return h.At(port) && h.Range().Contains(a) }) {
		return true
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	for i, h := range n.names {
		if _, is := n.found[neverAt{a, i}]; is && h.At(port) {
			return true
		}
	}
	return false
}

// closesName reports whether name is forbidden at port.
func (n *Network) closesName(name string, port uint16) bool {
	return n != nil && slices.ContainsFunc(n.names, func(h netrule.Host) bool { return h.Name() == name && h.At(port) })
}

// block returns the narrowest range of special addresses that contains a. Each of this host's own
// addresses is a range of its own, except loopback.
func (n *Network) block(a netip.Addr) (netrule.Block, bool) {
	if n != nil && !a.IsLoopback() {
		n.mu.RLock()
		defer n.mu.RUnlock()
		if slices.Contains(n.own, a) {
			return netrule.Block{Prefix: netip.PrefixFrom(a, a.BitLen()), Kind: "this host's own"}, true
		}
	}
	return netrule.Special(a)
}

// opens reports whether the operator of this worker has opened a at port with a range within block.
func (n *Network) opens(a netip.Addr, port uint16, block netip.Prefix) bool {
	return n != nil && n.private.Holds(a, port, block)
}

func (n *Network) opensNothing() bool { return n == nil || n.private.Empty() }

// Private returns the operator's opened addresses.
func (n *Network) Private() netrule.Rules { return n.private }

// dial returns a function that connects to a checked address.
func (n *Network) dial() func(context.Context, netip.AddrPort) (net.Conn, error) {
	if n == nil {
		return dialIn(nil)
	}
	return dialIn(n.ns)
}
