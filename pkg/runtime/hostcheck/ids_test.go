package hostcheck

import (
	"fmt"
	"testing"

	"github.com/assay-run/assay/pkg/runtime/sandbox"
)

// TestIDRanges checks that sandboxes have fewer ranges on a host with fewer ids, and that an error reports a
// host without any.
func TestIDRanges(t *testing.T) {
	for _, c := range []struct {
		uidMap       string
		base, ranges int
		fails        bool
	}{
		{"         0          0 4294967295\n", BaseID, MostRanges, false},
		{"0 100000 65536\n", 0, 0, true},
		{fmt.Sprintf("0 500000 %d\n", 16*sandbox.IDs), sandbox.IDs, 15, false},
		{fmt.Sprintf("0 500000 %d\n", 256*sandbox.IDs), sandbox.IDs, 255, false},
		{fmt.Sprintf("0 1000 1\n1 500000 %d\n", 16*sandbox.IDs-1), sandbox.IDs, 15, false},
		{"0 1000 1\n", 0, 0, true},
		{"zero\n", 0, 0, true},
		{"", 0, 0, true},
	} {
		base, ranges, err := idRanges(c.uidMap)
		if base != c.base || ranges != c.ranges || (err != nil) != c.fails {
			t.Errorf("%q: %d, %d, %v", c.uidMap, base, ranges, err)
		}
	}
}
