package dev

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/daemon"
)

const (
	postgresUser = "assay" // role and database of the cluster
	postgresPort = "5432"  // only part of the socket's name: there is no TCP listener
)

// PostgresConfig configures a cluster. Only Dir is required.
type PostgresConfig struct {
	// Dir holds the cluster, its log and its socket. It is created if missing.
	Dir string
	// BinDir holds the server's programs. Default: beside `postgres` in PATH, or the newest of the
	// distribution.
	BinDir string
	// Of makes the server a standby that copies and follows another server. With nil it is a primary.
	// The settings are not copied. The other server knows it as "standby", for
	// synchronous_standby_names.
	Of *Postgres
	// Settings are added to the server's configuration, e.g. {"max_connections": "500"}. They
	// override the defaults.
	Settings map[string]string
}

// Postgres is a running private server.
type Postgres struct {
	binDir, dataDir, socketDir, logFile string
	account                             *account
	proc                                *daemon.Process
}

// StartPostgres runs a server on the cluster in cfg.Dir and creates the cluster if there is none.
// The server listens only on a unix socket, in a directory that only its own account (and root) may
// enter. So it trusts its clients.
//
// Postgres refuses to run as root. For root, the server runs as the account `postgres`, or `nobody`
// if there is none, and that account owns the cluster.
func StartPostgres(ctx context.Context, cfg PostgresConfig) (_ *Postgres, err error) {
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil || cfg.Dir == "" {
		return nil, fmt.Errorf("start postgres: bad directory %q", cfg.Dir)
	}
	p := &Postgres{dataDir: filepath.Join(dir, "data"), logFile: filepath.Join(dir, "postgres.log")}
	if p.binDir, err = findPostgres(cfg.BinDir); err != nil {
		return nil, err
	}
	if p.account, err = serverAccount(); err != nil {
		return nil, fmt.Errorf("start postgres: %w", err)
	}
	if err := p.account.makeDir(dir); err != nil {
		return nil, fmt.Errorf("start postgres: %w", err)
	}
	if p.socketDir, err = daemon.SocketDir(dir, "s", p.account.uid); err != nil {
		return nil, fmt.Errorf("start postgres: %w", err)
	}
	if cfg.Of != nil {
		err = p.copyFrom(ctx, cfg.Of)
	} else {
		err = p.initialise(ctx)
	}
	if err != nil {
		return nil, err
	}
	if err := p.removeStalePID(); err != nil {
		return nil, err
	}
	if err := p.start(ctx, cfg.Settings); err != nil {
		return nil, err
	}
	return p, nil
}

// DSN returns the connection string of the cluster's database "assay".
func (p *Postgres) DSN() string { return p.dsn(postgresUser) }

func (p *Postgres) dsn(database string) string {
	q := url.Values{"host": {p.socketDir}, "port": {postgresPort}, "sslmode": {"disable"}}
	return (&url.URL{Scheme: "postgres", User: url.User(postgresUser), Path: "/" + database, RawQuery: q.Encode()}).String()
}

// CreateDatabase makes an empty database and returns its connection string.
func (p *Postgres) CreateDatabase(ctx context.Context, name string) (dsn string, err error) {
	// The copy of template1 uses the log instead of two checkpoints: much faster for a small
	// database.
	if _, err := p.query(ctx, "CREATE DATABASE "+quoteIdent(name)); err != nil {
		return "", err
	}
	return p.dsn(name), nil
}

// DropDatabase removes a database and closes all connections to it.
func (p *Postgres) DropDatabase(ctx context.Context, name string) error {
	_, err := p.query(ctx, "DROP DATABASE IF EXISTS "+quoteIdent(name)+" WITH (FORCE)")
	return err
}

// Databases lists the databases of the cluster, templates aside.
func (p *Postgres) Databases(ctx context.Context) ([]string, error) {
	out, err := p.query(ctx, "SELECT datname FROM pg_database WHERE NOT datistemplate ORDER BY 1")
	return strings.Fields(out), err
}

func quoteIdent(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

// query runs a statement with the server's own client. So this package needs no database driver.
func (p *Postgres) query(ctx context.Context, sql string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(p.binDir, "psql"), "--no-psqlrc", "--quiet", "--tuples-only", "--no-align",
		"--set=ON_ERROR_STOP=1", "--command="+sql, p.dsn("postgres"))
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("postgres: %s: %w: %s", sql, err, strings.TrimSpace(stderr.String()))
	}
	return out.String(), nil
}

