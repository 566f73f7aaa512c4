// Package alerts evaluates the alerts of deploy/observe/rules.yml with Prometheus' engine.
package alerts

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oasdiff/yaml"

	"github.com/assay-run/assay/test/prom"
)

// rule is an alert of the file.
type rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

func rules(t *testing.T) []rule {
	t.Helper()
	raw, err := os.ReadFile("../../deploy/observe/rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []rule `json:"rules"`
		} `json:"groups"`
	}
	if _, err := yaml.Unmarshal(raw, &file, yaml.DecodeOpts{}); err != nil || len(file.Groups) != 1 {
		t.Fatal(err)
	}
	return file.Groups[0].Rules
}

// step is the time between two values of the series below; each has 41, so they cover 40 minutes.
const step = time.Minute

// TestAlerts checks that each alert fires on the series of its fault, and not on the series of a
// working fleet. Both series are as processes export them; two dispatchers export the same gauges.
func TestAlerts(t *testing.T) {
	t.Parallel()
	all := rules(t)
	known := map[string]bool{}
	for _, r := range all {
		known[r.Alert] = true
		c, ok := cases[r.Alert]
		if !ok {
			t.Errorf("%s has no series here", r.Alert)
			continue
		}
		t.Run(r.Alert, func(t *testing.T) {
			t.Parallel()
			if !fires(t, r, c.fault) {
				t.Errorf("%s does not fire on\n%s", r.Expr, c.fault)
			}
			if fires(t, r, c.fine) {
				t.Errorf("%s fires on\n%s", r.Expr, c.fine)
			}
		})
	}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		if !known[name] {
			t.Errorf("there is no alert %s", name)
		}
	}
}

// TestRunbooks checks that each alert has a paragraph in docs/operate/runbooks.md under its name, and a
// summary.
func TestRunbooks(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../docs/operate/runbooks.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rules(t) {
		_, text, found := strings.Cut(string(raw), "\n### "+r.Alert+"\n")
		if text, _, _ = strings.Cut(text, "\n#"); !found || len(strings.TrimSpace(text)) < 80 {
			t.Errorf("docs/operate/runbooks.md has no instructions for %s", r.Alert)
		}
		if r.Annotations["summary"] == "" || r.Labels["severity"] != "warning" && r.Labels["severity"] != "critical" {
			t.Errorf("%s has the labels %v and the annotations %v", r.Alert, r.Labels, r.Annotations)
		}
	}
}

// fires evaluates a rule as Prometheus does, once a step. It fires when the expression has had a
// result for long enough.
func fires(t *testing.T, r rule, series string) bool {
	t.Helper()
	db := prom.New(step)
	db.Load(t, series, nil)
	long, err := time.ParseDuration(r.For)
	if err != nil {
		t.Fatal(err)
	}
	since := time.Duration(-1)
	for at := time.Duration(0); at <= 40*time.Minute; at += step {
		switch found := db.Query(t, r.Expr, at); {
		case len(found) == 0:
			since = -1
		case since < 0:
			since = at
		}
		if since >= 0 && at-since >= long {
			return true
		}
	}
	return false
}

// situation is the series of a fault, and similar series without one.
type situation struct{ fault, fine string }

