package environment

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime"
)

const site = "usr/local/lib/python3.11/dist-packages/"

// crate is an archive that is being made.
type crate struct {
	t *testing.T
	*tar.Writer
	z   *zstd.Encoder
	out bytes.Buffer
}

// newCrate begins an archive with its description.
func newCrate(t *testing.T, said any) *crate {
	t.Helper()
	c := &crate{t: t}
	var err error
	if c.z, err = zstd.NewWriter(&c.out, zstd.WithWindowSize(archiveBack)); err != nil {
		t.Fatal(err)
	}
	c.Writer = tar.NewWriter(c.z)
	raw, err := json.Marshal(said)
	if err != nil {
		t.Fatal(err)
	}
	if said != nil {
		c.add(tar.Header{Name: "lock.json", Mode: 0o644}, string(raw))
	}
	return c
}

// add adds an entry, a plain file unless the header has another type.
func (c *crate) add(h tar.Header, content string) *crate {
	c.t.Helper()
	if h.Typeflag == 0 {
		h.Typeflag = tar.TypeReg
	}
	if content != "" {
		h.Size = int64(len(content))
	}
	if err := c.WriteHeader(&h); err != nil {
		c.t.Fatal(err)
	}
	if _, err := io.WriteString(c, content); err != nil {
		c.t.Fatal(err)
	}
	return c
}

// dirs puts in the directories of a path below the layer, this one included.
func (c *crate) dirs(p string) *crate {
	at := "layer/"
	for part := range strings.SplitSeq(strings.Trim(p, "/"), "/") {
		at += part + "/"
		c.add(tar.Header{Typeflag: tar.TypeDir, Name: at, Mode: 0o755}, "")
	}
	return c
}

// file puts in a file, whose directory is there.
func (c *crate) file(p, content string) *crate {
	return c.add(tar.Header{Name: "layer/" + p, Mode: 0o644}, content)
}

func (c *crate) done() []byte {
	_ = c.Close() // an archive that ends early is one of the cases
	if err := c.z.Close(); err != nil {
		c.t.Fatal(err)
	}
	return c.out.Bytes()
}

// strangers returns another worker's environment of this digest for every list of packages.
type strangers struct {
	digest string
	body   func() io.Reader
	err    error
}

func (s *strangers) Find(context.Context, string) (string, error) { return s.digest, nil }

func (s *strangers) Open(context.Context, string, string) (io.ReadCloser, error) {
	if s.err != nil {
		return nil, s.err
	}
	return io.NopCloser(s.body()), nil
}

func (s *strangers) Offer(context.Context, string, string, bool, func(io.Writer) error) error {
	return nil
}

// bareStore is a store without a runtime around it, which fetches from with.
func bareStore(t *testing.T, with Shared, most job.Size) *Store {
	t.Helper()
	return &Store{cfg: Config{Dir: t.TempDir(), Size: most, Most: job.GiB, Time: 4 * time.Minute}, shared: newSharing(with)}
}

// goods are the packages, and the digest, of the environment that the tests know.
func goods(t *testing.T, base Base) (body []byte, digest string) {
	t.Helper()
	said := travelling{Packages: []string{"good==1 --hash=sha256:00"}}
	body = newCrate(t, said).dirs(site).file(site+"good.py", "WHO = 'honest'\n").done()
	from, to := t.TempDir(), t.TempDir()
	if _, err := unpack(bytes.NewReader(body), from, 1<<20, 100); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(from)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	l := lockfile{Packages: said.Packages}
	if l.Bytes, l.Tree, err = copyLayer(root, to, base, 1<<20); err != nil {
		t.Fatal(err)
	}
	return body, l.digest(base)
}

