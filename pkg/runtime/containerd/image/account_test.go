package image

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Programs run as user 1000. Images without an entry for it get one, and all other files
// of an image stay as they are.
func TestAddAccounts(t *testing.T) {
	t.Parallel()
	const passwd, group = "assay:x:1000:1000:assay:/workspace:/bin/sh\n", "assay:x:1000:\n"
	write := func(path, text string) func(*testing.T, string) {
		return func(t *testing.T, root string) {
			t.Helper()
			if err := os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(root, path), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	link := func(target, path string) func(*testing.T, string) {
		return func(t *testing.T, root string) {
			t.Helper()
			if err := os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(target, filepath.Join(root, path)); err != nil {
				t.Fatal(err)
			}
		}
	}
	root := "root:x:0:0:root:/root:/bin/bash\n"
	for name, c := range map[string]struct {
		image         []func(*testing.T, string)
		passwd, group string // afterwards; empty: there is no regular file
		login         string
	}{
		"no files":            {nil, passwd, group, "assay"},
		"other users":         {[]func(*testing.T, string){write("etc/passwd", root), write("etc/group", "root:x:0:\n")}, root + passwd, "root:x:0:\n" + group, "assay"},
		"no newline":          {[]func(*testing.T, string){write("etc/passwd", root[:len(root)-1])}, root + passwd, group, "assay"},
		"its own user":        {[]func(*testing.T, string){write("etc/passwd", root+"node:x:1000:1000::/home/node:/bin/sh\n")}, root + "node:x:1000:1000::/home/node:/bin/sh\n", group, "node"},
		"the name is taken":   {[]func(*testing.T, string){write("etc/passwd", "assay:x:7:7::/:/bin/sh\n")}, "assay:x:7:7::/:/bin/sh\n" + passwd, group, "assay"},
		"id in another field": {[]func(*testing.T, string){write("etc/passwd", "www:x:33:1000::/:/bin/sh\n")}, "www:x:33:1000::/:/bin/sh\n" + passwd, group, "assay"},
		"absolute link":       {[]func(*testing.T, string){write("store/passwd", root), link("/store/passwd", "etc/passwd")}, root + passwd, group, "assay"},
		"relative link":       {[]func(*testing.T, string){write("store/passwd", root), link("../store/passwd", "etc/passwd")}, root + passwd, group, "assay"},
		"dangling link":       {[]func(*testing.T, string){link("/none", "etc/passwd")}, passwd, group, "assay"},
		"link to the host":    {[]func(*testing.T, string){link("../../../../../../../../etc/passwd", "etc/passwd")}, "", group, "assay"},
		"link to etc":         {[]func(*testing.T, string){link("/etc", "etc")}, "", "", "assay"},
		"directory":           {[]func(*testing.T, string){write("etc/passwd/x", "")}, "", group, "assay"},
		"pipe": {[]func(*testing.T, string){func(t *testing.T, root string) {
			t.Helper()
			if err := os.Mkdir(filepath.Join(root, "etc"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := unix.Mkfifo(filepath.Join(root, "etc/passwd"), 0o644); err != nil {
				t.Fatal(err)
			}
		}}, "", group, "assay"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for _, make := range c.image {
				make(t, dir)
			}
			for range 2 { // the second changes nothing
				if err := addAccounts(dir); err != nil {
					t.Fatal(err)
				}
			}
			for path, want := range map[string]string{"etc/passwd": c.passwd, "etc/group": c.group} {
				got := ""
				if info, err := os.Lstat(filepath.Join(dir, path)); err == nil && info.Mode().IsRegular() && name != "link to etc" {
					b, err := os.ReadFile(filepath.Join(dir, path))
					if err != nil {
						t.Fatal(err)
					}
					got = string(b)
				}
				if got != want {
					t.Errorf("/%s = %q, want %q", path, got, want)
				}
			}
			if got := userName(dir); got != c.login {
				t.Errorf("userName = %q, want %q", got, c.login)
			}
		})
	}
}
