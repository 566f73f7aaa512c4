package testenv

import (
	"flag"
	"slices"
	"strconv"
	"testing"
)

func TestPartsAreTheWhole(t *testing.T) {
	p := NewPart("test.part", 3)
	corpus := []int{0, 1, 2, 3, 4, 5, 6, 7}
	var all []int
	for turn := range 3 {
		set(t, "test.part.turn", strconv.Itoa(turn))
		all = append(all, Of(t, p, corpus)...)
	}
	slices.Sort(all)
	if !slices.Equal(all, corpus) {
		t.Errorf("the turns take %v", all)
	}
	set(t, "test.part.turn", "-1")
	if a, b := Of(t, p, corpus), Of(t, p, corpus); len(a) < 2 || !slices.Equal(a, b) {
		t.Errorf("of one commit: %v, %v", a, b)
	}
	set(t, "test.part.every", "1")
	if got := Of(t, p, corpus); !slices.Equal(got, corpus) {
		t.Errorf("of all: %v", got)
	}
}

func set(t *testing.T, name, value string) {
	t.Helper()
	if err := flag.Set(name, value); err != nil {
		t.Fatal(err)
	}
}
