package settings

import (
	"strings"
	"testing"
)

func TestGoneIsRefused(t *testing.T) {
	gone := Removed{"tea-time": "drink it when you like"}
	for _, args := range [][]string{{"--tea-time=5pm"}, {"--x", "--tea-time", "5pm"}} {
		if err := gone.Check(args); err == nil || !strings.Contains(err.Error(), "--tea-time") || !strings.Contains(err.Error(), "drink it") {
			t.Errorf("%v: %v", args, err)
		}
	}
	if err := gone.Check([]string{"--tea-times=2", "tea-time"}); err != nil {
		t.Error(err)
	}
	t.Setenv("ASSAY_TEA_TIME", "")
	if err := gone.Check(nil); err != nil {
		t.Error(err)
	}
	t.Setenv("ASSAY_TEA_TIME", "5pm")
	if err := gone.Check(nil); err == nil || !strings.Contains(err.Error(), "ASSAY_TEA_TIME") {
		t.Error(err)
	}
}