// TestEnvironmentsAreFetched checks that another worker's valid environment is kept, with a mark that this
// worker does not vouch for it.
func TestEnvironmentsAreFetched(t *testing.T) {
	t.Parallel()
	base := layBase(t, nil)
	body, digest := goods(t, base)
	ask := ask(base, "tenant", "good")
	e := bareStore(t, &strangers{digest: digest, body: func() io.Reader { return bytes.NewReader(body) }}, job.MiB)
	dir, l, ok := e.fetch(t.Context(), base, ask)
	if !ok || l.digest(base) != digest {
		t.Fatalf("fetched %v: %+v", ok, l)
	}
	kept, err := readLock(dir)
	if err != nil || !kept.Fetched || kept.Tenant != "tenant" || kept.Bytes != 15 || kept.digest(base) != digest {
		t.Errorf("kept as %+v, %v", kept, err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "layer", site, "good.py")); err != nil || string(text) != "WHO = 'honest'\n" {
		t.Errorf("%q, %v", text, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("beside the layer and its lock: %v, %v", left, err)
	}
	// It is passed on unchanged, whichever worker packs it.
	var once, again bytes.Buffer
	if err := errors.Join(pack(&once, dir, &l), pack(&again, dir, &kept)); err != nil || !bytes.Equal(once.Bytes(), again.Bytes()) {
		t.Errorf("two archives of one environment: %d and %d bytes, %v", once.Len(), again.Len(), err)
	}
	f := bareStore(t, &strangers{digest: digest, body: func() io.Reader { return &once }}, job.MiB)
	if _, _, ok := f.fetch(t.Context(), base, ask); !ok {
		t.Error("what a worker packs is refused")
	}
}

// TestFetchedEnvironmentsAreChecked checks that any other object in an environment's place is refused, and
// that nothing of it stays.
func TestFetchedEnvironmentsAreChecked(t *testing.T) {
	t.Parallel()
	base := layBase(t, map[string]string{"usr/bin/python3": "\x7fELF", "usr/local/lib/libold.so": ""})
	good, digest := goods(t, base)
	said := travelling{Packages: []string{"good==1 --hash=sha256:00"}}
	in := func() *crate { return newCrate(t, said).dirs(site) }
	bytesOf := func(b []byte) func() io.Reader { return func() io.Reader { return bytes.NewReader(b) } }
	archive := func(c *crate) func() io.Reader { return bytesOf(c.done()) }
	entry := func(h tar.Header) func() io.Reader { return archive(in().add(h, "")) }
	plain, err := zstd.NewReader(bytes.NewReader(good))
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	text, err := io.ReadAll(plain)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		body func() io.Reader
		want string
	}{
		"code that was changed":    {archive(in().file(site+"good.py", "WHO = 'evil!!'\n")), "others built"},
		"one file more":            {archive(in().file(site+"good.py", "WHO = 'honest'\n").file(site+"evil.py", "")), "others built"},
		"one file less":            {archive(in()), "others built"},
		"a file that can be run":   {archive(in().add(tar.Header{Name: "layer/" + site + "good.py", Mode: 0o755}, "WHO = 'honest'\n")), "others built"},
		"other packages":           {archive(newCrate(t, travelling{Packages: []string{"good==2 --hash=sha256:00"}}).dirs(site).file(site+"good.py", "WHO = 'honest'\n")), "others built"},
		"one tenant's":             {archive(newCrate(t, travelling{said.Packages, true}).dirs(site).file(site+"good.py", "WHO = 'honest'\n")), "another tenant"},
		"nothing":                  {bytesOf(nil), "broken"},
		"no zstd":                  {bytesOf(text), "broken"},
		"no tar":                   {archive(newCrate(t, nil)), "broken"},
		"cut in its middle":        {bytesOf(good[:len(good)/2]), "broken"},
		"cut at its end":           {bytesOf(good[:len(good)-20]), ""},
		"bits turned":              {bytesOf(append(bytes.Clone(good[:60]), append([]byte{good[60] ^ 0x55}, good[61:]...)...)), ""},
		"no list of packages":      {archive(newCrate(t, nil).dirs(site)), "not with a list of packages"},
		"a list that is none":      {archive(newCrate(t, []int{1}).dirs(site)), "list of packages is broken"},
		"a list without end":       {archive(newCrate(t, travelling{Packages: []string{strings.Repeat("x", 2<<20)}})), "not with a list of packages"},
		"a link":                   {entry(tar.Header{Typeflag: tar.TypeSymlink, Name: "layer/" + site + "l", Linkname: "/etc", Mode: 0o755}), "no file or directory"},
		"a hard link":              {entry(tar.Header{Typeflag: tar.TypeLink, Name: "layer/" + site + "l", Linkname: "lock.json", Mode: 0o644}), "no file or directory"},
		"a device":                 {entry(tar.Header{Typeflag: tar.TypeChar, Name: "layer/" + site + "d", Mode: 0o644}), "no file or directory"},
		"a disk":                   {entry(tar.Header{Typeflag: tar.TypeBlock, Name: "layer/" + site + "d", Devmajor: 8, Mode: 0o644}), "no file or directory"},
		"a pipe":                   {entry(tar.Header{Typeflag: tar.TypeFifo, Name: "layer/" + site + "p", Mode: 0o644}), "no file or directory"},
		"set-uid":                  {entry(tar.Header{Name: "layer/" + site + "s", Mode: 0o4755}), "with mode 4755"},
		"set-gid":                  {entry(tar.Header{Name: "layer/" + site + "s", Mode: 0o2755}), "with mode 2755"},
		"for all to write":         {entry(tar.Header{Name: "layer/" + site + "s", Mode: 0o666}), "with mode 666"},
		"a directory for nobody":   {entry(tar.Header{Typeflag: tar.TypeDir, Name: "layer/" + site + "d/", Mode: 0}), "with mode 0"},
		"above its root":           {entry(tar.Header{Name: "layer/../evil", Mode: 0o644}), "no path below a root"},
		"above its root, later":    {entry(tar.Header{Name: "layer/" + site + "../../../../../../evil", Mode: 0o644}), "no path below a root"},
		"an absolute path":         {entry(tar.Header{Name: "/etc/cron.d/evil", Mode: 0o644}), "no path below a root"},
		"an absolute path, inside": {entry(tar.Header{Name: "layer//etc/evil", Mode: 0o644}), "no path below a root"},
		"beside its layer":         {entry(tar.Header{Name: "evil", Mode: 0o644}), "no path below a root"},
		"the layer itself":         {entry(tar.Header{Name: "layer/.", Mode: 0o644}), "no path below a root"},
		"a second list":            {archive(in().add(tar.Header{Name: "lock.json", Mode: 0o644}, `{"packages":["evil"]}`)), "no path below a root"},
		"one file twice":           {archive(in().file(site+"a", "1").file(site+"a", "2")), "contradicts itself"},
		"below a file":             {archive(in().file(site+"a", "1").file(site+"a/b", "2")), "contradicts itself"},
		"below nothing":            {archive(in().file(site+"no/b", "2")), "contradicts itself"},
		"a program of the image":   {archive(newCrate(t, said).dirs("usr/bin").add(tar.Header{Name: "layer/usr/bin/python3", Mode: 0o755}, "#!/bin/sh\n")), "no script of a package"},
		"a library of the image":   {archive(newCrate(t, said).dirs("usr/local/lib").file("usr/local/lib/libold.so", "x")), taken},
		"what no package may have": {archive(newCrate(t, said).dirs("etc").file("etc/ld.so.preload", "x")), notThere},
		"too large":                {archive(in().file(site+"a", strings.Repeat("\x00", 1<<20+1))), "larger than"},
		"too large in parts":       {archive(in().file(site+"a", strings.Repeat("\x00", 1<<19)).file(site+"b", strings.Repeat("\x00", 1<<19+1))), "larger than"},
		"a hole of a terabyte":     {sparse(t, said), ""},
		"deep":                     {archive(newCrate(t, said).dirs(strings.Repeat("a/", layerDepth+1))), "too deep"},
		"a long name":              {archive(in().file(site+strings.Repeat(strings.Repeat("a", 200)+"/", 6)+"x", "x")), "too long"},
		"a window of a gigabyte":   {bytesOf(wideWindow()), "window"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := bareStore(t, &strangers{digest: digest, body: c.body}, job.MiB)
			ask := ask(base, "tenant", "good")
			_, _, err := e.fetchOne(t.Context(), base, ask, false, digest)
			whole := name == "cut at its end" || name == "bits turned" // perhaps nothing of it was lost
			failure := new(runtime.BuildError)
			if !(whole && err == nil) && (!errors.As(err, &failure) || !strings.Contains(failure.Message, c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if _, _, ok := e.fetch(t.Context(), base, ask); ok != (err == nil) || ok == e.shared.spoiled[ask.shared] {
				t.Errorf("used: %v; to be replaced: %v", ok, e.shared.spoiled)
			}
			if left, _ := os.ReadDir(e.cfg.Dir); err != nil && len(left) != 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// Entries take inodes and time, and no bytes; so do headers, and frames of nothing.
func TestFetchedEnvironmentsHaveAnEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body io.Reader
		want string
	}{
		"a million entries":        {entries(t, travelling{}, 1_000_000)(), "more files than"},
		"999 entries":              {entries(t, travelling{}, 999)(), ""},
		"names without end":        {longNames(t, travelling{})(), "longer than an environment may be"},
		"empty frames without end": {&skippable{}, "broken"},
	} {
		to := t.TempDir()
		_, err := unpack(c.body, to, 1<<20, 1000)
		if failure := new(runtime.BuildError); c.want != "" && (!errors.As(err, &failure) || !strings.Contains(failure.Message, c.want)) || c.want == "" && err != nil {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if left, err := os.ReadDir(to); err != nil || len(left) > 1000 {
			t.Errorf("%s: %d entries were made, %v", name, len(left), err)
		}
	}
}

// TestFetchesThatFail checks that an unavailable store, or one that ends early, is not counted against its
// content.
func TestFetchesThatFail(t *testing.T) {
	t.Parallel()
	base := layBase(t, nil)
	good, digest := goods(t, base)
	away := fmt.Errorf("%w: the test says so", job.ErrUnavailable)
	for name, s := range map[string]*strangers{
		"away":      {digest: digest, err: away},
		"not there": {digest: digest, err: job.ErrNotFound},
		"goes away": {digest: digest, body: func() io.Reader { return io.MultiReader(bytes.NewReader(good[:50]), failing{away}) }},
		"no digest": {},
	} {
		e := bareStore(t, s, job.MiB)
		ask := ask(base, "tenant", "good")
		if _, _, ok := e.fetch(t.Context(), base, ask); ok || len(e.shared.spoiled) != 0 {
			t.Errorf("%s: used %v, to be replaced %v", name, ok, e.shared.spoiled)
		}
		if left, err := os.ReadDir(e.cfg.Dir); err != nil || len(left) != 0 {
			t.Errorf("%s: left behind: %v, %v", name, left, err)
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// sparse is an archive with a file that is one hole, as GNU tar writes it.
func sparse(t *testing.T, said travelling) func() io.Reader {
	t.Helper()
	c := newCrate(t, said).dirs(site)
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	var b [512]byte
	copy(b[0:], "layer/"+site+"hole")
	copy(b[100:], "0000644\x00")
	copy(b[108:], "0000000\x000000000\x00")
	copy(b[124:], "00000000000\x00")
	copy(b[136:], "00000000000\x00")
	b[156] = tar.TypeGNUSparse
	copy(b[257:], "ustar  \x00")
	copy(b[483:], "\x80\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00") // the real size: 1 TiB
	sum := 8 * int(' ')
	for i, v := range b {
		if i < 148 || i >= 156 {
			sum += int(v)
		}
	}
	copy(b[148:], fmt.Sprintf("%06o\x00 ", sum))
	if _, err := c.z.Write(b[:]); err != nil {
		t.Fatal(err)
	}
	body := c.done()
	return func() io.Reader { return bytes.NewReader(body) }
}

// longNames is an archive whose headers go on for more than an environment may take.
func longNames(t *testing.T, said travelling) func() io.Reader {
	t.Helper()
	return func() io.Reader {
		r, w := io.Pipe()
		go func() {
			z, _ := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest))
			a := tar.NewWriter(z)
			raw, _ := json.Marshal(said)
			_ = a.WriteHeader(&tar.Header{Name: "lock.json", Mode: 0o644, Size: int64(len(raw))})
			_, _ = a.Write(raw)
			long := strings.Repeat("x", 900<<10)
			for i := 0; ; i++ {
				h := &tar.Header{Typeflag: tar.TypeDir, Name: fmt.Sprintf("layer/%d/", i), Mode: 0o755, PAXRecords: map[string]string{"ASSAY.x": long}}
				if err := a.WriteHeader(h); err != nil {
					break
				}
			}
			_ = w.Close()
		}()
		t.Cleanup(func() { _ = r.Close() })
		return r
	}
}

// entries is an archive of n empty files.
func entries(t *testing.T, said travelling, n int) func() io.Reader {
	t.Helper()
	return func() io.Reader {
		r, w := io.Pipe()
		go func() {
			z, _ := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest))
			a := tar.NewWriter(z)
			raw, _ := json.Marshal(said)
			_ = a.WriteHeader(&tar.Header{Name: "lock.json", Mode: 0o644, Size: int64(len(raw))})
			_, _ = a.Write(raw)
			for i := range n {
				if err := a.WriteHeader(&tar.Header{Name: fmt.Sprintf("layer/%d", i), Mode: 0o644}); err != nil {
					break
				}
			}
			_ = a.Close()
			_ = z.Close()
			_ = w.Close()
		}()
		t.Cleanup(func() { _ = r.Close() })
		return r
	}
}

// skippable is frames that decode to nothing, without end.
type skippable struct{ at int }

func (s *skippable) Read(p []byte) (n int, err error) {
	const frame = 1 << 20
	var head [8]byte
	binary.LittleEndian.PutUint32(head[:], 0x184D2A50)
	binary.LittleEndian.PutUint32(head[4:], frame-8)
	for n < len(p) {
		if s.at < 8 {
			k := copy(p[n:], head[s.at:])
			n, s.at = n+k, s.at+k
			continue
		}
		k := min(len(p)-n, frame-s.at)
		n, s.at = n+k, (s.at+k)%frame
	}
	return n, nil
}

// wideWindow is the beginning of a frame whose decoder would have to remember a gigabyte.
func wideWindow() []byte {
	return []byte{0x28, 0xB5, 0x2F, 0xFD, 0x00, 20 << 3, 0x01, 0x00, 0x00}
}
