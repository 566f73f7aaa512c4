// Package e2e tells whole stories over the real programs: a fleet as `assay dev`
// runs it, its API, and what a client finds recorded. How a sandbox behaves in
// detail is the subject of pkg/runtime/runtimetest; here it is that the same
// outcome comes out at the other end, and that nothing is left behind.
package e2e
