package show

import (
	"fmt"
	"strings"

	"github.com/assay-run/assay/pkg/job"
)

// ShortDigest returns the start of a digest, without its algorithm.
func ShortDigest(digest string) string {
	_, hex, ok := strings.Cut(digest, ":")
	if !ok || len(hex) < 12 {
		return digest
	}
	return hex[:12]
}

// Size formats a number of bytes for people, in the largest unit with a value above one.
func Size(n int64) string {
	switch {
	case n == 0:
		return "?"
	case n >= int64(job.GiB):
		return fmt.Sprintf("%.1fGi", float64(n)/float64(job.GiB))
	case n >= int64(job.MiB):
		return fmt.Sprintf("%.1fMi", float64(n)/float64(job.MiB))
	}
	return fmt.Sprintf("%.1fKi", float64(n)/1024)
}

// Cores formats cores in use and all cores, such as 1.5/8; "?" if there is no count of them.
func Cores(used, all float64) string {
	if all == 0 {
		return "?"
	}
	return fmt.Sprintf("%.1f/%g", used, all)
}

// Share formats bytes in use and all bytes, such as 1.5Gi/8.0Gi; "-" if they are not reported.
func Share(used, all int64) string {
	if all == 0 {
		return "-"
	}
	return Size(max(used, 1)) + "/" + Size(all)
}
