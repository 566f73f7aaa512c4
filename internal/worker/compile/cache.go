package compile

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/language"
	"github.com/assay-run/assay/pkg/runtime"
)

// Cache compiles programs and keeps the results in a directory. It evicts the least recently used
// first. It is safe for concurrent use.
type Cache struct {
	dir   string
	limit int64 // bytes

	mu      sync.Mutex
	entries map[string]*entry
	order   []*entry // least recently used first
	total   int64
	flights map[string]*flight
	digests map[string]imageDigests // of images
}

// imageDigests is the digest of an image at a compilation, and the digest that the runtime listed at that
// time.
type imageDigests struct{ listed, digest string }

// entry is the result of compiling one program. It is immutable.
type entry struct {
	key      string
	compiled job.Compiled
	why      string   // why the program does not compile; empty: it does
	feedback []string // the compiler's errors
	digest   string   // of the image
	dir      string   // of files
	files    []file   // sorted by path
	bytes    int64

	refs int  // number of Outputs that use files; guarded by Cache.mu
	gone bool // evicted: the last user removes it
}

// file is an output file of a compilation. On disk its name is its number, because the program
// chooses the other name.
type file struct {
	path string // relative to language.Out
	size int64
}

// flight is a compilation in progress.
type flight struct {
	done    chan struct{}
	waiting int    // number of waiting callers besides the leader; guarded by Cache.mu
	entry   *entry // the result, shared by all waiting callers; nil: none
}

// New returns a cache in dir of up to limit bytes. An empty dir means a new temporary directory. It
// deletes existing content, which another process may have left incomplete.
func New(dir string, limit int64) (*Cache, error) {
	var err error
	if dir == "" {
		dir, err = os.MkdirTemp("", "assay-compiled-")
	} else if err = os.RemoveAll(dir); err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("make the directory of compiled programs: %w", err)
	}
	return &Cache{dir: dir, limit: limit, entries: map[string]*entry{}, flights: map[string]*flight{}, digests: map[string]imageDigests{}}, nil
}

// Close removes the directory.
func (c *Cache) Close() { _ = os.RemoveAll(c.dir) }

// Output is the result of a compilation.
type Output struct {
	Compiled job.Compiled
	Why      string         // why it does not compile, in a sentence; empty: it does
	Feedback []string       // the compiler's errors, if it does not compile
	Digest   string         // of the image
	Files    []runtime.File // the output files; valid until Release

	release func()
}

// Release ends the use of the files.
func (o *Output) Release() { o.release() }

// Make runs a request in its own sandbox. The error is our failure, or the end of the caller's
// context.
type Make func(ctx context.Context, r Request) (*runtime.Report, error)

// Get returns the compiled form of p: from the cache, from a compilation in progress, or from a new
// one with run. The error is run's, a *Missing, runtime.ErrCanceled or the end of ctx. After an
// error, another caller that waits for the same program tries itself.
func (c *Cache) Get(ctx context.Context, p *Program, run Make) (*Output, error) {
	for {
		c.mu.Lock()
		digest := c.digestOf(p)
		c.mu.Unlock()
		key := p.key(digest)
		out, f, lead := c.enter(p, digest, key)
		switch {
		case out != nil:
			return out, nil
		case f == nil:
			continue // the digest has changed in the meantime
		case lead:
			return c.lead(ctx, key, f, p, run)
		}
		if out, err := c.wait(ctx, f); out != nil || err != nil {
			return out, err
		}
	}
}

// wait returns the result of another caller's flight, or nil if there is none.
func (c *Cache) wait(ctx context.Context, f *flight) (*Output, error) {
	select {
	case <-f.done:
		if f.entry != nil {
			return c.output(f.entry, true), nil
		}
		return nil, nil
	case <-ctx.Done():
	}
	c.mu.Lock()
	f.waiting--
	e := f.entry
	c.mu.Unlock()
	if e != nil { // this caller is already counted
		c.leave(e)
	}
	return nil, context.Cause(ctx)
}

