// Package hostcheck determines the capabilities of this host for a worker: the isolations that
// work, missing features of the others, and one sandbox's share of host-wide kernel resources.
//
// It only changes the host during a probe. Unknown features count as missing, with the reason.
package hostcheck
