package main

import (
	"strings"
	"testing"
)

func TestCount(t *testing.T) {
	var a fusionAnswers
	prints := askFusion("print(1+1)", "2\n", 10)
	for _, c := range []struct {
		status int
		body   string
	}{
		{200, `{"status":"Success","run_result":{"stdout":"2\n"}}`}, {504, `{}`}, {200, `{"status":"Success","run_result":{"stdout":"3\n"}}`},
		{200, `{"status":"Failed","run_result":{"stdout":"2\n"}}`}, {200, `{"status":"SandboxError","run_result":null}`}, {429, `{}`}, {200, `x`},
	} {
		a.count(prints, c.status, []byte(c.body), 1)
	}
	if a.OK != 1 || a.Late != 1 || a.Wrong != 2 || a.Other != 3 || !strings.Contains(a.Strange, `3\n`) {
		t.Errorf("%+v", a)
	}
}
