package environment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/netrule"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

// How an environment is built.
const (
	// storeMost is how many there may be on a worker: each is a mount, and
	// every new container copies the table of those.
	storeMost    = 1000
	buildsAtOnce = 2           // of wheels, and as many from source
	startTime    = time.Minute // for the start of a sandbox on a machine without any time left
	buildOutput  = 64 * job.KiB
	buildTail    = 700 // bytes of pip's last lines that a failure shows
	buildLine    = 300 // and of each

	// byteCodeEpoch makes byte code that names its source by a hash, which each import
	// checks, and not by a time, which is another on each worker: environments of the
	// same wheels are the same. It is what SOURCE_DATE_EPOCH does to py_compile.
	byteCodeEpoch = "315532800" // 1980, from which on archives can tell times

	workspace  = "/workspace"
	buildRoot  = workspace + "/root"
	buildList  = workspace + "/requirements.txt"
	buildCerts = workspace + "/authorities.pem"
	wheelsDir  = workspace + "/wheels" // what pip leaves, or installs from
	builtDir   = workspace + "/built"  // what was built here before
)

// Index is where packages come from.
type Index struct {
	URL   string   // a simple index, such as https://pypi.org/simple
	Allow []string // what a build may reach besides the index's host: entries of a network allow-list
}

// PyPI is the public index.
var PyPI = Index{URL: "https://pypi.org/simple", Allow: []string{"files.pythonhosted.org:443"}}

// Check says what is wrong with an index.
func (x Index) Check() error {
	_, err := x.rules()
	return err
}

// rules returns the allow-list of builds, or says what is wrong with the index.
func (x Index) rules() ([]string, error) {
	u, err := url.Parse(x.URL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil {
		return nil, errors.New("the index must be a URL such as https://pypi.org/simple, without a password")
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[u.Scheme]
	}
	list := append([]string{net.JoinHostPort(u.Hostname(), port)}, x.Allow...)
	_, err = netrule.ParseRules(list)
	return list, err
}

// plain returns the host of an index without TLS, "" if it has TLS: pip ignores such an
// index, unless it is told that whoever set it up knows.
func (x Index) plain() string {
	if u, err := url.Parse(x.URL); err == nil && u.Scheme == "http" {
		return u.Host
	}
	return ""
}

// pipRun is what pip does in a sandbox of its own.
type pipRun struct {
	args   []string // after python3 -I -m pip
	files  []runtime.File
	online bool // it reaches the index
	builds bool // it may start other programs, and so run code of packages
}

// plan is the policy of a run of pip. What pip reads is untrusted, and where it
// builds a package, so is what it runs.
func (s *Store) plan(run *pipRun) (*policy.Plan, error) {
	p := policy.Default()
	p.Isolation = policy.Task
	p.Wall, p.CPUTime, p.CPU = job.Duration(s.cfg.Time), job.Duration(s.cfg.Time), 2
	p.Disk = s.cfg.Size
	p.Memory = p.Disk + job.GiB // what is written is memory, too
	p.Files, p.OpenFiles, p.Processes = 1_000_000, min(4096, s.cfg.OpenFiles), 256
	p.Stdout.Limit, p.Stderr.Limit = buildOutput, buildOutput
	p.Subprocesses = run.builds
	if run.online {
		allow, err := s.cfg.Index.rules()
		if err != nil {
			return nil, err
		}
		p.Network = policy.Network{Mode: policy.NetworkAllow, Allow: allow, MaxBytes: 2 * p.Disk}
	}
	p.Env.Set = map[string]string{
		"PIP_INDEX_URL": s.cfg.Index.URL, "PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_CACHE_DIR": "1",
		"PIP_PROGRESS_BAR": "off", "PIP_NO_COLOR": "1", "PIP_BREAK_SYSTEM_PACKAGES": "1", "PIP_ROOT_USER_ACTION": "ignore",
		"PIP_DEFAULT_TIMEOUT": "30", "PIP_RETRIES": "2", "SOURCE_DATE_EPOCH": byteCodeEpoch,
	}
	if host := s.cfg.Index.plain(); host != "" {
		p.Env.Set["PIP_TRUSTED_HOST"] = host
	}
	return &policy.Plan{Policy: p}, nil
}

// pip runs pip on base, has take look at what it left in its workspace, and
// returns what pip wrote. Everything in the sandbox is dead by then.
func (s *Store) pip(ctx context.Context, base Base, run pipRun, take func(work *os.Root) error) (said string, err error) {
	plan, err := s.plan(&run)
	if err != nil {
		return "", err
	}
	a := runtime.Attempt{
		Program: job.Program{Command: &job.Command{Argv: append([]string{"python3", "-I", "-m", "pip"}, run.args...)}},
		Plan:    plan, Deadline: time.Now().Add(s.cfg.Time), Files: run.files,
	}
	if trusted := certificates(); trusted != nil {
		a.Files = append([]runtime.File{{Path: buildCerts, Data: trusted}}, a.Files...)
		plan.Policy.Env.Set["PIP_CERT"], plan.Policy.Env.Set["SSL_CERT_FILE"] = buildCerts, buildCerts
	}
	var taken error
	rep, err := base.Image.Run(ctx, a, func(work *os.Root) { taken = take(work) })
	if err != nil {
		return "", fmt.Errorf("run pip: %w", err)
	}
	said = rep.Stdout.Text + "\n" + rep.Stderr.Text
	if rep.Outcome != job.Succeeded {
		return said, buildFailure(rep)
	}
	return said, taken
}

// build makes an environment and returns the directory that it is in.
func (s *Store) build(ctx context.Context, base Base, ask asked) (dir string, l lockfile, err error) {
	turn := &buildTurn{wheels: s.turns, sources: s.sources, tenant: ask.tenant}
	if turn.done, err = s.turns.take(ctx, ask.tenant); err != nil {
		return "", l, err
	}
	defer func() { turn.done() }()
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Time+startTime)
	defer cancel()
	if err := s.makeRoom(ask.tenant); err != nil {
		return "", l, err
	}
	work, err := s.workDir()
	if err != nil {
		return "", l, err
	}
	defer os.RemoveAll(work)
	wheels, err := s.gather(ctx, turn, base, ask.packages, filepath.Join(work, "wheels"))
	if err != nil {
		return "", l, err
	}
	l = lockfile{Tenant: ask.tenant}
	for i := range wheels {
		l.Packages = append(l.Packages, wheels[i].record())
		l.Private = l.Private || wheels[i].built
	}
	slices.Sort(l.Packages)
	if l.Bytes, l.Tree, err = s.install(ctx, base, wheels, filepath.Join(work, layerName)); err != nil {
		return "", l, err
	}
	dir = filepath.Join(s.cfg.Dir, ask.shared)
	if l.Private {
		dir = filepath.Join(s.cfg.Dir, ask.own)
	}
	return dir, l, s.keep(work, dir, &l)
}

