// Package image runs the images of `make images`, as containers that share only the network with
// this host: no socket, no pid namespace, no path, no device. These tests need the images: `make
// test-image`. The comparisons of files run with all other tests.
package image
