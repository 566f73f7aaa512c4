// Package process holds processes that are not our children: it names one by a descriptor, so that
// its number cannot come to mean another, kills it, and waits for its end.
//
// It needs Linux 5.4 for descriptors of processes. Without them no sandbox can be made. What was
// killed may take long to die on a busy machine: Patience tells that from what never will, and
// ErrStillRunning says so.
package process
