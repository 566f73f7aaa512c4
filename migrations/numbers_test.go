package migrations

import (
	"io/fs"
	"strings"
	"testing"
)

// TestNumbers: each number is one pair's. Two branches may each have taken the next one.
func TestNumbers(t *testing.T) {
	ups, err := fs.Glob(Files, "*.up.sql")
	if err != nil || len(ups) == 0 {
		t.Fatalf("%d migrations, %v", len(ups), err)
	}
	taken := map[string]string{}
	for _, up := range ups {
		number, _, _ := strings.Cut(up, "_")
		if other, ok := taken[number]; ok {
			t.Errorf("%s and %s have the same number", other, up)
		}
		taken[number] = up
		if _, err := fs.Stat(Files, strings.TrimSuffix(up, ".up.sql")+".down.sql"); err != nil {
			t.Errorf("%s has no way down: %v", up, err)
		}
	}
}