// Stop ends the server: it disconnects clients and writes a checkpoint ("fast"). If that takes too
// long or ctx ends, it stops at once ("immediate") and recovers at the next start. A second call
// does nothing.
func (p *Postgres) Stop(ctx context.Context) error {
	p.proc.Stop(ctx, 20*time.Second, syscall.SIGINT, syscall.SIGQUIT)
	if p.socketDir != filepath.Join(filepath.Dir(p.dataDir), "s") {
		_ = os.RemoveAll(p.socketDir) // in the temporary directory: the usual path was too long
	}
	return nil
}

// PID is the server's process id, for tests that kill it.
func (p *Postgres) PID() int { return p.proc.PID() }

// initialise creates the cluster if there is none. It uses a temporary place first, so an
// interrupted attempt leaves no partial cluster.
func (p *Postgres) initialise(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(p.dataDir, "PG_VERSION")); err == nil {
		return p.checkVersion()
	}
	tmp := p.dataDir + ".new"
	if err := os.RemoveAll(tmp); err != nil {
		return fmt.Errorf("make a postgres cluster: %w", err)
	}
	initdb := p.command(ctx, "initdb", "--pgdata="+tmp, "--username="+postgresUser, "--auth=trust",
		"--encoding=UTF8", "--locale=C.UTF-8", "--no-instructions")
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("make a postgres cluster: initdb: %w\n%s", err, out)
	}
	create := p.command(ctx, "postgres", "--single", "-D", tmp, "postgres")
	create.Stdin = strings.NewReader("CREATE DATABASE " + postgresUser + "\n")
	if out, err := create.CombinedOutput(); err != nil {
		return fmt.Errorf("make a postgres cluster: create database: %w\n%s", err, out)
	}
	if err := os.Rename(tmp, p.dataDir); err != nil {
		return fmt.Errorf("make a postgres cluster: %w", err)
	}
	return nil
}

// checkVersion distinguishes an upgrade of the server from other start failures.
func (p *Postgres) checkVersion() error {
	data, err := os.ReadFile(filepath.Join(p.dataDir, "PG_VERSION"))
	if err != nil {
		return fmt.Errorf("start postgres: %w", err)
	}
	out, err := exec.Command(filepath.Join(p.binDir, "postgres"), "--version").Output()
	if err != nil {
		return fmt.Errorf("start postgres: %w", err)
	}
	have := strings.TrimSpace(string(data))
	fields := strings.Fields(string(out)) // postgres (PostgreSQL) 15.13 (Debian …)
	if len(fields) >= 3 && !strings.HasPrefix(fields[2], have+".") && !strings.HasPrefix(fields[2], have) {
		return fmt.Errorf("start postgres: the cluster in %s was made by version %s, the installed server is %s; "+
			"upgrade it with pg_upgrade or choose another directory", p.dataDir, have, fields[2])
	}
	return nil
}

// removeStalePID removes a postmaster.pid whose server is gone. The server does that itself, unless
// the number now belongs to another process of the same account, which happens after a reboot. Then
// it would never start.
func (p *Postgres) removeStalePID() error {
	path := filepath.Join(p.dataDir, "postmaster.pid")
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("start postgres: %w", err)
	}
	first, _, _ := strings.Cut(string(data), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err == nil && pid > 0 {
		// A server's working directory is its data directory.
		if cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)); err == nil && sameFile(cwd, p.dataDir) {
			return fmt.Errorf("start postgres: a server (process %d) already runs on %s; stop it", pid, p.dataDir)
		}
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("start postgres: %w", err)
	}
	return nil
}

func sameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// defaultSettings suit a laptop: little memory, full durability. Commits reach the disk.
func (p *Postgres) defaultSettings() map[string]string {
	return map[string]string{
		"listen_addresses":        "",
		"port":                    postgresPort,
		"unix_socket_directories": p.socketDir,
		"fsync":                   "on",
		"synchronous_commit":      "on",
		"max_connections":         "200",
		"shared_buffers":          "128MB",
		"max_wal_size":            "2GB",
		"checkpoint_timeout":      "15min",
		"wal_compression":         "on",
		"random_page_cost":        "1.1",
		"log_line_prefix":         "%m [%p] ",
		"logging_collector":       "off",
		"log_destination":         "stderr",
		"log_timezone":            "UTC",
		"timezone":                "UTC",
	}
}

