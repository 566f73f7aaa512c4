package chaos

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/cli/dev"
	"github.com/assay-run/assay/internal/testenv"
)

// TestChaos runs real programs in real sandboxes while every component fails repeatedly, and judges
// the history. `make chaos` makes it long.
func TestChaos(t *testing.T) {
	t.Parallel()
	s := newStorm(t)
	end := s.rage()
	n, per := 0, max(*stormJobs/20, 10)
	// Chance decides which jobs the faults hit: continue until some were hit, within a limit.
	for ; n < *stormJobs || !s.sawAll() || n < 4**stormJobs && !s.met(); n += per {
		s.batch(per-per/10, always(stormJob))
		// Accepted jobs finish under faults, too. The single jobs wait for that, because a job is
		// assigned only with nothing queued ahead of it.
		within(t, 20*time.Minute, "it is done", func() bool { return s.finished() >= n+per-per/10 })
		s.alone(per / 10)
		within(t, 20*time.Minute, "most of it is done", func() bool { return s.finished() > n+per-per/20 })
	}
	end()
	s.heal()
	within(t, 10*time.Minute, "every job is terminal", func() bool {
		return s.count("SELECT count(*) FROM jobs WHERE state NOT IN ('finished', 'canceled')") == 0
	})
	v := s.check()
	wrong := s.count("SELECT count(*) FROM jobs WHERE outcome IS DISTINCT FROM 'succeeded'")
	assigned := s.count("SELECT count(*) FROM jobs WHERE started_at = created_at")
	left := s.end()
	t.Logf("history: jobs %d, results %d, lost %d, doubled %d, leaked %d, charged %d, other outcomes %d, ran again %d, void attempts %d, assigned %d; faults: %v",
		v.jobs, v.results, v.lost, v.doubled, v.leaked+len(left), v.charged, wrong, v.again, v.attempts, assigned, s.said())
	if v.jobs != n || wrong != 0 || v.again == 0 || assigned == 0 {
		t.Errorf("%d jobs of %d, %d did not succeed, %d ran again, %d were assigned", v.jobs, n, wrong, v.again, assigned)
	}
	for _, what := range left {
		t.Errorf("left behind: %s", what)
	}
}

const stormJob = "sleep=10ms\nprint('real')"

