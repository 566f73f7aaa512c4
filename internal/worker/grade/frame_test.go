package grade

import (
	"strings"
	"testing"
)

func FuzzReadFrame(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x0d{\"op\":\"done\"}"))
	f.Add([]byte("\xff\xff\xff\xff{"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if got, err := (frameReader{}).next(strings.NewReader(string(raw))); err == nil && len(got.raw) > len(raw) {
			t.Error("a frame out of nothing")
		}
	})
}
