package hostcheck

import (
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"strings"

	"github.com/assay-run/assay/pkg/runtime/sandbox"
)

const (
	// BaseID is above hosts' own users and above the default ranges of subuid(5).
	BaseID = 1_000_000
	// MostRanges is how many sandboxes have their own ranges of ids at once.
	MostRanges = 16384
	// leastRanges is the minimum for separate sandboxes, if few run at once.
	leastRanges = 15
)

// idRanges returns the start and the number of ranges of ids, given the content of proc(5)'s
// uid_map. A user namespace, such as a pod's, has no other ids.
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

// IDs assigns separate ranges of ids to neighbours, so that quotas and signals do not affect each
// other.
type IDs struct {
	base  int
	order []int // the mixed order of assignment
}

// NewIDs returns the ranges available to this process.
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

// AllIDs returns this many ranges from base.
func AllIDs(base, ranges int) IDs { return IDs{base, mathrand.Perm(ranges)} }

// Nth returns the first id of the n-th sandbox.
func (i IDs) Nth(n uint64) int { return i.base + i.order[n%uint64(len(i.order))]*sandbox.IDs }
