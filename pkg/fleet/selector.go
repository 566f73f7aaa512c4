package fleet

import (
	"encoding/json"
	"slices"
)

// WorkerSelector selects the workers that match all of its fields. The zero value selects all.
type WorkerSelector struct {
	Names   []string          `json:"names,omitempty"` // empty: any
	Pool    string            `json:"pool,omitempty"`
	Version string            `json:"version,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"` // labels that the worker offers
	State   WorkerState       `json:"state,omitempty"`
}

// WorkerState is whether a worker takes jobs, or the reason why not.
type WorkerState string

// The states.
const (
	WorkerWorking     WorkerState = "working"
	WorkerHeld        WorkerState = "held" // by pressure on its host, or by a canary job that fails
	WorkerDraining    WorkerState = "draining"
	WorkerCordoned    WorkerState = "cordoned"
	WorkerQuarantined WorkerState = "quarantined"
)

// WorkerStates has all states.
var WorkerStates = []WorkerState{WorkerWorking, WorkerHeld, WorkerDraining, WorkerCordoned, WorkerQuarantined}

// State returns the state of a worker. If several apply, it returns the longest-lasting one.
func (w *Worker) State() WorkerState {
	if s, stopped := w.Stopped(); stopped {
		return WorkerState(s.State)
	}
	return WorkerWorking
}

// Empty reports whether the selector selects all workers.
func (s WorkerSelector) Empty() bool {
	return len(s.Names) == 0 && s.Pool == "" && s.Version == "" && len(s.Labels) == 0 && s.State == ""
}

// Chooses reports whether the selector matches a worker.
func (s WorkerSelector) Chooses(w *Worker) bool {
	switch {
	case len(s.Names) > 0 && !slices.Contains(s.Names, w.ID),
		s.Pool != "" && w.Pool != s.Pool,
		s.Version != "" && w.Version != s.Version,
		s.State != "" && w.State() != s.State:
		return false
	}
	if len(s.Labels) == 0 {
		return true
	}
	var offer struct {
		Labels map[string]string `json:"labels"`
	}
	_ = json.Unmarshal(w.Offer, &offer) // a worker of another version offers no labels
	for k, v := range s.Labels {
		if has, ok := offer.Labels[k]; !ok || has != v {
			return false
		}
	}
	return true
}
