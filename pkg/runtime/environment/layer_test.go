package environment

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/runtime"
)

// layBase makes the root of an image in which files are.
func layBase(t *testing.T, files map[string]string) Base {
	t.Helper()
	base := Base{Root: t.TempDir(), Env: []string{"PATH=/usr/local/bin:/usr/bin"}}
	lay(t, base.Root, files)
	return base
}

func lay(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		file := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(file), 0o755)
		if target, ok := strings.CutPrefix(text, "-> "); ok {
			err = errors.Join(err, os.Symlink(target, file))
		} else {
			err = errors.Join(err, os.WriteFile(file, []byte(text), 0o755))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Forbidden content of a layer. 5ee7338 refused only devices, pipes and sockets, and copied links unchanged.
// A link in the place of a mountpoint was a directory of the host at gvisor (TestLayerIsNoWayToTheHost).
func TestLayersAreChecked(t *testing.T) {
	t.Parallel()
	base := layBase(t, map[string]string{
		"usr/bin/python3": "\x7fELF", "usr/bin/sh": "\x7fELF", "usr/bin/pip": "#!/usr/bin/python3\n", "usr/lib/python3.11/os.py": "", "usr/local/lib64": "-> lib",
		"usr/local/lib/python3.11/dist-packages/old/__init__.py": "", "usr/local/share/data": "", "usr/bin/link": "-> /etc/alternatives/link",
		"usr/local/lib/libold.so": "", "opt/tool/bin/run": "\x7fELF",
	})
	const site = "usr/local/lib/python3.11/dist-packages/"
	for name, c := range map[string]struct {
		make func(root string) error
		bad  string // "" if it may be there
	}{
		"package":              {written(site + "new/__init__.py"), ""},
		"package once more":    {written(site + "old/__init__.py"), ""},
		"script":               {written("usr/local/bin/new"), ""},
		"script once more":     {written("usr/local/bin/pip"), ""},
		"data":                 {written("usr/local/share/man/man1/new.1"), ""},
		"library":              {written("usr/local/lib/libnew.so"), ""},
		"system site-packages": {written("usr/lib/python3.11/site-packages/new.py"), ""},
		"environment in opt":   {written("opt/venv/lib/python3.12/site-packages/new.py"), ""},

		"tmp is a link":                 {linked("tmp", "/"), "no file or directory"},
		"workspace is a link":           {linked("workspace", "usr"), "no file or directory"},
		"run is a link":                 {linked("run", "/run"), "no file or directory"},
		"tmp":                           {written("tmp/x"), notThere},
		"dev":                           {written("dev/null"), notThere},
		"proc, empty":                   {func(r string) error { return os.Mkdir(r+"/proc", 0o755) }, notThere},
		"under run/assay":               {written("run/assay/zygote.py"), notThere},
		"ld.so.preload":                 {written("etc/ld.so.preload"), notThere},
		"a file in place of opt":        {written("opt"), notThere},
		"a file in place of usr/local":  {written("usr/local"), notThere},
		"python3 of the image":          {written("usr/bin/python3"), "no script of a package"},
		"python3 before the image's":    {written("usr/local/bin/python3"), "no script of a package"},
		"a shell before the image's":    {written("opt/venv/bin/sh"), "no script of a package"},
		"a program by a link":           {written("usr/local/bin/link"), "no script of a package"},
		"a program out of the way":      {written("opt/tool/bin/run"), "no script of a package"},
		"programs of root":              {written("usr/local/sbin/new"), notThere},
		"python's own library":          {written("usr/lib/python3.11/os.py"), notThere},
		"more of python's own library":  {written("usr/local/lib/python3.11/sitecustomize.py"), notThere},
		"the image's library":           {written("usr/local/lib/libold.so"), taken},
		"system library":                {written("usr/lib/x86_64-linux-gnu/libc.so.6"), notThere},
		"a directory in place of links": {written("usr/local/lib64/new.so"), taken},
		"a directory in place of files": {written("usr/local/share/data/x"), taken},
		"a file in place of packages":   {written(site + "old"), taken},
		"a link in a package":           {linked(site+"new", "/etc"), "no file or directory"},
		"a whiteout":                    {func(r string) error { return mknod(r, site+"old", unix.S_IFCHR) }, "no file or directory"},
		"a pipe":                        {func(r string) error { return mknod(r, site+"new", unix.S_IFIFO) }, "no file or directory"},
		"a socket":                      {func(r string) error { return mknod(r, site+"new", unix.S_IFSOCK) }, "no file or directory"},
		"set-uid": {func(r string) error {
			return errors.Join(written(site+"new")(r), os.Chmod(r+"/"+site+"new", 0o755|os.ModeSetuid))
		}, "another user"},
		"set-gid": {func(r string) error {
			return errors.Join(written(site+"new")(r), os.Chmod(r+"/"+site+"new", 0o755|os.ModeSetgid))
		}, "another user"},
		"a hole of a terabyte": {func(r string) error { return errors.Join(written(site+"new")(r), os.Truncate(r+"/"+site+"new", 1<<40)) }, "larger than"},
		"deep":                 {written(site + strings.Repeat("a/", layerDepth) + "x"), "too deep"},
		"long":                 {written(site + strings.Repeat(strings.Repeat("a", 200)+"/", 6) + "x"), "too long"},
	} {
		t.Run(name, func(t *testing.T) {
			from, to := t.TempDir(), t.TempDir()
			if err := c.make(from); err != nil {
				t.Fatal(err)
			}
			root, err := os.OpenRoot(from)
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			_, tree, err := copyLayer(root, to, base, 1<<20)
			failure := new(runtime.BuildError)
			switch {
			case c.bad == "" && (err != nil || len(tree) != 64):
				t.Errorf("refused: %v", err)
			case c.bad != "" && (!errors.As(err, &failure) || !strings.Contains(failure.Message, c.bad)):
				t.Errorf("got %v, want %s", err, c.bad)
			}
		})
	}
}

func written(name string) func(string) error {
	return func(root string) error {
		return errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755), os.WriteFile(filepath.Join(root, name), []byte("new"), 0o644))
	}
}

