package httpapi

import (
	"time"

	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
	"github.com/assay-run/assay/pkg/job"
)

// Limits are the limits of one dispatcher. Zero values select the defaults.
type Limits struct {
	Spool    job.Size // all bodies on disk; default 4Gi
	Batch    job.Size // largest streamed batch, both as sent and decompressed; default Spool
	Memory   job.Size // all bodies in memory; default 256Mi
	Requests int      // at once, including waiting and streaming ones; default 8192
	Queued   int64    // unfinished jobs of a tenant without a ceiling of its own; default 10 million
	Batches  int64    // unfinished batches of a tenant without a ceiling of its own; default 100,000
	Reads    int      // large reads at once: pages of results, lists, bulk cancels; default 6

	Patience time.Duration // with a stalled body; default 15s
}

func (l Limits) withDefaults() Limits {
	size := func(s *job.Size, def job.Size) {
		if *s == 0 {
			*s = def
		}
	}
	size(&l.Spool, 4*job.GiB)
	size(&l.Batch, l.Spool)
	size(&l.Memory, 256*job.MiB)
	if l.Requests == 0 {
		l.Requests = 8192
	}
	if l.Patience == 0 {
		l.Patience = 15 * time.Second
	}
	if l.Reads == 0 {
		l.Reads = 6
	}
	return l
}

// Check rejects limits that are too small for requests that the API supports.
func (l Limits) Check() error {
	l = l.withDefaults()
	switch {
	case l.Batch < 0 || l.Queued < 0 || l.Batches < 0:
		return job.Invalid("batch, queued, batches", "must not be negative")
	case l.Reads < 0:
		return job.Invalid("reads", "%d is negative", l.Reads)
	case l.Spool < 2*maxBlob:
		return job.Invalid("spool", "%s is less than twice the largest blob, %s", l.Spool, job.Size(maxBlob))
	case l.Memory < 2*web.MaxBatchBody:
		return job.Invalid("memory", "%s is less than twice the largest body, %s", l.Memory, job.Size(web.MaxBatchBody))
	case l.Patience < 0:
		return job.Invalid("body-patience", "%v is negative", l.Patience)
	case l.Requests < 2:
		return job.Invalid("requests", "%d is less than 2", l.Requests)
	}
	return nil
}
