// Package chaos breaks fleets of real processes and checks the guarantees of the design from their
// records: every accepted job has one terminal record, whichever process died. README.md maps the
// tests to the rows of the failure matrix, and explains the long version.
package chaos
