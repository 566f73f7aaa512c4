// Package compose runs the compose file as a team would: in Docker, with every service of it, under load, with containers killed on the
// way. Where there is no registry, the images are built of Debian packages and Go modules (make test-compose).
package compose
