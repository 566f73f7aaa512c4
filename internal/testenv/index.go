package testenv

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// PackageIndex writes a package index into a directory, for any file server. /simple has one
// package, friendly 1.0, and its module friendly has word = 'hello'.
func PackageIndex(t testing.TB, dir string) {
	t.Helper()
	var wheel bytes.Buffer
	z := zip.NewWriter(&wheel)
	info := "friendly-1.0.dist-info/"
	for _, file := range [][2]string{
		{"friendly/__init__.py", "word = 'hello'\n"},
		{info + "METADATA", "Metadata-Version: 2.1\nName: friendly\nVersion: 1.0\n"},
		{info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{info + "RECORD", ""},
	} {
		w, err := z.Create(file[0])
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(w, file[1])
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	const name = "friendly-1.0-py3-none-any.whl"
	for file, data := range map[string][]byte{
		"simple/friendly/index.html": []byte(`<a href="/files/` + name + `">` + name + `</a>`), "files/" + name: wheel.Bytes(),
	} {
		file = filepath.Join(dir, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, data, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}
