// Package process manages processes that are not our children. It holds a process by a descriptor,
// so that its number cannot be reused, kills it, and waits for its end.
//
// It requires Linux 5.4 for process descriptors, without which there are no sandboxes. A killed
// process may take long to die on a busy machine. Patience distinguishes this from a stuck process,
// for which it returns ErrStillRunning.
package process
