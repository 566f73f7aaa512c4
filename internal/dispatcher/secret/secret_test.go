package secret

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/store"
)

// memory is a store of secrets.
type memory map[store.SecretRef][]byte

func (m memory) PutSecret(_ context.Context, _ *store.Action, r store.SecretRef, sealed []byte) error {
	m[r] = sealed
	return nil
}

func (m memory) DeleteSecret(_ context.Context, _ *store.Action, r store.SecretRef) error {
	delete(m, r)
	return nil
}

func (m memory) Secrets(context.Context, string) ([]store.StoredSecret, error) { return nil, nil }

func (m memory) Sealed(_ context.Context, refs []store.SecretRef) (map[store.SecretRef][]byte, error) {
	out := map[store.SecretRef][]byte{}
	for _, r := range refs {
		if v, ok := m[r]; ok {
			out[r] = v
		}
	}
	return out, nil
}

func key(c byte) string { return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{c}, keySize)) }

func keeper(t *testing.T, keys string, m memory) *Keeper {
	t.Helper()
	k, err := New(keys, m)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// claimed returns an accepted job of tenant.
func claimed(t *testing.T, tenant string, secrets map[string]string) store.Claimed {
	t.Helper()
	p := policy.Default()
	p.Env.Secrets = secrets
	raw, err := p.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	c := store.Claimed{Lease: 1, Tenant: tenant, Spec: []byte(`{"program":{"python":{"code":"1"}},"policy":` + string(raw) + `}`)}
	c.Job = job.NewID()
	return c
}

func TestReveal(t *testing.T) {
	t.Parallel()
	m := memory{}
	k := keeper(t, key('a'), m)
	if err := k.Put(t.Context(), nil, "acme", "pypi", "s3cret!"); err != nil {
		t.Fatal(err)
	}
	ours := claimed(t, "acme", map[string]string{"TOKEN": "pypi", "GONE": "npm"})
	theirs := claimed(t, "other", map[string]string{"TOKEN": "pypi"})
	stale := claimed(t, "acme", map[string]string{"TOKEN": "pypi"})
	stale.Lease = 0
	none := claimed(t, "acme", map[string]string{})
	got, err := k.Reveal(t.Context(), []store.Claimed{ours, theirs, stale, none})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || len(got[ours.Job]) != 1 || string(got[ours.Job]["TOKEN"]) != "s3cret!" || len(got[theirs.Job]) != 0 {
		t.Errorf("revealed %d jobs, %d of ours, %d of theirs", len(got), len(got[ours.Job]), len(got[theirs.Job]))
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "secrets", got, "one", got[ours.Job]["TOKEN"])
	if s := fmt.Sprintf("%v %+v %#v %s", got, got, got, log.String()); strings.Contains(s, "s3cret!") {
		t.Errorf("printing shows it: %s", s)
	}
}

// TestSealedIsBound checks that a row that was moved to another tenant or name cannot be opened.
func TestSealedIsBound(t *testing.T) {
	t.Parallel()
	m := memory{}
	k := keeper(t, key('a'), m)
	if err := k.Put(t.Context(), nil, "acme", "pypi", "s3cret!"); err != nil {
		t.Fatal(err)
	}
	for _, to := range []store.SecretRef{{Tenant: "evil", Name: "pypi"}, {Tenant: "acme", Name: "other"}} {
		m[to] = m[store.SecretRef{Tenant: "acme", Name: "pypi"}]
		c := claimed(t, to.Tenant, map[string]string{"TOKEN": to.Name})
		got, err := k.Reveal(t.Context(), []store.Claimed{c})
		if err != nil || len(got[c.Job]) != 0 {
			t.Errorf("moved to %v: %d revealed, %v", to, len(got[c.Job]), err)
		}
	}
}

func TestKeysRotate(t *testing.T) {
	t.Parallel()
	m := memory{}
	if err := keeper(t, key('a'), m).Put(t.Context(), nil, "acme", "old", "sealed by a"); err != nil {
		t.Fatal(err)
	}
	both := keeper(t, key('b')+","+key('a'), m)
	if err := both.Put(t.Context(), nil, "acme", "new", "sealed by b"); err != nil {
		t.Fatal(err)
	}
	c := claimed(t, "acme", map[string]string{"OLD": "old", "NEW": "new"})
	for keys, want := range map[string]int{key('b') + "," + key('a'): 2, key('b'): 1, key('c'): 0} {
		got, err := keeper(t, keys, m).Reveal(t.Context(), []store.Claimed{c})
		if err != nil || len(got[c.Job]) != want {
			t.Errorf("%d revealed, %v; want %d", len(got[c.Job]), err, want)
		}
	}
}

func TestNewRefusesBadKeys(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"short", key('a')[:20], base64.StdEncoding.EncodeToString([]byte("16 bytes, not 32")), key('a') + ",x"} {
		if _, err := New(bad, memory{}); err == nil || strings.Contains(err.Error(), bad) {
			t.Errorf("%v, want an error that does not show the key", err)
		}
	}
	if err := keeper(t, "", memory{}).Put(t.Context(), nil, "a", "b", "cdef"); !errors.Is(err, job.ErrRefused) {
		t.Errorf("without keys: %v", err)
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	m := memory{}
	k := keeper(t, key('a'), m)
	if err := k.Put(t.Context(), nil, "acme", "hook", "the value"); err != nil {
		t.Fatal(err)
	}
	if got, err := k.Open(t.Context(), "acme", "hook"); got != "the value" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	for _, other := range [][2]string{{"acme", "none"}, {"umbrella", "hook"}} {
		if got, err := k.Open(t.Context(), other[0], other[1]); got != "" || !errors.Is(err, job.ErrNotFound) {
			t.Errorf("%v: got %q, %v", other, got, err)
		}
	}
	if _, err := keeper(t, key('b'), m).Open(t.Context(), "acme", "hook"); err == nil || errors.Is(err, job.ErrNotFound) {
		t.Errorf("with another key: %v", err)
	}
}
