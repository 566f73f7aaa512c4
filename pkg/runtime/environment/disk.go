package environment

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// The content of an environment's directory: see Config.
const (
	layerName = "layer"
	lockName  = "lock.json"
)

// envRequest is a job's request. An environment of verified wheels is shared by all tenants. If a
// package was built from source, its code determined the result, and the environment is private to
// its tenant.
type envRequest struct {
	tenant, packages string
	shared, own      string // the names of a shared and a private environment
}

func ask(base Base, tenant, packages string) envRequest {
	name := func(parts ...string) string {
		sum := sha256.Sum256(fmt.Appendf(nil, "%q", parts))
		return hex.EncodeToString(sum[:])
	}
	return envRequest{tenant, packages, name(base.Digest, packages), name(base.Digest, packages, tenant)}
}

// lockfile describes the content of an environment.
type lockfile struct {
	Packages []string `json:"packages"` // name==version --hash=sha256:…
	Bytes    int64    `json:"bytes"`
	Tree     string   `json:"tree"`              // hash of the copied layer
	Tenant   string   `json:"tenant"`            // the tenant of the build
	Private  bool     `json:"private,omitempty"` // only this tenant may use it
	Fetched  bool     `json:"fetched,omitempty"` // built by another worker, so this one does not report it
}

// digest returns the digest of an environment on base, computed from its content only.
func (l *lockfile) digest(base Base) string {
	tenant := ""
	if l.Private {
		tenant = l.Tenant
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q", base.Digest, l.Tree, l.Packages, tenant))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// find looks up a kept environment.
func (s *Store) find(ask envRequest) (dir string, l lockfile, err error) {
	for _, name := range []string{ask.shared, ask.own} {
		dir = filepath.Join(s.cfg.Dir, name)
		if l, err = readLock(dir); !errors.Is(err, os.ErrNotExist) {
			return dir, l, err
		}
	}
	return dir, l, err
}

func readLock(dir string) (l lockfile, err error) {
	raw, err := os.ReadFile(filepath.Join(dir, lockName))
	if err != nil {
		return l, err
	}
	if err := json.Unmarshal(raw, &l); err != nil {
		return l, fmt.Errorf("%s: %w; remove it", filepath.Join(dir, lockName), err)
	}
	return l, os.Chtimes(filepath.Join(dir, lockName), time.Now(), time.Now()) // record the use
}

// trim removes the least recently used environments until there is room. It runs before any mount.
func (s *Store) trim(most job.Size) error {
	kept, total, err := s.list()
	if err != nil {
		return err
	}
	for i, k := range kept {
		if !k.whole || total > int64(most) || i < len(kept)-storeMost/2 {
			total -= k.bytes
			if err := os.RemoveAll(k.dir); err != nil {
				return fmt.Errorf("forget an environment: %w", err)
			}
		}
	}
	return nil
}

type storedEnv struct {
	dir    string
	tenant string // the tenant of the build
	bytes  int64
	used   time.Time
	whole  bool
}

// list returns the environments on disk, least recently used first.
func (s *Store) list() (kept []storedEnv, total int64, err error) {
	entries, err := os.ReadDir(s.cfg.Dir)
	if err != nil {
		return nil, 0, fmt.Errorf("list environments: %w", err)
	}
	for _, d := range entries {
		if !d.IsDir() {
			continue // the lock file
		}
		k := storedEnv{dir: filepath.Join(s.cfg.Dir, d.Name())}
		if info, err := os.Stat(filepath.Join(k.dir, lockName)); err == nil {
			k.used = info.ModTime()
			var l lockfile
			raw, err := os.ReadFile(filepath.Join(k.dir, lockName))
			k.whole = err == nil && json.Unmarshal(raw, &l) == nil && l.Tree != "" && // its name matches its content
				!strings.HasPrefix(d.Name(), goneMark)
			if k.whole {
				k.bytes, k.tenant = l.Bytes, l.Tenant
			}
		}
		total += k.bytes
		kept = append(kept, k)
	}
	slices.SortFunc(kept, func(a, b storedEnv) int { return a.used.Compare(b.used) })
	return kept, total, nil
}