// alone submits n jobs one by one, from a few clients of both dispatchers.
func (s *storm) alone(n int) {
	var wg sync.WaitGroup
	for i := range min(n, 8) {
		wg.Go(func() {
			for range (n + 7 - i) / 8 {
				if _, err := s.apis[i%len(s.apis)].Submit(s.t.Context(), scripted(stormJob)); err != nil {
					s.t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// A storm is a fleet whose components fail by a seeded choice.
type storm struct {
	*fleet
	pg         *dev.Postgres
	pgDir      string
	containerd *dev.Containerd
	ns         *namespace // of the first worker

	mu     sync.Mutex
	faults map[string]int // that happened
}

func newStorm(t *testing.T) *storm {
	root := testenv.RepoRoot(t)
	archive := filepath.Join(root, ".cache", "images", "python.tar")
	if _, err := os.Stat(archive); err != nil {
		t.Fatalf("the default image is not built: %v; run: make image", err)
	}
	s := &storm{faults: map[string]int{}, pgDir: filepath.Join(t.TempDir(), "pg")}
	s.pg = ownPostgres(t, s.pgDir)
	var err error
	if s.containerd, err = dev.StartContainerd(t.Context(), dev.ContainerdConfig{Dir: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.containerd.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	// Work progresses between failures: most of them cost one lease.
	s.fleet = newFleet(t, shape{dispatchers: 2, workers: -1, slots: 16, lease: 5 * time.Second, postgres: s.pg, runtime: "containerd", env: []string{
		"ASSAY_CONTAINERD_ADDRESS=" + s.containerd.Address(), "ASSAY_IMAGE_ARCHIVES=" + archive, "ASSAY_POISON_AFTER=20", // so many innocent ends are normal here
	}})
	s.ns = newNamespace(t)
	for i := range 2 {
		name := fmt.Sprintf("worker%d", i)
		// runc stores its state by namespace.
		env := []string{"ASSAY_CONTAINERD_NAMESPACE=chaos-" + filepath.Base(filepath.Dir(s.dir)) + "-" + name}
		if i == 0 {
			s.addWorkerIn(s.ns, name, env...)
		} else {
			s.addWorker(name, env...)
		}
	}
	for _, p := range append(s.dispatchers[:len(s.dispatchers):len(s.dispatchers)], s.workers...) {
		p.kept = true
	}
	s.ready()
	return s
}

// met reports whether faults made jobs run again, and jobs were still assigned.
func (s *storm) met() bool { return s.seen("earlier > 0") > 0 && s.seen("started_at = created_at") > 0 }

// seen counts jobs in the current Postgres, or returns 0 without one.
func (s *storm) seen(which string) int { return s.ask("SELECT count(*) FROM jobs WHERE " + which) }

// finished counts results in the same way.
func (s *storm) finished() int { return s.ask("SELECT count(*) FROM results") }

func (s *storm) ask(sql string) (n int) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), 10*time.Second)
	defer cancel()
	if err := s.db.QueryRow(ctx, sql).Scan(&n); err != nil {
		return 0
	}
	return n
}

// fault is a temporary failure.
type fault struct {
	name string
	do   func(s *storm, random *rand.Rand)
}

// Two kinds. One fault of each may happen at a time.
var (
	processFaults = []fault{
		{"worker killed", func(s *storm, r *rand.Rand) { oneOf(r, s.workers).kill() }},
		{"worker paused past its lease", func(s *storm, r *rand.Rand) {
			p := oneOf(r, s.workers)
			p.pause()
			s.pause(s.lease + time.Second)
			p.resume()
		}},
		{"worker cut off from NATS", func(s *storm, r *rand.Rand) { s.strain(r, oneOf(r, s.workers).nats, s.lease) }},
		{"worker's network namespace cut off", func(s *storm, _ *rand.Rand) {
			s.ns.cut(s.t)
			s.pause(s.lease + 2*time.Second)
			s.ns.join(s.t)
		}},
		{"dispatcher killed", func(s *storm, r *rand.Rand) { oneOf(r, s.dispatchers).kill() }},
		{"dispatcher paused", func(s *storm, r *rand.Rand) {
			p := oneOf(r, s.dispatchers)
			p.pause()
			s.pause(2 * time.Second)
			p.resume()
		}},
		{"dispatcher cut off from NATS", func(s *storm, r *rand.Rand) { s.strain(r, oneOf(r, s.dispatchers).nats, 3*time.Second) }},
		{"dispatcher cut off from Postgres", func(s *storm, r *rand.Rand) { s.strain(r, oneOf(r, s.dispatchers).postgres, 3*time.Second) }},
	}
	serviceFaults = []fault{
		{"NATS restarted", func(s *storm, _ *rand.Rand) { s.restartNATS(nil) }},
		{"NATS store deleted", func(s *storm, _ *rand.Rand) { s.restartNATS(func() { _ = os.RemoveAll(s.natsDir) }) }},
		{"Postgres connections killed", func(s *storm, _ *rand.Rand) {
			_, _ = s.db.Exec(context.Background(), "SELECT pg_terminate_backend(pid) "+ours)
		}},
		{"Postgres restarted", func(s *storm, _ *rand.Rand) { s.restartPostgres() }},
		{"containerd killed", func(s *storm, _ *rand.Rand) { s.restartContainerd() }},
	}
)

// rage causes one fault of each kind after another until the returned function is called, which
// waits for the last ones.
func (s *storm) rage() (end func()) {
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i, kind := range [][]fault{processFaults, serviceFaults} {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(*seed, uint64(i)))
			for n := 0; ; n++ {
				f := kind[random.IntN(len(kind))]
				if n < len(kind) {
					f = kind[n] // each at least once
				}
				select {
				case <-stop:
					return
				case <-time.After(time.Duration(500+random.IntN(4000*(i+1))) * time.Millisecond):
				}
				f.do(s, random)
				s.mu.Lock()
				s.faults[f.name]++
				s.mu.Unlock()
			}
		})
	}
	return func() { close(stop); wg.Wait() }
}

// sawAll reports whether every fault has happened.
func (s *storm) sawAll() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.faults) == len(processFaults)+len(serviceFaults)
}

