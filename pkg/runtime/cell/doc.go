// Package cell runs jobs with isolation cell. A cell is a container that all jobs of one tenant and
// image share for about an hour. Each job has a box in it, with its own namespaces, root, scratch
// and control group. Package engine creates the containers, package sandbox runs the programs in
// boxes, and internal/guest/launcher runs inside of the container.
//
//	object                                  owner                                 files
//	--------------------------------------  ------------------------------------  ----------------------------
//	cells, by tenant and image; their pool  the worker                            cells.go, config.go
//	a container, its launcher, its zygotes  a tenant and an image                 cell.go, link.go
//	a box, and the program in it            a job                                 slot.go, attempt.go
//	a user and a network for a box          the cell, for one box at a time       users.go, network.go
//	a copy of a running session             a slot, inside the session's box      fork.go, enter.go, spare.go
//	a preloaded interpreter                 the cell; programs are forked from it preload.go, preloads.go
//
// A slot with a lost launcher or interpreter fails with runtime.ErrBroken, which is our failure and
// not the program's. The next slot is in a new cell. After a kill of the worker, package
// containerd's sweep removes the remains.
package cell
