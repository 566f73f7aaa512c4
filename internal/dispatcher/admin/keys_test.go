package admin_test

import (
	"context"
	"crypto/sha256"
	"testing"

	"github.com/assay-run/assay/internal/dispatcher/admin"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// newer is a store of a newer release, whose keys have a role that this release lacks.
type newer struct{ admin.Store }

func (n newer) Key(ctx context.Context, tenant string, id job.ID) (store.Key, error) {
	k, err := n.Store.Key(ctx, tenant, id)
	k.Role = "superuser"
	return k, err
}

// TestRevokeKeyOfUnknownRole checks that only an admin revokes a key of an unknown role, which may permit more than
// any other.
func TestRevokeKeyOfUnknownRole(t *testing.T) {
	t.Parallel()
	f := open(t, testenv.Postgres(t), t.TempDir())
	k := store.LiveKey{Hash: sha256.Sum256([]byte("k")), Key: store.Key{ID: job.NewID(), Name: "k", Tenant: "t", Role: "submitter", CreatedBy: "root"}}
	_, err := f.store.PutKey(t.Context(), &store.Action{ID: job.NewID(), Actor: "root", Action: "make key", Subject: string(k.ID)}, k)
	f.must(err)
	f.admin.Store = newer{f.store}
	for _, role := range []identity.Role{identity.Submitter, identity.Operator} {
		_, err := f.admin.RevokeKey(t.Context(), identity.Identity{Tenant: "t", Role: role, Name: "n"}, "", k.ID, "")
		f.mustBe(err, job.ErrRefused)
	}
	_, err = f.admin.RevokeKey(t.Context(), identity.Identity{Tenant: "t", Role: identity.Admin, Name: "n"}, "", k.ID, "")
	f.must(err)
}
