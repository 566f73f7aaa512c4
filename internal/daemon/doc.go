// Package daemon runs servers that end with this process, mainly a private containerd. A worker
// that is alone in a container uses one, and so does a fleet on one machine.
package daemon
