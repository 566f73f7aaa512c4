package main

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/client"
)

// TestKeysOfTwoDispatchers: a key that one dispatcher makes, another lets in at once, and none a second after it was revoked.
func TestKeysOfTwoDispatchers(t *testing.T) {
	args := []string{
		"--listen=127.0.0.1:0", "--database-url=" + testenv.Postgres(t), "--nats-url=" + testenv.NATS(t),
		"--objects-url=file://" + filepath.Join(t.TempDir(), "objects"), "--tokens=root=ops:admin",
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	one, two := start(ctx, t, args), start(ctx, t, args)
	at := func(d *process, token string) *client.Client {
		c, err := client.New("http://"+d.addr, client.WithToken(token), client.WithPatience(0))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	made, err := at(one, "root").CreateKey(t.Context(), api.KeyRequest{Name: "ci", Tenant: "team"})
	if err != nil {
		t.Fatal(err)
	}
	theirs := []*client.Client{at(two, made.Token), at(one, made.Token)}
	for i, c := range theirs {
		if _, err := c.Secrets(t.Context()); err != nil {
			t.Errorf("a new key, at dispatcher %d: %v", i, err)
		}
	}
	if _, err := at(two, "root").RevokeKey(t.Context(), made.Key.ID, ""); err != nil {
		t.Fatal(err)
	}
	revoked := time.Now()
	for i, c := range theirs {
		for {
			_, err := c.Secrets(t.Context())
			if errors.Is(err, api.ErrUnauthorized) {
				break
			}
			if err != nil || time.Since(revoked) > time.Second {
				t.Fatalf("a revoked key, at dispatcher %d, after %v: %v", i, time.Since(revoked), err)
			}
		}
	}
	stop()
	for _, d := range []*process{one, two} {
		if err := d.ended(); err != nil {
			t.Errorf("run: %v", err)
		}
	}
}