func (p *Postgres) start(ctx context.Context, settings map[string]string) error {
	all := p.defaultSettings()
	maps.Copy(all, settings)
	args := []string{"-D", p.dataDir}
	for _, k := range slices.Sorted(maps.Keys(all)) {
		args = append(args, "-c", k+"="+all[k])
	}
	log, err := os.OpenFile(p.logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("start postgres: %w", err)
	}
	defer log.Close() // the child has its own
	// Not bound to ctx, which ends before the server does.
	cmd := p.command(context.WithoutCancel(ctx), "postgres", args...)
	cmd.Stdout, cmd.Stderr = log, log
	// SIGINT is Postgres' fast shutdown.
	if p.proc, err = daemon.Start(cmd, syscall.SIGINT); err != nil {
		return fmt.Errorf("start postgres: %w", err)
	}
	if err := p.proc.Ready(ctx, "postgres", p.logFile, p.acceptsConnections); err != nil {
		_ = p.Stop(context.WithoutCancel(ctx))
		return fmt.Errorf("start postgres: %w", err)
	}
	return nil
}

// acceptsConnections reads the server state from line 8 of its pid file, as pg_ctl does.
func (p *Postgres) acceptsConnections() error {
	data, err := os.ReadFile(filepath.Join(p.dataDir, "postmaster.pid"))
	if err != nil {
		return err
	}
	lines := strings.Split(string(data), "\n")
	if len(lines) < 8 || strings.TrimSpace(lines[0]) != strconv.Itoa(p.proc.PID()) {
		return errors.New("pid file is not written yet")
	}
	if state := strings.TrimSpace(lines[7]); state != "ready" {
		return fmt.Errorf("server is %s", state)
	}
	return nil
}

// command runs one of the server's programs as the server's account.
func (p *Postgres) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(p.binDir, name), args...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + p.binDir + ":" + os.Getenv("PATH"), "LC_ALL=C.UTF-8"}
	cmd.SysProcAttr = p.account.sysProcAttr(filepath.Dir(p.dataDir))
	return cmd
}

// debianPostgres matches the directories of Debian and Ubuntu, which hold several versions outside
// PATH.
const debianPostgres = "/usr/lib/postgresql/*/bin/postgres"

// findPostgres returns the directory of the server's programs: dir if given, otherwise a usual
// place.
func findPostgres(dir string) (string, error) {
	if dir != "" {
		if _, err := os.Stat(filepath.Join(dir, "initdb")); err != nil {
			return "", fmt.Errorf("start postgres: no server in %s; leave the directory out to have it found, or run: make setup", dir)
		}
		return dir, nil
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(path), nil
		}
	}
	found, _ := filepath.Glob(debianPostgres)
	if len(found) == 0 {
		return "", errors.New("start postgres: no server is installed; run: apt-get install postgresql (in a clone of the repository: make setup)")
	}
	newest := slices.MaxFunc(found, func(a, b string) int { return majorVersion(a) - majorVersion(b) })
	return filepath.Dir(newest), nil
}

func majorVersion(path string) int {
	n, _ := strconv.Atoi(strings.Split(path, "/")[4])
	return n
}

// account is the user that runs the server.
type account struct {
	uid, gid int
	switchTo bool // we are root and must switch to it
}

func serverAccount() (*account, error) {
	if uid := os.Geteuid(); uid != 0 {
		return &account{uid: uid, gid: os.Getegid()}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errU := strconv.Atoi(u.Uid)
		gid, errG := strconv.Atoi(u.Gid)
		if errU == nil && errG == nil && uid != 0 {
			return &account{uid: uid, gid: gid, switchTo: true}, nil
		}
	}
	return nil, errors.New("Postgres does not run as root, and neither the account postgres nor nobody exists; create one")
}

// makeDir creates dir for the account. A cluster that root created for the account stays usable.
func (a *account) makeDir(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !os.IsExist(err) {
		return err
	}
	if a.switchTo {
		return os.Chown(dir, a.uid, a.gid)
	}
	return nil
}

// sysProcAttr runs a child as the account. If a parent of dir is closed to it (root's home, a
// temporary directory), the child keeps the one capability that lets it pass. The alternative would
// be to open the parents.
func (a *account) sysProcAttr(dir string) *syscall.SysProcAttr {
	if !a.switchTo {
		return &syscall.SysProcAttr{}
	}
	attr := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}}
	if !reachable(dir) {
		attr.AmbientCaps = []uintptr{unix.CAP_DAC_READ_SEARCH}
	}
	return attr
}

// reachable reports whether all users may pass through all parents of dir.
func reachable(dir string) bool {
	for p := filepath.Dir(dir); ; p = filepath.Dir(p) {
		if info, err := os.Stat(p); err != nil || info.Mode()&0o001 == 0 {
			return false
		}
		if p == filepath.Dir(p) {
			return true
		}
	}
}
