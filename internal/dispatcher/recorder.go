package dispatcher

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/assay-run/assay/internal/dispatcher/fleet"
	"github.com/assay-run/assay/internal/telemetry"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/store"
)

const (
	bulkSize = 500 // rows of one statement
	// bulkBytes is the size of the results of one statement. A larger result is recorded alone, in a lane of its own.
	bulkBytes = 8 << 20
	// Two statements of a kind run at once: one waits for the disk while the other is planned. More would compete for
	// the same counter rows.
	bulkLanes = 2
	// refusedFor is how long a process takes no jobs if another has its name. Each heartbeat renews it.
	refusedFor = 15 * time.Second
)

// recorder answers the workers. It implements control.Handler.
type recorder struct {
	store     recorderStore
	fleet     *fleet.Fleet
	scheduler *scheduler
	events    *events
	metrics   *metrics
	secrets   Secrets
	pools     placement.Pools
	witnesses int // environment witnesses; 0: environments are not shared
	log       *slog.Logger
	ttl       time.Duration

	claims   *bulk[store.Claim, store.Claimed]
	beats    *bulk[store.Held, beat]
	finishes *bulk[store.Finish, store.FinishStatus]
	releases *bulk[store.Release, struct{}]
	held     *bulk[store.HeldSession, bool] // reports whether a session is lost
}

var _ control.Handler = (*recorder)(nil)

// recorderStore is the part of the store that a recorder uses.
type recorderStore interface {
	Claim(ctx context.Context, ttl time.Duration, claims []store.Claim) ([]store.Claimed, error)
	Heartbeat(ctx context.Context, ttl time.Duration, leases []store.Held) (lost, canceled []store.Held, err error)
	Finish(ctx context.Context, fs []store.Finish) ([]store.FinishStatus, error)
	Release(ctx context.Context, rs []store.Release) error
	RevokeAssignment(ctx context.Context, l store.LeaseRef) (bool, error)
	StateEnvironment(ctx context.Context, s store.EnvironmentStatement) error
	Environment(ctx context.Context, pool, name string, witnesses int) (digest string, err error)
	LostSessions(ctx context.Context, held []store.HeldSession) ([]store.HeldSession, error)
}

// beat is the answer for one lease.
type beat struct{ lost, canceled bool }

// start creates the bulk queues and returns r.
func (r *recorder) start() *recorder {
	r.claims = newBulk(bulkSize, bulkLanes, r.claim)
	r.beats = newBulk(4*bulkSize, 1, r.heartbeat)
	r.finishes = newBulk(bulkSize, bulkLanes, r.finish).bounded(bulkBytes, func(f store.Finish) int { return len(f.Result) })
	r.releases = newBulk(bulkSize, 1, r.release)
	r.held = newBulk(4*bulkSize, 1, r.lostSessions)
	return r
}

// waiting counts the unanswered messages of workers, by kind.
func (r *recorder) waiting() map[string]int {
	return map[string]int{"claim": int(r.claims.depth.Load()), "heartbeat": int(r.beats.depth.Load()),
		"finish": int(r.finishes.depth.Load()), "release": int(r.releases.depth.Load())}
}

func (r *recorder) run(ctx context.Context) {
	var loops sync.WaitGroup
	for _, loop := range []func(context.Context){r.claims.run, r.beats.run, r.finishes.run, r.releases.run, r.held.run} {
		loops.Go(func() { loop(ctx) })
	}
	loops.Wait()
}

// HandleClaim issues leases for the jobs that a worker claims. It returns a pause instead if the worker is rejected,
// quarantined or cordoned.
func (r *recorder) HandleClaim(ctx context.Context, req control.ClaimRequest) (control.ClaimReply, error) {
	if _, refused := r.fleet.Refuses(req.Worker, req.Since); refused {
		return control.ClaimReply{Rest: job.Duration(refusedFor)}, nil
	}
	if rest, cordoned := r.fleet.Rest(req.Worker); rest > 0 {
		return control.ClaimReply{Rest: job.Duration(rest), Cordoned: cordoned}, nil
	}
	claims := make([]store.Claim, len(req.Refs))
	for i, ref := range req.Refs {
		claims[i] = store.Claim{Ref: ref, Worker: req.Worker, Since: req.Since}
	}
	claimed, err := r.claims.do(ctx, claims)
	if err == nil && !req.Partial {
		err = r.complete(ctx, claims, claimed)
	}
	if err != nil {
		return control.ClaimReply{}, err
	}
	r.scheduler.took(req.Worker, countGranted(claimed))
	// If Reveal fails, the worker repeats the claim and gets the same leases.
	secrets, err := r.secrets.Reveal(ctx, claimed)
	return control.ClaimReply{Claimed: claimed, Secrets: secrets, TTL: job.Duration(r.ttl)}, err
}

