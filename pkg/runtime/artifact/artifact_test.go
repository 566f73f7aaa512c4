package artifact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/testenv"
)

// tree makes a writable directory; a name that ends in / is a directory, and
// "a -> b" a symbolic link.
func tree(t *testing.T, names ...string) *os.File {
	t.Helper()
	root := t.TempDir()
	for _, n := range names {
		link, target, isLink := strings.Cut(n, " -> ")
		file := filepath.Join(root, link)
		err := os.MkdirAll(filepath.Dir(file), 0o755)
		switch {
		case err != nil:
		case isLink:
			err = os.Symlink(target, file)
		case strings.HasSuffix(n, "/"):
			err = os.MkdirAll(file, 0o755)
		default:
			err = os.WriteFile(file, []byte(n), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	d, err := os.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// collect returns what Collect took and refused.
func collect(t *testing.T, l Limits, roots ...Root) (taken, refused []string) {
	t.Helper()
	refused, err := Collect(t.Context(), roots, l, func(_ context.Context, path string, size int64, r io.Reader) error {
		b, err := io.ReadAll(r)
		if int64(len(b)) != size {
			t.Errorf("%s: %d bytes, want %d", path, len(b), size)
		}
		taken = append(taken, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return taken, refused
}

func paths(p ...string) Limits { return Limits{Paths: p, MaxBytes: 1 << 20, MaxFiles: 100} }

func TestGlobs(t *testing.T) {
	t.Parallel()
	dir := tree(t, "a.txt", "b.bin", "out/c.txt", "out/deep/er/d.txt", "out/deep/e.bin", "empty/")
	for _, tc := range []struct {
		glob string
		want []string
	}{
		{"/workspace/a.txt", []string{"a.txt"}},
		{"/workspace/*.txt", []string{"a.txt"}},
		{"/workspace/**", []string{"a.txt", "b.bin", "out/c.txt", "out/deep/e.bin", "out/deep/er/d.txt"}},
		{"/workspace/**/*.txt", []string{"a.txt", "out/c.txt", "out/deep/er/d.txt"}},
		{"/workspace/**/deep/**", []string{"out/deep/e.bin", "out/deep/er/d.txt"}},
		{"/workspace/**/**/**/d.txt", []string{"out/deep/er/d.txt"}},
		{"/**/e.bin", []string{"out/deep/e.bin"}},
		{"/work*/out/c.???", []string{"out/c.txt"}},
		{"/workspace", nil},
		{"/workspace/out", nil},
		{"/tmp/**", nil},
		{"/workspace/[", nil},
	} {
		got, refused := collect(t, paths(tc.glob), Root{"/workspace", dir})
		var want []string
		for _, w := range tc.want {
			want = append(want, "/workspace/"+w)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", tc.glob, d)
		}
		var says []string
		if len(want) == 0 {
			says = []string{fmt.Sprintf("%q: matched nothing below /workspace", tc.glob)}
		}
		if d := cmp.Diff(says, refused); d != "" {
			t.Errorf("%s: refused (-want +got):\n%s", tc.glob, d)
		}
	}
}

// TestWhatMatchedNothingIsNamed checks each glob separately: a glob that matches a refused file has matched
// something.
func TestWhatMatchedNothingIsNamed(t *testing.T) {
	t.Parallel()
	dir := tree(t, "a.txt", "big", "link -> a.txt")
	if err := os.Truncate(filepath.Join(dir.Name(), "big"), 1<<24); err != nil { // sparse
		t.Fatal(err)
	}
	got, refused := collect(t, paths("/w/a.txt", "/w/*.png", "/w/big", "/w/link", "/etc/passwd"), Root{"/w", dir})
	said := strings.Join(refused, "\n")
	for _, nothing := range []string{`"/w/*.png": matched nothing below /w`, `"/etc/passwd": matched nothing below /w`} {
		if !strings.Contains(said, nothing) {
			t.Errorf("it does not say %s in %q", nothing, refused)
		}
	}
	if len(got) != 1 || strings.Count(said, "matched nothing") != 2 || len(refused) != 4 {
		t.Errorf("took %q, refused %q", got, refused)
	}
	if _, refused := collect(t, paths("/w/a.txt")); len(refused) != 1 || !strings.Contains(refused[0], "may write to none") {
		t.Errorf("without a directory: refused %q", refused)
	}
}

// TestHostileTree checks possible remains of a hostile program: none is opened, and each is named.
func TestHostileTree(t *testing.T) {
	t.Parallel()
	testenv.Needs(t, "root")
	dir := tree(t, "good", "shadow -> /etc/shadow", "etc -> /etc", "up -> ../../../../etc", "self -> /proc/self",
		"inner -> good", "d/also -> ../good")
	if err := unix.Mkfifo(filepath.Join(dir.Name(), "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mknod(filepath.Join(dir.Name(), "null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err != nil {
		t.Fatal(err)
	}
	l := paths("/workspace/**", "/workspace/etc/shadow", "/workspace/self/environ")
	got, refused := collect(t, l, Root{"/workspace", dir})
	if d := cmp.Diff([]string{"/workspace/good"}, got); d != "" {
		t.Errorf("taken (-want +got):\n%s", d)
	}
	for _, name := range []string{"shadow", "etc", "up", "self", "inner", "d/also", "fifo", "null"} {
		if !strings.Contains(strings.Join(refused, "\n"), `"/workspace/`+name+`"`) {
			t.Errorf("%s is not named as refused in %q", name, refused)
		}
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	dir := tree(t, "a", "bb", "ccc", "d")
	if err := os.Truncate(filepath.Join(dir.Name(), "bb"), 1<<24); err != nil { // sparse
		t.Fatal(err)
	}
	got, refused := collect(t, Limits{Paths: []string{"/w/*"}, MaxBytes: 4, MaxFiles: 100}, Root{"/w", dir})
	if d := cmp.Diff([]string{"/w/a", "/w/ccc"}, got); d != "" || len(refused) != 2 {
		t.Errorf("bytes: refused %q (-want +got):\n%s", refused, d)
	}
	got, refused = collect(t, Limits{Paths: []string{"/w/*"}, MaxBytes: 1 << 50, MaxFiles: 2}, Root{"/w", dir})
	if d := cmp.Diff([]string{"/w/a", "/w/bb"}, got[:min(2, len(got))]); d != "" || len(got) != 2 || len(refused) != 2 {
		t.Errorf("files: took %q, refused %q", got, refused)
	}
}

func TestRefusalsAreBounded(t *testing.T) {
	t.Parallel()
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprintf("l%d -> /etc/shadow", i))
	}
	deep := strings.Repeat("d/", maxDepth+5) + "f"
	_, refused := collect(t, paths("/w/**"), Root{"/w", tree(t, append(names, deep)...)})
	if len(refused) != maxRefused+1 || !strings.Contains(refused[maxRefused], "81 more") {
		t.Errorf("%d refusals, the last: %q", len(refused), refused[len(refused)-1])
	}
}

func TestSeveralRootsInOrder(t *testing.T) {
	t.Parallel()
	got, _ := collect(t, paths("/**/x"), Root{"/workspace", tree(t, "x")}, Root{"/tmp", tree(t, "x")})
	if d := cmp.Diff([]string{"/tmp/x", "/workspace/x"}, got); d != "" {
		t.Error(d)
	}
}

// TestTreeThatChanges checks that files that a live program removes and moves during collection are reported,
// and fail nothing.
func TestTreeThatChanges(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "c"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "f"), []byte("text"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	var taken []string
	refused, err := Collect(t.Context(), []Root{{Path: "/w", Dir: root}}, paths("/w/**"), func(_ context.Context, path string, size int64, r io.Reader) error {
		if len(taken) == 0 {
			if err := errors.Join(os.RemoveAll(filepath.Join(dir, "b")), os.Truncate(filepath.Join(dir, "c", "f"), 1<<10)); err != nil {
				return err
			}
		}
		data, err := io.ReadAll(r)
		taken = append(taken, fmt.Sprint(path, " ", size, " ", len(data)))
		return err
	})
	if err != nil || len(refused) != 1 || refused[0] != `"/w/b": was removed or moved while it was looked at` {
		t.Errorf("%q, %v", refused, err)
	}
	if want := []string{"/w/a/f 4 4", "/w/c/f 1024 1024"}; !slices.Equal(taken, want) {
		t.Errorf("%q, want %q", taken, want)
	}
}

func TestFailuresAreReported(t *testing.T) {
	t.Parallel()
	roots := []Root{{"/w", tree(t, "a", "b")}}
	broken := errors.New("the store is down")
	_, err := Collect(t.Context(), roots, paths("/w/*"), func(context.Context, string, int64, io.Reader) error { return broken })
	if !errors.Is(err, broken) {
		t.Errorf("Collect = %v, want take's error", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(broken)
	if _, err := Collect(ctx, roots, paths("/w/*"), nil); !errors.Is(err, broken) {
		t.Errorf("Collect = %v, want the context's cause", err)
	}
}

// TestNamesThatAreNoText checks that names that do not fit a record, an object path or a terminal are refused
// by name.
func TestNamesThatAreNoText(t *testing.T) {
	t.Parallel()
	long := strings.Repeat(strings.Repeat("d", 200)+"/", 4) + "f"
	d := tree(t, "fine é", "bad\xff", "new\nline", "esc\x1b[2J", "rtl\u202e", "zero\u200bwidth", "isolate\u2066", long)
	taken, refused := collect(t, Limits{Paths: []string{"/w/**"}, MaxBytes: 1 << 20, MaxFiles: 10}, Root{"/w", d})
	if diff := cmp.Diff([]string{"/w/fine é"}, taken); diff != "" {
		t.Errorf("taken (-want +got):\n%s", diff)
	}
	if all := strings.Join(refused, "\n"); len(refused) != 7 || strings.Count(all, "printable") != 6 || !strings.Contains(all, "longer than") {
		t.Errorf("refused: %s", all)
	}
}
