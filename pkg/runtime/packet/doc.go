// Package packet is the worker's end of its connections into a cell: packet sockets, which carry
// descriptors and the kernel's authentication of senders. Package internal/guest defines the
// packets.
//
// Both ends are on one machine. The other end is untrusted: received descriptors are closed, and
// any packet except the expected one is an error.
package packet
