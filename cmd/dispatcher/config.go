package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	goruntime "runtime"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/assay-run/assay/internal/httpapi"
	"github.com/assay-run/assay/internal/version"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/netrule"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/queue/jetstream"
)

// config has every flag and environment variable of a dispatcher.
type config struct {
	Listen      string         `name:"listen" env:"ASSAY_LISTEN" default:"127.0.0.1:8080" help:"Address of the API, and for operators of /metrics and of profiles at /debug/pprof/."`
	DatabaseURL httpapi.Secret `name:"database-url" env:"ASSAY_DATABASE_URL" required:"" help:"PostgreSQL, as postgres://… or key=value pairs. pool_max_conns in it is how many connections there are at most, 16 by default; a quarter of them, one at least, is left to claims, heartbeats, records and scheduling."`
	NATSURL     string         `name:"nats-url" env:"ASSAY_NATS_URL" default:"nats://127.0.0.1:4222" help:"NATS servers, separated by commas."`
	Replicas    int            `name:"stream-replicas" env:"ASSAY_STREAM_REPLICAS" default:"1" help:"Replicas of the JetStream stream: 3 at a cluster of three servers or more."`
	ObjectsURL  string         `name:"objects-url" env:"ASSAY_OBJECTS_URL" default:"file:///var/lib/assay/objects" help:"Object store: file:///dir or s3://bucket?region=…"`
	Tokens      httpapi.Secret `name:"tokens" env:"ASSAY_TOKENS" help:"Who may submit, as token=tenant,token=tenant. After the tenant, :reader, :operator or :admin is another role than submitter; operators also see the fleet itself: each worker, /metrics and /debug/pprof/. uid:NUMBER in place of a token is that Unix user of this machine, who needs none over loopback, but in a browser. None, and no --oidc-issuer: the user of this dispatcher alone, as an admin of the tenant \"default\"."`
	Insecure    []string       `name:"insecure" env:"ASSAY_INSECURE" enum:"no-tokens,open-nats" placeholder:"WHAT" help:"What is open to other machines since something else keeps strangers out, separated by commas. no-tokens: without --tokens and --oidc-issuer, let in every request as an admin of the tenant \"default\"; open-nats: without --workers-key, use a NATS server that they reach."`
	Metrics     string         `name:"metrics-listen" env:"ASSAY_METRICS_LISTEN" help:"Address of /metrics alone, which whoever reaches it may read. None by default: it is at --listen, for operators."`
	SecretsKey  httpapi.Secret `name:"secrets-key" env:"ASSAY_SECRETS_KEY" help:"Seals tenants' secrets: 32 bytes in base64 (openssl rand -base64 32); after a comma, older ones that only open. None: no secrets are kept."`
	WorkersKey  httpapi.Secret `name:"workers-key" env:"ASSAY_WORKERS_KEY" help:"Lets workers in at a NATS server that asks dispatchers who may connect: 32 bytes in base64, or @FILE; after a comma, the key of tokens, and more whose tokens are still good (\"dispatcher key\" makes one, \"dispatcher nats\" prints the server's configuration, \"dispatcher token\" what workers come with). None: whoever reaches the server is believed to be the worker that it says."`
	WorkersOut  []string       `name:"workers-refused" env:"ASSAY_WORKERS_REFUSED" placeholder:"ID" help:"Workers that are not let in again, whatever token they have, separated by commas."`
	TenantsFile string         `name:"tenants-file" env:"ASSAY_TENANTS_FILE" placeholder:"FILE" help:"Weights, caps and ceilings of tenants, as a JSON list; read at start. The ceiling of the name * says how many jobs (queued) and batches of a tenant whose own does not say may be there at once that are not over: 10000000 and 100000 without."`
	Pools       []string       `name:"pools" env:"ASSAY_POOLS" placeholder:"POOL" help:"What is to be known of pools before their workers say so, separated by commas: gpu?exclusive&label.gpu=a100&image=cuda. The workers of an exclusive pool take jobs that name it, and no others. Jobs may name a pool that is here, or that had workers within a day."`
	LeaseTTL    time.Duration  `name:"lease-ttl" env:"ASSAY_LEASE_TTL" default:"30s" help:"A worker silent for so long loses its jobs."`
	Witnesses   int            `name:"environment-witnesses" env:"ASSAY_ENVIRONMENT_WITNESSES" default:"2" help:"Workers of a pool that must have built the same environment of packages before others of the pool take it from the object store. With 2 or more no single worker decides what others import; those that came with a join token count as one. 1: for a pool whose workers trust each other; 0: environments are not shared."`
	Retention   time.Duration  `name:"retention" env:"ASSAY_RETENTION" default:"840h" help:"Jobs, results, batches and sessions are removed when they have been over for longer than that. So are inputs that were neither uploaded nor named within that, and that no job needs which is not over, and environments that no worker has fetched or built. 0: never."`
	QueueLife   time.Duration  `name:"queue-life" env:"ASSAY_QUEUE_LIFE" default:"720h" help:"Jobs that no worker has taken within that time of their submit end as expired, and uploads that are still open then are dropped. 0: never; the statements of the queue then become slower with each day that has a waiting job."`
	Cell        uint8          `name:"cell" env:"ASSAY_CELL" default:"0" help:"Number of this fleet, 0 to 255, in the ids of its jobs, batches and sessions, where several fleets share tenants' traffic: each has another. All dispatchers of a fleet have the same."`
	Private     []string       `name:"egress-private" env:"ASSAY_EGRESS_PRIVATE" placeholder:"CIDR:PORT" help:"Addresses that are not public and that callbacks of batches may go to all the same, such as 10.0.0.0/8:443; separated by commas. None by default. Workers have a setting of that name for jobs."`
	DropIns     []string       `name:"drop-ins" env:"ASSAY_DROP_INS" enum:"sandboxfusion,sandboxfusion-at-root,piston,code-judge" placeholder:"SERVER" help:"Other servers in whose formats requests are answered, too, separated by commas: sandboxfusion below /sandboxfusion, sandboxfusion-at-root at /run_code and /run_jupyter, piston below /piston, code-judge below /code-judge; see docs/drop-ins.md. None by default."`
	Grace       time.Duration  `name:"grace" env:"ASSAY_GRACE" default:"10s" help:"How long requests under way may go on after SIGTERM."`
	Spool       string         `name:"spool" env:"ASSAY_SPOOL" default:"4Gi" placeholder:"SIZE" help:"Most of the temporary directory that bodies take until they are accepted, and the largest batch that is sent as lines, both as it is sent and unpacked. Of this, and of the memory for bodies and of the requests at once, which follow from the memory and the open files that this process may have, one tenant gets at most as much as it leaves free."`
	LogLevel    slog.Level     `name:"log-level" env:"ASSAY_LOG_LEVEL" default:"info" help:"debug, info, warn or error."`

	Access access `embed:""`

	NATS jetstream.Files `embed:""`

	Seams seams `embed:""`

	pools placement.Pools // parsed from Pools

	Version kong.VersionFlag `name:"version" help:"Print the version."`
}

