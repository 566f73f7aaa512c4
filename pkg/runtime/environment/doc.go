// Package environment makes environments: images with Python packages on top.
//
// An environment is made of a base, which is an image, and a list of requirements as pip
// reads them. What comes of it is a layer: the files that the packages add to the image's
// root file system. It is mounted over that, so that a job sees one image, at every
// isolation, and pays nothing for it. What an environment is called in results and in keys
// is a digest of the base, of every file of the layer and of the list of packages with
// their hashes, as this worker has seen them itself, and not of what anybody said.
//
// Get looks for an environment in this order:
//
//   - it is mounted already;
//   - it is in the directory of this worker (store.go);
//   - others of the fleet have built it, and it is in the object store (share.go,
//     archive.go);
//   - it is built here (build.go, steps.go).
//
// # Builds
//
// A build is a few runs of pip, each in a sandbox of its own on the base, and in none of
// them does code of one package meet another package: wheels are fetched by a pip that can
// start no program; what there is as source only is built alone; and the wheels, which
// the worker has copied, read and hashed (wheel.go), are unpacked by a pip without
// a network. The worker copies what that has left to the layer (layer.go): files and
// directories alone, at places where packages may have some, and in the place of nothing
// that is the image's own.
//
// A build ends with a *runtime.BuildError if pip finds no such packages or cannot install
// them, if one of them does not build, if they are larger than is allowed, more, or take too
// long, and if a wheel or the layer holds what it must not. That is the job's end and no
// failure of the worker. The tenant gets the same answer to the same list for half a minute
// then, without another build. Every other error is the worker's, or passes, as
// runtime.ErrImage does: what is in use leaves no room.
//
// Of builds there are two at once, and as many from source (turns.go). A tenant has one of
// either kind, and those go first whose last turn is longest ago.
//
// # Sharing
//
// Tenants share an environment whose packages were all wheels of the index. One with a
// package that was built from source is what that package's code made of it: it is its
// tenant's alone, on this worker and in the fleet.
//
// Workers share environments by Shared. A worker states what it has built, and believes
// what enough others have stated, not what lies in the object store: that is unpacked as
// a stranger's, checked and copied by the code that copies a build's layer, and used only
// if it comes to the digest that was stated. Whatever else happens, the worker builds. What
// was fetched is never stated. ADR 0028 has the reasons.
//
// # Space
//
// Environments stay on disk between runs, until they take more than they may together, or
// a tenant more than half of that. Then those go first that were used longest ago, and of
// a tenant above its share its own; none that is in use (collect.go).
//
// What environments need of the runtime around them is in host.go.
package environment
