package identity

import (
	"errors"
	"strings"
	"testing"

	"github.com/assay-run/assay/pkg/job"
)

func TestTokens(t *testing.T) {
	k, other := key(t), key(t)
	joined, err := NewWorker("pod", "gpu", k.JoinToken("gpu"))
	if err != nil {
		t.Fatal(err)
	}
	proven, err := joined.Key.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, token, worker, pool, proven string
		ok                                bool
	}{
		{"a worker's own", k.Token("w1", "default"), "w1", "default", "", true},
		{"under another name", k.Token("w1", "default"), "w2", "default", "", false},
		{"in another pool", k.Token("w1", "default"), "w1", "gpu", "", false},
		{"words shifted", k.Token("w1default", ""), "w1", "default", "", false},
		{"of another fleet", other.Token("w1", "default"), "w1", "default", "", false},
		{"none", "", "w1", "default", "", false},
		{"no name", k.Token("", "default"), "", "default", "", false},
		{"cut", k.Token("w1", "default")[:20], "w1", "default", "", false},
		{"joined", joined.Token, joined.ID, "gpu", proven, true},
		{"joined without a proof", joined.Token, joined.ID, "gpu", "", false},
		{"joined in another pool", joined.Token, joined.ID, "default", proven, false},
		{"joined as somebody else", joined.Token, "w1", "gpu", proven, false},
		{"joined, with another key", joined.Token, joined.ID, "gpu", proven[1:] + "A", false},
		{"a pool's token as a worker's", "worker." + joined.Token[5:], joined.ID, "gpu", proven, false},
	} {
		if err := k.Check(c.token, c.worker, c.pool, c.proven); (err == nil) != c.ok || err != nil && !errors.Is(err, job.ErrRefused) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestJoinedNamesAreKnown checks that a join token serves any number of workers, and that their names show
// it.
func TestJoinedNamesAreKnown(t *testing.T) {
	joined, err := NewWorker("pod", "gpu", key(t).JoinToken("gpu"))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{joined.ID: true, "pod": false, "w1": false, joined.ID + "x": false, "": false} {
		if Joined(name) != want {
			t.Errorf("%q: joined %v, want %v", name, !want, want)
		}
	}
}

func TestKeyIsTheSameAgain(t *testing.T) {
	text := NewKey()
	a, err := ParseKey(text)
	if err != nil {
		t.Fatal(err)
	}
	b, err := ParseKey(" " + text + "\n")
	if err != nil {
		t.Fatal(err)
	}
	i1, d1 := a.Public()
	i2, d2 := b.Public()
	if i1 != i2 || d1 != d2 || a.Token("w", "p") != b.Token("w", "p") || a.Name("x") != b.Name("x") || a.Name("x") == a.Name("y") {
		t.Error("one text, two keys")
	}
	for _, bad := range []string{"", "x", text[:20], text + text} {
		if _, err := ParseKey(bad); !errors.Is(err, job.ErrInvalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func key(t *testing.T) *Key {
	t.Helper()
	k, err := ParseKey(NewKey())
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestRotate checks that a rotation makes new tokens, that the previous tokens stay valid, and that the
// server's configuration stays the same.
func TestRotate(t *testing.T) {
	t.Parallel()
	text := []string{NewKey()}
	var keys []*Key
	for range 3 {
		next, err := RotateKey(text[len(text)-1])
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, next)
	}
	for _, text := range text {
		k, err := ParseKey(" " + strings.ReplaceAll(text, ",", " , ") + "\n")
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, k)
	}
	for i, k := range keys {
		issuer, dispatcher := k.Public()
		if i0, d0 := keys[0].Public(); issuer != i0 || dispatcher != d0 || k.Name("x") != keys[0].Name("x") {
			t.Errorf("rotation %d: the server would have to be told", i)
		}
		for j, other := range keys {
			good := other.Check(k.Token("w", "p"), "w", "p", "") == nil
			if want := j == i || j == i+1; good != want {
				t.Errorf("a token of rotation %d is good at rotation %d: %v", i, j, good)
			}
		}
	}
	for _, bad := range []string{"", "x", text[0] + ",", text[0] + ",x"} {
		if _, err := ParseKey(bad); err == nil {
			t.Errorf("%q is a key", bad)
		}
		if _, err := RotateKey(bad); err == nil {
			t.Errorf("%q was rotated", bad)
		}
	}
}
