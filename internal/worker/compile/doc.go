// Package compile compiles programs in sandboxes and caches the results by source.
//
// The output of a compiler is untrusted data. It is read from the sandbox without following links,
// and stored under generated names in a directory that no sandbox sees. It is never executed on the
// host, and only jobs of the same tenant can find it. The key is a hash of tenant, image digest,
// language, arguments, environment, isolation, limits, and each source with its path. docs/adr/0032
// has the reasons.
//
// Rejections are cached as well if the compiler's exit code reports them. A compilation that
// exceeded a limit is reported to the waiting jobs and not cached. Our own failures are reported to
// one job only.
package compile
