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

// What is in an environment's directory: see Config.
const (
	layerName = "layer"
	lockName  = "lock.json"
)

// asked is what a job asks for. An environment of wheels that the worker has
// checked is the same for all tenants; one with something that was built from
// source is what the source's code made of it, and its tenant's alone.
type asked struct {
	tenant, packages string
	shared, own      string // what it is called, in either case
}

func ask(base Base, tenant, packages string) asked {
	name := func(parts ...string) string {
		sum := sha256.Sum256(fmt.Appendf(nil, "%q", parts))
		return hex.EncodeToString(sum[:])
	}
	return asked{tenant, packages, name(base.Digest, packages), name(base.Digest, packages, tenant)}
}

// lockfile says what is in an environment.
type lockfile struct {
	Packages []string `json:"packages"` // name==version --hash=sha256:…
	Bytes    int64    `json:"bytes"`
	Tree     string   `json:"tree"`              // hash of the layer, as it was copied
	Tenant   string   `json:"tenant"`            // for whom it was built
	Private  bool     `json:"private,omitempty"` // and whose alone it is
	Fetched  bool     `json:"fetched,omitempty"` // by another worker: this one vouches for nothing
}

// digest names what an environment on base is: by its content, and by nothing
// that was said about it.
func (l *lockfile) digest(base Base) string {
	tenant := ""
	if l.Private {
		tenant = l.Tenant
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q", base.Digest, l.Tree, l.Packages, tenant))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// find looks for a kept environment.
func (s *Store) find(ask asked) (dir string, l lockfile, err error) {
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
	return l, os.Chtimes(filepath.Join(dir, lockName), time.Now(), time.Now()) // used lately
}

// trim forgets the environments that were used longest ago until there is room.
// It is called before anything is mounted.
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

type keptEnv struct {
	dir    string
	tenant string // for whom it was built
	bytes  int64
	used   time.Time
	whole  bool
}

// list returns the environments on disk, the one used longest ago first.
func (s *Store) list() (kept []keptEnv, total int64, err error) {
	entries, err := os.ReadDir(s.cfg.Dir)
	if err != nil {
		return nil, 0, fmt.Errorf("list environments: %w", err)
	}
	for _, d := range entries {
		if !d.IsDir() {
			continue // the lock
		}
		k := keptEnv{dir: filepath.Join(s.cfg.Dir, d.Name())}
		if info, err := os.Stat(filepath.Join(k.dir, lockName)); err == nil {
			k.used = info.ModTime()
			var l lockfile
			raw, err := os.ReadFile(filepath.Join(k.dir, lockName))
			k.whole = err == nil && json.Unmarshal(raw, &l) == nil && l.Tree != "" && // named by what it holds
				!strings.HasPrefix(d.Name(), goneMark)
			if k.whole {
				k.bytes, k.tenant = l.Bytes, l.Tenant
			}
		}
		total += k.bytes
		kept = append(kept, k)
	}
	slices.SortFunc(kept, func(a, b keptEnv) int { return a.used.Compare(b.used) })
	return kept, total, nil
}
