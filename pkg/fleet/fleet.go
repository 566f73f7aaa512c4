// Package fleet has the data types of a fleet besides jobs: workers, tenants, queues, the actions
// and settings of operators, and the named objects of tenants. The store keeps them and the API
// returns them, so clients need no store.
package fleet

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// Worker is a worker as it last described itself.
type Worker struct {
	ID        string  `json:"id"`
	Pool      string  `json:"pool"`
	Version   string  `json:"version"`
	Slots     int     `json:"slots"`                // most short jobs at once
	Running   int     `json:"running"`              // jobs under a lease, however long they have run
	Cores     float64 `json:"cores,omitempty"`      // cores of the host
	CoresUsed float64 `json:"cores_used,omitempty"` // cores in use by its jobs and sessions
	Results   int     `json:"results,omitempty"`    // results that no dispatcher has confirmed yet
	// The memory and disk space in use, in bytes; 0: not reported. See Load.
	MemoryUsed int64 `json:"memory_used,omitempty"`
	Memory     int64 `json:"memory,omitempty"`
	DiskUsed   int64 `json:"disk_used,omitempty"`
	Disk       int64 `json:"disk,omitempty"`

	Load      Load            `json:"-"`    // the eight above, as it reported them
	Free      int             `json:"free"` // jobs that would start at once; 0 while it takes none
	Busy      int             `json:"busy"` // Running, under its former name
	InUse     int             `json:"-"`    // slots that jobs hold; jobs that have run for long hold none
	Draining  bool            `json:"draining"`
	StartedAt time.Time       `json:"started_at"`
	Host      json.RawMessage `json:"host,omitempty"`  // JSON of policy.Host
	Offer     json.RawMessage `json:"offer,omitempty"` // JSON of placement.Offer
	SeenAt    time.Time       `json:"seen_at"`         // by the store's clock
	Held      string          `json:"held,omitempty"`  // why it takes no jobs at the moment
	Tally     *Tally          `json:"tally,omitempty"` // its past work; nil: not reported
	// Quarantine is set while it takes no jobs because its failures stood out.
	Quarantine *Quarantine `json:"quarantine,omitempty"`
	// Cordon is set while an operator keeps it from taking jobs.
	Cordon *Cordon `json:"cordon,omitempty"`
	// Rival is another process of the same name that was refused lately.
	Rival *Rival `json:"rival,omitempty"`
	// Silence is the age of this description, for PutWorkers.
	Silence time.Duration `json:"-"`
}

// Settle computes the fields that follow from the others.
func (w *Worker) Settle() {
	w.Running, w.Cores, w.CoresUsed, w.Results = w.Load.Running, w.Load.Cores, w.Load.CoresUsed, w.Load.Results
	w.MemoryUsed, w.Memory, w.DiskUsed, w.Disk = w.Load.MemoryUsed, w.Load.Memory, w.Load.DiskUsed, w.Load.Disk
	w.Busy, w.Free = w.Running, max(w.Slots-w.InUse, 0)
	if w.Draining || w.Held != "" || w.Quarantine != nil || w.Cordon != nil {
		w.Free = 0
	}
}

// Load is the work of a worker at one moment.
type Load struct {
	Running   int     `json:"running"`              // jobs under a lease, however long they have run
	Cores     float64 `json:"cores,omitempty"`      // cores of the host
	CoresUsed float64 `json:"cores_used,omitempty"` // cores in use by its jobs and sessions
	Results   int     `json:"results,omitempty"`    // results that no dispatcher has confirmed yet

	// In bytes. Older workers do not send these.
	MemoryUsed int64 `json:"memory_used,omitempty"`
	Memory     int64 `json:"memory,omitempty"` // of the worker's control group if that has a limit, otherwise of the host
	DiskUsed   int64 `json:"disk_used,omitempty"`
	Disk       int64 `json:"disk,omitempty"` // of the file system of the worker's data
}

// WorkerJob is a job that a worker runs.
type WorkerJob struct {
	ID        job.ID    `json:"id"`
	Tenant    string    `json:"tenant"`
	StartedAt time.Time `json:"started_at"`
}

// WorkerSession is a live session on a worker.
type WorkerSession struct {
	ID        job.ID    `json:"id"`
	Tenant    string    `json:"tenant"`
	CreatedAt time.Time `json:"created_at"`
}

// Rival is a process with the name of another worker process.
type Rival struct {
	StartedAt time.Time `json:"started_at"`
	SeenAt    time.Time `json:"seen_at"` // by the store's clock
}

// Tally counts the work of a worker since it started.
type Tally struct {
	Outcomes  map[job.Outcome]int64 `json:"outcomes,omitempty"` // attempts that ended
	Back      map[job.Reason]int64  `json:"back,omitempty"`     // attempts that were handed back
	PerSecond float64               `json:"per_second"`         // recent ends, between its last two heartbeats
	Sessions  int                   `json:"sessions,omitempty"` // live sessions
}

// Quarantine is a time in which a worker takes no jobs.
type Quarantine struct {
	Until  time.Time     `json:"until"` // by the store's clock
	Reason string        `json:"reason"`
	Left   time.Duration `json:"-"`
}

// Cordon is why a worker takes no jobs until an operator ends it.
type Cordon struct {
	At     time.Time `json:"at"` // by the store's clock
	By     string    `json:"by"`
	Reason string    `json:"reason,omitempty"`
	Pool   bool      `json:"pool,omitempty"` // its whole pool is paused
}

// PoolPaused is the reason of a Cordon by the pause of a pool. The reason of the pause follows, if there is one.
const PoolPaused = "its pool is paused"

// Origin returns the operator and, if there is one, the reason: "ops: an upgrade".
func (c *Cordon) Origin() string {
	reason := c.Reason
	if c.Pool {
		reason = strings.TrimPrefix(strings.TrimPrefix(reason, PoolPaused), ": ")
	}
	if reason == "" {
		return c.By
	}
	return c.By + ": " + reason
}

// QueueGroup counts the waiting and running jobs of a tenant in one class and at one priority.
type QueueGroup struct {
	Pool       string `json:"pool"` // their class: see placement.ParseClass
	Tenant     string `json:"tenant"`
	Priority   int    `json:"priority"`
	Queued     int64  `json:"queued"`
	Dispatched int64  `json:"dispatched"`
	Running    int64  `json:"running"`
	// RunningIn counts the running ones by the pool of their worker.
	RunningIn map[string]int64 `json:"running_in,omitempty"`
	// OldestSeconds is the age of the first queued job: of the first one without a batch, or of the
	// oldest batch's.
	OldestSeconds float64 `json:"oldest_seconds,omitempty"`
	// WaitsFor is the reason why the queued jobs wait, and Message explains it in a sentence.
	WaitsFor job.Wait `json:"waits_for,omitempty"`
	Message  string   `json:"message,omitempty"`
	// AtLeast is set if the tenant's queue is too long to count each job. Its total is still exact,
	// but its division into groups is not.
	AtLeast bool `json:"at_least,omitempty"`
}

// Leader is the holder of a role.
type Leader struct {
	Holder string    `json:"holder"`
	Term   int64     `json:"term"`  // how often the holder has changed
	Since  time.Time `json:"since"` // by the store's clock
	Until  time.Time `json:"until"` // unless renewed
}

// Schema is the migration state of a database.
type Schema struct {
	Has   int64 `json:"has"`   // its version, 0: none
	Wants int64 `json:"wants"` // the version that this program needs
}