// workDir makes a directory in which an environment is made: its layer is there, and empty.
func (s *Store) workDir() (string, error) {
	work, err := os.MkdirTemp(s.cfg.Dir, "build-")
	if err == nil {
		if err = errors.Join(os.Chmod(work, 0o755), os.Mkdir(filepath.Join(work, layerName), 0o755)); err != nil {
			_ = os.RemoveAll(work)
		}
	}
	if err != nil {
		return "", fmt.Errorf("make an environment: %w", err)
	}
	return work, nil
}

// keep puts what was made in work where it stays. Another tenant may have been
// faster, with what is the same for all.
func (s *Store) keep(work, dir string, l *lockfile) error {
	raw, err := json.Marshal(l)
	if err == nil {
		err = errors.Join(os.RemoveAll(filepath.Join(work, "wheels")), os.RemoveAll(filepath.Join(work, "fetched")), os.WriteFile(filepath.Join(work, lockName), raw, 0o644))
	}
	if err == nil {
		err = os.Rename(work, dir)
	}
	if errors.Is(err, os.ErrExist) || errors.Is(err, unix.ENOTEMPTY) {
		*l, err = readLock(dir)
	}
	if err != nil {
		return fmt.Errorf("keep an environment: %w", err)
	}
	return nil
}

// buildFailure says why, in pip's own words.
func buildFailure(rep *runtime.Report) error {
	m := "pip failed"
	if rep.Outcome != job.Failed {
		m = "building the environment: " + rep.Message
	}
	if rep.Network != nil {
		for _, a := range rep.Network.Attempts {
			if a.Decision != "allowed" {
				m += fmt.Sprintf("; %s:%d was %s (%s)", a.Host, a.Port, a.Decision, a.Reason)
				break
			}
		}
	}
	return &runtime.BuildError{Message: m + ":\n" + lastLines(rep.Stdout.Text+"\n"+rep.Stderr.Text)}
}

// lastLines returns the end of what pip wrote. Its errors come last.
func lastLines(text string) string {
	lines := strings.FieldsFunc(text, func(c rune) bool { return c == '\n' })
	n := 0
	for i := len(lines) - 1; i >= 0; i-- {
		if len(lines[i]) > buildLine {
			lines[i] = strings.ToValidUTF8(lines[i][:buildLine], "") + "…"
		}
		if n += len(lines[i]) + 1; n > buildTail {
			lines = lines[i+1:]
			break
		}
	}
	return strings.Join(lines, "\n")
}

// certificates returns the authorities that this host trusts, nil if they are
// not in a usual place: an index inside a company has one of its own.
func certificates() []byte {
	for _, file := range []string{os.Getenv("SSL_CERT_FILE"), "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"} {
		if raw, err := os.ReadFile(file); err == nil && len(raw) > 0 {
			return raw
		}
	}
	return nil
}
