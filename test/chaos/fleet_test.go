package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/assay-run/assay/internal/cli/dev"
	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// shape is the composition of a fleet; a zero is the default.
type shape struct {
	dispatchers, workers int           // 1 each; -1: none yet
	slots                int           // of a worker; 8
	lease                time.Duration // 4s: a dead worker is detected soon
	runtime              string        // scripted
	postgres             *dev.Postgres // a server of its own, for tests that break it; otherwise a database of the shared one
	pair                 *pair         // instead of postgres
	connections          int           // of a dispatcher to Postgres; its default
	nodes                int           // NATS servers of a cluster, as processes; 0: one, in this process
	natsDir, objects     string        // elsewhere than in the test's directory
	env                  []string      // of every process; it wins
	programs             string        // directory of the first programs; otherwise those of this source
	prepare              func(dsn string)
	unwatched            bool // the API requires tokens, and cannot report the workers
}

// fleet is real processes on components that a test can break.
type fleet struct {
	t       *testing.T
	dir     string
	lease   time.Duration
	dsn     string
	db      *pgxpool.Pool // the test's own connection, without a link
	nats    *dev.NATS
	natsDir string
	natsAt  string // its fixed address
	cluster []*node
	objects string

	dispatchers, workers []*process
	api                  *client.Client // of the first dispatcher
	apis                 []*client.Client
	shape                shape
}

func (s *shape) defaults() {
	def := func(n *int, v int) {
		switch *n {
		case 0:
			*n = v
		case -1:
			*n = 0
		}
	}
	def(&s.dispatchers, 1)
	def(&s.workers, 1)
	def(&s.slots, 8)
	if s.lease == 0 {
		s.lease = 4 * time.Second
	}
	if s.runtime == "" {
		s.runtime = "scripted"
	}
}

// newFleet starts a fleet that ends with the test.
func newFleet(t *testing.T, s shape) *fleet {
	t.Helper()
	testenv.Needs(t, "a fleet")
	s.defaults()
	f := &fleet{t: t, dir: t.TempDir(), lease: s.lease, shape: s, natsDir: s.natsDir, objects: s.objects}
	if err := os.Chmod(f.dir, 0o755); err != nil { // sandboxes pass through it
		t.Fatal(err)
	}
	if f.natsDir == "" {
		f.natsDir = filepath.Join(f.dir, "nats")
	}
	if f.objects == "" {
		f.objects = filepath.Join(f.dir, "objects")
	}
	if err := os.MkdirAll(f.objects, 0o755); err != nil {
		t.Fatal(err)
	}
	switch {
	case s.pair != nil:
		f.dsn = s.pair.dsn(t)
	case s.postgres != nil:
		f.dsn = s.postgres.DSN()
	default:
		f.dsn = testenv.Postgres(t)
	}
	if s.prepare != nil {
		s.prepare(f.dsn)
	}
	var err error
	if f.db, err = pgxpool.New(t.Context(), f.dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.db.Close)
	if s.nodes > 0 {
		f.startCluster(s.nodes)
	} else {
		f.startNATS()
		t.Cleanup(func() { f.nats.Stop() })
	}
	t.Cleanup(f.tell)
	for i := range s.dispatchers {
		f.addDispatcher(fmt.Sprintf("dispatcher%d", i))
	}
	for i := range s.workers {
		f.addWorker(fmt.Sprintf("worker%d", i))
	}
	f.ready()
	return f
}

// tell prints the logs of the processes if the test failed.
func (f *fleet) tell() {
	if !f.t.Failed() {
		return
	}
	for _, p := range append(f.dispatchers[:len(f.dispatchers):len(f.dispatchers)], f.workers...) {
		raw, _ := os.ReadFile(p.log)
		f.t.Logf("the end of %s's log:\n%s", p.name, raw[max(0, len(raw)-6000):])
	}
}

func (f *fleet) startNATS() {
	f.t.Helper()
	if f.natsAt == "" {
		f.natsAt = testenv.Address(f.t)
	}
	_, text, _ := net.SplitHostPort(f.natsAt)
	port, _ := strconv.Atoi(text)
	f.nats = testenv.RestartNATS(f.t, dev.NATSConfig{Dir: f.natsDir, Port: port})
}

// restartNATS stops the server, calls between, and starts it again.
func (f *fleet) restartNATS(between func()) {
	f.t.Helper()
	f.nats.Stop()
	if between != nil {
		between()
	}
	f.startNATS()
}