func linked(name, to string) func(string) error {
	return func(root string) error {
		return errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755), os.Symlink(to, filepath.Join(root, name)))
	}
}

func mknod(root, name string, kind uint32) error {
	file := filepath.Join(root, name)
	return errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), unix.Mknod(file, kind|0o644, 0))
}

// TestLayersAreHashed checks that the hash of a layer covers its whole content and nothing else. Attributes
// that an overlay would obey are left out.
func TestLayersAreHashed(t *testing.T) {
	t.Parallel()
	testenv.Needs(t, "root")
	base := layBase(t, nil)
	const site = "usr/local/lib/python3.11/dist-packages/"
	hashOf := func(change func(root string) error) (string, string) {
		t.Helper()
		from, to := t.TempDir(), t.TempDir()
		lay(t, from, map[string]string{site + "a/__init__.py": "1", site + "b.py": "2"})
		if err := change(from); err != nil {
			t.Fatal(err)
		}
		root, err := os.OpenRoot(from)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		_, tree, err := copyLayer(root, to, base, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		return tree, to
	}
	plain, _ := hashOf(func(string) error { return nil })
	if again, _ := hashOf(func(r string) error { return os.Chtimes(r+"/"+site+"b.py", time.Unix(0, 0), time.Unix(0, 0)) }); again != plain {
		t.Error("times count")
	}
	seen := map[string]string{plain: "as it was"}
	for name, change := range map[string]func(string) error{
		"content":    func(r string) error { return os.WriteFile(r+"/"+site+"b.py", []byte("3"), 0o755) },
		"name":       func(r string) error { return os.Rename(r+"/"+site+"b.py", r+"/"+site+"c.py") },
		"executable": func(r string) error { return os.Chmod(r+"/"+site+"b.py", 0o644) },
		"directory":  func(r string) error { return os.Mkdir(r+"/"+site+"c", 0o755) },
		"line break": func(r string) error { return os.WriteFile(r+"/"+site+"c\nf 1:x", nil, 0o644) },
	} {
		tree, _ := hashOf(change)
		if was := seen[tree]; was != "" {
			t.Errorf("%s: the same hash as %s", name, was)
		}
		seen[tree] = name
	}
	_, to := hashOf(func(r string) error {
		return errors.Join(unix.Setxattr(r+"/"+site+"a", "trusted.overlay.opaque", []byte("y"), 0), unix.Setxattr(r+"/"+site+"b.py", "user.overlay.metacopy", nil, 0))
	})
	for _, file := range []string{"a", "b.py"} {
		if n, err := unix.Listxattr(filepath.Join(to, site, file), nil); err != nil || n != 0 {
			t.Errorf("%s: %d bytes of attributes were copied (%v)", file, n, err)
		}
	}
}
