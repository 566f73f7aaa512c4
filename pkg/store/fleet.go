package store

import "github.com/assay-run/assay/pkg/fleet"

// Types that clients of the API see as well: see package fleet.
type (
	Worker         = fleet.Worker
	Rival          = fleet.Rival
	Tally          = fleet.Tally
	WorkerLoad     = fleet.Load
	WorkerJob      = fleet.WorkerJob
	WorkerSession  = fleet.WorkerSession
	Quarantine     = fleet.Quarantine
	Cordon         = fleet.Cordon
	QueueGroup     = fleet.QueueGroup
	Leader         = fleet.Leader
	Schema         = fleet.Schema
	Action         = fleet.Action
	ActionOutcome  = fleet.ActionOutcome
	ActionQuery    = fleet.ActionQuery
	Pause          = fleet.Pause
	Tenant         = fleet.Tenant
	Override       = fleet.Override
	Overridden     = fleet.Overridden
	Verified       = fleet.Verified
	StoredPolicy   = fleet.StoredPolicy
	StoredSecret   = fleet.StoredSecret
	Executed       = fleet.Executed
	BatchSummary   = fleet.BatchSummary
	DurationBucket = fleet.DurationBucket
	FailureCluster = fleet.FailureCluster
	Comparison     = fleet.Comparison
	Flip           = fleet.Flip
	BatchState     = fleet.BatchState
)

// WorkerStates has all states of a worker.
var WorkerStates = fleet.WorkerStates

// The outcomes of an Action.
const (
	ActionDone      = fleet.ActionDone
	ActionUnchanged = fleet.ActionUnchanged
	ActionFailed    = fleet.ActionFailed
)

// PoolPaused is the reason of a cordon by the pause of a pool.
const PoolPaused = fleet.PoolPaused
