package containerd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/netrule"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

// How an environment is built.
const (
	buildTime = 10 * time.Minute
	// environmentsMost is how many there may be on a worker: each is a mount, and
	// every new container copies the table of those.
	environmentsMost = 1000
	buildsAtOnce     = 2
	buildOutput      = 64 * job.KiB
	buildTail        = 700 // bytes of pip's last lines that a failure shows
	buildLine        = 300 // and of each
	maxReport        = 16 << 20

	buildRoot   = "/workspace/root"
	buildReport = "/workspace/report.json"
	buildList   = "/workspace/requirements.txt"
	buildCerts  = "/workspace/authorities.pem"
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

// buildPlan is the policy of a build: it is untrusted as any job is, since
// packages run code of their own when they are built.
func (e *environments) buildPlan() (*policy.Plan, error) {
	allow, err := e.rt.cfg.Index.rules()
	if err != nil {
		return nil, err
	}
	p := policy.Default()
	p.Isolation = policy.Task
	p.Wall, p.CPUTime, p.CPU = job.Duration(buildTime), job.Duration(buildTime), 2
	p.Disk = e.rt.cfg.EnvironmentSize
	p.Memory = p.Disk + job.GiB // what is written is memory, too
	p.Files, p.OpenFiles, p.Processes = 1_000_000, 4096, 256
	p.Stdout.Limit, p.Stderr.Limit = buildOutput, buildOutput
	p.Network = policy.Network{Mode: policy.NetworkAllow, Allow: allow, MaxBytes: 2 * p.Disk}
	p.Env.Set = map[string]string{
		"PIP_INDEX_URL": e.rt.cfg.Index.URL, "PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_CACHE_DIR": "1",
		"PIP_PROGRESS_BAR": "off", "PIP_NO_COLOR": "1", "PIP_BREAK_SYSTEM_PACKAGES": "1", "PIP_ROOT_USER_ACTION": "ignore",
		"PIP_DEFAULT_TIMEOUT": "30", "PIP_RETRIES": "2",
	}
	return &policy.Plan{Policy: p}, nil
}

// pip installs into a root of its own, where files lie as they will in jobs. What
// the image has already is installed again: it could not be replaced.
var pip = []string{"python3", "-m", "pip", "install", "--root", buildRoot, "--ignore-installed", "--no-compile",
	"--no-warn-script-location", "--report", buildReport, "-r", buildList}

// build makes an environment in dir.
func (e *environments) build(ctx context.Context, base *image, packages, dir string) (l lockfile, err error) {
	select {
	case e.turns <- struct{}{}:
		defer func() { <-e.turns }()
	case <-ctx.Done():
		return l, fmt.Errorf("wait to build an environment: %w", context.Cause(ctx))
	}
	ctx, cancel := context.WithTimeout(ctx, buildTime+makeTime)
	defer cancel()
	if kept, total, err := e.list(); err != nil {
		return l, err
	} else if total > int64(e.rt.cfg.EnvironmentsMost) || len(kept) >= environmentsMost {
		return l, &runtime.BuildError{Message: "this worker keeps no more environments: its space for them is used up"}
	}
	plan, err := e.buildPlan()
	if err != nil {
		return l, err
	}
	s, err := e.rt.makeSlot(ctx, e.rt.levels[policy.Task], base, defaultShape)
	if err != nil {
		return l, fmt.Errorf("build an environment: %w", err)
	}
	defer s.Close()
	a := runtime.Attempt{
		Program: job.Program{Command: &job.Command{Argv: pip}}, Plan: plan, Deadline: time.Now().Add(buildTime),
		Files: []runtime.File{{Path: buildList, Data: []byte(packages + "\n")}},
	}
	if trusted := certificates(); trusted != nil {
		a.Files = append([]runtime.File{{Path: buildCerts, Data: trusted}}, a.Files...)
		plan.Policy.Env.Set["PIP_CERT"], plan.Policy.Env.Set["SSL_CERT_FILE"] = buildCerts, buildCerts
	}
	rep, err := s.run(ctx, a, true)
	if err != nil {
		return l, fmt.Errorf("build an environment: %w", err)
	}
	if rep.Outcome != job.Succeeded {
		return l, buildFailure(rep)
	}
	i := slices.IndexFunc(s.scratch.mounts, func(w writable) bool { return w.path == "/workspace" })
	return e.keep(s.scratch.mounts[i].dir, dir)
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

// keep copies what a build left, beneath from, to dir. Everything in the sandbox
// is dead by then; links are copied, never followed.
func (e *environments) keep(from *os.File, dir string) (l lockfile, err error) {
	work, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", from.Fd()))
	if err != nil {
		return l, fmt.Errorf("keep an environment: %w", err)
	}
	defer work.Close()
	if l.Packages, err = readReport(work); err != nil {
		return l, err
	}
	if err := os.RemoveAll(dir); err != nil { // what a killed worker left
		return l, fmt.Errorf("keep an environment: %w", err)
	}
	layer := filepath.Join(dir, "layer")
	if err := os.MkdirAll(layer, 0o755); err != nil {
		return l, fmt.Errorf("keep an environment: %w", err)
	}
	if l.Bytes, err = copyLayer(work, path.Base(buildRoot), layer); err != nil {
		_ = os.RemoveAll(dir)
		return l, err
	}
	raw, err := json.Marshal(l)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "lock.json"), raw, 0o644)
	}
	return l, err
}

