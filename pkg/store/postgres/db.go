package postgres

import (
	"context"
	"fmt"
	"time"
)

// do runs one call that can wait, under a deadline: it has a connection when others
// like it have left one (see share). Else it is as urgent.
func (s *Store) do(ctx context.Context, op string, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	ctx, leave, err := s.share.enter(ctx)
	if err != nil {
		return translate(op, fmt.Errorf("wait for a connection: %w", err))
	}
	defer leave()
	return s.urgent(ctx, op, f)
}

// urgent runs one call that others wait for, or that is soon too late: any connection
// is for it. Deadlocks and serialization failures wrote nothing and are tried again at
// once; what remains is translated.
func (s *Store) urgent(ctx context.Context, op string, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	start := time.Now()
	var err error
	for range 4 {
		if err = f(ctx); !wroteNothing(err) {
			break
		}
	}
	err = translate(op, err)
	s.calls.ended(ctx, op, start, err)
	return err
}

// session is what every connection is set to; doc.go says why.
var session = map[string]string{
	"timezone":                            "UTC",
	"synchronous_commit":                  "on",
	"jit":                                 "off",
	"plan_cache_mode":                     "force_generic_plan",
	"enable_seqscan":                      "off",
	"enable_bitmapscan":                   "off",
	"enable_hashjoin":                     "off",
	"enable_mergejoin":                    "off",
	"seq_page_cost":                       "0", // the price of a plan is the number of rows it touches
	"random_page_cost":                    "0",
	"cpu_tuple_cost":                      "1",
	"work_mem":                            "64MB", // the arrays of a bulk insert stay in memory
	"idle_in_transaction_session_timeout": "30s",
}

// Ping says whether the database answers.
func (s *Store) Ping(ctx context.Context) error {
	return s.do(ctx, "ping", func(ctx context.Context) error { return s.pool.Ping(ctx) })
}
