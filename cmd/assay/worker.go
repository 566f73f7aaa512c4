package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/cli/show"
	nouns "github.com/assay-run/assay/pkg/fleet"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/policy"
)

type workerCmd struct {
	List     workerListCmd     `cmd:"" help:"List the connected workers."`
	Cordon   workerCordonCmd   `cmd:"" help:"Keep one or many workers from taking jobs; running jobs continue."`
	Uncordon workerUncordonCmd `cmd:"" help:"Let one or many workers take jobs again."`
	Drain    workerDrainCmd    `cmd:"" help:"Cordon one or many workers; with --wait, wait until they are idle."`
}

// choosing is the flags that choose workers.
type choosing struct {
	Pool    string            `placeholder:"NAME" help:"Only workers of this pool."`
	Version string            `name:"version" placeholder:"VERSION" help:"Only workers of this version."`
	Label   map[string]string `placeholder:"KEY=VALUE" help:"Only workers with all of these labels."`
	State   string            `placeholder:"STATE" help:"Only workers in this state: working, held, draining, cordoned or quarantined."`
}

func (c *choosing) selector(names ...string) nouns.WorkerSelector {
	return nouns.WorkerSelector{Names: names, Pool: c.Pool, Version: c.Version, Labels: c.Label, State: nouns.WorkerState(c.State)}
}

type workerListCmd struct{ choosing }

// Run lists workers.
func (c *workerListCmd) Run(a *app) error {
	fleet, err := a.client()
	if err != nil {
		return err
	}
	all, err := fleet.FleetOf(a.ctx, c.selector())
	if err != nil {
		return err
	}
	if len(all.Workers) == 0 && len(all.Pools) > 0 && c.selector().Empty() {
		if a.JSON {
			return a.printJSON(all)
		}
		return c.pools(a, all)
	}
	found := all.Workers
	if a.JSON {
		return a.printJSON(found)
	}
	var lacks []string
	t := show.NewTable(a.stdout, "WORKER", "POOL", "RUNNING", "FREE", "CORES", "MEM USED", "DISK USED", "ISOLATION", "MEMORY", "LABELS", "UP", "VERSION")
	for _, w := range found {
		var h policy.Host
		_ = json.Unmarshal(w.Host, &h) // a worker of another version: shown without
		var o placement.Offer
		_ = json.Unmarshal(w.Offer, &o) // the same
		for _, m := range h.Missing {
			lacks = append(lacks, w.ID+" lacks "+m)
		}
		levels := make([]string, len(h.Isolations))
		for i, l := range h.Isolations {
			levels[i] = string(l)
		}
		state := ""
		if w.Draining {
			state = " (draining)"
		}
		if w.Held != "" {
			state += " (held back, " + w.Held + ")"
		}
		if w.Cordon != nil {
			state += " (cordoned by " + w.Cordon.By + because(w.Cordon.Reason) + ")"
		}
		if w.Quarantine != nil {
			state += " (quarantine: " + w.Quarantine.Reason + ")"
		}
		if w.Rival != nil {
			state += " (another worker of this name, started " + w.Rival.StartedAt.UTC().Format(time.RFC3339) + ", is refused)"
		}
		up := time.Since(w.StartedAt).Round(time.Second).String()
		t.Row(w.ID, w.Pool, w.Running, w.Free, show.Cores(w.CoresUsed, w.Cores), show.Share(w.MemoryUsed, w.Memory), show.Share(w.DiskUsed, w.Disk), strings.Join(levels, ","), most(o.Memory), special(o), up+state, w.Version)
	}
	if err := t.End(); err != nil {
		return err
	}
	for _, line := range lacks {
		a.printf("%s\n", show.Plain(line))
	}
	if len(all.Pools) < 2 && !slices.ContainsFunc(all.Pools, func(p api.PoolSummary) bool { return p.Exclusive }) {
		return nil // already printed
	}
	fmt.Fprintln(a.stdout)
	return c.pools(a, all)
}

// pools prints the pools, the only information without an operator's token.
func (c *workerListCmd) pools(a *app, all api.WorkerList) error {
	t := show.NewTable(a.stdout, "POOL", "WORKERS", "RUNNING", "FREE", "CORES", "TAKES")
	for _, p := range all.Pools {
		takes := "any job that it can run"
		if p.Exclusive {
			takes = "jobs that name it"
		}
		t.Row(p.Pool, p.Workers, p.Running, p.Free, show.Cores(p.CoresUsed, p.Cores), takes)
	}
	return t.End()
}

func most(memory job.Size) string {
	if memory == 0 {
		return "any"
	}
	return show.Size(int64(memory))
}

// special returns a worker's labels and the images that it is reserved for.
func special(o placement.Offer) string {
	parts := []string{}
	for _, k := range slices.Sorted(maps.Keys(o.Labels)) {
		if !placement.IsVersion(k) {
			parts = append(parts, k+"="+o.Labels[k])
		}
	}
	if len(o.Images) > 0 {
		parts = append(parts, "only "+strings.Join(o.Images, " "))
	}
	return strings.Join(parts, ",")
}
