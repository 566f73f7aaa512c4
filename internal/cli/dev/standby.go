package dev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// copyFrom makes the cluster a standby copy of another server, if there is no cluster. Like
// initialise, it leaves no partial copy.
func (p *Postgres) copyFrom(ctx context.Context, primary *Postgres) error {
	if _, err := os.Stat(filepath.Join(p.dataDir, "PG_VERSION")); err == nil {
		return p.checkVersion()
	}
	tmp := p.dataDir + ".new"
	if err := os.RemoveAll(tmp); err != nil {
		return fmt.Errorf("copy a postgres cluster: %w", err)
	}
	backup := p.command(ctx, "pg_basebackup", "--pgdata="+tmp, "--dbname="+primary.dsn("postgres")+"&application_name=standby",
		"--checkpoint=fast", "--wal-method=stream", "--write-recovery-conf", "--no-sync")
	if out, err := backup.CombinedOutput(); err != nil {
		return fmt.Errorf("copy a postgres cluster: pg_basebackup: %w\n%s", err, out)
	}
	if err := os.Rename(tmp, p.dataDir); err != nil {
		return fmt.Errorf("copy a postgres cluster: %w", err)
	}
	return nil
}

// Promote makes a standby a primary, and returns when it accepts writes.
func (p *Postgres) Promote(ctx context.Context) error {
	out, err := p.query(ctx, "SELECT pg_promote(true, 60)")
	if err == nil && strings.TrimSpace(out) != "t" {
		err = errors.New("postgres: it was not promoted within a minute")
	}
	return err
}

// Kill ends the server like a crash, without notice.
func (p *Postgres) Kill(ctx context.Context) { p.proc.Stop(ctx, 0) }
