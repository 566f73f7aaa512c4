package main

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/assay-run/assay/internal/version"
	"github.com/assay-run/assay/internal/worker"
	"github.com/assay-run/assay/internal/worker/health"
	"github.com/assay-run/assay/internal/worker/live"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/netrule"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/queue/identity"
	"github.com/assay-run/assay/pkg/queue/jetstream"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/containerd"
	"github.com/assay-run/assay/pkg/runtime/containerd/image"
	"github.com/assay-run/assay/pkg/runtime/egress"
	"github.com/assay-run/assay/pkg/runtime/environment"
)

// config has every flag and environment variable of a worker.
type config struct {
	NATSURL       string `name:"nats-url" env:"ASSAY_NATS_URL" default:"nats://127.0.0.1:4222" help:"URLs of NATS servers, separated by commas."`
	ObjectsURL    string `name:"objects-url" env:"ASSAY_OBJECTS_URL" default:"file:///var/lib/assay/objects" help:"Object store: file:///DIR or s3://BUCKET?region=…"`
	MetricsListen string `name:"metrics-listen" env:"ASSAY_METRICS_LISTEN" default:"127.0.0.1:9092" help:"Address of /metrics, /healthz and /readyz; port 0 selects a free port."`

	LogLevel slog.Level `name:"log-level" env:"ASSAY_LOG_LEVEL" default:"info" help:"Log level: debug, info, warn or error."`

	Token string `name:"worker-token" env:"ASSAY_WORKER_TOKEN" help:"Token that authenticates this worker at NATS: the output of \"dispatcher token\", or @FILE."`

	ID   string `name:"worker-id" env:"ASSAY_WORKER_ID" help:"Name of this worker, unique in the fleet (default: the host name)."`
	Pool string `name:"pool" env:"ASSAY_POOL" default:"default" help:"Pool of this worker. The worker takes jobs that name the pool and, unless the pool is exclusive, jobs that name none."`

	Labels map[string]string `name:"labels" env:"ASSAY_LABELS" mapsep:"," placeholder:"KEY=VALUE" help:"Labels that jobs may require, separated by commas, such as gpu=a100,disk=fast."`
	Images []string          `name:"images" env:"ASSAY_IMAGES" placeholder:"IMAGE" help:"Reserve this worker for jobs with these images, separated by commas (default: any)."`

	Slots  int     `name:"slots" env:"ASSAY_SLOTS" placeholder:"N" help:"Most jobs held at once, up to 100000 (default: 8 per core)."`
	CPU    float64 `name:"cpu" env:"ASSAY_CPU" placeholder:"CORES" help:"Cores to promise to jobs (default: 4 times the host's, since jobs rarely use their whole limit)."`
	Memory string  `name:"memory" env:"ASSAY_MEMORY" placeholder:"SIZE" help:"Memory to promise to jobs, such as 12Gi (default: four fifths of the host's). Sessions get eight times as much in addition, since few use their whole limit; a tenant gets at most as much of that as it leaves free. At most 1024 sessions, or one per 512Mi, run at once. If memory runs short, sessions of the tenant with the largest promises are ended first."`

	Grace time.Duration `name:"grace" env:"ASSAY_GRACE" default:"30s" help:"Time that running jobs get to finish after SIGTERM."`

	Containerd    string            `name:"containerd-address" env:"ASSAY_CONTAINERD_ADDRESS" default:"/run/containerd/containerd.sock" help:"containerd's socket. own: run a containerd below --state-dir, and import the worker's bundled images."`
	Namespace     string            `name:"containerd-namespace" env:"ASSAY_CONTAINERD_NAMESPACE" default:"assay" help:"containerd namespace of Assay's containers and images."`
	StateDir      string            `name:"state-dir" env:"ASSAY_STATE_DIR" default:"/run/assay/worker" help:"Directory for state. Its subdirectory run has mounts, sockets and cached inputs, and is emptied when the worker ends."`
	Runtimes      map[string]string `name:"runtimes" env:"ASSAY_RUNTIMES" mapsep:"," placeholder:"ISOLATION=WHAT" help:"Runtimes of the isolations gvisor and vm, separated by commas. gvisor=/usr/bin/runsc, or gvisor=none (default: runsc beside this program or in PATH, if installed). vm=io.containerd.kata.v2, a runtime handler of containerd (default: none)."`
	WarmMemory    string            `name:"warm-memory" env:"ASSAY_WARM_MEMORY" placeholder:"SIZE" help:"Most memory for warm slots, such as 1Gi (default: an eighth of the host's)."`
	PreloadMemory string            `name:"preload-memory" env:"ASSAY_PRELOAD_MEMORY" placeholder:"SIZE" help:"Most memory for interpreters with preloaded imports, which are forked for Python programs of isolation cell; 0 disables them (default: a sixteenth of the host's)."`
	PipIndex      []string          `name:"pip-index" env:"ASSAY_PIP_INDEX" default:"https://pypi.org/simple,files.pythonhosted.org:443" help:"Package index for the packages of policies; http:// disables TLS. After a comma: more hosts that environment builds may reach, as a network allow-list. These names may resolve to private addresses."`
	Environments  string            `name:"environments" env:"ASSAY_ENVIRONMENTS" default:"/var/lib/assay/environments" help:"Directory for built package environments."`
	EgressNever   []string          `name:"egress-never" env:"ASSAY_EGRESS_NEVER" placeholder:"HOST[:PORT]" help:"Hosts, addresses and ranges that jobs can never reach, separated by commas, such as Postgres and the dispatchers. NATS and the object store are always included."`
	EgressPrivate []string          `name:"egress-private" env:"ASSAY_EGRESS_PRIVATE" placeholder:"CIDR:PORT" help:"Private addresses that jobs may reach if their policies allow it, separated by commas (default: none). A tenant's ceiling can add some for that tenant."`
	EgressNetns   string            `name:"egress-netns" env:"ASSAY_EGRESS_NETNS" placeholder:"PATH" help:"Network namespace for the connections of jobs, such as /run/netns/jobs (default: the worker's)."`
	ImageArchives []string          `name:"image-archives" env:"ASSAY_IMAGE_ARCHIVES" placeholder:"FILE" help:"OCI archives to import at start, separated by commas."`

	ImageRegistries []string `name:"image-registries" env:"ASSAY_IMAGE_REGISTRIES" placeholder:"HOST[:PORT][/PATH][?ATTRIBUTES]|HOST=MIRROR" help:"Registries and mirrors that jobs' images may come from, separated by commas, such as docker.io/library,ghcr.io (default: none, only local images). Prefix plain-HTTP ones with http://. ?trusted treats the images as the operator's own. ?pull=always checks tags for changes, at most once a minute; ?pull=never uses only local images; join attributes with &. HOST=MIRROR tries a mirror first, such as docker.io=mirror.example.com:5000/hub. See docs/images.md."`

	ImageCredentials string `name:"image-credentials" env:"ASSAY_IMAGE_CREDENTIALS" placeholder:"FILE" help:"File with credentials for registries and mirrors, in the format of docker's config.json (auths), read for each pull (default: none)."`

	ImageSpace string `name:"image-space" env:"ASSAY_IMAGE_SPACE" default:"40Gi" help:"Most space for pulled images, packed and unpacked; above it, the worker evicts the least recently used idle images. One image may take a fifth, as transferred and as unpacked. The operator's images stay and do not count."`

	EnvironmentSpace string `name:"environment-space" env:"ASSAY_ENVIRONMENT_SPACE" default:"20Gi" help:"Most space for built environments; above it, the worker evicts the least recently used idle ones. A tenant may use half of it. One environment may take a tenth, and at most a quarter of the host's memory during its build."`

	RefuseKnownHoles bool `name:"refuse-known-holes" env:"ASSAY_REFUSE_KNOWN_HOLES" help:"Do not start if the kernel, runc, containerd or runsc has a known vulnerability; see assay doctor."`

	NATS jetstream.Files `embed:""`

	Seams seams `embed:""`

	Version kong.VersionFlag `name:"version" help:"Print the version."`

	sources   image.Sources   // parsed from ImageRegistries
	runsc     string          // path for isolation gvisor; empty: none
	vmRuntime string          // handler for isolation vm; empty: none
	identity  identity.Worker // of ID, Pool and Token
	standIn   runtime.Runtime // replaces containerd in tests; otherwise nil
}

