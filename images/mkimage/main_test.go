package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	rootfs, config := file("rootfs.tar", "x"), file("config.json", `{"Env": ["A=b"]}`)
	broken, misspelt := file("broken.json", "{"), file("misspelt.json", `{"env": [], "WorkDir": "/"}`)
	out := filepath.Join(dir, "image.tar")
	for _, test := range []struct {
		name string
		args []string
		err  string // "" for success
	}{
		{"all given", []string{"-name", "n:1", "-rootfs", rootfs, "-config", config, "-created", "@5", "-o", out}, ""},
		{"no configuration", []string{"-name", "n:1", "-rootfs", rootfs, "-o", out}, ""},
		{"no name", []string{"-rootfs", rootfs, "-o", out}, "-name"},
		{"bad time", []string{"-name", "n:1", "-rootfs", rootfs, "-o", out, "-created", "today"}, "-created"},
		{"bad configuration", []string{"-name", "n:1", "-rootfs", rootfs, "-o", out, "-config", broken}, "broken.json"},
		{"misspelt configuration", []string{"-name", "n:1", "-rootfs", rootfs, "-o", out, "-config", misspelt}, "WorkDir"},
		{"more layers", []string{"-name", "n:1", "-rootfs", rootfs, "-o", out, "-label", "a=b", "-layer", "/bin/x=" + config + ",/y=" + rootfs, "-layer", "/z=" + rootfs}, ""},
		{"a layer of nothing", []string{"-name", "n:1", "-rootfs", rootfs, "-o", out, "-layer", "/bin/x=" + dir + "/none"}, "none"},
		{"a layer that leads out", []string{"-name", "n:1", "-rootfs", rootfs, "-o", out, "-layer", "/../x=" + rootfs}, "/../x"},
		{"a layer without a source", []string{"-name", "n:1", "-rootfs", rootfs, "-o", out, "-layer", "/x"}, "-layer"},
		{"no root file system", []string{"-name", "n:1", "-rootfs", dir + "/none", "-o", out}, "none"},
	} {
		err := run(test.args)
		switch {
		case test.err == "" && err != nil:
			t.Errorf("%s: %v", test.name, err)
		case test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)):
			t.Errorf("%s: error %v, want one about %q", test.name, err, test.err)
		}
	}
}
