package start

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/testenv"
)

func TestPages(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(testenv.RepoRoot(t), "docs", "start", "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	for _, tool := range []string{"bash", "python3", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("%v; run: apt-get install %s", err, tool)
		}
	}
	for _, page := range pages {
		t.Run(strings.TrimSuffix(filepath.Base(page), ".md"), func(t *testing.T) {
			t.Parallel()
			r := newReader(t)
			for _, b := range readPage(t, page) {
				r.follow(b)
				if t.Failed() {
					t.Fatalf("%s, %v", page, b)
				}
			}
		})
	}
}

// reader follows a page in a directory of its own.
type reader struct {
	t    *testing.T
	ctx  context.Context
	dir  string
	url  string
	env  []string
	said string   // output of the last block of sh
	past []string // exports of earlier blocks: the page is read in one terminal
}

func newReader(t *testing.T) *reader {
	ctx, cancel := context.WithTimeout(t.Context(), pageTime)
	t.Cleanup(cancel)
	r := &reader{t: t, ctx: ctx, dir: t.TempDir(), url: "http://" + testenv.Address(t)}
	if err := os.Symlink(testenv.Programs(t), filepath.Join(r.dir, "bin")); err != nil {
		t.Fatal(err)
	}
	r.env = append(os.Environ(), "PATH="+filepath.Dir(python(t))+":"+os.Getenv("PATH"), "PYTHONPATH="+filepath.Join(testenv.RepoRoot(t), "sdk", "python", "src"),
		"XDG_DATA_HOME="+t.TempDir(), "ASSAY_IMAGE_ARCHIVES="+archive(t),
		"ASSAY_LISTEN="+strings.TrimPrefix(r.url, "http://"), "ASSAY_URL="+r.url, "ASSAY_CPU=4")
	return r
}

// follow executes a block.
func (r *reader) follow(b block) {
	r.t.Helper()
	text := strings.ReplaceAll(b.text, "http://127.0.0.1:8080", r.url)
	kind, name, _ := strings.Cut(b.kind, " ")
	switch {
	case b.kind == "sh":
		r.run(text)
	case b.kind == "sh fleet":
		r.startFleet(text)
	case b.kind == "sh docker", b.kind == "sh kubernetes":
	case b.kind == "text":
		if diff := differs(r.said, text); diff != "" {
			r.t.Errorf("the page says\n%s\nand it is\n%s\n%s", text, r.said, diff)
		}
	case (kind == "python" || kind == "json") && name != "":
		if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o644); err != nil {
			r.t.Fatal(err)
		}
	default:
		r.t.Errorf("%v: not a kind of block that is known here: see doc.go", b)
	}
}

// run runs a block with bash, after the exports of earlier blocks.
func (r *reader) run(text string) {
	r.t.Helper()
	cmd := exec.CommandContext(r.ctx, "bash", "-euo", "pipefail", "-c", strings.Join(r.past, "\n")+"\n"+text)
	cmd.Dir, cmd.Env = r.dir, r.env
	out, err := cmd.CombinedOutput()
	r.said = string(out)
	if err != nil {
		r.t.Fatalf("%s\n%s%v", text, out, err)
	}
	r.t.Logf("%s%s", text, out)
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "export ") {
			r.past = append(r.past, strings.TrimSpace(line))
		}
	}
}

// startFleet runs a block that does not end, and returns when the fleet is ready. Its exports apply
// only to its own terminal.
func (r *reader) startFleet(text string) {
	r.t.Helper()
	var out testenv.Buffer
	cmd := exec.Command("bash", "-euc", strings.TrimSpace(text))
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = r.dir, r.env, &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	r.t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) // Control-C
		select {
		case <-ended:
		case <-time.After(time.Minute):
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			r.t.Errorf("the fleet did not end within a minute of Control-C\n%s", out.String())
		}
	})
	for !strings.Contains(out.String(), "ready on "+r.url) {
		select {
		case err := <-ended:
			ended <- err
			r.t.Fatalf("the fleet ended: %v\n%s", err, out.String())
		case <-r.ctx.Done():
			r.t.Fatalf("the fleet was not ready: %s", out.String())
		case <-time.After(20 * time.Millisecond):
		}
	}
}
