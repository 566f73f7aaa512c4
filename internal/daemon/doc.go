// Package daemon runs servers that end with this process, above all a containerd of its own. A worker that is alone in a
// container has one, and so has a fleet on one machine.
package daemon