// enter returns a cached output, a flight to wait for, or a new flight to lead. It returns none of
// them if p's image no longer has this digest.
func (c *Cache) enter(p *Program, digest, key string) (*Output, *flight, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.digestOf(p) != digest {
		return nil, nil, false
	}
	if e := c.entries[key]; e != nil {
		c.touch(e)
		e.refs++
		return c.output(e, true), nil, false
	}
	if f := c.flights[key]; f != nil {
		f.waiting++
		return nil, f, false
	}
	f := &flight{done: make(chan struct{})}
	c.flights[key] = f
	return nil, f, true
}

// lead compiles p for all callers that wait for key.
func (c *Cache) lead(ctx context.Context, key string, f *flight, p *Program, run Make) (*Output, error) {
	defer func() { // also if run panics
		c.mu.Lock()
		if c.flights[key] == f {
			delete(c.flights, key)
		}
		c.mu.Unlock()
		close(f.done)
	}()
	e, lasting, err := c.compile(ctx, p, run)
	if err != nil {
		return nil, err
	}
	e.key = p.key(e.digest)
	c.mu.Lock()
	c.remember(p, e.digest)
	delete(c.flights, key) // closed for new callers
	e.refs, f.entry = 1+f.waiting, e
	var dirs []string
	if lasting {
		dirs = c.keep(e)
	}
	c.mu.Unlock()
	for _, dir := range dirs {
		_ = os.RemoveAll(dir)
	}
	return c.output(e, false), nil
}

// output returns an entry for one user, which is already counted if there are files.
func (c *Cache) output(e *entry, cached bool) *Output {
	o := &Output{Compiled: e.compiled, Why: e.why, Feedback: e.feedback, Digest: e.digest, release: sync.OnceFunc(func() { c.leave(e) })}
	o.Compiled.Cached = cached
	for i, f := range e.files {
		name := filepath.Join(e.dir, strconv.Itoa(i))
		o.Files = append(o.Files, runtime.File{
			Path: path.Join(language.Out, f.path), Compiled: true,
			Open: func(context.Context) (io.ReadCloser, error) { return os.Open(name) },
		})
	}
	return o
}

// leave ends the use of an entry.
func (c *Cache) leave(e *entry) {
	c.mu.Lock()
	e.refs--
	last := e.gone && e.refs <= 0
	c.mu.Unlock()
	if last && e.dir != "" {
		_ = os.RemoveAll(e.dir)
	}
}

// keep inserts an entry and evicts others. It returns the directories to remove. The caller holds
// c.mu.
func (c *Cache) keep(e *entry) []string {
	dirs := c.drop(c.entries[e.key])
	c.entries[e.key] = e
	c.order = append(c.order, e)
	c.total += e.bytes
	for c.total > c.limit && len(c.order) > 1 { // never the new one
		dirs = append(dirs, c.drop(c.order[0])...)
	}
	return dirs
}

// drop evicts an entry. It returns the directory to remove, unless it is in use. The caller holds
// c.mu.
func (c *Cache) drop(e *entry) []string {
	if e == nil {
		return nil
	}
	for i := range c.order {
		if c.order[i] == e {
			c.order = append(c.order[:i], c.order[i+1:]...)
			break
		}
	}
	delete(c.entries, e.key)
	c.total -= e.bytes
	e.gone = true
	if e.refs > 0 || e.dir == "" {
		return nil
	}
	return []string{e.dir}
}

// touch marks an entry as most recently used. The caller holds c.mu.
func (c *Cache) touch(e *entry) {
	for i := range c.order {
		if c.order[i] == e {
			c.order = append(append(c.order[:i], c.order[i+1:]...), e)
			return
		}
	}
}

// maxDigests limits the number of recorded images.
const maxDigests = 1000

// remember records the digest of an image. The caller holds c.mu.
func (c *Cache) remember(p *Program, digest string) {
	if len(c.digests) >= maxDigests {
		clear(c.digests)
	}
	c.digests[p.Image] = imageDigests{p.Digest, digest}
}

// digestOf returns the digest of a program's image. The runtime's list may be some seconds old, or
// lack a new image. So while it lists the same digest as at an earlier compilation, the image still
// has the digest seen then. Nothing is cached under an empty digest. The caller holds c.mu.
func (c *Cache) digestOf(p *Program) string {
	if s, ok := c.digests[p.Image]; ok && s.listed == p.Digest {
		return s.digest
	}
	return p.Digest
}
