// Package lease lends control groups to jobs one after the other, because to make one costs more than
// most jobs do.
//
// A group on loan begins like a new one: its meters count from zero, and what an earlier job left charged
// to it is bounded. Where the kernel does not let a group be used again it is made anew for each loan. A
// group that cannot be made good is removed, and one that cannot be removed is left to the next sweep.
package lease
