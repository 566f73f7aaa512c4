package main

import (
	"strings"
	"testing"
)

// Where a host has a known hole, the worker starts unless it was told otherwise.
func TestKnownHolesAreRefusedIfAsked(t *testing.T) {
	ids, err := knownHoles(t.Context(), config{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = knownHoles(t.Context(), config{RefuseKnownHoles: true})
	if (err != nil) != (len(ids) > 0) {
		t.Errorf("with holes %v: %v", ids, err)
	}
	for _, id := range ids {
		if err != nil && !strings.Contains(err.Error(), id) {
			t.Errorf("%v does not name %s", err, id)
		}
	}
}
