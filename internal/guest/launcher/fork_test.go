package launcher

import (
	"testing"

	"github.com/assay-run/assay/internal/guest"
)

func TestPrepareRefuses(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]guest.Start{
		"no argv":     {},
		"NUL in argv": {Argv: []string{"a\x00b"}},
		"NUL in env":  {Argv: []string{"a"}, Env: []string{"A=\x00"}},
		"NUL in dir":  {Argv: []string{"a"}, Dir: "/\x00"},
	} {
		if _, err := prepare(&s, []int{3}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := prepare(&guest.Start{Argv: []string{"a"}}, nil); err == nil {
		t.Error("no gate: accepted")
	}
}
