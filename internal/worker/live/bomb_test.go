package live

import (
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/assay-run/assay/internal/frame"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// TestFramesThatGrowWhenTheyAreDecoded checks that frames that grow when decoded are rejected. Before the limits,
// displays allocated 2.2 GiB, the output 1.5, the tables 1.3 and the columns 0.8. The other frames have the same
// shape and cost little.
func TestFramesThatGrowWhenTheyAreDecoded(t *testing.T) {
	fill := func(head, part, tail string) []byte {
		return []byte(head + strings.Repeat(part+",", (maxAnswer-len(head)-len(tail)-10)/(len(part)+1)) + part + tail)
	}
	for name, raw := range map[string][]byte{
		"displays": fill(`{"op":"done","id":1,"display":[`, `{}`, `]}`),
		"output":   fill(`{"op":"done","id":1,"output":[`, `[]`, `]}`),
		"tables":   fill(`{"op":"done","id":1,"display":[{"table":{"rows":[`, `[]`, `]}}]}`),
		"columns":  fill(`{"op":"done","id":1,"display":[{"table":{"columns":[`, `""`, `]}}]}`),
		"a call":   fill(`{"op":"done","args":[`, `0`, `]}`),
		"unknown":  fill(`{"op":"done","x":[`, `0`, `]}`),
		"too deep": []byte(`{"op":"done","args":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + "}"),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := decode(raw)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 64<<20 || !errors.Is(err, frame.ErrProtocol) {
			t.Errorf("%s: %d MiB, %v", name, took>>20, err)
		}
	}
	f, err := decode(fill(`{"op":"call","call":7,"name":"f","args":[`, `0`, `],"kwargs":{}}`))
	if err != nil || f.Call != 7 || len(f.Args) < maxAnswer/2 {
		t.Errorf("a call with many arguments: %+v, %v", f, err)
	}
}

// FuzzFrame checks that every accepted frame of a session is within its limits.
func FuzzFrame(f *testing.F) {
	for _, raw := range []string{`{"op":"ready"}`, `{"op":"done","id":1,"display":[{}],"output":[["stdout","x"]]}`, `{"op":"call","call":1,"name":"f","args":[1],"kwargs":{}}`} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := decode(raw)
		if err != nil && !errors.Is(err, frame.ErrProtocol) {
			t.Errorf("%v", err)
		}
		if err == nil && len(got.Display)+len(got.Output)+len(got.Tail)+len(got.Variables) > frameLimits.Values {
			t.Errorf("%q", raw)
		}
	})
}

// TestArgumentsOfOpenCallsAreBounded checks that the memory of unanswered calls is bounded, and that the session gets
// an error beyond the bound.
func TestArgumentsOfOpenCallsAreBounded(t *testing.T) {
	args := func(size int) json.RawMessage { return json.RawMessage(`["` + strings.Repeat("x", size-4) + `"]`) }
	l := &live{calls: map[int64]job.HostCall{}, policy: policy.Policy{Callbacks: policy.Callbacks{Allow: []string{"f"}, MaxCalls: 1000}}}
	if why := l.admit(job.HostCall{Call: 1, Name: "f", Args: args(maxArgs + 1)}); !strings.Contains(why, "a call may have") {
		t.Errorf("arguments that are too long: %q", why)
	}
	for n := range int64(maxOpenArgs / maxArgs) {
		if why := l.admit(job.HostCall{Call: n + 2, Name: "f", Args: args(maxArgs)}); why != "" {
			t.Errorf("call %d: %s", n, why)
		}
	}
	if why := l.admit(job.HostCall{Call: 100, Name: "f", Args: args(10)}); !strings.Contains(why, "wait for an answer") {
		t.Errorf("one more: %q", why)
	}
	delete(l.calls, 2)
	if why := l.admit(job.HostCall{Call: 100, Name: "f", Args: args(10)}); why != "" {
		t.Errorf("when one was answered: %s", why)
	}
}
