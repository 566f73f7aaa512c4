package containerd

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime/environment"
	"github.com/assay-run/assay/pkg/runtime/environment/environmenttest"
)

// fleetStore has the state that the workers of a test share: their statements, and an object store.
type fleetStore struct {
	witnesses int

	mu      sync.Mutex
	stated  map[string]map[string]string // name → worker → digest
	objects map[string][]byte            // name and digest → archive
	away    error
}

func newFleetStore(witnesses int) *fleetStore {
	return &fleetStore{witnesses: witnesses, stated: map[string]map[string]string{}, objects: map[string][]byte{}}
}

// of is the store as one worker has it.
func (s *fleetStore) of(worker string) *storeOf { return &storeOf{s, worker} }

type storeOf struct {
	*fleetStore
	worker string
}

func (s *storeOf) Find(_ context.Context, name string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	votes := map[string]int{}
	for _, digest := range s.stated[name] {
		if votes[digest]++; votes[digest] >= s.witnesses {
			return digest, s.away
		}
	}
	return "", s.away
}

func (s *storeOf) Open(_ context.Context, name, digest string) (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, ok := s.objects[name+digest]
	if !ok {
		return nil, job.ErrNotFound
	}
	return io.NopCloser(bytes.NewReader(body)), s.away
}

func (s *storeOf) Offer(_ context.Context, name, digest string, replace bool, write func(io.Writer) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away != nil {
		return s.away
	}
	if s.stated[name] == nil {
		s.stated[name] = map[string]string{}
	}
	s.stated[name][s.worker] = digest
	if s.objects[name+digest] != nil && !replace {
		return nil
	}
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	s.objects[name+digest] = b.Bytes()
	return nil
}

// state returns how many statements and objects there are.
func (s *fleetStore) state() (statements, objects int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range s.stated {
		statements += len(of)
	}
	return statements, len(s.objects)
}

// await waits until so many statements were made: it is not known which job's end that is.
func (s *fleetStore) await(t *testing.T, statements int) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if n, _ := s.state(); n >= statements {
			return
		}
	}
	n, _ := s.state()
	t.Fatalf("%d statements were made, want %d", n, statements)
}

const whoAndHow = `
import assay_hello, sys
data = open(assay_hello.__cached__, "rb").read()
print(assay_hello.WHO, "flags", int.from_bytes(data[4:8], "little"), open(assay_hello.__file__).read().count("\n"))`

