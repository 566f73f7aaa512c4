package pg

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/assay-run/assay/pkg/job"
)

// SQLSTATE codes and classes that mean something here
// (PostgreSQL documentation, appendix A).
const (
	uniqueViolation      = "23505"
	serializationFailure = "40001"
	DeadlockDetected     = "40P01"
	LockNotAvailable     = "55P03"
	queryCanceled        = "57014"
	UndefinedTable       = "42P01"

	InsufficientPrivilege = "42501"
	featureNotSupported   = "0A000"
	undefinedFunction     = "42883"
)

// Translate maps an error of the driver to an error of package job. It does not change the caller's own cancellation,
// nor errors that are translated already.
func Translate(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("postgres: %s: %w", op, meaning(err))
}

func meaning(err error) error {
	for _, known := range []error{job.ErrInvalid, job.ErrNotFound, job.ErrGone, job.ErrErased, job.ErrConflict, job.ErrKeyUsed, job.ErrUnavailable, context.Canceled} {
		if errors.Is(err, known) {
			return err
		}
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return job.ErrNotFound
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return serverMeaning(pg)
	}
	var netErr net.Error
	var connErr *pgconn.ConnectError
	// Every other error of a call is about the connection: refused, reset, cut off
	// in the middle, timed out, no slot in the pool.
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &netErr) || errors.As(err, &connErr) || isConnectionLoss(err) {
		return fmt.Errorf("%w: %w", job.ErrUnavailable, err)
	}
	return err
}

func serverMeaning(pg *pgconn.PgError) error {
	switch {
	case pg.Code == uniqueViolation:
		return fmt.Errorf("%w: %w", job.ErrConflict, pg)
	case strings.HasPrefix(pg.Code, "22"): // data exception: a NUL byte, a number out of range
		return fmt.Errorf("%w: %w", job.ErrInvalid, pg)
	case pg.Code == serializationFailure, pg.Code == DeadlockDetected, pg.Code == LockNotAvailable, pg.Code == queryCanceled,
		strings.HasPrefix(pg.Code, "08"),  // connection exception
		strings.HasPrefix(pg.Code, "53"),  // out of disk, memory or connections
		strings.HasPrefix(pg.Code, "57P"), // shutting down, starting up, killed by an operator
		strings.HasPrefix(pg.Code, "58"),  // an I/O error below it
		pg.Code == "25006":                // read-only: a standby that is not promoted yet
		return fmt.Errorf("%w: %w", job.ErrUnavailable, pg)
	}
	return pg
}

// isConnectionLoss recognises the errors of a connection that ended, for which
// neither net nor pgx have a type.
func isConnectionLoss(err error) bool {
	if pgconn.SafeToRetry(err) || pgconn.Timeout(err) {
		return true
	}
	for _, s := range []string{"unexpected EOF", "conn closed", "closed pool", "broken pipe", "connection reset", "conn busy"} {
		if strings.Contains(err.Error(), s) {
			return true
		}
	}
	return false
}

// isRolledBack reports errors after which the whole statement was rolled back
// for no fault of its own.
func isRolledBack(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == DeadlockDetected || pg.Code == serializationFailure)
}

// IsUniqueViolation reports whether a row with this key exists already.
func IsUniqueViolation(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == uniqueViolation
}
