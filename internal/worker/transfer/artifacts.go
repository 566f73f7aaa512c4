package transfer

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
	"github.com/assay-run/assay/pkg/policy"
)

// artifactInMemory is the largest artifact, in bytes, that is held in memory, so that its upload
// can be retried.
const artifactInMemory = 4 << 20

// Artifacts uploads the artifacts of one attempt to the object store. The runtime has opened the
// files and applied the limits. Artifacts checks them again, as the last place that can.
type Artifacts struct {
	store  *Store
	owner  Owner
	limits policy.Artifacts

	mu     sync.Mutex
	stored Stored
}

// Stored describes the stored artifacts of an attempt.
type Stored struct {
	Artifacts []job.Artifact
	Bytes     int64
	Took      time.Duration
	First     time.Time // start of the first upload
	Last      time.Time // end of the last upload
}

// Artifacts returns the uploader of an attempt's artifacts.
func (s *Store) Artifacts(o Owner, limits policy.Artifacts) *Artifacts {
	return &Artifacts{store: s, owner: o, limits: limits}
}

// Stored returns the artifacts stored so far.
func (as *Artifacts) Stored() Stored {
	as.mu.Lock()
	defer as.mu.Unlock()
	return as.stored
}

// Collect implements runtime.Collector.
func (as *Artifacts) Collect(ctx context.Context, name string, size int64, r io.Reader) error {
	began := time.Now()
	as.mu.Lock()
	defer as.mu.Unlock()
	st := &as.stored
	if st.First.IsZero() {
		st.First = began
	}
	defer func() { st.Last = time.Now(); st.Took += st.Last.Sub(began) }()
	if len(st.Artifacts) >= as.limits.MaxFiles || st.Bytes+size > int64(as.limits.MaxBytes) {
		return fmt.Errorf("artifact %s: %w: above the policy's max_files or max_bytes", name, job.ErrTooLarge)
	}
	key, err := object.ArtifactKey(as.owner.Tenant, as.owner.Job, as.owner.Lease, name)
	if err != nil {
		return err
	}
	head := &sniffer{r: io.LimitReader(r, size)}
	info, err := as.put(ctx, key, size, head)
	if err != nil {
		return fmt.Errorf("artifact %s: %w", name, err)
	}
	st.Bytes += info.Bytes
	if as.store.Kept != nil {
		as.store.Kept(ctx, info.Bytes)
	}
	st.Artifacts = append(st.Artifacts, job.Artifact{
		Path: name, Bytes: info.Bytes, SHA256: info.SHA256, Object: key,
		MediaType: mediaType(name, head.head),
	})
	return nil
}

// put uploads an artifact. It retries while the store is unavailable, if the artifact is in memory.
func (as *Artifacts) put(ctx context.Context, key string, size int64, r io.Reader) (object.Info, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if size > artifactInMemory {
		return as.store.Objects.Put(ctx, key, r)
	}
	if m := as.store.Memory; m != nil && size > 0 {
		leave, err := m.Enter(ctx, as.owner.Tenant, int(size))
		if err != nil {
			return object.Info{}, err
		}
		defer leave()
	}
	data := make([]byte, size)
	n, err := io.ReadFull(r, data)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return object.Info{}, err
	}
	data = data[:n]
	return retryPut(ctx, func() (object.Info, error) { return as.store.Objects.Put(ctx, key, bytes.NewReader(data)) })
}

// sniffer keeps the first bytes that pass, to detect a media type.
type sniffer struct {
	r    io.Reader
	head []byte
}

func (s *sniffer) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if want := 512 - len(s.head); want > 0 { // http.DetectContentType reads no further
		s.head = append(s.head, p[:min(n, want)]...)
	}
	return n, err
}

// mediaTypes are the types by extension, for files where sniffing fails or guesses wrong. The
// machine's own tables are not used: the same file has the same type on every worker.
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
