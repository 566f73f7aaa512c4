package dev_test

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/assay-run/assay/internal/cli/dev"
)

// TestOwnTokens checks that assay dev admits its own user, and under sudo the user who called it.
func TestOwnTokens(t *testing.T) {
	me := "uid:" + strconv.Itoa(os.Geteuid()) + "=default:admin"
	for sudo, others := range map[string][]string{"": nil, "x": nil, "12345": {"uid:12345=default:admin"}} {
		if os.Geteuid() != 0 {
			others = nil // a user cannot name another
		}
		got := strings.Split(dev.OwnTokens("secret", func(string) string { return sudo }), ",")
		if want := append([]string{"secret=default:admin", me}, others...); !slices.Equal(got, want) {
			t.Errorf("SUDO_UID=%q: %q, want %q", sudo, got, want)
		}
	}
}
