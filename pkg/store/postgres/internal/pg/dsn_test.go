package pg

import (
	"errors"
	"testing"

	"github.com/assay-run/assay/pkg/job"
)

func TestConnectionsOfADSN(t *testing.T) {
	t.Parallel()
	for dsn, want := range map[string]int32{
		"postgres://db/assay": 16, "host=db dbname=assay": 16, "postgres://db/assay?pool_max_conns=32": 32,
		"postgres://db/assay?sslmode=disable&pool_max_conns=2": 2, "host=db pool_max_conns=5 dbname=assay": 5,
	} {
		pc, err := parsePool(dsn)
		if err != nil {
			t.Errorf("%s: %v", dsn, err)
			continue
		}
		if pc.MaxConns != want {
			t.Errorf("%s: %d connections, want %d", dsn, pc.MaxConns, want)
		}
		// The server has no such parameter.
		if c, err := ParseConn(dsn); err != nil || c.RuntimeParams[maxConnsParameter] != "" {
			t.Errorf("%s: %v, %v", dsn, c.RuntimeParams, err)
		}
	}
	for _, dsn := range []string{"postgres://db/assay?pool_max_conns=many", "host=db pool_max_conns=0"} {
		if _, err := parsePool(dsn); !errors.Is(err, job.ErrInvalid) {
			t.Errorf("%s: %v, want an invalid one", dsn, err)
		}
	}
}
