package e2e

import (
	"strconv"
	"testing"

	"github.com/assay-run/assay/pkg/job"
)

// sessionForkOver checks that a copy has its session's changes to a directory of the image, and
// that the two are independent afterwards.
func sessionForkOver(t *testing.T, f *fleet) {
	id := f.session(t, job.SessionSpec{Policy: []byte(`{"write": ["/workspace", "/tmp", "/etc/ssl", "/etc/perl"]}`)})
	says := func(id job.ID, expression, want string) {
		t.Helper()
		if e := f.execute(t, id, job.Succeeded, code(expression)); e.Value == nil || e.Value.Repr != want {
			t.Errorf("%s: %+v, want %s", expression, e.Value, want)
		}
	}
	f.execute(t, id, job.Succeeded, code(`
import os
was = sorted(os.listdir("/etc/ssl"))
os.remove("/etc/ssl/openssl.cnf")
open("/etc/ssl/certs/new", "w").write("one")
log = open("/etc/ssl/log", "w+")
_ = log.write("a"), log.flush()
`))
	before := `"openssl.cnf" in was, os.path.exists("/etc/ssl/openssl.cnf"), open("/etc/ssl/certs/new").read(), len(os.listdir("/etc/perl")) > 0`
	says(id, before, "(True, False, 'one', True)")
	last := id
	for depth := range 3 { // of copies of copies, too
		s, err := f.api.ForkSession(t.Context(), last)
		if err != nil {
			t.Fatal(err)
		}
		says(s.ID, before, "(True, False, 'one', True)")
		says(s.ID, `log.write("b"), log.flush(), open("/etc/ssl/log").read()`, "(1, None, 'a"+"bbb"[:depth+1]+"')")
		f.execute(t, s.ID, job.Succeeded, code(`_ = open("/etc/ssl/own", "a").write(`+strconv.Quote(strconv.Itoa(depth))+`)`))
		says(s.ID, `open("/etc/ssl/own").read()`, "'"+"012"[:depth+1]+"'")
		last = s.ID
	}
	says(id, `os.path.exists("/etc/ssl/own"), open("/etc/ssl/log").read()`, "(False, 'a')")
}
