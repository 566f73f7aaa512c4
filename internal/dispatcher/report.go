package dispatcher

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/assay-run/assay/pkg/fleet"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

const (
	// databaseEvery is the period of reading the state of Postgres. Each read locks the lock table for a moment.
	databaseEvery = 15 * time.Second
	// reportWait bounds the age of the leader's counts, in periods of the gauges. If they are older, a dispatcher
	// counts itself.
	reportWait = 4
)

// report is the stored report of a dispatcher: about itself and, from the leader, the counts for all.
type report struct {
	fleet.Report
	Counts *counts `json:"counts,omitempty"`
}

// counts are the counts that one dispatcher makes for all.
type counts struct {
	Stats    store.Stats         `json:"stats"`
	Tenants  []fleet.TenantQueue `json:"tenants"`
	Quotas   []tenantQuota       `json:"quotas"` // the most used ones
	Database fleet.Database      `json:"database"`
}

// reporter stores the report of this dispatcher and reads the leader's counts. So the queue is counted once for all
// dispatchers.
type reporter struct {
	store  reporterStore
	leader *leader
	every  time.Duration
	log    *slog.Logger

	looks, reaps *timings
	steps        atomic.Pointer[map[string]time.Duration] // last duration of each reaper step
	waiting      func() map[string]int
	upkeep       func() map[string]time.Time
	learn        func(map[string]time.Time) // takes over the upkeep of earlier leaders
	connections  int
	quotas       fleet.QuotaDefaults

	last     *counts
	database time.Time // last read
	tenants  time.Time // last read
}

// reporterStore is the part of the store that a reporter uses.
type reporterStore interface {
	Stats(ctx context.Context) (store.Stats, error)
	Queue(ctx context.Context) ([]store.QueueGroup, error)
	Tenants(ctx context.Context) ([]store.Tenant, error)
	store.Health
}

// counts returns the current counts. It counts if this dispatcher leads or no leader reports, and else returns the
// leader's. After an error the caller keeps the previous counts.
func (r *reporter) counts(ctx context.Context) (*counts, error) {
	if r.leader.is() {
		c, err := r.count(ctx)
		r.write(ctx, c)
		return c, err
	}
	r.write(ctx, nil)
	read, err := r.read(ctx)
	if read != nil || err != nil {
		return read, err
	}
	return r.count(ctx)
}

// recall reads from the last reports of all dispatchers when upkeep last succeeded.
func (r *reporter) recall(ctx context.Context) {
	all, err := r.store.Reports(ctx, time.Hour)
	if err != nil && ctx.Err() == nil {
		r.log.WarnContext(ctx, "former reports not read", "error", err)
	}
	for _, s := range all {
		var found report
		if json.Unmarshal(s.Body, &found) == nil {
			r.learn(found.Upkeep)
		}
	}
}

// count reads the counts from the store. It reads tenants and the state of Postgres less often. After an error it keeps the
// counts that it has read.
func (r *reporter) count(ctx context.Context) (*counts, error) {
	next := counts{}
	if r.last != nil {
		next = *r.last
	}
	var err error
	if next.Stats, err = r.store.Stats(ctx); err != nil {
		return nil, err
	}
	r.last = &next
	if time.Since(r.tenants) >= tenantsEvery {
		queue, err := r.store.Queue(ctx)
		if err != nil {
			return nil, err
		}
		if next.Quotas, err = r.nearest(ctx, queue); err != nil {
			return nil, err
		}
		next.Tenants, r.tenants = reported(fleet.TenantQueues(queue)), time.Now()
	}
	if time.Since(r.database) >= databaseEvery {
		d, err := r.store.Database(ctx)
		if err != nil {
			return nil, err
		}
		next.Database, r.database = d, time.Now()
	}
	return r.last, nil
}

// tenantsReported bounds the tenants of a report.
const tenantsReported = 200

// reported sums up the tenants beyond the tenantsReported with the most jobs.
func reported(all []fleet.TenantQueue) []fleet.TenantQueue {
	if len(all) <= tenantsReported {
		return all
	}
	rest := fleet.TenantQueue{Tenant: otherTenants}
	for _, q := range all[tenantsReported:] {
		rest.Queued, rest.Dispatched, rest.Running = rest.Queued+q.Queued, rest.Dispatched+q.Dispatched, rest.Running+q.Running
		rest.OldestSeconds = max(rest.OldestSeconds, q.OldestSeconds)
	}
	return append(all[:tenantsReported:tenantsReported], rest)
}

// tenantQuota is the most used quota of a tenant.
type tenantQuota struct {
	Tenant string `json:"tenant"`
	fleet.Quota
}

// nearest returns the tenants nearest to one of their quotas, at most agesMost.
func (r *reporter) nearest(ctx context.Context, queue []store.QueueGroup) ([]tenantQuota, error) {
	usage, err := r.store.Usage(ctx)
	if err != nil {
		return nil, err
	}
	tenants, err := r.store.Tenants(ctx)
	if err != nil {
		return nil, err
	}
	queues := map[string]fleet.TenantQueue{}
	for _, q := range fleet.TenantQueues(queue) {
		queues[q.Tenant] = q
	}
	var all []tenantQuota
	for _, t := range tenants {
		if quotas := fleet.QuotasOf(t, queues[t.Name], usage[t.Name], r.quotas); len(quotas) > 0 && quotas[0].Used > 0 {
			all = append(all, tenantQuota{t.Name, quotas[0]})
		}
	}
	slices.SortFunc(all, func(a, b tenantQuota) int {
		return cmp.Or(cmp.Compare(b.Share(), a.Share()), cmp.Compare(a.Tenant, b.Tenant))
	})
	return all[:min(len(all), agesMost)], nil
}

// read returns the leader's last counts, or nil if they are too old or missing.
func (r *reporter) read(ctx context.Context) (*counts, error) {
	all, err := r.store.Reports(ctx, max(reportWait*r.every, reportWait*time.Second))
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		var found report
		if json.Unmarshal(s.Body, &found) != nil || !found.Leads || found.Counts == nil { // or of another release
			continue
		}
		r.learn(found.Upkeep)
		return found.Counts, nil
	}
	return nil, nil
}

// write stores the report of this dispatcher. It only logs failures: a missing report affects no jobs.
func (r *reporter) write(ctx context.Context, c *counts) {
	now := time.Now()
	out := report{Counts: c, Report: fleet.Report{
		Dispatcher: r.leader.holder, Leads: r.leader.is(), Looks: r.looks.sum(now), Reaps: r.reaps.sum(now),
		Waiting: r.waiting(), Upkeep: r.upkeep(), MaxConnections: r.connections,
	}}
	if steps := r.steps.Load(); steps != nil {
		out.ReapStepsMS = map[string]float64{}
		for name, took := range *steps {
			out.ReapStepsMS[name] = job.Milliseconds(took)
		}
	}
	raw, err := json.Marshal(out)
	if err == nil {
		err = r.store.PutReport(ctx, r.leader.holder, raw)
	}
	if err != nil && ctx.Err() == nil {
		r.log.WarnContext(ctx, "report not stored", "error", err)
	}
}

// reaped notes a round of the reaper.
func (r *reporter) reaped(now time.Time, took time.Duration, steps map[string]time.Duration, err error) {
	r.reaps.add(now, took, err)
	known := map[string]time.Duration{}
	if old := r.steps.Load(); old != nil {
		maps.Copy(known, *old)
	}
	maps.Copy(known, steps)
	r.steps.Store(&known)
}
