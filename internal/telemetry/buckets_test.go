package telemetry

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestHistogramsSayTheirBuckets checks that histograms set their buckets. The SDK's default ones are for
// milliseconds: a histogram of seconds would put nearly all values into one bucket.
func TestHistogramsSayTheirBuckets(t *testing.T) {
	t.Parallel()
	call := regexp.MustCompile(`64Histogram\((?:[^()]|\([^()]*\))*\)`)
	bounds := regexp.MustCompile(`ExplicitBucketBoundaries|\bmilliseconds,|[bB]uckets,|\bseconds\)`)
	found := 0
	for _, dir := range []string{"cmd", "internal", "pkg"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			raw, err := os.ReadFile(path)
			for _, c := range call.FindAllString(string(raw), -1) {
				if found++; !bounds.MatchString(c) {
					t.Errorf("%s: %s", path, c)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 8 {
		t.Errorf("found only %d histograms", found)
	}
}
