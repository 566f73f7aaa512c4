package launcher

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/guest"
)

// executed names the file that a process of this test binary executes instead of running tests.
const executed = "ASSAY_TEST_EXECUTED"

func TestMain(m *testing.M) {
	if path := os.Getenv(executed); path != "" {
		c, err := prepare(&guest.Start{Argv: []string{path}, Dir: "/"}, []int{3})
		if err != nil {
			panic(err)
		}
		errno := c.execute()
		runtime.KeepAlive(c)
		os.Stdout.WriteString(errno.Error())
		os.Exit(126)
	}
	os.Exit(m.Run())
}

// TestExecutesFilesThatWereOpen checks that a program starts although another process has its file open for writing for a
// moment. A fork during a compiler's run causes this.
func TestExecutesFilesThatWereOpen(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "program")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.Open("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(file, source); err != nil {
		t.Fatal(err)
	}
	_ = source.Close()
	run := func() error {
		cmd := exec.Command(os.Args[0])
		cmd.Env, cmd.Stdout = []string{executed + "=" + path}, t.Output()
		return cmd.Run()
	}
	if err := run(); err == nil {
		t.Error("a file that stays open for writing was executed")
	}
	time.AfterFunc(60*time.Millisecond, func() { _ = file.Close() })
	if err := run(); err != nil {
		t.Error(err)
	}
}
