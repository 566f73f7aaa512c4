package pg_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pgtest"
	"github.com/assay-run/assay/pkg/store/postgres/internal/schema"
)

// TestPoolers puts PgBouncer in front of the server.
func TestPoolers(t *testing.T) {
	t.Parallel()
	ignored := []string{"statement_timeout"}
	for name := range pg.Session {
		ignored = append(ignored, name)
	}
	slices.Sort(ignored)
	ignore := "ignore_startup_parameters = " + strings.Join(ignored, ", ")
	for name, c := range map[string]struct {
		settings []string
		byRole   bool   // the role has the settings that the pooler drops
		says     string // "": the pooler is accepted
	}{
		"as it comes":                 {[]string{"pool_mode = transaction"}, false, "refuses the settings"},
		"drops settings":              {[]string{"pool_mode = transaction", ignore}, false, "does not pass session settings"},
		"drops settings of a session": {[]string{"pool_mode = session", ignore}, false, "does not pass session settings"},
		"shares one session":          {[]string{"pool_mode = transaction", ignore, "default_pool_size = 1"}, true, "session of the server"},
		"shares sessions in turns":    {[]string{"pool_mode = transaction", ignore, "server_round_robin = 1", "min_pool_size = 3"}, true, "of the server"},
		"keeps sessions":              {[]string{"pool_mode = session", ignore}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := testenv.Postgres(t)
			if c.says == "" {
				migrate(t, dsn)
			}
			if c.byRole {
				setForDatabase(t, dsn)
			}
			pooled := startPooler(t, dsn, c.settings)
			ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
			defer cancel()
			err := pg.Reach(ctx, pooled)
			s, openErr := pg.Open(ctx, pgtest.Config(pooled))
			if openErr == nil {
				defer s.Close()
			}
			if c.says == "" {
				if err != nil || openErr != nil {
					t.Errorf("%v, %v, want it to be used", err, openErr)
				}
				return
			}
			for call, err := range map[string]error{"Reach": err, "Open": openErr, "Migrate": schema.Migrate(ctx, pooled)} {
				if !errors.Is(err, job.ErrInvalid) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "pooler") {
					t.Errorf("%s: %v, want a refusal that says: %s", call, err, c.says)
				}
			}
		})
	}
}

// setForDatabase sets the store's settings for every session of the database.
func setForDatabase(t *testing.T, dsn string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for name, value := range pg.Session {
		sql := fmt.Sprintf("ALTER DATABASE %s SET %s = '%s'", pgx.Identifier{conn.Config().Database}.Sanitize(), name, value)
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
}

// startPooler runs PgBouncer before the server of a DSN and returns the DSN through it.
func startPooler(t *testing.T, dsn string, settings []string) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program = "/usr/sbin/pgbouncer" // not in every account's PATH
	}
	if _, err := os.Stat(program); err != nil {
		t.Fatal("pgbouncer is missing; run: scripts/setup pooler")
	}
	server, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	// PgBouncer does not run as root. Only the owner of the directory of the server's socket may enter it.
	info, err := os.Stat(server.Host)
	if err != nil {
		t.Fatal(err)
	}
	owner := info.Sys().(*syscall.Stat_t)
	dir, err := os.MkdirTemp("", "pooler") // short: a socket's path has about 100 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	config := fmt.Sprintf("[databases]\n* = host=%s port=%d user=%s\n[pgbouncer]\nunix_socket_dir = %s\nlisten_port = 6432\nauth_type = any\n%s\n",
		server.Host, server.Port, server.User, dir, strings.Join(settings, "\n"))
	file := filepath.Join(dir, "pgbouncer.ini")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, file)
	if os.Getuid() == 0 {
		if err := os.Chown(dir, int(owner.Uid), int(owner.Gid)); err != nil {
			t.Fatal(err)
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}}
	}
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	socket := filepath.Join(dir, ".s.PGSQL.6432")
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if conn, err := net.Dial("unix", socket); err == nil {
			conn.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("pgbouncer does not start")
		}
	}
	u := url.URL{Scheme: "postgres", User: url.User(server.User), Path: "/" + server.Database,
		RawQuery: url.Values{"host": {dir}, "port": {"6432"}, "sslmode": {"disable"}}.Encode()}
	return u.String()
}
