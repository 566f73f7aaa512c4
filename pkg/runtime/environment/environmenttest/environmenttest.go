// Package environmenttest creates Python packages and serves them as an index, for tests of
// environments.
package environmenttest

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// Wheel returns a wheel of one module, with a script of the same name.
func Wheel(t *testing.T, name, version, code string) []byte {
	t.Helper()
	return WheelOf(t, name, version, map[string]string{name + "/__init__.py": code})
}

// WheelOf is Wheel with additional or replaced files.
func WheelOf(t *testing.T, name, version string, more map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	info := name + "-" + version + ".dist-info/"
	files := map[string]string{
		info + "METADATA":         "Metadata-Version: 2.1\nName: " + name + "\nVersion: " + version + "\n",
		info + "WHEEL":            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		info + "entry_points.txt": "[console_scripts]\n" + name + " = " + name + ":main\n",
		info + "RECORD":           "",
	}
	for file, text := range more {
		if file == "METADATA" {
			file = info + file
		}
		files[file] = text
	}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		w, err := z.Create(file)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(w, files[file])
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Index is a package index on the worker's own loopback.
type Index struct {
	URL   string
	Asked atomic.Int64      // number of requests for files
	Sums  map[string]string // SHA-256 of files by the name of their package
	Close func()            // stops it before the end of the test
}

// Serve serves files by name until the end of the test.
func Serve(t *testing.T, files map[string][]byte) *Index {
	t.Helper()
	x := &Index{Sums: map[string]string{}}
	mux := http.NewServeMux()
	pages := map[string]string{}
	for file, body := range files {
		name, _, _ := strings.Cut(file, "-")
		sum := sha256.Sum256(body)
		x.Sums[name] = hex.EncodeToString(sum[:])
		pages[name] += fmt.Sprintf(`<a href="/files/%s#sha256=%s">%s</a>`, file, x.Sums[name], file)
		mux.HandleFunc("/files/"+file, func(w http.ResponseWriter, _ *http.Request) {
			x.Asked.Add(1)
			_, _ = w.Write(body)
		})
	}
	for name, page := range pages {
		mux.HandleFunc("/simple/"+strings.ReplaceAll(name, "_", "-")+"/", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, page)
		})
	}
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	x.URL, x.Close = s.URL+"/simple", s.Close
	return x
}
