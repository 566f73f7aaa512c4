// Package compose runs the compose file as a team would: in Docker, with all of its services, under
// load, and with containers killed meanwhile. Without a registry, the images are built from Debian
// packages and Go modules (make test-compose).
package compose