// complete repeats claims whose specs did not fit into the answer, for workers that do not repeat them. Each round
// returns at least one spec.
func (r *recorder) complete(ctx context.Context, claims []store.Claim, claimed []store.Claimed) error {
	for {
		var at []int
		var missing []store.Claim
		for i, c := range claimed {
			if unread(c) {
				at, missing = append(at, i), append(missing, claims[i])
			}
		}
		if len(missing) == 0 {
			return nil
		}
		more, err := r.claims.do(ctx, missing)
		if err != nil {
			return err
		}
		for i, c := range more {
			claimed[at[i]] = c
		}
	}
}

// unread reports whether the claim has a lease and its spec did not fit into the answer.
func unread(c store.Claimed) bool { return c.Lease != 0 && len(c.Spec) == 0 }

func countGranted(cs []store.Claimed) (n int) {
	for _, c := range cs {
		if c.Lease != 0 && !unread(c) { // unread ones count when they are claimed again
			n++
		}
	}
	return n
}

// HandleHeartbeat notes the worker's state and renews its leases. It returns the lost and canceled leases and the
// lost sessions.
func (r *recorder) HandleHeartbeat(ctx context.Context, req control.HeartbeatRequest) (control.HeartbeatReply, error) {
	if r.fleet.RecordHeartbeat(req.Worker) {
		r.scheduler.wake() // its slots widen the window
	}
	rest, cordoned := r.fleet.Rest(req.Worker.ID)
	reply := control.HeartbeatReply{TTL: job.Duration(r.ttl), SessionTTL: job.Duration(min(fleet.HoldSessions, r.ttl)), Rest: job.Duration(rest), Cordoned: cordoned,
		Exclusive: r.pools.Exclusive(req.Worker.Pool), Protocol: r.fleet.Spoken()}
	r.refuse(ctx, req.Worker, &reply)
	held := make([]store.Held, len(req.Leases))
	for i, l := range req.Leases {
		held[i] = store.Held{LeaseRef: l, Worker: req.Worker.ID}
	}
	beats, err := r.beats.do(ctx, held)
	for i, b := range beats {
		if b.lost {
			reply.Lost = append(reply.Lost, req.Leases[i])
		}
		if b.canceled {
			reply.Canceled = append(reply.Canceled, req.Leases[i])
		}
	}
	if err == nil {
		reply.LostSessions, err = r.lostOf(ctx, req)
	}
	return reply, err
}

// refuse sets the refusal in the reply to a process whose name a later one has. The reply still covers its leases
// until the reaper takes them back.
func (r *recorder) refuse(ctx context.Context, w control.WorkerInfo, reply *control.HeartbeatReply) {
	since := store.IncarnationOf(w.StartedAt)
	owner, refused := r.fleet.Refuses(w.ID, since)
	if !refused {
		return
	}
	reply.Rest = job.Duration(refusedFor)
	reply.Refused = fmt.Sprintf("another worker with the name %s started later, at %s; give each worker its own name", w.ID, owner.Time().UTC().Format(time.RFC3339))
	r.metrics.refusals.Add(ctx, 1)
	if r.fleet.Complain(w.ID, since) {
		r.log.ErrorContext(ctx, "worker rejected: a process that started later has the same name",
			"worker", w.ID, "refused_started_at", w.StartedAt, "started_at", owner.Time())
	}
}