func (s *storm) said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	total := 0
	for _, n := range s.faults {
		total += n
	}
	return fmt.Sprintf("%d, %v", total, s.faults)
}

func oneOf(random *rand.Rand, ps []*process) *process { return ps[random.IntN(len(ps))] }

func (s *storm) pause(d time.Duration) { <-time.After(d) }

// strain breaks a link in one of three ways for a while.
func (s *storm) strain(random *rand.Rand, l *link, d time.Duration) {
	l.set([]condition{cut, frozen, deaf}[random.IntN(3)])
	s.pause(d/2 + time.Duration(random.Int64N(int64(d))))
	l.set(whole)
}

func (s *storm) restartPostgres() {
	if err := s.pg.Stop(context.Background()); err != nil {
		s.t.Error(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	pg, err := dev.StartPostgres(ctx, dev.PostgresConfig{Dir: s.pgDir})
	if err != nil {
		s.t.Error(err)
		return
	}
	s.pg = pg
	s.t.Cleanup(func() { _ = pg.Stop(context.Background()) })
}

func (s *storm) restartContainerd() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := s.containerd.Restart(ctx); err != nil {
		s.t.Error(err)
	}
}

// heal ends the effects of an interrupted fault.
func (s *storm) heal() {
	s.ns.join(s.t)
	for _, p := range append(s.dispatchers[:len(s.dispatchers):len(s.dispatchers)], s.workers...) {
		p.resume()
		p.nats.set(whole)
		if p.postgres != nil {
			p.postgres.set(whole)
		}
	}
}

// end stops the workers as an operator does and lists their leftovers.
func (s *storm) end() (left []string) {
	groups := s.cgroups()
	for _, w := range s.workers {
		w.term(s.t)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		s.t.Error(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if slices.ContainsFunc(s.places(), func(dir string) bool { return strings.Contains(line, dir+"/") }) {
			left = append(left, "mount: "+line)
		}
	}
	for _, g := range groups {
		if _, err := os.Stat(g); err == nil {
			left = append(left, "cgroup: "+g)
		}
	}
	shims, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range shims {
		raw, _ := os.ReadFile(file)
		if line := string(raw); strings.Contains(line, "containerd-shim-") && strings.Contains(line, s.containerd.Address()) {
			left = append(left, "shim: "+strings.ReplaceAll(line, "\x00", " "))
		}
	}
	return left
}

// places returns the directories of the workers' mounts: their state directories, or the passable
// ones that replace them. See package containerd.
func (s *storm) places() (dirs []string) {
	for _, w := range s.workers {
		state := filepath.Join(s.dir, w.name)
		dirs = append(dirs, state, filepath.Join("/run/assay", instance(state)))
	}
	return dirs
}

func instance(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return hex.EncodeToString(sum[:5])
}

// cgroups returns the control groups of the workers' sandboxes.
func (s *storm) cgroups() (dirs []string) {
	for _, place := range s.places() {
		for _, pattern := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"} {
			found, _ := filepath.Glob(pattern + "assay-" + instance(place))
			dirs = append(dirs, found...)
		}
	}
	if len(dirs) == 0 {
		s.t.Error("no cgroup of a sandbox was seen: what is left could not be told")
	}
	return dirs
}
