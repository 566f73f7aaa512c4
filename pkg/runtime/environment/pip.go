package environment

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

const (
	buildOutput = 64 * job.KiB
	buildTail   = 700 // bytes of pip's last lines in a failure
	buildLine   = 300 // bytes of each line

	// byteCodeEpoch makes byte code refer to its source by a hash, checked at each import, instead of
	// a time, which differs between workers. So environments of the same wheels are equal. It is the
	// effect of SOURCE_DATE_EPOCH on py_compile.
	byteCodeEpoch = "315532800" // 1980, the earliest time in zip archives

	workspace  = "/workspace"
	buildRoot  = workspace + "/root"
	buildList  = workspace + "/requirements.txt"
	buildCerts = workspace + "/authorities.pem"
	wheelsDir  = workspace + "/wheels" // pip's output, or input of the installation
	builtDir   = workspace + "/built"  // packages built here before
)

// pipRun is one run of pip in its own sandbox.
type pipRun struct {
	args   []string // after python3 -I -m pip
	files  []runtime.File
	online bool // it may reach the index
	builds bool // it may start programs, and so run packages' code
}

// plan returns the policy of a run of pip. The input of pip is untrusted and, during a build, so is
// the code it runs.
func (s *Store) plan(run *pipRun) (*policy.Plan, error) {
	p := policy.Default()
	p.Isolation = policy.Task
	p.Wall, p.CPUTime, p.CPU = job.Duration(s.cfg.Time), job.Duration(s.cfg.Time), 2
	p.Disk = s.cfg.Size
	p.Memory = p.Disk + job.GiB // written files are in memory, too
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

// pip runs pip on base, lets take inspect the workspace after all processes have ended, and returns
// pip's output.
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

// buildFailure returns the failure with pip's own message.
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

// lastLines returns the end of pip's output, which has its errors.
func lastLines(text string) string {
	lines := strings.FieldsFunc(text, func(c rune) bool { return c == '\n' })
	n := 0
	for i := len(lines) - 1; i >= 0; i-- {
		lines[i] = job.Clip(lines[i], buildLine)
		if n += len(lines[i]) + 1; n > buildTail {
			lines = lines[i+1:]
			break
		}
	}
	return strings.Join(lines, "\n")
}

// certificates returns this host's trusted authorities, or nil if they are not at a usual place. A
// company's internal index may have its own authority.
func certificates() []byte {
	for _, file := range []string{os.Getenv("SSL_CERT_FILE"), "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"} {
		if raw, err := os.ReadFile(file); err == nil && len(raw) > 0 {
			return raw
		}
	}
	return nil
}
