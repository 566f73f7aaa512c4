// Package image runs the images that `make images` builds, as containers that have nothing of this host but its network:
// no socket, no namespace of processes, no path, no device.
// That takes the images and is `make test-image`; what compares files runs with every other test.
package image
