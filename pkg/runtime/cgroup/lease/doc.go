// Package lease lends control groups to jobs one after the other, because creating one costs more
// than most jobs.
//
// A lent group starts like a new one: its meters count from zero, and the memory charged by an
// earlier job is limited. If the kernel does not support reuse, each loan gets a new group. A group
// that cannot be cleaned is removed; if that fails, the next sweep removes it.
package lease
