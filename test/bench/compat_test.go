package main

import (
	"strings"
	"testing"
)

func TestCompatCounts(t *testing.T) {
	var a asked
	for _, c := range []struct {
		status int
		body   string
	}{
		{200, `{"status":"Success","run_result":{"stdout":"2\n"}}`}, {504, `{}`}, {200, `{"status":"Success","run_result":{"stdout":"3\n"}}`},
		{200, `{"status":"Failed","run_result":{"stdout":"2\n"}}`}, {200, `{"status":"SandboxError","run_result":null}`}, {429, `{}`}, {200, `x`},
	} {
		a.count(prints, c.status, []byte(c.body), 1)
	}
	if a.ok != 1 || a.late != 1 || a.wrong != 2 || a.other != 3 || !strings.Contains(a.strange, `3\n`) {
		t.Errorf("%+v", a)
	}
}
