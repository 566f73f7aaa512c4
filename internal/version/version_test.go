package version

import (
	"strings"
	"testing"
)

func TestString(t *testing.T) {
	defer func(old string) { release = old }(release)
	release = ""
	if got, want := String(), "v"+Number()+"-dev"; !strings.HasPrefix(got, want) {
		t.Errorf("a build without a release is %q; it should start with %q", got, want)
	}
	release = "v1.2.3"
	if got := String(); got != "v1.2.3" {
		t.Errorf("a release build is %q; it should be v1.2.3", got)
	}
}
