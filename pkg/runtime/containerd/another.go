package containerd

import (
	"crypto/rand"
	"encoding/hex"
	mathrand "math/rand/v2"
)

const (
	// uidBase is above what hosts give to their own users, and above the default
	// ranges of subuid(5).
	uidBase = 1_000_000
	// uidRanges is how many sandboxes have ranges of ids of their own at once.
	uidRanges = 16384
)

// sandboxUID gives neighbours ranges of ids of their own, so that no quota or
// signal of one reaches another.
func sandboxUID(n int) int { return uidBase + n*idCount }

// another names one more sandbox: for its directory, for everything else on this
// host, and the first of its ids. A program sees all three, so none of them tells
// how many sandboxes of others there have been.
func (r *Runtime) another() (token, name string, uid int) {
	random := make([]byte, 6)
	_, _ = rand.Read(random) // never fails
	token = hex.EncodeToString(random)
	n := r.next.Add(1) % uidRanges
	return token, r.instance + "-" + r.started + "-" + token, sandboxUID(r.ids[n])
}

// mixedIDs is the order in which sandboxes are given their ranges.
func mixedIDs() []int { return mathrand.Perm(uidRanges) }
