package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/queue/identity"
)

// TestEnvironmentsOfOthers requires one witness. A worker runs an environment of another worker
// after that worker and the index are gone. A replaced environment is not used, and a worker that
// builds replaces it with its own.
func TestEnvironmentsOfOthers(t *testing.T) {
	x := newIndex(t)
	f := start(t, "ASSAY_ENVIRONMENT_WITNESSES=1", "ASSAY_PIP_INDEX="+x.url(), "ASSAY_RUNTIMES=gvisor=none")

	x.open(t)
	packages := f.friendly(t, "dev")
	if x.asked.Load() == 0 {
		t.Error("the first worker has not built it")
	}
	object, good := f.offered(t)
	x.close(t)
	if _, err := f.api.Admin().Cordon(t.Context(), "dev", "the second is to run jobs"); err != nil {
		t.Fatal(err)
	}

	second := f.anotherWorker(t, "second")
	if got := f.friendly(t, "second"); !slices.Equal(got, packages) {
		t.Errorf("fetched %q, and the first has built %q", got, packages)
	}
	second.counts(t, "environment_fetches", "ok", 1)
	second.counts(t, "environment_builds", "ok", 0)
	second.counts(t, "environment_builds", "error", 0)
	second.stop()

	if err := os.WriteFile(object, []byte("this is no environment"), 0o644); err != nil {
		t.Fatal(err)
	}
	x.open(t)
	third := f.anotherWorker(t, "third")
	before := x.asked.Load()
	if got := f.friendly(t, "third"); !slices.Equal(got, packages) || x.asked.Load() == before {
		t.Errorf("built %q, and the first %q; the index was asked %d times", got, packages, x.asked.Load()-before)
	}
	third.counts(t, "environment_fetches", "refused", 1)
	third.counts(t, "environment_fetches", "ok", 0)
	third.counts(t, "environment_builds", "ok", 1)
	eventually(t, "the environment is in its place again", func() bool {
		now, err := os.ReadFile(object)
		return err == nil && bytes.Equal(now, good)
	})
}

// friendly runs a job that imports the package of the index, and checks that it ran on a worker and
// used the byte code of the environment. It returns the recorded packages.
func (f *fleet) friendly(t *testing.T, worker string) (packages []string) {
	t.Helper()
	const imports = `python3 -v -c 'import friendly; print(friendly.word)' 2>&1 | grep -E "^hello$|code object from .*/friendly/"`
	r, err := f.api.Run(t.Context(), spec(t, shell(imports), "cell", limits{"packages": []string{"friendly"}}, ""))
	if err != nil {
		t.Fatal(err)
	}
	if r.Outcome != job.Succeeded || len(r.Attempts) != 1 || r.Attempts[0].Worker != worker || len(r.Packages) != 1 {
		t.Fatalf("packages %q, want one try on %s: %s", r.Packages, worker, seen(r))
	}
	if want := regexp.MustCompile(`^# code object from '/\S+/friendly/__pycache__/__init__\.\S+\.pyc'\nhello\n$`); !want.MatchString(r.Stdout.Text) {
		t.Errorf("on %s, without the byte code: %q", worker, r.Stdout.Text)
	}
	return r.Packages
}

// offered waits until an environment is in the object store, and returns its path and its content.
func (f *fleet) offered(t *testing.T) (file string, archive []byte) {
	t.Helper()
	key := regexp.MustCompile(`/environments/[0-9a-f]{2}/[0-9a-f]{64}/[0-9a-f]{64}$`)
	eventually(t, "an environment is in the object store", func() bool {
		found, err := filepath.Glob(filepath.Join(f.Dir(), "objects/environments/*/*/*"))
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(found, key.MatchString)
		if i < 0 {
			return false
		}
		file = found[i]
		return true
	})
	archive, err := os.ReadFile(file)
	if err != nil || len(archive) == 0 {
		t.Fatalf("%s: %d bytes, %v", file, len(archive), err)
	}
	return file, archive
}

// packageIndex is an index of one package that can be stopped and restarted at the same address.
type packageIndex struct {
	address string
	asked   atomic.Int64
	files   http.Handler
	close   func(*testing.T)
}

func newIndex(t *testing.T) *packageIndex {
	t.Helper()
	dir := t.TempDir()
	testenv.PackageIndex(t, dir)
	return &packageIndex{address: testenv.Address(t), files: http.FileServer(http.Dir(dir))}
}

func (x *packageIndex) url() string { return "http://" + x.address + "/simple" }

// open serves the index until close, or the end of the test.
func (x *packageIndex) open(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", x.address)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x.asked.Add(1)
		x.files.ServeHTTP(w, r)
	})}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	once := sync.OnceValue(func() error {
		err := s.Close()
		if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	})
	x.close = func(t *testing.T) {
		if err := once(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() { x.close(t) })
}

// anotherWorker is a further worker of a fleet.
type anotherWorker struct {
	metrics string // its address
	stop    func() // stops it, and waits for its end
}

// anotherWorker starts a further worker beside the fleet's own, with directories and a token of its
// own, and returns when it takes jobs. The end of the test stops it.
func (f *fleet) anotherWorker(t *testing.T, name string) *anotherWorker {
	t.Helper()
	w := &anotherWorker{metrics: testenv.Address(t)}
	text, err := os.ReadFile(filepath.Join(f.Dir(), "workers.key"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := identity.ParseKey(string(text))
	if err != nil {
		t.Fatal(err)
	}
	cmd, log := f.another(t, "worker", "ASSAY_WORKER_ID="+name, "ASSAY_WORKER_TOKEN="+key.Token(name, "default"), "ASSAY_METRICS_LISTEN="+w.metrics,
		"ASSAY_STATE_DIR="+filepath.Join(f.Dir(), name), "ASSAY_ENVIRONMENTS="+filepath.Join(f.Dir(), name+"-environments"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.stop = sync.OnceFunc(func() {
		if err := errors.Join(cmd.Process.Signal(unix.SIGTERM), cmd.Wait()); err != nil {
			t.Errorf("the worker %s: %v", name, err)
		}
		if t.Failed() {
			t.Logf("the worker %s:\n%s", name, log.Bytes())
		}
	})
	t.Cleanup(w.stop)
	eventually(t, "the worker "+name+" is ready", func() bool {
		status, _, err := w.get(t, "/readyz")
		return err == nil && status == http.StatusOK
	})
	return w
}

// get sends a request to the worker itself.
func (w *anotherWorker) get(t *testing.T, path string) (status int, body []byte, err error) {
	rq, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+w.metrics+path, nil)
	if err != nil {
		return 0, nil, err
	}
	r, err := http.DefaultClient.Do(rq)
	if err != nil {
		return 0, nil, err
	}
	defer r.Body.Close()
	body, err = io.ReadAll(r.Body)
	return r.StatusCode, body, err
}

// counts checks one of the worker's counters.
func (w *anotherWorker) counts(t *testing.T, counter, result string, want int) {
	t.Helper()
	_, page, err := w.get(t, "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^assay_` + counter + `_total\{([^}]*,)?result="` + result + `"[^}]*\} (\d+)$`).FindSubmatch(page)
	if line == nil || string(line[2]) != fmt.Sprint(want) {
		t.Errorf("%s with the result %s is %q, want %d", counter, result, line, want)
	}
}
