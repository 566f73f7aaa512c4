// Package cell runs the jobs of isolation cell: a cell is a container that all jobs of one tenant and
// image share for an hour or so, and each job has a box in it, with namespaces, a root, scratch and a
// control group of its own. Containers are made through package engine; what happens to a program
// in its box is in package sandbox, and what runs inside of the container in internal/guest/launcher.
//
//	what a slot is made of                  where                       of
//	--------------------------------------  --------------------------  -------------------------------------
//	cells, by tenant and image; their pool  cells.go, config.go         a Runtime of package containerd
//	the container, its launcher, zygotes    cell.go, link.go            one tenant and image
//	a box, and the program in it            slot.go, attempt.go         one job
//	a user and a network for it             users.go, network.go        the cell, lent to one box after the other
//	a copy of a running session             fork.go, enter.go, spare.go a slot, inside whose box its own is
//	an interpreter that has imported        preload.go, preloads.go     the cell; programs are forked from it
//
// A slot whose launcher or interpreter was lost fails with runtime.ErrBroken, which is ours and not the
// program's, and the next slot is one of a new cell. What a killed worker leaves is removed by the
// sweep of package containerd.
package cell
