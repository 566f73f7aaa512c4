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
// what is dialled; nothing is looked up twice. Addresses that are not plain
// public ones (netrule.Special) need a rule that names them.
//
// What it does not do: it does not look into TLS. Whoever may talk to a host may
// talk to everything that is served on its addresses under any name, and a
// wildcard rule lets a program send bytes to the domain's name servers as names.
//
// The SOCKS5 server is written out here (socks.go): the sandbox may ask for one
// command, without a password, and a library for it would have to be bent to
// leave resolving and dialling to us.
package egress
