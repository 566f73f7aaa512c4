package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/assay-run/assay/internal/pause"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
	"github.com/assay-run/assay/pkg/policy"
)

const (
	// transferTimeout is how long one object may take to or from the store.
	transferTimeout = 5 * time.Minute
	// artifactInMemory is the largest artifact, in bytes, that is held in
	// memory, so that its upload can be repeated.
	artifactInMemory = 4 << 20
	// uploadTries is how often an upload is tried before the attempt is ours
	// to hand back.
	uploadTries = 4
)

// artifacts takes what one attempt leaves behind to the object store. The
// runtime has opened the files and applied the limits; they are checked again
// here, because here is the last place to do it.
type artifacts struct {
	objects Objects
	metrics *metrics
	tenant  string
	lease   *lease
	limits  policy.Artifacts

	mu    sync.Mutex
	list  []job.Artifact
	bytes int64
	took  time.Duration
	first time.Time // when the first began
	last  time.Time // when the last ended
}

// collect is a runtime.Collector.
func (as *artifacts) collect(ctx context.Context, name string, size int64, r io.Reader) error {
	began := time.Now()
	as.mu.Lock()
	defer as.mu.Unlock()
	if as.first.IsZero() {
		as.first = began
	}
	defer func() { as.last = time.Now(); as.took += as.last.Sub(began) }()
	if len(as.list) >= as.limits.MaxFiles || as.bytes+size > int64(as.limits.MaxBytes) {
		return fmt.Errorf("artifact %s: %w: above the policy's max_files or max_bytes", name, job.ErrTooLarge)
	}
	key, err := object.ArtifactKey(as.tenant, as.lease.Job, as.lease.Lease, name)
	if err != nil {
		return err
	}
	head := &sniffer{r: io.LimitReader(r, size)}
	info, err := as.put(ctx, key, size, head)
	if err != nil {
		return fmt.Errorf("artifact %s: %w", name, err)
	}
	as.bytes += info.Bytes
	as.metrics.kept(ctx, info.Bytes)
	as.list = append(as.list, job.Artifact{
		Path: name, Bytes: info.Bytes, SHA256: info.SHA256, Object: key,
		MediaType: mediaType(name, head.head),
	})
	return nil
}

// put uploads, again if the store is away and the bytes are still to be had.
func (as *artifacts) put(ctx context.Context, key string, size int64, r io.Reader) (object.Info, error) {
	ctx, cancel := context.WithTimeout(ctx, transferTimeout)
	defer cancel()
	if size > artifactInMemory {
		return as.objects.Put(ctx, key, r)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return object.Info{}, err
	}
	return retryPut(ctx, func() (object.Info, error) { return as.objects.Put(ctx, key, bytes.NewReader(data)) })
}

// retryPut uploads, again while the store is away.
func retryPut(ctx context.Context, put func() (object.Info, error)) (object.Info, error) {
	for try, wait := 1, 100*time.Millisecond; ; try, wait = try+1, 4*wait {
		info, err := put()
		if err == nil || !errors.Is(err, job.ErrUnavailable) || try == uploadTries || ctx.Err() != nil {
			return info, err
		}
		pause.For(ctx, wait)
	}
}

// sniffer remembers the first bytes that pass, to tell a media type by them.
type sniffer struct {
	r    io.Reader
	head []byte
}

func (s *sniffer) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if want := 512 - len(s.head); want > 0 { // http.DetectContentType looks no further
		s.head = append(s.head, p[:min(n, want)]...)
	}
	return n, err
}

// mediaTypes are the types told by name, where sniffing cannot or would guess
// wrong. The machine's own tables are not asked: the same file has the same
// type on every worker.
var mediaTypes = map[string]string{
	".txt": "text/plain; charset=utf-8", ".log": "text/plain; charset=utf-8", ".md": "text/markdown; charset=utf-8",
	".py": "text/x-python; charset=utf-8", ".csv": "text/csv; charset=utf-8", ".tsv": "text/tab-separated-values; charset=utf-8",
	".json": "application/json", ".jsonl": "application/x-ndjson", ".ndjson": "application/x-ndjson",
	".xml": "application/xml", ".yaml": "application/yaml", ".yml": "application/yaml", ".svg": "image/svg+xml",
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".parquet": "application/vnd.apache.parquet", ".npy": "application/octet-stream", ".npz": "application/zip",
	".tar": "application/x-tar", ".pkl": "application/octet-stream", ".wasm": "application/wasm",
}

func mediaType(name string, head []byte) string {
	if t := mediaTypes[strings.ToLower(path.Ext(name))]; t != "" {
		return t
	}
	return http.DetectContentType(head)
}

// discard removes what a lease stored: its result is not the record. What cannot
// be removed now is swept as orphaned later.
func (w *Worker) discard(ctx context.Context, tenant string, l *lease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	prefix, err := object.AttemptPrefix(tenant, l.Job, l.Lease)
	if err == nil {
		_, err = w.Objects.DeletePrefix(ctx, prefix)
	}
	if err != nil {
		slog.WarnContext(ctx, "artifacts of a lost attempt remain", "job", l.Job, "lease", l.Lease, "error", err)
	}
}