func (f *fleet) process(program, name, near string) *process {
	programs := f.shape.programs
	if programs == "" {
		programs = built(f.t)
	}
	p := &process{name: name, path: filepath.Join(programs, program), log: filepath.Join(f.dir, name+".log")}
	url := f.natsURL()
	if f.cluster == nil {
		p.nats = newLink(f.t, near, "tcp", f.natsAt)
		url = "nats://" + p.nats.address()
	}
	p.env = []string{"ASSAY_NATS_URL=" + url, "ASSAY_OBJECTS_URL=file://" + f.objects, "ASSAY_METRICS_LISTEN=127.0.0.1:0"}
	f.t.Cleanup(func() { p.end(f.t) }) // before its links are closed
	return p
}

func (f *fleet) addDispatcher(name string) *process {
	f.t.Helper()
	dsn, at := f.linked()
	p := f.process("dispatcher", name, localhost)
	listen := testenv.Address(f.t)
	p.postgres = at
	if n := len(f.cluster); n > 0 {
		p.env = append(p.env, "ASSAY_STREAM_REPLICAS="+strconv.Itoa(n))
	}
	p.env = append(append(p.env, "ASSAY_DATABASE_URL="+dsn, "ASSAY_LISTEN="+listen, "ASSAY_LEASE_TTL="+f.lease.String(), "ASSAY_GRACE=2s"), f.shape.env...)
	api, err := client.New("http://"+listen, client.WithPatience(2*time.Minute))
	if err != nil {
		f.t.Fatal(err)
	}
	if f.api == nil {
		f.api = api
	}
	f.apis = append(f.apis, api)
	f.dispatchers = append(f.dispatchers, p)
	p.start(f.t)
	return p
}

// linked returns an address of the database through a new link, or through one to each server of a
// pair: then first is the link to the first one.
func (f *fleet) linked() (dsn string, first *link) {
	u, err := url.Parse(f.dsn)
	if err != nil {
		f.t.Fatal(err)
	}
	q := u.Query()
	var hosts, ports []string
	ofSockets := strings.Split(q.Get("port"), ",")
	for i, dir := range strings.Split(q.Get("host"), ",") {
		l := newLink(f.t, localhost, "unix", filepath.Join(dir, ".s.PGSQL."+ofSockets[i]))
		if first == nil {
			first = l
		}
		host, port, _ := net.SplitHostPort(l.address())
		hosts, ports = append(hosts, host), append(ports, port)
	}
	q.Set("host", strings.Join(hosts, ","))
	q.Set("port", strings.Join(ports, ","))
	if n := f.shape.connections; n > 0 {
		q.Set("pool_max_conns", strconv.Itoa(n))
	}
	u.RawQuery = q.Encode()
	return u.String(), first
}

func (f *fleet) addWorker(name string, env ...string) *process {
	f.t.Helper()
	p := f.workerOf(name, localhost, env...)
	p.start(f.t)
	return p
}

// workerOf returns a worker that reaches this host by the address near.
func (f *fleet) workerOf(name, near string, env ...string) *process {
	p := f.process("worker", name, near)
	p.env = append(p.env, "ASSAY_WORKER_ID="+name, "ASSAY_SLOTS="+strconv.Itoa(f.shape.slots), "ASSAY_STATE_DIR="+filepath.Join(f.dir, name), "ASSAY_GRACE=1s")
	if f.shape.runtime != "containerd" { // programs without the tag faults refuse the setting
		p.env = append(p.env, "ASSAY_RUNTIME="+f.shape.runtime)
	}
	p.env = append(append(p.env, f.shape.env...), env...)
	f.workers = append(f.workers, p)
	return p
}

// ready waits for every process.
func (f *fleet) ready() {
	f.t.Helper()
	for _, api := range f.apis {
		eventually(f.t, "a dispatcher is ready", func() bool { return api.Ready(f.t.Context()) == nil })
	}
	if len(f.apis) == 0 {
		return
	}
	eventually(f.t, "all workers are known, and what they offer", func() bool {
		if f.shape.unwatched {
			return f.count(`SELECT count(*) FROM workers WHERE host LIKE '%"task"%'`) >= len(f.workers)
		}
		ws, err := f.api.Workers(f.t.Context())
		ws = slices.DeleteFunc(ws, func(w store.Worker) bool { return !strings.Contains(string(w.Host), `"task"`) })
		return err == nil && len(ws) >= len(f.workers)
	})
}

// scripted returns a job for the fake runtime.
func scripted(script string) job.Spec {
	return job.Spec{
		Image: "python", Policy: json.RawMessage(`{"enforce":"report","wall":"10m","artifacts":{"paths":["/workspace/**"]}}`),
		Program: job.Program{Python: &job.Python{Code: "# fake: " + script}},
	}
}

// submit sends a single job: it is assigned to a worker, if one has room.
func (f *fleet) submit(script string) job.ID {
	f.t.Helper()
	a, err := f.api.Submit(f.t.Context(), scripted(script))
	if err != nil {
		f.t.Fatal(err)
	}
	return a.ID
}

