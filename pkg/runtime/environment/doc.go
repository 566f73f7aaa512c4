// Package environment creates environments: images with additional Python packages.
//
// An environment consists of a base image and a list of pip requirements. The result is a layer:
// the files that the packages add to the image's root file system. The layer is mounted over the
// root file system, so that a job sees one image at every isolation, without extra cost. Results
// and keys identify an environment by a digest of the base, of every file of the layer and of the
// list of packages with their hashes. The worker computes this digest itself and trusts no other
// source.
//
// Get looks for an environment in this order:
//
//   - mounted already
//   - in this worker's directory (store.go, disk.go)
//   - built by other workers, in the object store (share.go, archive.go)
//   - built here (build.go, steps.go)
//
// # Builds
//
// A build consists of several runs of pip, each in its own sandbox on the base. Code of different
// packages never shares a sandbox:
//
//   - A pip that cannot start programs fetches wheels.
//   - Each package that exists as source only is built alone.
//   - The worker copies, reads and hashes the wheels (wheel.go).
//   - A pip without a network unpacks them.
//
// The worker copies the result to the layer (layer.go). It accepts only files and directories, at
// places for packages, that replace nothing of the image.
//
// A build ends with a *runtime.BuildError in these cases:
//
//   - pip cannot find or install the packages.
//   - A package does not build.
//   - There are too many packages, or they are too large or too slow.
//   - A wheel or the layer has forbidden content.
//
// This ends the job and is not a failure of the worker. The same list gives the same tenant the
// same error for half a minute without another build. Other errors are the worker's or temporary,
// such as runtime.ErrImage when environments in use leave no room.
//
// At most two builds run at once, plus two from source (turns.go). A tenant has at most one of each
// kind. The tenant with the oldest last turn goes first.
//
// # Sharing
//
// Tenants share environments that consist only of wheels from the index. If a package was built
// from source, its code determined the result, so the environment is private to its tenant, on this
// worker and in the fleet.
//
// Workers share environments through Shared. A worker reports its builds, and trusts a digest that
// enough other workers have reported. It does not trust the object store: it unpacks an object as
// untrusted data, with the same checks as a build's layer, and uses it only if its digest matches.
// After any problem, the worker builds. Fetched environments are never reported. ADR 0028 has the
// reasons.
//
// # Space
//
// Environments stay on disk between runs, within a total limit and half of it for each tenant.
// Above a limit, the least recently used are removed, for a tenant above its share its own first,
// but none in use (collect.go).
//
// host.go has the interfaces to the runtime.
package environment