// errHelp means that help was requested and printed.
var errHelp = fmt.Errorf("help requested")

// parse reads flags and environment.
func parse(args []string, out io.Writer) (c config, err error) {
	helped := false
	p, err := kong.New(&c, kong.Name("worker"), kong.Description("Run the jobs of a fleet."),
		kong.Writers(out, out), kong.Vars{"version": "worker " + version.String()}, kong.Exit(func(int) { helped = true }))
	if err != nil {
		return c, err
	}
	if _, err = p.Parse(args); helped {
		return c, errHelp
	}
	if err != nil {
		return c, err
	}
	if c.standIn, err = c.Seams.runtime(); err != nil {
		return c, err
	}
	return c, c.complete()
}

// complete sets the defaults that depend on the machine.
func (c *config) complete() (err error) {
	if c.ID == "" {
		if c.ID, err = os.Hostname(); err != nil {
			return fmt.Errorf("--worker-id: missing, and the host has no name: %w", err)
		}
	}
	token, err := readToken(c.Token)
	if err != nil {
		return fmt.Errorf("--worker-token: %w", err)
	}
	if c.identity, err = identity.NewWorker(c.ID, c.Pool, token); err != nil {
		return fmt.Errorf("--worker-token: %w", err)
	}
	c.ID = c.identity.ID
	if err := c.NATS.Check(); err != nil {
		return err
	}
	if token != "" && c.NATS.User() {
		return fmt.Errorf("--worker-token: a worker connects to NATS as one user; leave out user.creds and user.nk of --nats-dir, or the token")
	}
	if err := c.chooseRuntimes(); err != nil {
		return err
	}
	switch {
	case c.Slots < 0 || c.Slots > 100_000:
		return fmt.Errorf("--slots: %d is not between 1 and 100000", c.Slots)
	case c.CPU < 0:
		return fmt.Errorf("--cpu: %g is negative", c.CPU)
	case slices.Contains(c.Images, ""):
		return fmt.Errorf("--images: an image has a name")
	case len(c.Labels) > job.MaxLabels:
		return fmt.Errorf("--labels: %d labels; at most %d", len(c.Labels), job.MaxLabels)
	case c.Grace < 0:
		return fmt.Errorf("--grace: %v is negative", c.Grace)
	}
	if c.sources, err = image.ParseSources(c.ImageRegistries); err != nil {
		return fmt.Errorf("--image-registries: %w", err)
	}
	if err := c.index().Check(); err != nil {
		return fmt.Errorf("--pip-index: %w", err)
	}
	if err := c.egress().Check(); err != nil {
		return fmt.Errorf("--egress-private, --egress-never: %w", err)
	}
	return nil
}

