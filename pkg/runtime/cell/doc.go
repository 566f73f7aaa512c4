// Package cell runs the jobs of isolation cell: a cell is a container that all jobs of one tenant and
// image share for an hour or so, and each job has a box in it, with namespaces, a root, scratch and a
// control group of its own. Containers are made through package engine; what happens to a program
// in its box is in package sandbox, and what runs inside of the container in internal/guest/launcher.
//
//	what there is                           whose it is                           where
//	--------------------------------------  ------------------------------------  ----------------------------
//	cells, by tenant and image; their pool  the worker's                          cells.go, config.go
//	a container, its launcher, its zygotes  a tenant's and an image's             cell.go, link.go
//	a box, and the program in it            a job's                               slot.go, attempt.go
//	a user and a network for a box          the cell's: one box after the other   users.go, network.go
//	a copy of a running session             a slot's, inside whose box its own is fork.go, enter.go, spare.go
//	an interpreter that has imported        the cell's: programs are forked       preload.go, preloads.go
//
// A slot whose launcher or interpreter was lost fails with runtime.ErrBroken, which is ours and not the
// program's, and the next slot is one of a new cell. What a killed worker leaves is removed by the
// sweep of package containerd.
package cell
