package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/assay-run/assay/pkg/store/postgres"
)

// measuredLooks is the number of measured scheduler passes, after warmLooks unmeasured ones.
const measuredLooks, warmLooks = 30, 5

// requeueLooks queues the jobs again that passes have dispatched.
var requeueLooks = []string{`UPDATE jobs SET state = 'queued' WHERE state = 'dispatched' AND pool = '` + looksClass + `'`, `VACUUM jobs`}

// lookCost returns the median CPU time of a scheduler pass that fills that many places, in
// milliseconds: of this process, which does the dispatcher's part, and of the servers of its
// connections.
func lookCost(ctx context.Context, db databaseURL, places int) (float64, error) {
	s, err := postgres.Open(ctx, postgres.Config{DSN: string(db), MaxConns: 1, MinConns: 1, ApplicationTag: looksClass})
	if err != nil {
		return 0, err
	}
	defer s.Close()
	pids, err := db.Ask(ctx, `SELECT pid FROM pg_stat_activity WHERE application_name LIKE '`+looksClass+`%'`)
	if err != nil {
		return 0, err
	}
	var ms []float64
	for i := range warmLooks + measuredLooks {
		before, err := cpuOf(strings.Fields(pids))
		if err != nil {
			return 0, err
		}
		ds, err := s.Schedule(ctx, []string{looksClass}, places)
		if err != nil {
			return 0, err
		}
		if len(ds) != places {
			return 0, fmt.Errorf("a look at %d places dispatched %d jobs", places, len(ds))
		}
		after, err := cpuOf(strings.Fields(pids))
		if err != nil {
			return 0, err
		}
		if i >= warmLooks {
			ms = append(ms, float64(after-before)/float64(time.Millisecond))
		}
		if err := db.Run(ctx, requeueLooks); err != nil {
			return 0, err
		}
	}
	slices.Sort(ms)
	return ms[len(ms)/2], nil
}

// cpuOf returns the CPU time of this process and of some others.
func cpuOf(pids []string) (time.Duration, error) {
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		return 0, fmt.Errorf("getrusage: %w", err)
	}
	sum := time.Duration(own.Utime.Nano() + own.Stime.Nano())
	for _, pid := range pids {
		raw, err := os.ReadFile("/proc/" + pid + "/schedstat")
		if err != nil {
			return 0, err
		}
		ran, err := strconv.ParseInt(strings.Fields(string(raw))[0], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("schedstat of %s: %w", pid, err)
		}
		sum += time.Duration(ran)
	}
	return sum, nil
}
