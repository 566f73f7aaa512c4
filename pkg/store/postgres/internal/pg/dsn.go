package pg

import (
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/assay-run/assay/pkg/job"
)

// defaultMaxConns is the number of connections if the DSN does not set it.
const defaultMaxConns = 16

// maxConnsParameter sets the most connections of a pool in a DSN.
const maxConnsParameter = "pool_max_conns"

// parsePool reads a DSN, as a URL or as key=value pairs. The error wraps job.ErrInvalid.
func parsePool(dsn string) (*pgxpool.Config, error) {
	pc, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("%w: database url: %w", job.ErrInvalid, err) // pgx redacts the password
	}
	plain, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("%w: database url: %w", job.ErrInvalid, err)
	}
	if plain.RuntimeParams[maxConnsParameter] == "" {
		pc.MaxConns = defaultMaxConns // the pool's own default goes by the cores of this host
	}
	return pc, nil
}

// ParseConn parses a DSN for one connection. It removes the parameters of a pool, which the server would take for its
// own.
func ParseConn(dsn string) (*pgx.ConnConfig, error) {
	pc, err := parsePool(dsn)
	if err != nil {
		return nil, err
	}
	return pc.ConnConfig, nil
}
