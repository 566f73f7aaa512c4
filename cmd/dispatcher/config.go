package main

import (
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

	"github.com/assay-run/assay/internal/dispatcher/httpapi"
	"github.com/assay-run/assay/internal/version"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/netrule"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/queue/jetstream"
)

// config has every flag and environment variable of a dispatcher.
type config struct {
	Listen      string         `name:"listen" env:"ASSAY_LISTEN" default:"127.0.0.1:8080" help:"Address of the API; it also serves /metrics and /debug/pprof/ to operators."`
	DatabaseURL httpapi.Secret `name:"database-url" env:"ASSAY_DATABASE_URL" required:"" help:"PostgreSQL, as postgres://… or key=value pairs. Its pool_max_conns limits the connections (default: 16); a quarter of them is reserved for claims, heartbeats, records and scheduling."`
	NATSURL     string         `name:"nats-url" env:"ASSAY_NATS_URL" default:"nats://127.0.0.1:4222" help:"URLs of NATS servers, separated by commas."`
	Replicas    int            `name:"stream-replicas" env:"ASSAY_STREAM_REPLICAS" default:"1" help:"Replicas of the JetStream stream, 1 to 5; use 3 with a cluster of three servers or more."`
	ObjectsURL  string         `name:"objects-url" env:"ASSAY_OBJECTS_URL" default:"file:///var/lib/assay/objects" help:"Object store: file:///DIR or s3://BUCKET?region=…"`
	Tokens      httpapi.Secret `name:"tokens" env:"ASSAY_TOKENS" help:"API tokens, as TOKEN=TENANT[:ROLE], separated by commas. ROLE is reader, submitter (the default), operator or admin. uid:NUMBER as TOKEN admits that Unix user over loopback without a token, except in browsers. Without --tokens and --oidc-issuer, only the dispatcher's own user is admitted, as an admin of the tenant \"default\"."`
	Insecure    []string       `name:"insecure" env:"ASSAY_INSECURE" enum:"no-tokens,open-nats" placeholder:"WHAT" help:"Disable checks, where the network is protected by other means; separated by commas. no-tokens: without --tokens and --oidc-issuer, accept every request as an admin of the tenant \"default\". open-nats: without --workers-key, use a NATS server that other machines can reach."`
	Metrics     string         `name:"metrics-listen" env:"ASSAY_METRICS_LISTEN" help:"Address that serves /metrics without a token (default: none; operators read it at --listen)."`
	SecretsKey  httpapi.Secret `name:"secrets-key" env:"ASSAY_SECRETS_KEY" help:"Key that encrypts tenants' secrets: 32 bytes in base64 (openssl rand -base64 32). Older keys after a comma only decrypt. Without a key, secrets are not available."`
	WorkersKey  httpapi.Secret `name:"workers-key" env:"ASSAY_WORKERS_KEY" help:"Key that authenticates workers at NATS by auth callout: 32 bytes in base64, or @FILE. After a comma: the key that signs tokens, and older keys whose tokens stay valid. See \"dispatcher key\", \"dispatcher nats\" and \"dispatcher token\". Without a key, every client of the NATS server can act as any worker."`
	WorkersOut  []string       `name:"workers-refused" env:"ASSAY_WORKERS_REFUSED" placeholder:"ID" help:"Ids of workers to reject, regardless of their token, separated by commas."`
	TenantsFile string         `name:"tenants-file" env:"ASSAY_TENANTS_FILE" placeholder:"FILE" help:"JSON list of tenants with their weights, caps and ceilings, read at start. The ceiling of the name * has the default quotas of unfinished jobs (queued, 10000000) and batches (batches, 100000)."`
	Pools       []string       `name:"pools" env:"ASSAY_POOLS" placeholder:"POOL" help:"Pools to declare before their workers connect, separated by commas, such as gpu?exclusive&label.gpu=a100&image=cuda. Workers of an exclusive pool take only jobs that name the pool. Jobs may name declared pools, and pools that had workers within the last day."`
	LeaseTTL    time.Duration  `name:"lease-ttl" env:"ASSAY_LEASE_TTL" default:"30s" help:"Time without a heartbeat after which a worker loses its jobs; at least 2s."`
	Witnesses   int            `name:"environment-witnesses" env:"ASSAY_ENVIRONMENT_WITNESSES" default:"2" help:"Workers of a pool that must build the same package environment before the pool shares it through the object store. With 2 or more, a single worker cannot choose the code that others import; workers with the same join token count as one. 1 is for workers that trust each other; 0 disables sharing."`
	Retention   time.Duration  `name:"retention" env:"ASSAY_RETENTION" default:"840h" help:"Time to keep finished jobs, results, batches and sessions, and unused inputs and environments; at least 24h. 0 keeps them forever."`
	QueueLife   time.Duration  `name:"queue-life" env:"ASSAY_QUEUE_LIFE" default:"720h" help:"Time after which waiting jobs expire and open uploads are dropped. 0 means never; queue queries then slow down with each day that has a waiting job."`
	Cell        uint8          `name:"cell" env:"ASSAY_CELL" default:"0" help:"Number of this fleet in the ids of jobs, batches and sessions, 0 to 255. Fleets that share tenants' traffic need different numbers; dispatchers of one fleet need the same."`
	Private     []string       `name:"egress-private" env:"ASSAY_EGRESS_PRIVATE" placeholder:"CIDR:PORT" help:"Private addresses that batch callbacks may reach, such as 10.0.0.0/8:443, separated by commas (default: none). For jobs, set it on workers."`
	DropIns     []string       `name:"drop-ins" env:"ASSAY_DROP_INS" enum:"sandboxfusion,sandboxfusion-at-root,piston,code-judge" placeholder:"SERVER" help:"APIs of other servers to serve, separated by commas (default: none): sandboxfusion at /sandboxfusion, sandboxfusion-at-root at /run_code and /run_jupyter, piston at /piston, code-judge at /code-judge. See docs/drop-ins.md."`
	Grace       time.Duration  `name:"grace" env:"ASSAY_GRACE" default:"10s" help:"Time that running requests get to finish after SIGTERM."`
	Spool       string         `name:"spool" env:"ASSAY_SPOOL" default:"4Gi" help:"Most space in the temporary directory for request bodies, and the largest batch of lines, compressed or not. A tenant gets at most as much of it as it leaves free; the same holds for memory and concurrent requests."`
	LogLevel    slog.Level     `name:"log-level" env:"ASSAY_LOG_LEVEL" default:"info" help:"Log level: debug, info, warn or error."`

	Access access `embed:""`

	NATS jetstream.Files `embed:""`

	Seams seams `embed:""`

	pools placement.Pools // parsed from Pools

	Version kong.VersionFlag `name:"version" help:"Print the version."`
}