// enqueue sends a job as a batch of one: it goes through the queue.
func (f *fleet) enqueue(s job.Spec) (id job.ID) {
	f.t.Helper()
	line, err := json.Marshal(s)
	if err != nil {
		f.t.Fatal(err)
	}
	b, err := f.api.SubmitBatch(f.t.Context(), client.BatchOptions{}, bytes.NewReader(line))
	if err != nil {
		f.t.Fatal(err)
	}
	if err := f.db.QueryRow(f.t.Context(), "SELECT id::text FROM jobs WHERE batch_id = $1", string(b.ID)).Scan(&id); err != nil {
		f.t.Fatal(err)
	}
	return id
}

// batch submits n jobs, each with its number as its name.
func (f *fleet) batch(n int, script func(i int) string) job.ID {
	f.t.Helper()
	b, err := f.submitBatch(f.api, n, script)
	if err != nil {
		f.t.Fatal(err)
	}
	return b.ID
}

func (f *fleet) submitBatch(api *client.Client, n int, script func(i int) string) (*job.Batch, error) {
	var lines bytes.Buffer
	for i := range n {
		s := scripted(script(i))
		s.Name = strconv.Itoa(i)
		if err := json.NewEncoder(&lines).Encode(s); err != nil {
			return nil, err
		}
	}
	return api.SubmitBatch(f.t.Context(), client.BatchOptions{}, bytes.NewReader(lines.Bytes()))
}

func always(script string) func(int) string { return func(int) string { return script } }

// count returns the number that a query yields.
func (f *fleet) count(sql string, args ...any) (n int) {
	f.t.Helper()
	if err := f.db.QueryRow(context.WithoutCancel(f.t.Context()), sql, args...).Scan(&n); err != nil {
		f.t.Fatalf("%s: %v", sql, err)
	}
	return n
}

func (f *fleet) exec(sql string, args ...any) {
	f.t.Helper()
	if _, err := f.db.Exec(f.t.Context(), sql, args...); err != nil {
		f.t.Fatalf("%s: %v", sql, err)
	}
}

// in counts the jobs in a state.
func (f *fleet) in(s job.State) int {
	return f.count("SELECT count(*) FROM jobs WHERE state = $1", string(s))
}

// row is the database's row of a job.
type row struct {
	State         job.State
	Outcome       string
	Lease         job.Lease
	Gen           job.Generation
	Tries, Losses int
	Worker        string
}

func (f *fleet) row(id job.ID) (r row) {
	f.t.Helper()
	err := f.db.QueryRow(f.t.Context(), `SELECT state, coalesce(outcome, ''), lease, dispatch_gen, tries, losses, coalesce(worker, '') FROM jobs WHERE id = $1`, string(id)).
		Scan(&r.State, &r.Outcome, &r.Lease, &r.Gen, &r.Tries, &r.Losses, &r.Worker)
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

func (f *fleet) until(id job.ID, s job.State) {
	f.t.Helper()
	eventually(f.t, fmt.Sprintf("job %s is %s", id, s), func() bool { return f.row(id).State == s })
}

// stale backdates the publication of every dispatched job, so that the reaper publishes it again
// now.
func (f *fleet) stale() {
	f.exec("UPDATE jobs SET published_at = published_at - interval '1 hour' WHERE state = 'dispatched'")
}

// stream inspects the queue on the server.
func (f *fleet) stream(use func(ctx context.Context, js jetstream.JetStream)) {
	f.t.Helper()
	nc, err := nats.Connect(f.natsURL())
	if err != nil {
		f.t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(f.t.Context(), 20*time.Second)
	defer cancel()
	use(ctx, js)
}

// queued returns the number of messages in JetStream, or -1 if it is unavailable.
func (f *fleet) queued() (n int) {
	f.stream(func(ctx context.Context, js jetstream.JetStream) {
		n = -1
		if s, err := js.Stream(ctx, "JOBS"); err == nil {
			n = int(s.CachedInfo().State.Msgs)
		}
	})
	return n
}

// post sends a body unchanged and returns the answer.
func (f *fleet) post(path, contentType, key, body string) (status int, answer string) {
	f.t.Helper()
	return f.postTo("http://"+f.listen(0)+path, contentType, key, body)
}

func (f *fleet) postTo(at, contentType, key, body string) (int, string) {
	f.t.Helper()
	rq, err := http.NewRequestWithContext(f.t.Context(), http.MethodPost, at, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	rq.Header.Set("Content-Type", contentType)
	rq.Header.Set("Idempotency-Key", key)
	rs, err := http.DefaultClient.Do(rq)
	if err != nil {
		return 0, err.Error()
	}
	defer rs.Body.Close()
	raw, _ := io.ReadAll(rs.Body)
	return rs.StatusCode, string(raw)
}
