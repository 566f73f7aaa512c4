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

// Cache has programs compiled and keeps what comes of it in a directory, least recently used out first. It is safe
// for concurrent use.
type Cache struct {
	dir   string
	limit int64 // bytes

	mu      sync.Mutex
	entries map[string]*entry
	order   []*entry // least recently used first
	total   int64
	flights map[string]*flight
	digests map[string]seen // of images
}

// seen is the digest that an image had when something was compiled in it, and what the runtime took it for then.
type seen struct{ listed, digest string }

// entry is what came of compiling one program. It does not change.
type entry struct {
	key      string
	compiled job.Compiled
	why      string   // the program does not compile; empty: it does
	feedback []string // the errors of the compiler
	digest   string   // of the image
	dir      string   // of files
	files    []file   // in the order of their paths
	bytes    int64

	refs int  // Outputs that use files; guarded by Cache.mu
	gone bool // out of the cache: the last user removes it
}

// file is one that a program was compiled to. On disk its name is its number: the other is the program's choice.
type file struct {
	path string // beneath language.Out
	size int64
}

// flight is a compilation that is under way.
type flight struct {
	done    chan struct{}
	waiting int    // for it, besides who leads it; guarded by Cache.mu
	entry   *entry // what came of it, which each of those who wait uses once it is done; nil: nothing
}

// New returns a cache in dir, up to limit bytes; an empty dir is one of its own among temporary files. It begins with an
// empty directory: what another process left may be half a file.
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
	return &Cache{dir: dir, limit: limit, entries: map[string]*entry{}, flights: map[string]*flight{}, digests: map[string]seen{}}, nil
}

// Close removes all that is kept.
func (c *Cache) Close() { _ = os.RemoveAll(c.dir) }

// Output is what came of a program.
type Output struct {
	Compiled job.Compiled
	Why      string         // it does not compile, in a sentence; empty: it does
	Feedback []string       // the errors of the compiler, if it does not compile
	Digest   string         // of the image that it was compiled in
	Files    []runtime.File // that it was compiled to; good until Release

	release func()
}

// Release says that the files are not needed any more.
func (o *Output) Release() { o.release() }

// Make runs a request in a sandbox of its own. The error is a failure of ours, or the end of the caller's context.
type Make func(ctx context.Context, r Request) (*runtime.Report, error)

// Get returns what p is compiled to: what is kept, or what others wait for already, or what run makes of it. The error
// is run's, a *Missing, runtime.ErrCanceled or the end of ctx; one of those who wait for the same program then tries by itself.
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
			continue // the digest has become another meanwhile
		case lead:
			return c.lead(ctx, key, f, p, run)
		}
		if out, err := c.wait(ctx, f); out != nil || err != nil {
			return out, err
		}
	}
}

// wait returns what comes of a flight that another leads; nil if nothing does.
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
	if e != nil { // this one is counted already
		c.leave(e)
	}
	return nil, context.Cause(ctx)
}

// enter returns what is kept under key, or the flight to wait for, or a new one to lead; nothing if p's image is not of
// that digest any more.
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

// lead compiles p for all who wait for key.
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
	delete(c.flights, key) // nobody joins any more
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

// output is an entry for one user, who is counted already if it has files.
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

// keep takes an entry in and lets others go for it: it returns the directories to remove. c.mu is held.
func (c *Cache) keep(e *entry) []string {
	dirs := c.drop(c.entries[e.key])
	c.entries[e.key] = e
	c.order = append(c.order, e)
	c.total += e.bytes
	for c.total > c.limit && len(c.order) > 1 { // never the one that was just made
		dirs = append(dirs, c.drop(c.order[0])...)
	}
	return dirs
}

// drop takes an entry out, and returns the directory to remove, unless somebody uses it still. c.mu is held.
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

// touch makes an entry the one that was used last. c.mu is held.
func (c *Cache) touch(e *entry) {
	for i := range c.order {
		if c.order[i] == e {
			c.order = append(append(c.order[:i], c.order[i+1:]...), e)
			return
		}
	}
}

// maxDigests bounds what is remembered of images.
const maxDigests = 1000

// remember notes the digest of an image. c.mu is held.
func (c *Cache) remember(p *Program, digest string) {
	if len(c.digests) >= maxDigests {
		clear(c.digests)
	}
	c.digests[p.Image] = seen{p.Digest, digest}
}

// digestOf is the digest of a program's image. What the runtime lists is some seconds old, or nothing for an image that
// was not asked for yet: as long as it lists the same as when something was compiled, the image is what it was seen to be
// then. Nothing is kept under an empty digest. c.mu is held.
func (c *Cache) digestOf(p *Program) string {
	if s, ok := c.digests[p.Image]; ok && s.listed == p.Digest {
		return s.digest
	}
	return p.Digest
}
