package pg

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"pgregory.net/rapid"
)

// refusing returns a call that fails for rows in bad, and that records the others.
func refusing(bad map[int]bool, done *[]int) func([]int) error {
	return func(rows []int) error {
		for _, r := range rows {
			if bad[r] {
				return &pgconn.PgError{Code: "23514"}
			}
		}
		*done = append(*done, rows...)
		return nil
	}
}

func drawBad(t *rapid.T, n int) map[int]bool {
	bad := map[int]bool{}
	for _, r := range rapid.SliceOfN(rapid.IntRange(0, max(n-1, 0)), 0, 5).Draw(t, "bad") {
		bad[r] = r < n
	}
	return bad
}

func TestApart(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 40).Draw(t, "rows")
		bad := drawBad(t, n)
		var rows, done, aside []int
		for i := range n {
			rows = append(rows, i)
		}
		if err := Apart(rows, refusing(bad, &done), func(r int, _ error) error { aside = append(aside, r); return nil }); err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			if slices.Contains(done, r) == bad[r] || slices.Contains(aside, r) != bad[r] {
				t.Fatalf("row %d of %d, bad %v: done %v, aside %v", r, n, bad[r], done, aside)
			}
		}
	})
	for _, broken := range []error{&pgconn.PgError{Code: "42P01"}, &pgconn.PgError{Code: "57P01"}, errors.New("unexpected EOF")} {
		err := Apart([]int{1, 2, 3}, func([]int) error { return broken }, func(int, error) error { t.Error("a row is set aside"); return nil })
		if !errors.Is(err, broken) {
			t.Errorf("got %v, want %v", err, broken)
		}
	}
}

func TestChunks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n, size := rapid.IntRange(0, 60).Draw(t, "rows"), rapid.IntRange(1, 20).Draw(t, "size")
		bad, gone := drawBad(t, n), rapid.Bool().Draw(t, "gone")
		var rows, done []int
		for i := range n {
			rows = append(rows, i)
		}
		refused := 0
		err := Chunks(size, time.Time{}, func(c Chunk) (int, error) {
			from := min(c.Offset, len(rows))
			part := rows[from:min(from+c.Limit, len(rows))]
			if err := refusing(bad, &done)(part); err != nil {
				return 0, err
			}
			rows = slices.Delete(rows, from, from+len(part))
			return len(part), nil
		}, func(c Chunk, _ error) (bool, error) {
			if refused++; gone {
				rows = slices.Delete(rows, c.Offset, c.Offset+1)
			}
			return gone, nil
		})
		want := 0
		for _, b := range bad {
			if b {
				want++
			}
		}
		if err != nil || refused != want || len(done) != n-want {
			t.Fatalf("%d rows, bad %v: %d done, %d refused, %v", n, bad, len(done), refused, err)
		}
	})
	broken := &pgconn.PgError{Code: "42703"}
	err := Chunks(8, time.Time{}, func(Chunk) (int, error) { return 0, broken }, func(Chunk, error) (bool, error) { t.Error("a row is refused"); return true, nil })
	if !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
	calls := 0
	if err := Chunks(8, time.Now(), func(c Chunk) (int, error) { calls++; return c.Limit, nil }, nil); err != nil || calls != 1 {
		t.Errorf("%d calls after its time, %v", calls, err)
	}
}
