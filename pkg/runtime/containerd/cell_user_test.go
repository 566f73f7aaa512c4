package containerd

import "testing"

func TestUsersAreLentOnce(t *testing.T) {
	t.Parallel()
	var u users
	seen := map[int]bool{}
	for range cellUsers {
		n, err := u.lend()
		if err != nil || n < 1 || n > cellUsers || seen[n] {
			t.Fatalf("lend = %d, %v; it was lent: %v", n, err, seen[n])
		}
		seen[n] = true
	}
	if n, err := u.lend(); err == nil {
		t.Errorf("lend = %d, with all of them lent", n)
	}
	u.giveBack(77)
	if n, err := u.lend(); err != nil || n != 77 {
		t.Errorf("lend = %d, %v; want the one that came back, 77", n, err)
	}
}
