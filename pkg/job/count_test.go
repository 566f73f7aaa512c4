package job

import (
	"strings"
	"testing"
)

func TestCountElements(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]int{
		`{"jobs":[]}`:                                    0,
		`{"jobs":[1,{"jobs":[1,2,3]},[4,5]]}`:            3,
		`{"name":"x","defaults":{"a":[1]},"jobs":[1,2]}`: 2,
		`{"jobs":[1],"jobs":[1,2]}`:                      3, // decoding refuses it
		`{"jobs":[1,2,3,4,5,6,7,8,9,10,11,12]}`:          11,
		`{"jobs":{"a":1}}`:                               0,
		`[1,2,3]`:                                        0,
		``:                                               0,
		`{"jobs":` + strings.Repeat("[", 20000):          1,
	} {
		if got := CountElements([]byte(raw), "jobs", 10); got != want {
			t.Errorf("%.60s: %d, want %d", raw, got, want)
		}
	}
}