// isJSON reports whether encoding/json accepts a text. jsontext takes a third of its time, which matters for each result.
func isJSON(text []byte) bool {
	return jsontext.Value(text).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// HandleFinish records results and answers after the commit. It rejects results above job.MaxResult, texts that are
// not JSON, and results that name objects of other attempts.
func (r *recorder) HandleFinish(ctx context.Context, req control.FinishRequest) (control.FinishReply, error) {
	for i := range req.Finishes {
		f := &req.Finishes[i]
		f.Worker = req.Worker
		if n := len(f.Result); n > int(job.MaxResult) {
			return control.FinishReply{}, fmt.Errorf("%w: result of job %s has %d bytes, and %s are the most", job.ErrTooLarge, f.Job, n, job.MaxResult)
		}
		if len(f.Result) > 0 && !isJSON(f.Result) { // the store checks empty results
			return control.FinishReply{}, job.Invalid("result", "the result of job %s is not JSON", f.Job)
		}
		if err := ownArtifacts(f); err != nil {
			return control.FinishReply{}, err
		}
	}
	statuses, err := r.finishes.do(ctx, req.Finishes)
	if err == nil {
		r.scheduler.noteEnd(req.Worker, len(statuses))
		r.fleet.RecordResults(req.Worker, finished(req.Finishes))
	}
	return control.FinishReply{Statuses: statuses}, err
}

// HandleRelease returns attempts to the queue.
func (r *recorder) HandleRelease(ctx context.Context, req control.ReleaseRequest) (control.ReleaseReply, error) {
	for i := range req.Releases {
		req.Releases[i].Worker = req.Worker
	}
	_, err := r.releases.do(ctx, req.Releases)
	if err == nil {
		r.scheduler.noteEnd(req.Worker, len(req.Releases))
		r.fleet.GaveUp(req.Worker, workerFailures(req.Releases))
	}
	return control.ReleaseReply{}, err
}

// revoke takes back an assignment that its worker did not accept. If a cancel was requested, it releases the attempt
// instead, which records the cancel.
func (r *recorder) revoke(ctx context.Context, worker string, l store.LeaseRef) error {
	done, err := r.store.RevokeAssignment(ctx, l)
	if err != nil || !done {
		if err == nil {
			_, err = r.HandleRelease(ctx, control.ReleaseRequest{Worker: worker, Releases: []store.Release{{LeaseRef: l, Reason: job.ReasonPreempted}}})
		}
		return err
	}
	r.scheduler.noteEnd(worker, 1)
	r.events.publish(ctx, []job.ID{l.Job})
	r.scheduler.wake()
	return nil
}

// finished returns the jobs of results.
func finished(fs []store.Finish) []job.ID {
	ids := make([]job.ID, len(fs))
	for i := range fs {
		ids[i] = fs[i].Job
	}
	return ids
}

// workerFailures returns the jobs whose attempts failed because of the worker.
func workerFailures(rs []store.Release) (ids []job.ID) {
	for _, l := range rs {
		if l.Reason == job.ReasonInfra {
			ids = append(ids, l.Job)
		}
	}
	return ids
}

func (r *recorder) claim(ctx context.Context, claims []store.Claim) ([]store.Claimed, error) {
	start := time.Now()
	claimed, err := r.store.Claim(ctx, r.ttl, claims)
	if err != nil {
		return nil, err
	}
	r.metrics.claimed(ctx, claimed)
	for i, c := range claimed {
		if c.TraceParent != "" && !unread(c) {
			telemetry.Step(ctx, "claim", c.TraceParent, start, aboutClaimed(r.fleet, c, claims[i].Worker))
		}
	}
	return claimed, nil
}

func (r *recorder) heartbeat(ctx context.Context, leases []store.Held) ([]beat, error) {
	lost, canceled, err := r.store.Heartbeat(ctx, r.ttl, leases)
	if err != nil {
		return nil, err
	}
	at := make(map[store.Held]beat, len(lost)+len(canceled))
	for _, l := range lost {
		at[l] = beat{lost: true}
	}
	for _, l := range canceled {
		at[l] = beat{lost: at[l].lost, canceled: true}
	}
	beats := make([]beat, len(leases))
	for i, l := range leases {
		beats[i] = at[l]
	}
	r.metrics.lost(ctx, len(lost))
	return beats, nil
}

func (r *recorder) finish(ctx context.Context, fs []store.Finish) ([]store.FinishStatus, error) {
	start := time.Now()
	for i := range fs {
		fs[i].Record = r.events.recipient(fs[i].Job)
	}
	statuses, err := r.store.Finish(ctx, fs)
	if err != nil {
		return nil, err
	}
	ids, retried := make([]job.ID, 0, len(fs)), false
	for i, f := range fs {
		retried = retried || statuses[i] == store.Retried
		if statuses[i] == store.Recorded {
			ids = append(ids, f.Job)
		}
		if f.TraceParent != "" {
			telemetry.Step(ctx, "record", f.TraceParent, start, aboutFinish(r.fleet, f))
		}
	}
	r.events.publish(ctx, append(ids, batchesOf(fs)...))
	r.metrics.finished(ctx, fs, statuses)
	if retried {
		r.scheduler.wake()
	}
	return statuses, nil
}

// batchesOf returns the distinct batches of results.
func batchesOf(fs []store.Finish) (ids []job.ID) {
	last, seen := job.ID(""), map[job.ID]bool{}
	for _, f := range fs {
		if f.BatchID == "" || f.BatchID == last {
			continue
		}
		if last = f.BatchID; !seen[last] {
			seen[last] = true
			ids = append(ids, last)
		}
	}
	return ids
}

func (r *recorder) release(ctx context.Context, rs []store.Release) ([]struct{}, error) {
	if err := r.store.Release(ctx, rs); err != nil {
		return nil, err
	}
	ids := make([]job.ID, len(rs)) // some may have ended
	for i, l := range rs {
		ids[i] = l.Job
	}
	r.events.publish(ctx, ids)
	r.scheduler.wake()
	return make([]struct{}, len(rs)), nil
}
