package token_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/dispatcher/token"
)

type said struct{ Name string }

func TestOnlyItsOwnTextsAreGoodUntilTheyExpire(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	k := token.Keeper{Key: bytes.Repeat([]byte{7}, 32), Now: func() time.Time { return now }}
	other := token.Keeper{Key: bytes.Repeat([]byte{8}, 32), Now: k.Now}
	text := k.Sign("link", said{"a"}, time.Minute)
	var v said
	if err := k.Open("link", text, &v); err != nil || v.Name != "a" {
		t.Fatalf("its own text says %+v, %v", v, err)
	}
	if err := k.Open("cookie", text, &v); !errors.Is(err, token.ErrInvalid) {
		t.Errorf("for another purpose: %v", err)
	}
	if err := other.Open("link", text, &v); !errors.Is(err, token.ErrInvalid) {
		t.Errorf("with another key: %v", err)
	}
	for i := range text {
		changed := []byte(text)
		changed[i] ^= 1
		if err := k.Open("link", string(changed), &v); !errors.Is(err, token.ErrInvalid) {
			t.Errorf("with byte %d changed: %v", i, err)
		}
	}
	for _, bad := range []string{"", ".", "v1.", "v1..", "v2." + text[3:], text + "A", strings.Repeat("v1.", 10_000)} {
		if err := k.Open("link", bad, &v); !errors.Is(err, token.ErrInvalid) {
			t.Errorf("%.20q: %v", bad, err)
		}
	}
	now = now.Add(time.Minute)
	if err := k.Open("link", text, &v); !errors.Is(err, token.ErrExpired) {
		t.Errorf("a minute later: %v", err)
	}
}

func TestAKeeperWithoutAKeySignsNothing(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("it signed")
		}
	}()
	token.Keeper{}.Sign("link", said{}, time.Minute)
}
