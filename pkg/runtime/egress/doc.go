// Package egress is the only way out of a sandbox with an allow-list as its network: a proxy for
// HTTP CONNECT, plain HTTP and SOCKS5 on one socket of the sandbox's own loopback.
//
// The listening socket is created inside the job's network namespace (Listen) and served from
// outside of it (Proxy.Start). The sandbox has no interface except loopback, no route and no
// resolver. So a refusal by the proxy is final, because there is no network, and not because of a
// filter.
//
// A client sends a host and a port. A name must be on the list before it is looked up, because a
// lookup already sends a message to the owner of the name. Each resolved address is then checked,
// and the checked address is dialled without a second lookup.
//
// The tenant's list decides about public addresses. Private addresses (netrule.Special), and
// addresses of this host's interfaces, must be opened by an operator: for a tenant (Config.Private)
// or on a worker (Operator.Private). Addresses in Operator.Never are never dialled. With
// Operator.Namespace, connections start in a network namespace set up by the operator, where the
// fleet's own services do not exist.
//
// It does not inspect TLS. A program that may connect to a host can reach all services on its
// addresses under any name. A wildcard rule, or an open network, lets a program send bytes to name
// servers as names; they count towards MaxBytes.
//
// The SOCKS5 server is implemented here (socks.go). A sandbox may use one command, without a
// password, and a library would not leave resolving and dialling to us.
package egress
