package cell

import "testing"

func TestUsersAreLentOnce(t *testing.T) {
	t.Parallel()
	var u users
	seen := map[int]bool{}
	for range cellUsers {
		n, err := u.get()
		if err != nil || n < 1 || n > cellUsers || seen[n] {
			t.Fatalf("get = %d, %v; it was lent: %v", n, err, seen[n])
		}
		seen[n] = true
	}
	if n, err := u.get(); err == nil {
		t.Errorf("get = %d, with all of them lent", n)
	}
	u.put(77)
	if n, err := u.get(); err != nil || n != 77 {
		t.Errorf("get = %d, %v; want the one that came back, 77", n, err)
	}
}
