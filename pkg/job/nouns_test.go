package job

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestIDsNameTheirFleet is not parallel: the number is the process's.
func TestIDsNameTheirFleet(t *testing.T) {
	defer SetCell(0)
	if n := NewID().Cell(); n != 0 {
		t.Errorf("without a number, ids have %d", n)
	}
	began := time.Now()
	routes := Cells{Fleets: map[uint8]string{0: "home", 200: "b"}, Since: began.Add(-time.Hour), First: "first"}
	for n, want := range map[uint8]string{0: "home", 200: "b"} {
		SetCell(n)
		id := NewID()
		if id.Cell() != n || id[21:23] != ID(hex.EncodeToString([]byte{n})) || id[14] != '7' || !strings.ContainsRune("89ab", rune(id[19])) {
			t.Errorf("%s is of fleet %d, want %d", id, id.Cell(), n)
		}
		if next := NewID(); next <= id {
			t.Errorf("%s after %s: ids of a fleet are not in order", next, id)
		}
		if got, err := routes.Of(id); err != nil || got != want {
			t.Errorf("%s goes to %q, %v; want %s", id, got, err, want)
		}
	}
	SetCell(7)
	if got, err := routes.Of(NewID()); !errors.Is(err, ErrNotFound) {
		t.Errorf("an id of an unknown fleet goes to %q, %v", got, err)
	}
	if got, err := routes.Of(FirstIDAt(began.Add(-2 * time.Hour))); err != nil || got != "first" {
		t.Errorf("an id of the time before goes to %q, %v", got, err)
	}
	if _, err := routes.Of("no id"); !errors.Is(err, ErrInvalid) {
		t.Errorf("no id: %v", err)
	}
}

func TestIDsGrow(t *testing.T) {
	t.Parallel()
	before := time.Now().Truncate(time.Millisecond)
	ids := make([]ID, 10_000) // more than the 4096 that fit into a millisecond
	for i := range ids {
		ids[i] = NewID()
	}
	if !slices.IsSorted(ids) {
		t.Error("ids of one process are not in order")
	}
	if len(slices.Compact(ids)) != 10_000 {
		t.Error("an id came twice")
	}
	for _, id := range []ID{ids[0], ids[9999]} {
		if _, err := ParseID(string(id)); err != nil {
			t.Errorf("%s: %v", id, err)
		}
		if id[14] != '7' || !strings.ContainsRune("89ab", rune(id[19])) {
			t.Errorf("%s is not of version 7 and the RFC's variant", id)
		}
		if at := id.Time(); at.Before(before) || at.After(time.Now().Add(time.Second)) {
			t.Errorf("%s was made at %v?", id, at)
		}
	}
	if FirstIDAt(before) > ids[0] || FirstIDAt(time.Now().Add(time.Minute)) < ids[9999] {
		t.Error("FirstIDAt does not bound the ids of its time")
	}
}

func TestParseIDHasOneSpelling(t *testing.T) {
	t.Parallel()
	good := "01932c07-8f6a-7c3e-9d2b-5a1f0e4c7b88"
	for _, bad := range []string{"", "x", good[1:], strings.ToUpper(good), strings.ReplaceAll(good, "-", ""),
		"{" + good + "}", good + "\n", strings.Replace(good, "0", "g", 1), strings.Replace(good, "-", "0", 1)} {
		if _, err := ParseID(bad); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := ParseID(good); err != nil {
		t.Error(err)
	}
}

func TestSizes(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]Size{
		"0": 0, "4096": 4096, "1k": 1000, "64Ki": 65536, "1.5Gi": 3 << 29, "1.5G": 1.5e9, "2Ti": 2 << 40, "0.5Ki": 512,
	} {
		if got, err := ParseSize(in); err != nil || got != want {
			t.Errorf("%s = %d, %v; want %d", in, got, err, want)
		}
	}
	for _, bad := range []string{"", "Mi", "-1", "1e3", "1 Mi", "1MB", ".", "1.2.3", "1.5", "0x10", "99999Pi", "1mi", strings.Repeat("9", 99)} {
		if got, err := ParseSize(bad); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q = %d, %v", bad, got, err)
		}
	}
}

func TestSizesRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := Size(rapid.Int64Range(0, math.MaxInt64).Draw(t, "size"))
		if rapid.Bool().Draw(t, "round") {
			want = want >> 30 << 30
		}
		raw, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got Size
		if err := json.Unmarshal(raw, &got); err != nil || got != want {
			t.Fatalf("%d → %s → %d, %v", want, raw, got, err)
		}
	})
}

func TestDurations(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]time.Duration{`"1.5s"`: 1500 * time.Millisecond, `"0"`: 0, `null`: 7} {
		d := Duration(7)
		if err := json.Unmarshal([]byte(in), &d); err != nil || d.D() != want {
			t.Errorf("%s = %v, %v", in, d, err)
		}
	}
	for _, bad := range []string{`1`, `"1"`, `""`, `"soon"`, `{}`} {
		if err := json.Unmarshal([]byte(bad), new(Duration)); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestFieldErrorText(t *testing.T) {
	t.Parallel()
	for want, e := range map[string]FieldError{
		"line 3: policy.wall: bad": {3, "policy.wall", "bad"},
		"line 3: bad":              {3, "", "bad"},
		"policy.wall: bad":         {0, "policy.wall", "bad"},
		"bad":                      {0, "", "bad"},
	} {
		if got := e.Error(); got != want || !errors.Is(&e, ErrInvalid) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