var cases = map[string]situation{
	"AssayNoDispatcher": {
		fault: `up{job="dispatcher",instance="a"} 0x40`,
		fine:  "up{job=\"dispatcher\",instance=\"a\"} 0x40\nup{job=\"dispatcher\",instance=\"b\"} 1x40",
	},
	"AssayNoWorkers": {
		fault: "assay_backlog_slots{pool=\"gpu\"} 5x40\nassay_workers{pool=\"gpu\"} 0x40\nassay_slots{pool=\"gpu\",use=\"busy\"} 3x40\nassay_slots{pool=\"gpu\",use=\"free\"} 0x40",
		fine:  "assay_backlog_slots{pool=\"gpu\"} 5x40\nassay_workers{pool=\"gpu\"} 1x40\nassay_backlog_slots{pool=\"idle\"} 0x40\nassay_workers{pool=\"idle\"} 0x40",
	},
	"AssayJobsWait":           {fault: `assay_oldest_queued_seconds{pool="*"} 0+60x60`, fine: `assay_oldest_queued_seconds{pool="*"} 1700x40`},
	"AssayJobsLost":           {fault: `assay_jobs_finished_total{outcome="lost"} 0x20 1x20`, fine: "assay_jobs_finished_total{outcome=\"lost\"} 3x40\nassay_jobs_finished_total{outcome=\"failed\"} 0+9x40"},
	"AssayRowsSetAside":       {fault: "assay_set_aside{instance=\"a\"} 0x40\nassay_set_aside{instance=\"b\"} 2x40", fine: `assay_set_aside{instance="a"} 0x40`},
	"AssayLeasesLost":         {fault: `assay_leases_lost_total 0+60x40`, fine: `assay_leases_lost_total 0x10 3x30`},
	"AssayWorkersQuarantined": {fault: `assay_workers_quarantined{pool="p",state="quarantined"} 1x40`, fine: `assay_workers_quarantined{pool="p",state="quarantined"} 1x10 0x30`},
	"AssayWorkerHeld":         {fault: `assay_worker_held{instance="w"} 1x40`, fine: `assay_worker_held{instance="w"} 1x10 0x30`},
	"AssayWorkerUnheard":      {fault: `assay_worker_heartbeat_age_seconds{instance="w"} 45x40`, fine: `assay_worker_heartbeat_age_seconds{instance="w"} 6x40`},
	"AssayHandedBack":         {fault: `assay_worker_handed_back_total{instance="w",reason="infra"} 0+60x40`, fine: `assay_worker_handed_back_total{instance="w",reason="drained"} 0+60x40`},
	"AssayDatabaseWaits":      {fault: `assay_database_acquire_wait_seconds_total 0+120x40`, fine: `assay_database_acquire_wait_seconds_total 0+6x40`},
	"AssayObjectStoreFails":   {fault: `assay_object_operations_total{op="put",result="error"} 0+60x40`, fine: "assay_object_operations_total{op=\"put\",result=\"error\"} 0x40\nassay_object_operations_total{op=\"put\",result=\"ok\"} 0+600x40"},
	"AssayImagesFail":         {fault: `assay_image_pulls_total{result="error"} 0x20 5x20`, fine: `assay_image_pulls_total{result="error"} 0x20 2x20`},
	"AssayNoLeader":           {fault: "assay_leader_term{instance=\"a\"} 0x40\nassay_leader_term{instance=\"b\"} 0x40", fine: "assay_leader_term{instance=\"a\"} 0x40\nassay_leader_term{instance=\"b\"} 7x40"},
	"AssayLooksFail":          {fault: "assay_look_failures_total{instance=\"a\"} 0x20 1+4x19\nassay_look_failures_total{instance=\"b\"} 0x40", fine: "assay_look_failures_total{instance=\"a\"} 0x20 1x20"},
	"AssayLooksSlow": {
		fault: "assay_look_milliseconds_bucket{result=\"failed\",le=\"1000\"} 0x40\nassay_look_milliseconds_bucket{result=\"failed\",le=\"30000\"} 0+4x40\nassay_look_milliseconds_bucket{result=\"failed\",le=\"+Inf\"} 0+4x40",
		fine:  "assay_look_milliseconds_bucket{result=\"done\",le=\"1000\"} 0+99x40\nassay_look_milliseconds_bucket{result=\"done\",le=\"30000\"} 0+100x40\nassay_look_milliseconds_bucket{result=\"done\",le=\"+Inf\"} 0+100x40",
	},
	"AssayTransactionOld": {
		fault: `assay_database_oldest_transaction_seconds 0+60x40`,
		fine:  "assay_database_oldest_transaction_seconds 0+60x9 0+60x9 0+60x9\nassay_database_oldest_xmin_transactions 0+1000x40",
	},
	"AssayUpkeepStale": { // prom.Start is 1800000000
		fault: `assay_upkeep_success_timestamp_seconds{task="forget"} 1799970000x40`,
		fine:  "assay_upkeep_success_timestamp_seconds{task=\"forget\",instance=\"a\"} 1799970000x40\nassay_upkeep_success_timestamp_seconds{task=\"forget\",instance=\"b\"} 1799999000x40",
	},
	"AssayUnclaimed":     {fault: `assay_oldest_dispatched_seconds 0+60x40`, fine: `assay_oldest_dispatched_seconds 90x40`},
	"AssayCallbacksWait": {fault: `assay_callbacks_open 10000x40`, fine: `assay_callbacks_open 10000x20 0x20`},
	"AssayReaperSlow": {
		fault: "assay_reap_milliseconds_bucket{step=\"round\",le=\"10000\"} 0x40\nassay_reap_milliseconds_bucket{step=\"round\",le=\"60000\"} 0+2x40\nassay_reap_milliseconds_bucket{step=\"round\",le=\"+Inf\"} 0+2x40",
		fine:  "assay_reap_milliseconds_bucket{step=\"round\",le=\"10000\"} 0+30x40\nassay_reap_milliseconds_bucket{step=\"round\",le=\"60000\"} 0+30x40\nassay_reap_milliseconds_bucket{step=\"round\",le=\"+Inf\"} 0+30x40",
	},
	"AssayUndatedJobs": {fault: `assay_database_undated_jobs 3x40`, fine: `assay_database_undated_jobs 3x10 0x30`},
	"AssayBulkWaits":   {fault: `assay_bulk_waiting{kind="finish"} 900x40`, fine: `assay_bulk_waiting{kind="finish"} 900 20x40`},
	"AssayResultsWait": {
		fault: "assay_results_waiting{pool=\"default\",instance=\"a\"} 21x40\nassay_results_waiting{pool=\"default\",instance=\"b\"} 21x40\nassay_slots{pool=\"default\",use=\"busy\",instance=\"a\"} 21x40",
		fine:  "assay_results_waiting{pool=\"default\"} 40x40\nassay_slots{pool=\"default\",use=\"busy\"} 500x40",
	},
	"AssayLocksFull": {
		fault: "assay_database_locks{use=\"used\"} 5200x40\nassay_database_locks{use=\"max\"} 6400x40",
		fine:  "assay_database_locks{use=\"used\"} 540x40\nassay_database_locks{use=\"max\"} 6400x40",
	},
}
