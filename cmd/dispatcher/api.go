package main

import (
	"log/slog"
	"net/http"

	"github.com/assay-run/assay/internal/dispatcher"
	"github.com/assay-run/assay/internal/dispatcher/admin"
	"github.com/assay-run/assay/internal/dispatcher/admit"
	"github.com/assay-run/assay/internal/dispatcher/callback"
	"github.com/assay-run/assay/internal/dispatcher/httpapi"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/internal/dispatcher/intake"
	"github.com/assay-run/assay/internal/dispatcher/secret"
	"github.com/assay-run/assay/internal/dispatcher/session"
	"github.com/assay-run/assay/internal/site"
	"github.com/assay-run/assay/internal/version"
	nouns "github.com/assay-run/assay/pkg/fleet"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/queue/jetstream"
	"github.com/assay-run/assay/pkg/store"
)

// parts are the dependencies of the API.
type parts struct {
	store      store.Store
	objects    httpapi.Objects
	queue      *jetstream.Queue
	secrets    *secret.Keeper
	dispatcher *dispatcher.Dispatcher
	callbacks  *callback.Sender
	auth       identity.Gate
	site       site.Guard
	pools      placement.Pools
	limits     httpapi.Limits
	metrics    http.Handler
	profiles   http.Handler
	dropIns    []string
	quotas     nouns.QuotaDefaults
}

// newAdmin returns what does the work of operators.
func newAdmin(p parts) *admin.Admin {
	return &admin.Admin{
		Store: p.store, Objects: p.objects, Secrets: p.secrets, Fleet: p.dispatcher, Wake: p.dispatcher.Wake, Stop: p.queue.SendCancel, Pool: p.dispatcher.Fleet().Pool,
		Version: version.String(), Quotas: p.quotas, Log: slog.Default(),
	}
}

// newAPI creates the server for requests of clients and operators.
func newAPI(p parts, operators *admin.Admin) *httpapi.Server {
	log, workers := slog.Default(), p.dispatcher.Fleet()
	admits := &admit.Admitter{
		Policies: p.store, Tenants: admit.Recent(p.store), Blobs: p.objects, Secrets: p.secrets,
		Pool: workers.Pool, Reserved: workers.Reserved, Room: workers.Room, Hosts: workers.Hosts, Images: workers,
	}
	return httpapi.New(httpapi.Config{
		Admit: admits,
		Intake: intake.New(intake.Config{
			Store: p.store, Admit: admits, Dispatcher: p.dispatcher, Fleet: workers, Callbacks: p.callbacks,
			Queued: p.limits.Queued, Batches: p.limits.Batches, Log: log,
		}),
		Sessions: session.New(session.Config{Store: p.store, Line: p.queue, Fleet: workers, Admit: admits, Log: log}),
		Admin:    operators,
		Workers:  workers,
		Store:    p.store, Secrets: p.secrets, Objects: p.objects, Watcher: p.dispatcher, Canceler: p.queue,
		Auth: p.auth, Site: p.site, Queue: p.queue, Pools: p.pools, Limits: p.limits, Metrics: p.metrics, Profiles: p.profiles, DropIns: p.dropIns, Log: log,
	})
}