// bodyPatience is how long the body of a request may stop.
const bodyPatience = 15 * time.Second

// errHelp means that help was requested and printed.
var errHelp = fmt.Errorf("help requested")

// parse reads flags and environment.
func parse(args []string, out io.Writer) (c config, err error) {
	helped := false
	p, err := kong.New(&c, kong.Name("dispatcher"), kong.Description("Accept, schedule and record the jobs of a fleet."),
		kong.Writers(out, out), kong.Vars{"version": "dispatcher " + version.String()}, kong.Exit(func(int) { helped = true }))
	if err != nil {
		return c, err
	}
	if _, err = p.Parse(args); helped {
		if !slices.Contains(args, "--version") {
			_, _ = io.WriteString(out, commandsHelp)
		}
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
		err = fmt.Errorf("--listen: %s can be reached from other machines, and without --tokens (ASSAY_TOKENS) every client is accepted; give tokens or --oidc-issuer, "+
			"listen on 127.0.0.1, or use --insecure=no-tokens if other means protect the address", c.Listen)
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
		return fmt.Errorf("--nats-dir: a NATS server with JWT accounts (user.creds) authenticates clients itself, without dispatchers; leave out --workers-key")
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
			return fmt.Errorf("--nats-url: other machines can reach %s, and without --workers-key (ASSAY_WORKERS_KEY) any of them can act as a worker; use --insecure=open-nats if other means protect it", u.Host)
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
