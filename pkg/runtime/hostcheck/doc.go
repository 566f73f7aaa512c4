// Package hostcheck finds out what this host lets a worker do: which isolations work, what is
// missing for those that do not, and how much of what the kernel counts for the whole host one
// sandbox may have.
//
// Nothing here changes the host but for the moment of a probe. What cannot be found out counts
// as missing, with the reason.
package hostcheck
