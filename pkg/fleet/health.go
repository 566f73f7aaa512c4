package fleet

import "time"

// Report is the state of one dispatcher, which it stores every few seconds.
type Report struct {
	Dispatcher string    `json:"dispatcher"` // host name and process
	At         time.Time `json:"at"`         // by the store's clock
	Leads      bool      `json:"leads"`      // it schedules and reaps for all
	Looks      Timings   `json:"looks"`      // passes of the scheduler over the queue
	Reaps      Timings   `json:"reaps"`      // rounds of the reaper
	// ReapStepsMS is the time of each step of the last round, in milliseconds.
	ReapStepsMS map[string]float64 `json:"reap_steps_ms,omitempty"`
	// Waiting counts the messages of workers that wait for a statement, by kind.
	Waiting map[string]int `json:"waiting"`
	// Upkeep is the last success of each task that only the leader does.
	Upkeep map[string]time.Time `json:"upkeep,omitempty"`
	// MaxConnections is how many connections to Postgres the dispatcher may open.
	MaxConnections int `json:"max_connections"`
}

// Timings summarizes the calls of the last minute.
type Timings struct {
	Count     int       `json:"count"` // including failed ones
	Failed    int       `json:"failed"`
	MeanMS    float64   `json:"mean_ms"`
	MaxMS     float64   `json:"max_ms"`
	LastError string    `json:"last_error,omitempty"` // of the last failure, regardless of its age
	LastFail  time.Time `json:"last_fail,omitzero"`
}

// Database is the state of Postgres that can make statements slow or fail.
type Database struct {
	Holder           *Holder           `json:"holder,omitempty"` // of the oldest snapshot
	Locks            int64             `json:"locks"`            // in the shared lock table
	LocksMax         int64             `json:"locks_max"`        // capacity of the table
	Connections      int64             `json:"connections"`
	ConnectionsMax   int64             `json:"connections_max"` // without those reserved for superusers
	Partitions       int64             `json:"partitions"`
	Indexes          int64             `json:"indexes"`   // of one partition of jobs
	LiveDays         int64             `json:"live_days"` // partitions that statements of the queue read
	DeadRows         int64             `json:"dead_rows"` // in the partitions of jobs
	OldestDispatched float64           `json:"oldest_dispatched_seconds"`
	Callbacks        int64             `json:"callbacks"`          // not delivered yet, counted to 10,000
	Undated          int64             `json:"undated"`            // jobs of a day without a partition, counted to 10,000
	Settings         map[string]string `json:"settings"`           // of the server, by name
	Feedback         []string          `json:"feedback,omitempty"` // standbys that hold back vacuum
}

// Holder is a session, slot or prepared transaction that keeps the database from removing dead
// rows.
type Holder struct {
	Kind         string  `json:"kind"` // session, slot, prepared or standby
	PID          int     `json:"pid,omitempty"`
	Name         string  `json:"name,omitempty"` // application name of a session or standby, name of a slot, id of a prepared transaction
	User         string  `json:"user,omitempty"`
	State        string  `json:"state,omitempty"`
	Statement    string  `json:"statement,omitempty"` // its beginning
	Seconds      float64 `json:"seconds"`             // age of its transaction; 0: unknown
	Transactions int64   `json:"transactions"`        // transactions that began since
}

// TenantQueue is the work of one tenant.
type TenantQueue struct {
	Tenant        string  `json:"tenant"`
	Queued        int64   `json:"queued"`
	Dispatched    int64   `json:"dispatched"`
	Running       int64   `json:"running"`
	AtLeast       bool    `json:"at_least,omitempty"` // the queue is too long to count each job
	OldestSeconds float64 `json:"oldest_seconds"`     // age of the first job of its queues
}

// StoppedWorker is a connected worker that takes no jobs.
type StoppedWorker struct {
	ID      string `json:"id"`
	Pool    string `json:"pool"`
	State   string `json:"state"` // quarantined, cordoned, draining or held
	Reason  string `json:"reason,omitempty"`
	Running int    `json:"running"` // jobs that it still runs
}

// Stopped returns why a worker takes no jobs, or false if it takes jobs.
func (w *Worker) Stopped() (StoppedWorker, bool) {
	s := StoppedWorker{ID: w.ID, Pool: w.Pool, Running: w.Running}
	switch {
	case w.Quarantine != nil:
		s.State, s.Reason = "quarantined", w.Quarantine.Reason
	case w.Cordon != nil:
		s.State, s.Reason = "cordoned", w.Cordon.Reason
	case w.Draining:
		s.State = "draining"
	case w.Held != "":
		s.State, s.Reason = "held", w.Held
	default:
		return s, false
	}
	return s, true
}
