package chaos

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/assay-run/assay/pkg/job"
)

// verdict sums up a history.
type verdict struct {
	jobs, results, attempts   int
	lost, doubled, leaked     int
	charged, again            int // attempts charged for infrastructure failures; jobs that needed more than one attempt
	unfinished, unreconciled  int
	foreignArtifacts, missing int
	objects                   int
}

// rested waits until no job is under way.
func (f *fleet) rested() {
	f.t.Helper()
	eventually(f.t, "every job is terminal", func() bool {
		return f.count("SELECT count(*) FROM jobs WHERE state NOT IN ('finished', 'canceled')") == 0
	})
}

// check waits for rest and fails the test unless the guarantees held for all accepted jobs.
func (f *fleet) check() verdict {
	f.t.Helper()
	v := f.recorded()
	eventually(f.t, "the queue is empty", func() bool { return f.queued() == 0 })
	return v
}

// recorded is check, except for messages that may still be in the queue.
func (f *fleet) recorded() verdict {
	f.t.Helper()
	f.rested()
	v := f.judge()
	for what, n := range map[string]int{
		"jobs without a result": v.lost, "jobs with two results": v.doubled, "objects of attempts that are no record": v.leaked,
		"attempts charged to the user for failures of ours": v.charged, "jobs that are not terminal": v.unfinished,
		"batches whose counts do not add up": v.unreconciled, "artifacts of another attempt": v.foreignArtifacts, "artifacts that are not there": v.missing,
	} {
		if n != 0 {
			f.t.Errorf("%d %s", n, what)
		}
	}
	return v
}

func (f *fleet) judge() (v verdict) {
	f.t.Helper()
	v.jobs = f.count("SELECT count(*) FROM jobs")
	v.results = f.count("SELECT count(*) FROM results")
	v.attempts = f.count("SELECT count(*) FROM attempts")
	v.unfinished = f.count("SELECT count(*) FROM jobs WHERE state NOT IN ('finished', 'canceled')")
	v.lost = f.count("SELECT count(*) FROM jobs j WHERE NOT EXISTS (SELECT FROM results r WHERE r.id = j.id)")
	v.doubled = f.count("SELECT count(*) FROM (SELECT id FROM results GROUP BY id HAVING count(*) > 1) d")
	v.again = f.count("SELECT count(*) FROM jobs WHERE earlier > 0")
	// A job with one attempt was tried once, whatever the number of infrastructure failures.
	v.charged = f.count("SELECT count(*) FROM jobs WHERE tries > max_attempts")
	v.unreconciled = f.count(`SELECT count(*) FROM batch_counts c WHERE c.recorded <> c.total
		OR c.recorded <> (SELECT count(*) FROM results r WHERE r.batch_id = c.batch_id)
		OR c.recorded <> (SELECT count(*) FROM jobs j WHERE j.batch_id = c.batch_id)`)
	f.judgeArtifacts(&v)
	return v
}

// objectOf finds the artifacts and the stored outputs in a record.
var objectOf = regexp.MustCompile(`"object": *"([^"]+)"`)

// judgeArtifacts compares the records with the content of the object store.
func (f *fleet) judgeArtifacts(v *verdict) {
	f.t.Helper()
	rows, err := f.db.Query(context.WithoutCancel(f.t.Context()), `SELECT id::text, lease, body FROM results WHERE body LIKE '%"object"%'`)
	if err != nil {
		f.t.Fatal(err)
	}
	defer rows.Close()
	named := map[string]bool{}
	for rows.Next() {
		var id, body string
		var lease job.Lease
		if err := rows.Scan(&id, &lease, &body); err != nil {
			f.t.Fatal(err)
		}
		for _, m := range objectOf.FindAllStringSubmatch(body, -1) {
			named[m[1]] = true
			if !strings.Contains(m[1], "/"+id+"/"+fmt.Sprint(lease)+"/") {
				f.t.Logf("job %s, lease %v: %s", id, lease, m[1])
				v.foreignArtifacts++
			}
		}
	}
	stored := f.stored()
	v.objects = len(stored)
	for name := range named {
		if !stored[name] {
			v.missing++
		}
	}
	for name := range stored {
		if !named[name] {
			v.leaked++
		}
	}
}

// stored lists the artifacts in the object store.
func (f *fleet) stored() map[string]bool {
	out := map[string]bool{}
	_ = filepath.WalkDir(f.objects, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, ".attrs") {
			return nil
		}
		rel, _ := filepath.Rel(f.objects, path)
		out[rel] = true
		return nil
	})
	return out
}
