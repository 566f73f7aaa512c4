package environment

import "testing"

// One tenant does not use up the space for environments of all.
func TestEnvironmentsShare(t *testing.T) {
	t.Parallel()
	kept := []storedEnv{{tenant: "a", bytes: 40}, {tenant: "a", bytes: 20}, {tenant: "b", bytes: 10}}
	if err := roomFor("a", kept, 100); err == nil {
		t.Error("a has more than its share, and gets more")
	}
	if err := roomFor("b", kept, 100); err != nil {
		t.Errorf("b: %v", err)
	}
	if err := roomFor("b", append(kept, storedEnv{tenant: "c", bytes: 31}), 100); err == nil {
		t.Error("all is used up, and b gets more")
	}
	many := make([]storedEnv, storeMost/2)
	for i := range many {
		many[i].tenant = "a"
	}
	if roomFor("a", many, 100) == nil || roomFor("b", many, 100) != nil {
		t.Error("half of the places are a's share")
	}
}