// copyLayer copies a tree and returns its size. Of modes only the bit to execute
// is kept.
func copyLayer(work *os.Root, name, to string) (n int64, err error) {
	if _, err := work.Stat(name); errors.Is(err, fs.ErrNotExist) {
		return 0, nil // nothing but what the image has
	}
	from, err := work.OpenRoot(name)
	if err != nil {
		return 0, fmt.Errorf("keep an environment: %w", err)
	}
	defer from.Close()
	err = fs.WalkDir(from.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if t := d.Type(); t != 0 && t != fs.ModeDir && t != fs.ModeSymlink {
			return &runtime.BuildError{Message: fmt.Sprintf("a package holds /%.200s, which is no file, directory or link", p)}
		}
		if info, err := d.Info(); err == nil {
			n += info.Size()
		}
		return nil
	})
	if err == nil {
		err = os.CopyFS(to, from.FS())
	}
	if failure := new(runtime.BuildError); err != nil && !errors.As(err, &failure) {
		err = fmt.Errorf("keep an environment: %w", err)
	}
	return n, err
}

// readReport reads what pip says it installed.
func readReport(work *os.Root) ([]string, error) {
	f, err := work.Open(path.Base(buildReport))
	if err != nil {
		return nil, &runtime.BuildError{Message: "pip left no report; packages need pip 22.2 or newer in the image"}
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > maxReport {
		return nil, &runtime.BuildError{Message: "pip left a report that is no report"}
	}
	var report struct {
		Install []struct {
			Metadata struct {
				Name    string `json:"name"`
				Version string `json:"version"`
			} `json:"metadata"`
			Download struct {
				Archive struct {
					Hashes map[string]string `json:"hashes"`
					Hash   string            `json:"hash"` // sha256=…, of an older pip
				} `json:"archive_info"`
			} `json:"download_info"`
		} `json:"install"`
	}
	if err := json.NewDecoder(f).Decode(&report); err != nil {
		return nil, &runtime.BuildError{Message: "pip left a report that is no report"}
	}
	var out []string
	for _, p := range report.Install {
		hash := p.Download.Archive.Hashes["sha256"]
		if hash == "" {
			_, hash, _ = strings.Cut(p.Download.Archive.Hash, "sha256=")
		}
		out = append(out, fmt.Sprintf("%.200s==%.100s --hash=sha256:%.64s", p.Metadata.Name, p.Metadata.Version, hash))
	}
	slices.Sort(out)
	return out, nil
}