// sharer is a worker with a directory of its own, and the environments in it.
func sharer(t *testing.T, x *environmenttest.Index, with environment.Shared) (*Runtime, func() keptEnvironment) {
	t.Helper()
	kept := t.TempDir()
	r := newRuntime(t, func(c *Config) { c.Index, c.Environments, c.Shared = environment.Index{URL: x.URL}, kept, with })
	return r, func() keptEnvironment {
		t.Helper()
		locks, err := filepath.Glob(kept + "/*/lock.json")
		if err != nil || len(locks) != 1 {
			t.Fatalf("environments %q, %v", locks, err)
		}
		l, err := readKept(locks[0])
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
}

// keptEnvironment is the record in an environment's lock.
type keptEnvironment struct {
	Bytes   int64
	Tree    string
	Tenant  string
	Fetched bool
}

func readKept(lock string) (k keptEnvironment, err error) {
	raw, err := os.ReadFile(lock)
	if err != nil {
		return k, err
	}
	return k, json.Unmarshal(raw, &k)
}

func helloIndex(t *testing.T) *environmenttest.Index {
	t.Helper()
	return environmenttest.Serve(t, map[string][]byte{"assay_hello-1.0-py3-none-any.whl": environmenttest.Wheel(t, "assay_hello", "1.0", "WHO = 'world'\ndef main(): print('script')\n")})
}

// TestEnvironmentsAreShared checks that the second worker fetches the first one's environment with its byte
// code, and asks no index. It does not vouch for it. A worker that restarts with its own build repeats its
// statement.
func TestEnvironmentsAreShared(t *testing.T) {
	x, s := helloIndex(t), newFleetStore(1)
	const want = "world flags 3 2"
	r1, lock1 := sharer(t, x, s.of("w1"))
	if got, _ := says(t, r1, "one", policy.Cell, whoAndHow, "assay_hello"); got != want {
		t.Errorf("built: %q", got)
	}
	s.await(t, 1)
	x.Close()
	r2, lock2 := sharer(t, x, s.of("w2"))
	got, packages := says(t, r2, "two", policy.Cell, whoAndHow, "assay_hello")
	if got != want || len(packages) != 1 || packages[0] != "assay_hello==1.0 --hash=sha256:"+x.Sums["assay_hello"] {
		t.Errorf("fetched: %q, recorded as %q", got, packages)
	}
	script := job.Program{Command: &job.Command{Argv: []string{"assay_hello"}}}
	if rep, err := ofTenant(t, r2, "two", policy.Task, script, "assay_hello"); err != nil || rep.Stdout.Text != "script\n" {
		t.Errorf("its script: %+v, %v", rep, err)
	}
	l1, l2 := lock1(), lock2()
	if l1.Tree != l2.Tree || l1.Bytes != l2.Bytes || l1.Fetched || !l2.Fetched || l2.Tenant != "two" {
		t.Errorf("built %+v\nfetched %+v", l1, l2)
	}
	if err := r2.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if n, objects := s.state(); n != 1 || objects != 1 || x.Asked.Load() != 1 {
		t.Errorf("%d statements, %d objects; the index was asked %d times", n, objects, x.Asked.Load())
	}
}

// TestEnvironmentsWithTwoWitnesses checks that with two required witnesses the second worker builds, and the
// third fetches. A worker that already has the environment states so when it uses it.
func TestEnvironmentsWithTwoWitnesses(t *testing.T) {
	x, s := helloIndex(t), newFleetStore(2)
	kept := t.TempDir()
	for i, asked := range []int64{1, 1, 2, 2} {
		worker := []string{"w1", "w1", "w2", "w3"}[i]
		dir := t.TempDir()
		if worker == "w1" {
			dir = kept
		}
		if i == 1 { // after a restart, and after its statement expired
			s.mu.Lock()
			clear(s.stated)
			s.mu.Unlock()
		}
		r := newRuntime(t, func(c *Config) { c.Index, c.Environments, c.Shared = environment.Index{URL: x.URL}, dir, s.of(worker) })
		if got, _ := says(t, r, "tenant", policy.Cell, whoAndHow, "assay_hello"); got != "world flags 3 2" {
			t.Errorf("%s: %q", worker, got)
		}
		if x.Asked.Load() != asked {
			t.Errorf("%s: the index was asked %d times, want %d", worker, x.Asked.Load(), asked)
		}
		s.await(t, []int{1, 1, 2, 2}[i])
		if err := r.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if n, objects := s.state(); n != 2 || objects != 1 {
		t.Errorf("%d statements, %d objects", n, objects)
	}
}

// TestSpoiledEnvironmentsAreReplaced checks that a forged object in an environment's place is not used: the
// worker builds its own, and replaces it. An unavailable store does not fail the job.
func TestSpoiledEnvironmentsAreReplaced(t *testing.T) {
	x, s := helloIndex(t), newFleetStore(1)
	r1, _ := sharer(t, x, s.of("w1"))
	says(t, r1, "one", policy.Cell, whoAndHow, "assay_hello")
	s.await(t, 1)
	var key string
	var good []byte
	for key, good = range s.objects {
	}
	s.objects[key] = evil(t, good)

	r2, lock := sharer(t, x, s.of("w2"))
	if got, _ := says(t, r2, "two", policy.Cell, whoAndHow, "assay_hello"); got != "world flags 3 2" {
		t.Errorf("with a spoiled object: %q", got)
	}
	s.await(t, 2)
	s.mu.Lock()
	if !bytes.Equal(s.objects[key], good) {
		t.Error("the object is still another one")
	}
	s.away = fmt.Errorf("%w: the test says so", job.ErrUnavailable)
	s.mu.Unlock()
	if l := lock(); l.Fetched || x.Asked.Load() != 2 {
		t.Errorf("kept %+v; the index was asked %d times", l, x.Asked.Load())
	}
	r3, _ := sharer(t, x, s.of("w3"))
	if got, _ := says(t, r3, "three", policy.Cell, whoAndHow, "assay_hello"); got != "world flags 3 2" || x.Asked.Load() != 3 {
		t.Errorf("with the store away: %q; the index was asked %d times", got, x.Asked.Load())
	}
}

// evil returns an archive with other code in it.
func evil(t *testing.T, good []byte) []byte {
	t.Helper()
	from, err := zstd.NewReader(bytes.NewReader(good))
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	var b bytes.Buffer
	to, err := zstd.NewWriter(&b, zstd.WithWindowSize(1<<20))
	if err != nil {
		t.Fatal(err)
	}
	in, out, changed := tar.NewReader(from), tar.NewWriter(to), false
	for {
		h, err := in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(h.Name, "/assay_hello/__init__.py") {
			body, changed = bytes.Replace(body, []byte("world"), []byte("thief"), 1), true
		}
		if err := out.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Write(body); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(out.Close(), to.Close()); err != nil || !changed {
		t.Fatalf("changed: %v, %v", changed, err)
	}
	return b.Bytes()
}

// TestBuildsOfSourceAreSharedWithinATenant checks that an environment built from source belongs to its tenant
// alone, also across workers.
func TestBuildsOfSourceAreSharedWithinATenant(t *testing.T) {
	x, s := environmenttest.Serve(t, map[string][]byte{"assay_odd-1.0.tar.gz": sdist(t, "assay_odd", "1.0", "", "WHO = 'RANDOM'\n")}), newFleetStore(1)
	const who = "import assay_odd; print(assay_odd.WHO)"
	r1, _ := sharer(t, x, s.of("w1"))
	first, _ := says(t, r1, "one", policy.Cell, who, "assay_odd")
	s.await(t, 1)
	r2 := newRuntime(t, func(c *Config) { c.Index, c.Shared = environment.Index{URL: x.URL}, s.of("w2") })
	if other, _ := says(t, r2, "two", policy.Cell, who, "assay_odd"); other == first {
		t.Error("another tenant got the build from another worker")
	}
	asked := x.Asked.Load()
	if same, _ := says(t, r2, "one", policy.Cell, who, "assay_odd"); same != first || x.Asked.Load() != asked {
		t.Errorf("the same tenant got %s, after %s; the index was asked %d times more", same, first, x.Asked.Load()-asked)
	}
}
