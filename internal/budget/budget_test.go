package budget

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestMemoryIsBounded lets many callers enter at once.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	m := New(10, 6)
	var mu sync.Mutex
	inside, by := 0, map[string]int{}
	var all sync.WaitGroup
	for i := range 300 {
		all.Go(func() {
			tenant, n := string(rune('a'+i%3)), i%9
			leave, err := m.Enter(t.Context(), tenant, n)
			if err != nil {
				t.Error(err)
			}
			n = min(n, 6)
			mu.Lock()
			inside, by[tenant] = inside+n, by[tenant]+n
			if inside > 10 || by[tenant] > 6 {
				t.Errorf("%d inside, %d of %s", inside, by[tenant], tenant)
			}
			inside, by[tenant] = inside-n, by[tenant]-n
			mu.Unlock()
			leave()
			leave() // once only
		})
	}
	all.Wait()
	if m.taken != 0 || len(m.by) != 0 || len(m.waiting) != 0 {
		t.Errorf("%d, %v and %d are left", m.taken, m.by, len(m.waiting))
	}
}

// TestOneTenantDoesNotHoldOthersUp checks that a tenant at its share does not delay others.
func TestOneTenantDoesNotHoldOthersUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := New(10, 6)
		enter := func(tenant string, n int) (in *bool, leave *func()) {
			in, leave = new(bool), new(func())
			go func() {
				f, err := m.Enter(t.Context(), tenant, n)
				*leave, *in = f, err == nil
			}()
			synctest.Wait()
			return in, leave
		}
		first, leave := enter("a", 6)
		second, leaveSecond := enter("a", 1)
		other, leaveOther := enter("b", 4)
		third, leaveThird := enter("c", 3) // no room at all
		small, leaveSmall := enter("d", 1) // would fit after them
		if !*first || *second || !*other || *third || *small {
			t.Errorf("inside: %t %t %t %t %t, want true false true false false", *first, *second, *other, *third, *small)
		}
		(*leave)()
		synctest.Wait()
		if !*second || !*third || !*small {
			t.Errorf("inside once there is room: %t %t %t", *second, *third, *small)
		}
		for _, f := range []*func(){leaveSecond, leaveOther, leaveThird, leaveSmall} {
			(*f)()
		}
		if m.taken != 0 {
			t.Errorf("%d are left", m.taken)
		}
	})
}

// TestEnterEndsWithItsContext checks that a waiting caller returns when its context ends.
func TestEnterEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := New(10, 10)
		leave, err := m.Enter(t.Context(), "a", 10)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if f, err := m.Enter(ctx, "b", 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		} else {
			f()
		}
		leave()
		if m.taken != 0 || len(m.waiting) != 0 {
			t.Errorf("%d and %d are left", m.taken, len(m.waiting))
		}
	})
}
