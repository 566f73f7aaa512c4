// Package packet is the worker's end of what it says to the inside of a cell: sockets of packets, which
// carry descriptors and the kernel's word of who sent them. What the packets mean is in package
// internal/guest.
//
// Both ends are on one machine. Who is at the other end may be an enemy: descriptors that it
// sends are closed, and what is not the one packet that may come next is an error.
package packet
