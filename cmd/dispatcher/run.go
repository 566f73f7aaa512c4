package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/assay-run/assay/internal/dispatcher"
	"github.com/assay-run/assay/internal/dispatcher/admin"
	"github.com/assay-run/assay/internal/dispatcher/callback"
	"github.com/assay-run/assay/internal/dispatcher/httpapi"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/internal/dispatcher/intake"
	"github.com/assay-run/assay/internal/dispatcher/secret"
	"github.com/assay-run/assay/internal/dispatcher/ui"
	"github.com/assay-run/assay/internal/telemetry"
	"github.com/assay-run/assay/internal/version"
	"github.com/assay-run/assay/pkg/control"
	nouns "github.com/assay-run/assay/pkg/fleet"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/netrule"
	"github.com/assay-run/assay/pkg/object"
	workers "github.com/assay-run/assay/pkg/queue/identity"
	"github.com/assay-run/assay/pkg/queue/jetstream"
	"github.com/assay-run/assay/pkg/store/postgres"
)

// startPatience is how long to wait for PostgreSQL and NATS at start, because components start in
// any order.
const startPatience = time.Minute

// run wires a dispatcher and runs it until ctx ends. It stops in the order that loses nothing:
// first new requests, then new messages, the connections last. Help and version go to stdout.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	cfg, err := parse(args, stdout)
	if errors.Is(err, errHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	tel, err := telemetry.Start(ctx, telemetry.Config{Service: "assay-dispatcher", Version: version.String(), Log: stderr, Level: cfg.LogLevel})
	if err != nil {
		return err
	}
	defer tel.Stop(context.WithoutCancel(ctx))
	auth, err := cfg.gate()
	if err != nil {
		return err
	}
	bucket, err := object.Open(ctx, cfg.ObjectsURL)
	if err != nil {
		return err
	}
	defer join(&err, bucket.Close)
	job.SetCell(cfg.Cell)
	database, err := openStore(ctx, cfg, startPatience)
	if err != nil {
		return err
	}
	defer database.Close()
	q, err := openQueue(ctx, cfg)
	if err != nil {
		return err
	}
	defer q.Close()
	store, line, objects, err := unreliable(database, q, bucket)
	if err != nil {
		return err
	}

	others, err := admin.ApplyTenants(ctx, store, cfg.TenantsFile)
	if err != nil {
		return err
	}
	secrets, err := secret.New(string(cfg.SecretsKey), store)
	if err != nil {
		return fmt.Errorf("--secrets-key: %w", err)
	}
	quotas := nouns.QuotaDefaults{Jobs: cmp.Or(others.Ceiling.Queued, intake.DefaultJobs), Batches: cmp.Or(others.Ceiling.Batches, intake.DefaultBatches)}
	d, err := dispatcher.New(dispatcher.Config{Pools: cfg.pools, MaxConnections: database.MaxConns(), Quotas: quotas, LeaseTTL: cfg.LeaseTTL, BlobAge: cfg.Retention, Retention: cfg.Retention, AuditRetention: cfg.Access.AuditAge, EnvironmentWitnesses: cfg.Witnesses, Objects: objects, Secrets: secrets}, store, line)
	if err != nil {
		return err
	}
	allow, err := netrule.ParseRanges(cfg.Private)
	if err != nil {
		return fmt.Errorf("--egress-private: %w", err)
	}
	callbacks, err := callback.New(callback.Config{Allow: allow}, store, secrets)
	if err != nil {
		return err
	}
	accepting, err := dispatcher.CountAccepted(store)
	if err != nil {
		return err
	}
	limits, err := cfg.limits()
	if err != nil {
		return err
	}
	if err := bear(ctx, &limits); err != nil {
		return err
	}
	limits.Reads, limits.Queued, limits.Batches = reads(database.MaxConns()), others.Ceiling.Queued, others.Ceiling.Batches
	keys := identity.NewKeys(store, slog.Default())
	gate, issuer, err := cfg.page(identity.WithKeys(auth, keys))
	if err != nil {
		return err
	}
	guard, err := cfg.site(gate)
	if err != nil {
		return err
	}
	all := parts{
		store: accepting, objects: objects, queue: q, secrets: secrets, dispatcher: d, callbacks: callbacks, quotas: quotas,
		auth: gate, site: guard, pools: cfg.pools, limits: limits, metrics: tel.Metrics(), profiles: profiles(), dropIns: cfg.DropIns,
	}
	operators := newAdmin(all)
	if err := operators.Reapply(ctx); err != nil {
		return fmt.Errorf("the database was restored, and revocations and erasures could not be made again: %w", err)
	}
	api := newAPI(all, operators)
	page, err := ui.New(ui.Config{API: api, Gate: gate, Site: guard, Issuer: issuer, Key: pageKey(string(cfg.SecretsKey)), Secure: strings.HasPrefix(cfg.Access.PublicURL, "https:")})
	if err != nil {
		return err
	}
	stopMetrics, err := serveMetrics(ctx, cfg.Metrics, tel.Metrics(), loopback(cfg.Metrics))
	if err != nil {
		return err
	}
	defer join(&err, stopMetrics)
	return serve(ctx, cfg, page, d, callbacks, keys, operators)
}

