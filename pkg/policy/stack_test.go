package policy

import (
	"encoding/json"
	"testing"

	"github.com/assay-run/assay/pkg/job"
)

func TestStackByUse(t *testing.T) {
	t.Parallel()
	h := Host{Isolations: Isolations}
	for _, c := range []struct {
		policy string
		use    Use
		host   job.Size
		want   job.Size
	}{
		{`{}`, UsePython, 0, 8 * job.MiB},
		{`{}`, UseCommand, 0, 8 * job.MiB},
		{`{}`, UseSession, 0, 8 * job.MiB},
		{`{"memory": "512Mi"}`, UseTests, 0, 512 * job.MiB},
		{`{"memory": "512Mi"}`, UseCode, 0, 512 * job.MiB},
		{`{"memory": "64Gi"}`, UseCode, 0, job.GiB},
		{`{"memory": "512Mi", "isolation": "gvisor"}`, UseCode, 0, 128 * job.MiB},
		{`{"stack": "2Mi"}`, UseTests, 0, 2 * job.MiB},
		{`{"stack": "100Mi"}`, UseCommand, 0, 100 * job.MiB},
		{`{"stack": "200Mi", "isolation": "gvisor"}`, UseCommand, 0, 128 * job.MiB},
		{`{}`, UseTests, 16 * job.MiB, 16 * job.MiB},
	} {
		p, err := Parse(json.RawMessage(c.policy))
		if err != nil {
			t.Fatal(err)
		}
		h.Stack = c.host
		plan, err := p.PlanFor(h, c.use)
		if err != nil {
			t.Fatalf("%s: %v", c.policy, err)
		}
		if plan.Policy.MainStack != c.want {
			t.Errorf("%s, %s: %s, want %s", c.policy, c.use, plan.Policy.MainStack, c.want)
		}
		for _, row := range plan.Enforcement {
			if row.Capability == "stack" && (row.Applied != c.want.String() || row.Level != job.LevelKernel) {
				t.Errorf("%s, %s: %+v", c.policy, c.use, row)
			}
		}
	}
}

// A ceiling that lowers the memory lowers the stack, too.
func TestStackUnderACeiling(t *testing.T) {
	t.Parallel()
	p, err := Parse(json.RawMessage(`{"memory": "1Gi", "stack": "512Mi"}`))
	if err != nil {
		t.Fatal(err)
	}
	p, err = Ceiling{Above: Lower, Memory: 64 * job.MiB}.Apply(p)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := p.PlanFor(Host{Isolations: Isolations}, UseCommand)
	if err != nil {
		t.Fatal(err)
	}
	if plan.Policy.MainStack != 64*job.MiB {
		t.Errorf("the stack is %s", plan.Policy.MainStack)
	}
	p.Stack = 32 * job.MiB
	if _, err := p.PlanFor(Host{Isolations: Isolations, Stack: 16 * job.MiB}, UseCommand); err == nil {
		t.Error("a host without such a stack took the job")
	}
}
