// Package egress is the only way out of a sandbox whose network is an
// allow-list: a proxy that speaks HTTP CONNECT, plain HTTP and SOCKS5 on one
// socket of the sandbox's own loopback.
//
// The listening socket is created inside the job's network namespace (Listen)
// and served from outside of it (Proxy.Start). The sandbox needs no interface
// but loopback, no route and no resolver, so what the proxy refuses is refused
// by the absence of a network and not by a filter.
//
// A client names a host and a port. A name must be on the list before anything
// is looked up: a lookup would already be a message to whoever serves the name.
// Each address that it resolves to is then judged, and one that was judged is
// what is dialled; nothing is looked up twice.
//
// The tenant's list decides about public addresses. Those that are not
// (netrule.Special), and those of this host's own interfaces, are reached only
// where an operator has opened them by address: for a tenant (Config.Private) or
// on a worker (Operator.Private). What Operator.Never names is never dialled. With
// Operator.Namespace, connections are made from a network namespace that the
// operator has laid out, in which the fleet's own services do not exist.
//
// What it does not do: it does not look into TLS. Whoever may talk to a host may
// talk to everything that is served on its addresses under any name, and a
// wildcard rule, or an open network, lets a program send bytes to name servers as
// names: they count towards MaxBytes as others do.
//
// The SOCKS5 server is written out here (socks.go): the sandbox may ask for one
// command, without a password, and a library for it would have to be bent to
// leave resolving and dialling to us.
package egress
