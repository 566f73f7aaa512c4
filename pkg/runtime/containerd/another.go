package containerd

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"strings"

	"github.com/assay-run/assay/pkg/runtime/sandbox"
)

const (
	// uidBase is above what hosts give to their own users, and above the default
	// ranges of subuid(5).
	uidBase = 1_000_000
	// uidRanges is how many sandboxes have ranges of ids of their own at once.
	uidRanges = 16384
	// leastRanges is how many are enough for sandboxes to be apart, if few run at once.
	leastRanges = 15
)

// idRanges returns where the ranges of ids begin and how many there are, from the form
// of proc(5)'s uid_map: in a user namespace, that of a pod say, there are no others.
func idRanges(uidMap string) (base, ranges int, err error) {
	ids := 0 // from 0 on, without a gap
	for line := range strings.Lines(uidMap) {
		var inside, outside, n int
		if _, err := fmt.Sscan(line, &inside, &outside, &n); err != nil {
			return 0, 0, fmt.Errorf("uid_map: unexpected line %q", line)
		}
		if inside == ids {
			ids += n
		}
	}
	if base, ranges = uidBase, (ids-uidBase)/sandbox.IDs; ranges < uidRanges {
		base, ranges = sandbox.IDs, ids/sandbox.IDs-1
	}
	if ranges < leastRanges {
		return 0, 0, fmt.Errorf("this user namespace has %d ids, and sandboxes take at least %d: of a pod, set userNamespaces.idsPerPod of the kubelet", ids, (leastRanges+1)*sandbox.IDs)
	}
	return base, min(ranges, uidRanges), nil
}

// ids gives neighbours ranges of ids of their own, so that no quota or signal of one
// reaches another.
type ids struct {
	base  int
	order []int // in which ranges are given, mixed
}

// hostIDs are those that this process has to give.
func hostIDs() (ids, error) {
	text, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return ids{}, err
	}
	base, ranges, err := idRanges(string(text))
	if err != nil {
		return ids{}, err
	}
	return ids{base, mathrand.Perm(ranges)}, nil
}

// nth is the first id of the n-th sandbox.
func (i ids) nth(n uint64) int { return i.base + i.order[n%uint64(len(i.order))]*sandbox.IDs }

// another names one more sandbox: for its directory, for everything else on this
// host, and the first of its ids. A program sees all three, so none of them tells
// how many sandboxes of others there have been.
func (r *Runtime) another() (token, name string, uid int) {
	random := make([]byte, 6)
	_, _ = rand.Read(random) // never fails
	token = hex.EncodeToString(random)
	return token, r.instance + "-" + r.started + "-" + token, r.ids.nth(r.next.Add(1))
}
