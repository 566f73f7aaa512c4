package postgres

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/assay-run/assay/pkg/job"
)

// moves collects every change of state that the suite makes.
type moves struct {
	mu   sync.Mutex
	seen map[[2]job.State]bool
}

// watch records each change of state in the store's database with a trigger. It collects the records when the
// test ends.
func (m *moves) watch(t testing.TB, s *Store) {
	t.Helper()
	_, err := s.db.Pool.Exec(t.Context(), `
		CREATE UNLOGGED TABLE seen_moves (moved_from text, moved_to text);
		CREATE FUNCTION see_move() RETURNS trigger LANGUAGE plpgsql AS $$
			BEGIN INSERT INTO seen_moves VALUES (OLD.state, NEW.state); RETURN NULL; END $$;
		CREATE TRIGGER see_move AFTER UPDATE ON jobs FOR EACH ROW WHEN (OLD.state <> NEW.state) EXECUTE FUNCTION see_move();
		CREATE FUNCTION see_birth() RETURNS trigger LANGUAGE plpgsql AS $$
			BEGIN INSERT INTO seen_moves VALUES ('', NEW.state); RETURN NULL; END $$;
		CREATE TRIGGER see_birth AFTER INSERT ON jobs FOR EACH ROW EXECUTE FUNCTION see_birth()`)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		rows, err := s.db.Pool.Query(context.Background(), `SELECT DISTINCT moved_from, moved_to FROM seen_moves`)
		if err != nil {
			t.Error(err)
			return
		}
		var from, to job.State
		_, err = pgx.ForEachRow(rows, []any{&from, &to}, func() error {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.seen[[2]job.State{from, to}] = true
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// check compares the recorded moves with the table of moves: both must have the same.
func (m *moves) check(t *testing.T) {
	want := map[[2]job.State]bool{}
	for _, move := range slices.Concat(job.InitialStates, job.Moves) {
		want[[2]job.State{move.From, move.To}] = true
	}
	if diff := cmp.Diff(want, m.seen); diff != "" {
		t.Errorf("changes of state (-job.Moves +seen):\n%s", diff)
	}
}