// bodyPatience is how long the body of a request may stop.
const bodyPatience = 15 * time.Second

// errHelp means that help was requested and printed.
var errHelp = fmt.Errorf("help was asked for")

// parse reads flags and environment.
func parse(args []string, out io.Writer) (c config, err error) {
	if err := errors.Join(gone.Check(args), goneSeams.Check(args)); err != nil {
		return c, err
	}
	helped := false
	p, err := kong.New(&c, kong.Name("dispatcher"), kong.Description("Accepts, schedules and records the jobs of a fleet."),
		kong.Writers(out, out), kong.Vars{"version": "dispatcher " + version.String()}, kong.Exit(func(int) { helped = true }))
	if err != nil {
		return c, err
	}
	if _, err = p.Parse(args); helped {
		return c, errHelp
	}
	if err == nil && c.LeaseTTL < 2*time.Second {
		err = fmt.Errorf("--lease-ttl: %v leaves a worker no time to answer; use 2s or more", c.LeaseTTL)
	}
	if err == nil {
		err = c.Seams.check()
	}
	if err == nil && (c.Replicas < 1 || c.Replicas > 5) {
		err = fmt.Errorf("--stream-replicas: %d is not from 1 to 5", c.Replicas)
	}
	if err == nil && (c.Witnesses < 0 || c.Witnesses > 100) {
		err = fmt.Errorf("--environment-witnesses: %d is not from 0 to 100; 0: environments are not shared", c.Witnesses)
	}
	if err == nil && c.Retention != 0 && c.Retention < 24*time.Hour {
		err = fmt.Errorf("--retention: %v is less than a day; history is dropped by days, and an input has to outlast the way from its upload to the end of a batch that names it", c.Retention)
	}
	if err == nil && c.QueueLife < 0 {
		err = fmt.Errorf("--queue-life: %v is negative; use 0 for jobs that may wait for ever", c.QueueLife)
	}
	if err == nil {
		err = c.Access.check()
	}
	if err == nil && c.Tokens == "" && c.Access.Issuer == "" && !c.insecure("no-tokens") && !loopback(c.Listen) {
		err = fmt.Errorf("--listen: %s can be reached from other machines, and without --tokens (ASSAY_TOKENS) whoever reaches it is let in; give tokens or --oidc-issuer, "+
			"listen on 127.0.0.1, or say --insecure=no-tokens if something else keeps strangers out", c.Listen)
	}
	if err == nil {
		_, err = c.limits()
	}
	if err == nil {
		if _, bad := netrule.ParseRanges(c.Private); bad != nil {
			err = fmt.Errorf("--egress-private: %w", bad)
		}
	}
	if err == nil {
		if c.pools, err = placement.ParsePools(c.Pools); err != nil {
			err = fmt.Errorf("--%w", err)
		}
	}
	if err == nil {
		err = c.openNATS()
	}
	return c, err
}

