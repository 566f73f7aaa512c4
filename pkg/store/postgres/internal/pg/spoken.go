package pg

import (
	"context"
	"strconv"
)

// applicationName says who connects, and the version of the protocol that it speaks.
func (c Config) applicationName() string {
	if c.Protocol == 0 {
		return c.ApplicationTag
	}
	return c.ApplicationTag + "/" + strconv.Itoa(c.Protocol)
}

// spoken looks at the names of the connections to this database: also those of releases
// that knew nothing of versions are there as long as their programs run, and no longer.
// Who is not seen, behind a pooler that gives connections names of its own, counts as 0.
const spoken = `
SELECT coalesce(min(CASE WHEN application_name = $1 THEN 0 ELSE substring(application_name FROM '/([0-9]{1,9})$')::integer END), 0)
FROM pg_stat_activity WHERE datname = current_database() AND (application_name = $1 OR starts_with(application_name, $1 || '/'))`

// Spoken is what store.Registry says of it.
func (db *DB) Spoken(ctx context.Context) (lowest int, err error) {
	err = db.Do(ctx, "spoken", func(ctx context.Context) error {
		return db.Pool.QueryRow(ctx, spoken, db.cfg.ApplicationTag).Scan(&lowest)
	})
	return lowest, err
}
