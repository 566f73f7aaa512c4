package start

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/testenv"
)

const (
	// firstVerdict is the longest time from a built clone to the output of a new user's first program.
	firstVerdict = time.Minute
	// firstLines is the longest first program.
	firstLines = 12
)

// TestFirstVerdicts follows three new users from a built clone to their first output: someone who trains a model, the builder
// of an agent, and an operator. The time includes the installation of the Python client and the start of a fleet.
func TestFirstVerdicts(t *testing.T) {
	for _, user := range []struct{ name, page, first string }{
		{"pipeline", "README.md", "python add.py"},
		{"agent", "docs/start/agent.md", "python box.py"},
		{"operator", "docs/start/operator.md", "sh"},
	} {
		t.Run(user.name, func(t *testing.T) {
			python(t) // the setup of the tests, not of the user
			r := newReader(t)
			blocks := readPage(t, filepath.Join(testenv.RepoRoot(t), user.page))
			began := time.Now()
			if strings.HasPrefix(user.first, "python ") {
				r.install()
				r.startFleet("bin/assay dev")
			}
			program, output := r.first(blocks, user.first)
			took := time.Since(began)
			if t.Logf("%s: the first output after %.1f s", user.name, took.Seconds()); took > firstVerdict {
				t.Errorf("the first output came after %v", took)
			}
			if n := lines(program); n > firstLines {
				t.Errorf("the program has %d lines:\n%s", n, program)
			}
			if diff := differs(r.said, output); diff != "" {
				t.Errorf("the page says\n%s\nand it is\n%s\n%s", output, r.said, diff)
			}
		})
	}
}

// install makes an environment with the client alone, as the pages say. Later blocks use its interpreter.
func (r *reader) install() {
	r.t.Helper()
	r.env = append(r.env, "PYTHONPATH=")
	venv := filepath.Join(r.dir, "venv")
	r.run("python3 -m venv " + venv + "\n" +
		venv + "/bin/pip install --quiet --disable-pip-version-check " + filepath.Join(testenv.RepoRoot(r.t), "sdk", "python"))
	r.past = append(r.past, "export PATH="+venv+"/bin:$PATH")
}

// first follows a page to the output of its first program, which has a kind. For an operator the program is all shell lines
// after the start of the fleet up to the first block with an output. It returns the program and the output on the page.
func (r *reader) first(blocks []block, kind string) (program, output string) {
	r.t.Helper()
	for i, b := range blocks {
		switch {
		case b.kind == "text":
			return program, b.text
		case b.kind == kind && kind != "sh":
			r.follow(b)
			r.run("python3 " + strings.TrimPrefix(kind, "python "))
			for _, next := range blocks[i+1:] {
				if next.kind == "text" {
					return b.text, next.text
				}
			}
			r.t.Fatalf("%v has no output", b)
		case kind == "sh":
			r.follow(b)
			program += b.text
		}
	}
	r.t.Fatalf("no block %q with an output", kind)
	return "", ""
}

// lines counts the lines that are not empty.
func lines(text string) (n int) {
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) != "" {
			n++
		}
	}
	return n
}
