// Package e2e tests whole scenarios over the real programs: a fleet of `assay dev`, its API, and
// the records that a client finds. pkg/runtime/runtimetest tests sandboxes in detail. Here the
// tests check that the same outcome reaches the client, and that no data is left behind.
package e2e
