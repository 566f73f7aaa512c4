package store

import (
	"context"

	"github.com/assay-run/assay/pkg/fleet"
	"github.com/assay-run/assay/pkg/job"
)

// Asides keeps the ends of jobs that the database refused: a counter, a result, an attempt or
// the job itself violates a constraint, makes a trigger fail, or cannot be read. Such a job is
// ended with as much of its record as the database takes, so that it holds up no other job, and
// the rest is kept here.
type Asides interface {
	// Asides lists the rows that were set aside, oldest first, after an id (empty: from the first).
	Asides(ctx context.Context, after job.ID, limit int) ([]Aside, error)
	// CountAsides counts them, up to StatsCap.
	CountAsides(ctx context.Context) (int64, error)
	// RetryAside records a row that was set aside, and removes it from the list. It returns job.ErrConflict if the
	// database still refuses it, and job.ErrNotFound for an unknown id.
	RetryAside(ctx context.Context, a *Action, id job.ID) error
	// DropAside removes a row from the list and leaves its job as it is. It returns job.ErrConflict if the job is held,
	// since it would be set aside again.
	DropAside(ctx context.Context, a *Action, id job.ID) error
}

// Aside is the end of a job that was refused; see package fleet.
type Aside = fleet.Aside

// AsideEnd is how far its job is ended.
type AsideEnd = fleet.AsideEnd

// The ends of an Aside's job.
const (
	AsideRecorded   = fleet.AsideRecorded
	AsideUncounted  = fleet.AsideUncounted
	AsideCounted    = fleet.AsideCounted
	AsideUnrecorded = fleet.AsideUnrecorded
	AsideHeld       = fleet.AsideHeld
)