// serve runs the HTTP server and the dispatcher until ctx ends or either fails.
func serve(ctx context.Context, cfg config, api http.Handler, d *dispatcher.Dispatcher, callbacks *callback.Sender, keys *identity.Keys, operators *admin.Admin) error {
	certificate, err := cfg.Access.certificate()
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	srv, answer := httpapi.NewHTTPServer(api), (*http.Server).Serve
	if certificate != nil {
		srv.TLSConfig = certificate.Config()
		answer = func(s *http.Server, l net.Listener) error { return s.ServeTLS(l, "", "") }
	}
	work, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWork()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return d.Run(work) })
	group.Go(func() error { callbacks.Run(work); return nil })
	group.Go(func() error { keys.Run(work); return nil })
	group.Go(func() error { operators.Run(work); return nil })
	group.Go(func() error {
		if err := answer(srv, l); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		// Requests first: they may need the dispatcher to complete.
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.Grace)
		defer cancel()
		if srv.Shutdown(grace) != nil {
			_ = srv.Close() // long polls continue at another dispatcher
		}
		stopWork()
		return nil
	})
	slog.InfoContext(ctx, "serving", "address", l.Addr().String(), "tls", certificate != nil, "version", version.String())
	return group.Wait()
}

// openStore connects to the database and updates its schema, however long this takes. patience
// limits the wait for the server.
func openStore(ctx context.Context, cfg config, patience time.Duration) (*postgres.Store, error) {
	dsn := string(cfg.DatabaseURL)
	reach, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := postgres.Reach(reach, dsn); err != nil {
		return nil, err
	}
	if err := updateSchema(ctx, dsn, patience); err != nil {
		return nil, err
	}
	ctx, cancel = context.WithTimeout(ctx, patience)
	defer cancel()
	infra, poison := cfg.Seams.budgets()
	life := cfg.QueueLife
	if life == 0 {
		life = -1 // none
	}
	return postgres.Open(ctx, postgres.Config{DSN: dsn, InfraBudget: infra, PoisonAfter: poison, QueueLife: life, ApplicationTag: "assay-dispatcher", Protocol: control.Protocol})
}

// updateSchema does nothing if the schema is current. Otherwise it migrates. If its role may not,
// it waits for another process: up to patience for the start of a migration, and without limit
// during one.
func updateSchema(ctx context.Context, dsn string, patience time.Duration) error {
	s, err := postgres.ReadSchema(ctx, dsn)
	if err != nil || s.Current() {
		return err
	}
	err = postgres.Migrate(ctx, dsn)
	if errors.Is(err, postgres.ErrRole) {
		slog.WarnContext(ctx, "schema too old; this role may not migrate it, waiting for dispatcher migrate", "has", s.Has, "needs", s.Wants, "error", err)
		return postgres.AwaitSchema(ctx, dsn, patience)
	}
	if err != nil {
		return fmt.Errorf("bring the schema up to date: %w", err)
	}
	return nil
}

func openQueue(ctx context.Context, cfg config) (*jetstream.Queue, error) {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	key, err := workersKey(string(cfg.WorkersKey))
	if err != nil {
		return nil, fmt.Errorf("--workers-key: %w", err)
	}
	if key == nil {
		slog.WarnContext(ctx, "no --workers-key: any client of the NATS server can act as any worker")
	}
	return jetstream.Connect(ctx, jetstream.Config{URL: cfg.NATSURL, Files: cfg.NATS, Name: "dispatcher", Replicas: cfg.Replicas, Key: key, Refused: cfg.WorkersOut, Exclusive: cfg.pools.Exclusive})
}

// workersKey reads the key from text, or from the file that text names.
func workersKey(text string) (*workers.Key, error) {
	if path, ok := strings.CutPrefix(text, "@"); ok {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		text = string(b)
	} else if text == "" {
		return nil, nil
	}
	return workers.ParseKey(text)
}

// join adds the error of a close function to a function's returned error.
func join(err *error, closing func() error) { *err = errors.Join(*err, closing()) }
