package postgres

import (
	"testing"
	"time"
)

// TestSpoken checks that only connected programs count for the protocol, and only while they are connected.
func TestSpoken(t *testing.T) {
	t.Parallel()
	s := openTest(t, Config{ApplicationTag: "assay-dispatcher", Protocol: 12})
	others := map[string]*Store{}
	open := func(tag string, protocol int) {
		t.Helper()
		o, err := Open(t.Context(), Config{DSN: dsnOf(s), ApplicationTag: tag, Protocol: protocol})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(o.Close)
		others[o.db.Pool.Config().ConnConfig.RuntimeParams["application_name"]] = o
	}
	want := func(when string, want int) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) { // a connection ends when the server has noticed
			got, err := s.Spoken(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got == want {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %d, want %d", when, got, want)
			}
		}
	}
	want("alone", 12)
	open("assay-dispatcher-of-another-kind", 1)
	open("something", 0)
	want("beside what is no dispatcher", 12)
	open("assay-dispatcher", 3)
	want("beside one that is older", 3)
	open("assay-dispatcher", 0)
	want("beside one that says none", 0)
	others["assay-dispatcher"].Close()
	want("it is gone", 3)
	others["assay-dispatcher/3"].Close()
	want("all of them are gone", 12)
}
