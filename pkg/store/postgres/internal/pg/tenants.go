package pg

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/assay-run/assay/pkg/job"
)

// TenantID returns the number of a tenant, which it makes on first sight. The
// numbers never change, so they are remembered for the life of the process.
func (db *DB) TenantID(ctx context.Context, name string) (int32, error) {
	if id, ok := db.tenants.Load(name); ok {
		return id.(int32), nil
	}
	if name == "" {
		return 0, fmt.Errorf("%w: a tenant has a name", job.ErrInvalid)
	}
	if _, err := db.Pool.Exec(ctx, `INSERT INTO tenants (name) VALUES ($1) ON CONFLICT DO NOTHING`, name); err != nil {
		return 0, err
	}
	var id int32
	if err := db.Pool.QueryRow(ctx, `SELECT id FROM tenants WHERE name = $1`, name).Scan(&id); err != nil {
		return 0, err
	}
	db.tenants.Store(name, id)
	return id, nil
}

// LookupTenant is TenantID for readers: it creates no tenant. Zero stands for all tenants; -1, which no tenant has, for
// an unknown one.
func (db *DB) LookupTenant(ctx context.Context, name string) (int32, error) {
	if name == "" {
		return 0, nil
	}
	if id, ok := db.tenants.Load(name); ok {
		return id.(int32), nil
	}
	var id int32
	err := db.Pool.QueryRow(ctx, `SELECT id FROM tenants WHERE name = $1`, name).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return -1, nil
	}
	if err != nil {
		return 0, err
	}
	db.tenants.Store(name, id)
	return id, nil
}
