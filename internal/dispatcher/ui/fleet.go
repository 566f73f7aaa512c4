package ui

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// workerRow is a worker on the page.
type workerRow struct {
	store.Worker
	Images     []string
	MoreImages int
	Isolations []string
	Cores      int
	Memory     job.Size
	Missing    []string
	Status     string // status and its colour class
	Class      string
	Outcomes   int64 // finished attempts
	Back       int64 // returned attempts
	Age        time.Duration
}

// host is the part of a worker's description of its machine that the page shows.
type host struct {
	Isolations []string `json:"isolations"`
	Cores      int      `json:"cores"`
	Memory     job.Size `json:"memory"`
	Missing    []string `json:"missing"`
	Images     []struct {
		Name string `json:"name"`
	} `json:"images"`
	ImagesMore int `json:"images_more"`
}

const imagesShown = 20

func workerRowOf(w store.Worker, now time.Time) workerRow {
	r := workerRow{Worker: w, Age: max(now.Sub(w.SeenAt), 0)}
	var h host
	_ = json.Unmarshal(w.Host, &h) // without a description, less is shown
	r.Isolations, r.Cores, r.Memory, r.Missing, r.MoreImages = h.Isolations, h.Cores, h.Memory, h.Missing, h.ImagesMore
	for i, image := range h.Images {
		if i == imagesShown {
			r.MoreImages += len(h.Images) - i
			break
		}
		r.Images = append(r.Images, image.Name)
	}
	if w.Tally != nil {
		for _, n := range w.Tally.Outcomes {
			r.Outcomes += n
		}
		for _, n := range w.Tally.Back {
			r.Back += n
		}
	}
	switch {
	case w.Quarantine != nil:
		r.Status, r.Class = "in quarantine", "bad"
	case w.Cordon != nil:
		r.Status, r.Class = "cordoned", "stop"
	case w.Draining:
		r.Status, r.Class = "draining", "stop"
	case w.Held != "":
		r.Status, r.Class = "under pressure", "stop"
	case w.Free == 0:
		r.Status, r.Class = "full", "run"
	default:
		r.Status, r.Class = "ready", "good"
	}
	return r
}

type workersPage struct {
	Workers []workerRow
	More    int // workers that are not shown
	Pools   []api.PoolSummary
	Queue   []store.QueueGroup
	Pauses  []store.Pause
}

const workersShown = 200

func (s *Server) workers(v *visit) error {
	var now api.Fleet
	if err := v.get("/v1/fleet", nil, &now); err != nil {
		return err
	}
	p := workersPage{Pools: now.Pools, Queue: now.Queue}
	slices.SortFunc(now.Workers, func(a, b store.Worker) int { return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.ID, b.ID)) })
	for i, w := range now.Workers {
		if i == workersShown {
			p.More = len(now.Workers) - i
			break
		}
		p.Workers = append(p.Workers, workerRowOf(w, now.At))
	}
	if v.who.Role >= identity.Operator {
		var list api.PauseList
		if err := v.get("/v1/admin/pauses", nil, &list); err != nil {
			return err
		}
		p.Pauses = list.Pauses
	}
	return v.show("workers", "Workers", true, p)
}
