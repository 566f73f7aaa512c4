package hostcheck

import (
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"strings"

	"github.com/assay-run/assay/pkg/runtime/sandbox"
)

const (
	// BaseID is above what hosts give to their own users, and above the default
	// ranges of subuid(5).
	BaseID = 1_000_000
	// MostRanges is how many sandboxes have ranges of ids of their own at once.
	MostRanges = 16384
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
	if base, ranges = BaseID, (ids-BaseID)/sandbox.IDs; ranges < MostRanges {
		base, ranges = sandbox.IDs, ids/sandbox.IDs-1
	}
	if ranges < leastRanges {
		return 0, 0, fmt.Errorf("this user namespace has %d ids, and sandboxes take at least %d: of a pod, set userNamespaces.idsPerPod of the kubelet", ids, (leastRanges+1)*sandbox.IDs)
	}
	return base, min(ranges, MostRanges), nil
}

// IDs gives neighbours ranges of ids of their own, so that no quota or signal of one
// reaches another.
type IDs struct {
	base  int
	order []int // in which ranges are given, mixed
}

// NewIDs returns those that this process has to give.
func NewIDs() (IDs, error) {
	text, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return IDs{}, err
	}
	base, ranges, err := idRanges(string(text))
	if err != nil {
		return IDs{}, err
	}
	return AllIDs(base, ranges), nil
}

// AllIDs are so many ranges from base on.
func AllIDs(base, ranges int) IDs { return IDs{base, mathrand.Perm(ranges)} }

// Nth is the first id of the n-th sandbox.
func (i IDs) Nth(n uint64) int { return i.base + i.order[n%uint64(len(i.order))]*sandbox.IDs }