// readToken reads the token from text, or from the file that text names.
func readToken(text string) (string, error) {
	path, inFile := strings.CutPrefix(text, "@")
	if !inFile {
		return text, nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if len(bytes.TrimSpace(b)) == 0 {
		return "", fmt.Errorf("%s is empty", path)
	}
	return string(bytes.TrimSpace(b)), nil
}

// pressure returns the host's limits before the worker stops taking jobs: the percentage of time
// that tasks wait for memory reclaim, and that all tasks wait for disks.
func (c *config) pressure(host policy.Host) health.PressureLimits {
	if c.standIn != nil {
		return health.PressureLimits{Keep: c.Seams.reserve()} // a stand-in does not load the host
	}
	return health.PressureLimits{Memory: 20, IO: 90, Keep: min(host.Memory/20, job.GiB)}
}

// guest returns the path of the guest program beside this one.
func guest() (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the guest beside this program: %w", err)
	}
	return filepath.Join(filepath.Dir(exe), "guest"), nil
}

// chooseRuntimes reads the runtimes for isolations other than cell and task.
func (c *config) chooseRuntimes() error {
	for _, isolation := range slices.Sorted(maps.Keys(c.Runtimes)) {
		what := c.Runtimes[isolation]
		switch {
		case what == "":
			return fmt.Errorf("--runtimes: %s has no value; use gvisor=/usr/bin/runsc, gvisor=none or vm=io.containerd.kata.v2", isolation)
		case isolation == string(policy.GVisor):
			c.runsc = what
		case isolation == string(policy.VM):
			c.vmRuntime = what
		default:
			return fmt.Errorf("--runtimes: %.100q is neither gvisor nor vm, as in gvisor=/usr/bin/runsc,vm=io.containerd.kata.v2", isolation)
		}
	}
	switch c.runsc {
	case "":
		c.runsc = findRunsc()
	case "none":
		c.runsc = ""
	}
	if c.vmRuntime == "none" {
		c.vmRuntime = ""
	}
	return nil
}