// limits returns the configured limits, without those that depend on the machine.
func (c *config) limits() (l httpapi.Limits, err error) {
	if l.Spool, err = job.ParseSize(c.Spool); err != nil || l.Spool == 0 {
		return l, fmt.Errorf("--spool: %q is not a size such as 4Gi", c.Spool)
	}
	l.Patience = bodyPatience
	if err := l.Check(); err != nil {
		return l, fmt.Errorf("--%w", err)
	}
	return l, nil
}

// insecure reports whether the operator accepts this risk.
func (c *config) insecure(what string) bool { return slices.Contains(c.Insecure, what) }

// reads returns the number of concurrent large reads. This is half of the connections to PostgreSQL
// that the queue does not use, but at most the number of cores, because each keeps one busy, here
// or there.
func reads(connections int) int {
	return max(min(connections*3/8, max(goruntime.GOMAXPROCS(0), 2)), 1)
}

// openNATS returns an error if the NATS servers trust every client. URLs or files with credentials
// mean that a server does not.
func (c *config) openNATS() error {
	if err := c.NATS.Check(); err != nil {
		return err
	}
	if c.WorkersKey != "" && c.NATS.JWT() {
		return fmt.Errorf("--nats-dir: a server that is run by JWTs (user.creds) says itself who may connect, and does not ask dispatchers; leave out --workers-key")
	}
	if c.WorkersKey != "" || c.insecure("open-nats") || c.NATS.Identified() {
		return nil
	}
	for server := range strings.SplitSeq(c.NATSURL, ",") {
		if server = strings.TrimSpace(server); !strings.Contains(server, "://") {
			server = "nats://" + server
		}
		u, err := url.Parse(server)
		if err != nil {
			continue // the connection fails later, with the reason
		}
		if u.User == nil && !loopback(net.JoinHostPort(u.Hostname(), "4222")) {
			return fmt.Errorf("--nats-url: other machines reach %s, and without --workers-key (ASSAY_WORKERS_KEY) it believes any of them to be a worker; --insecure=open-nats, if something else keeps strangers from it", u.Host)
		}
	}
	return nil
}

// loopback reports whether a listen address is only reachable from this machine.
func loopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return true // listening fails later, with the reason
	}
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}
