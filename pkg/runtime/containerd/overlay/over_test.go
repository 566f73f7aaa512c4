package overlay

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
)

// So many files of others that giving them away would take its time are refused.
func TestOthersAreBounded(t *testing.T) {
	testenv.Needs(t, "root")
	dir := t.TempDir()
	for i := range 3 {
		if err := os.MkdirAll(filepath.Join(dir, fmt.Sprint(i)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(filepath.Join(dir, fmt.Sprint(i)), 7, 0); err != nil {
			t.Fatal(err)
		}
	}
	o, err := listOthers(dir, 0, 0)
	if err != nil || len(o.paths) != 3 || o.inodes != 3 || o.check("/x") != nil {
		t.Errorf("%+v, %v", o, err)
	}
	o.many = true
	if err := o.check("/x"); !errors.Is(err, job.ErrInvalid) {
		t.Errorf("too many: %v", err)
	}
}

// A map exchanges two ids and leaves all others be, each once.
func TestSwapped(t *testing.T) {
	for _, c := range [][2]int{{0, 1000}, {1000, 0}, {5, 5}, {0, 0}, {1, 2}, {65534, 231072}} {
		got := map[int]int{}
		covered := 0
		for part := range strings.SplitSeq(swapped(c[0], c[1]), ",") {
			var from, to, size int
			if _, err := fmt.Sscanf(part, "%d:%d:%d", &from, &to, &size); err != nil {
				t.Fatal(err)
			}
			covered += size
			for _, id := range []int{0, 1, 2, 5, 1000, 65534, 231072, 1<<32 - 2} {
				if id >= from && id < from+size {
					if _, twice := got[id]; twice {
						t.Errorf("%v: %d is mapped twice", c, id)
					}
					got[id] = to + id - from
				}
			}
		}
		if covered != 1<<32-1 || got[c[0]] != c[1] || got[c[1]] != c[0] || len(got) != 8 || len(slices.Compact(slices.Sorted(maps.Values(got)))) != 8 {
			t.Errorf("%v: %d ids, %v", c, covered, got)
		}
	}
}
