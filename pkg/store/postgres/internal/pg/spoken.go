package pg

import (
	"context"
	"strconv"
)

// applicationName is the program and its version of the protocol.
func (c Config) applicationName() string {
	if c.Protocol == 0 {
		return c.ApplicationTag
	}
	return c.ApplicationTag + "/" + strconv.Itoa(c.Protocol)
}

// spoken reads the names of the connections to this database. Releases without a version are found as well, as long as
// their programs run. A connection behind a pooler that sets its own names counts as 0.
const spoken = `
SELECT coalesce(min(CASE WHEN application_name = $1 THEN 0 ELSE substring(application_name FROM '/([0-9]{1,9})$')::integer END), 0)
FROM pg_stat_activity WHERE datname = current_database() AND (application_name = $1 OR starts_with(application_name, $1 || '/'))`

// Spoken implements store.Registry.
func (db *DB) Spoken(ctx context.Context) (lowest int, err error) {
	err = db.Do(ctx, "spoken", func(ctx context.Context) error {
		return db.Pool.QueryRow(ctx, spoken, db.cfg.ApplicationTag).Scan(&lowest)
	})
	return lowest, err
}
