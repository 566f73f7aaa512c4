//go:build tools

package tools

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/cli/dev"
	"github.com/assay-run/assay/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// programs are shell commands, and a part of the output of each.
var programs = map[string]string{
	"curl --version":                   "curl 7",
	"curl -s file:///etc/hostname":     "",
	"wget --version":                   "GNU Wget",
	`echo '{"a": [1, 42]}' | jq .a[1]`: "42",
	"echo text | less":                 "text",
	"ps -o comm= -p $$":                "bash",
	"pgrep bash":                       "",
	"echo needle >f; rg -n needle f":   "1:needle",
	"tmux -V":                          "tmux",
	"unzip -v":                         "UnZip",
	"printf 'one' >v; vi -es -c 's/one/two/' -c wq v; cat v": "two",
	"git init -q r && git -C r status":                       "No commits yet",
	"TZ=Asia/Tokyo date +%Z":                                 "JST",
	"gcc --version":                                          "gcc",
	"python3 -c 'import numpy; print(numpy.arange(3))'":      "[0 1 2]",
	"python3 -m venv e && e/bin/python -c 'import sys; print(sys.prefix != sys.base_prefix)' && e/bin/pip --version": "True",
	"printf 'def test(): assert 1 + 1 == 2' >test_it.py; pytest -q":                                                  "1 passed",
	"pip install requests 2>&1 || true":                                                                              `"packages": ["requests"]`,
}

// TestPrograms runs each program of the image in a cell.
func TestPrograms(t *testing.T) {
	images := filepath.Join(testenv.RepoRoot(t), ".cache", "images")
	python, tools := filepath.Join(images, "python.tar"), filepath.Join(images, "tools.tar") // workers test themselves with python
	for _, file := range []string{python, tools} {
		if _, err := os.Stat(file); err != nil {
			t.Fatalf("%v; run: make image image-tools", err)
		}
	}
	bin := testenv.Programs(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	f, err := dev.StartFleet(ctx, dev.FleetConfig{Dir: testenv.FleetDir(t, python), Listen: testenv.Address(t), BinDir: bin,
		ImageArchives: []string{python, tools}, Stderr: t.Output(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	for command, want := range programs {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			run := exec.CommandContext(t.Context(), filepath.Join(bin, "assay"), "--url", f.URL(), "run", "--image", "tools", "--isolation", "cell", "--stdin", "-", "bash")
			run.Stdin = strings.NewReader("set -eo pipefail; " + command + "\n")
			var out, errs bytes.Buffer
			run.Stdout, run.Stderr = &out, &errs
			if err := run.Run(); err != nil || !strings.Contains(out.String(), want) {
				t.Errorf("%v; printed %q, %q; want %q", err, out.String(), errs.String(), want)
			}
		})
	}
}