// findRunsc returns the path of runsc, or "" if it is not installed.
func findRunsc() string {
	if exe, err := os.Executable(); err == nil {
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(exe), "runsc")); err == nil {
			return path
		}
	}
	path, _ := exec.LookPath("runsc")
	return path
}

func (c *config) index() environment.Index {
	if len(c.PipIndex) == 0 {
		return environment.Index{} // no index
	}
	return environment.Index{URL: c.PipIndex[0], Allow: c.PipIndex[1:]}
}

// egress returns the network rules for jobs. They exclude the worker's own servers.
func (c *config) egress() egress.Operator {
	return egress.Operator{Private: c.EgressPrivate, Never: slices.Concat(c.EgressNever, c.fleet()), Namespace: c.EgressNetns}
}

// fleet returns the hosts and ports in the worker's URLs. It skips malformed URLs, which fail when
// used.
func (c *config) fleet() (hosts []string) {
	add := func(raw, port string) {
		if !strings.Contains(raw, "://") {
			raw = "//" + raw
		}
		u, err := url.Parse(raw)
		if err != nil || u.Hostname() == "" {
			return
		}
		if u.Port() != "" {
			port = u.Port()
		}
		if entry := net.JoinHostPort(u.Hostname(), port); port != "" {
			if _, err := netrule.ParseHost(entry); err == nil {
				hosts = append(hosts, entry)
			}
		}
	}
	for server := range strings.SplitSeq(c.NATSURL, ",") {
		add(strings.TrimSpace(server), "4222")
	}
	if u, err := url.Parse(c.ObjectsURL); err == nil && u.Query().Get("endpoint") != "" {
		endpoint := u.Query().Get("endpoint")
		add(endpoint, map[bool]string{true: "80", false: "443"}[strings.HasPrefix(endpoint, "http://")])
	}
	return hosts
}

// canaryImage returns the image of the worker's own jobs: its first reserved image, otherwise the
// default.
func (c *config) canaryImage() string {
	if len(c.Images) > 0 {
		return c.Images[0]
	}
	return job.DefaultImage
}

// worker returns the worker's configuration for a host. With a stand-in runtime, only the slots are
// limited.
func (c *config) worker(host policy.Host) (worker.Config, error) {
	out := worker.Config{
		ID: c.ID, Pool: c.Pool, Version: version.String(), Slots: c.Slots, CPU: c.CPU, Labels: c.Labels, Images: c.Images, Grace: max(c.Grace, time.Millisecond),
		CanaryImage:  c.canaryImage(),
		Data:         c.StateDir,
		InputCache:   filepath.Join(c.StateDir, containerd.Run, "inputs"),
		CompileCache: filepath.Join(c.StateDir, containerd.Run, "compiled"),
	}
	if c.Memory != "" {
		size, err := job.ParseSize(c.Memory)
		if err != nil || size == 0 {
			return out, fmt.Errorf("--memory: %q is not a size such as 12Gi", c.Memory)
		}
		out.Memory = size
	}
	out.Pressure = c.pressure(host)
	real := c.standIn == nil
	if out.Slots == 0 {
		out.Slots = 512
		if real {
			out.Slots = 8 * host.Cores
		}
	}
	if c.Slots == 0 && real {
		out.LongRunning = 32 * host.Cores
	}
	if out.CPU == 0 && real {
		out.CPU = 4 * float64(host.Cores)
	}
	if out.Memory == 0 && real {
		out.Memory = host.Memory / 5 * 4
	}
	sessionMemory := 8 * out.Memory
	// A core for each session, because sessions are mostly idle.
	places := max(1024, int(sessionMemory/(512*job.MiB)))
	out.Sessions = live.Limits{Places: places, CPU: float64(places), Memory: sessionMemory}
	return out, nil
}
