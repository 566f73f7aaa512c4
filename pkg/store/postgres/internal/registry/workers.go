package registry

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// rivals notes processes whose names belong to processes that started later and still report.
const rivals = `
UPDATE workers w SET rival_since = i.started_at, rival_at = now()
FROM unnest($1::text[], $2::timestamptz[]) AS i (id, started_at)
WHERE w.id = i.id AND w.started_at > i.started_at AND ` + nameTaken

// nameTaken is SQL for whether the last process of a worker w still reports.
const nameTaken = `w.seen_at > now() - interval '20 seconds'`

const putWorkers = `
INSERT INTO workers AS w (id, pool, version, slots, busy, draining, started_at, host, offer, held, tally, load, seen_at)
SELECT DISTINCT ON (i.id) id, pool, version, slots, busy, draining, started_at, host, offer, held, tally, load, now() - silence * interval '1 millisecond'
FROM unnest($1::text[], $2::text[], $3::text[], $4::integer[], $5::integer[], $6::boolean[], $7::timestamptz[], $8::text[], $9::text[], $10::text[], $11::text[], $12::text[], $13::bigint[])
	AS i (id, pool, version, slots, busy, draining, started_at, host, offer, held, tally, load, silence)
ORDER BY i.id, i.started_at DESC
ON CONFLICT (id) DO UPDATE SET pool = EXCLUDED.pool, version = EXCLUDED.version, slots = EXCLUDED.slots, busy = EXCLUDED.busy,
	draining = EXCLUDED.draining, started_at = EXCLUDED.started_at, host = EXCLUDED.host, offer = EXCLUDED.offer,
	held = EXCLUDED.held, tally = EXCLUDED.tally, load = EXCLUDED.load, seen_at = greatest(w.seen_at, EXCLUDED.seen_at),
	took_over_at = CASE WHEN w.started_at = EXCLUDED.started_at THEN w.took_over_at ELSE now() END
WHERE w.started_at <= EXCLUDED.started_at OR NOT (` + nameTaken + `)`

// PutWorkers implements store.Registry. Its commit does not wait for the disk: the next heartbeat repeats the report.
func (s *Registry) PutWorkers(ctx context.Context, ws []store.Worker) error {
	if len(ws) == 0 {
		return nil
	}
	var ids, pools, versions, held []string
	var slots, busy []int32
	var draining []bool
	var started []time.Time
	var hosts, offers, tallies, loads []*string
	var silence []int64
	for _, w := range ws {
		silence = append(silence, w.Silence.Milliseconds())
		ids, pools, versions = append(ids, w.ID), append(pools, w.Pool), append(versions, w.Version)
		held = append(held, pg.CleanText(w.Held))
		slots, busy, draining = append(slots, int32(w.Slots)), append(busy, int32(w.InUse)), append(draining, w.Draining)
		started, hosts, offers = append(started, w.StartedAt), append(hosts, pg.TextOrNull(w.Host)), append(offers, pg.TextOrNull(w.Offer))
		tallies, loads = append(tallies, pg.TextOrNull(tallyOf(w.Tally))), append(loads, pg.TextOrNull(loadOf(w.Load)))
	}
	return s.db.Urgent(ctx, "put workers", func(ctx context.Context) error {
		b := &pgx.Batch{}
		b.Queue(`SELECT set_config('synchronous_commit', 'off', true)`) // of the transaction that a batch is
		b.Queue(rivals, ids, started)
		b.Queue(putWorkers, ids, pools, versions, slots, busy, draining, started, hosts, offers, held, tallies, loads, silence)
		return s.db.Pool.SendBatch(ctx, b).Close()
	})
}

// Workers implements store.Registry.
func (s *Registry) Workers(ctx context.Context, seenWithin time.Duration) (ws []store.Worker, err error) {
	err = s.db.Do(ctx, "workers", func(ctx context.Context) error {
		rows, err := s.db.Pool.Query(ctx, `
			SELECT id, pool, version, slots, busy, draining, started_at, host, offer, held, tally, load, seen_at,
				quarantined_until, quarantine, (1000 * extract(epoch FROM quarantined_until - now()))::bigint,
				CASE WHEN rival_at > now() - interval '1 minute' THEN rival_since END, rival_at,
				coalesce(cordoned_at, paused_at), CASE WHEN cordoned_at IS NULL THEN coalesce(paused_by, '') ELSE cordoned_by END,
				CASE WHEN cordoned_at IS NULL AND pause IS NOT NULL THEN '`+store.PoolPaused+`' || CASE WHEN pause = '' THEN '' ELSE ': ' || pause END ELSE cordon END,
				cordoned_at IS NULL AND paused_at IS NOT NULL
			FROM workers LEFT JOIN paused_pools USING (pool)
			WHERE $1::bigint = 0 OR seen_at > now() - $1 * interval '1 millisecond' ORDER BY id`, seenWithin.Milliseconds())
		if err != nil {
			return err
		}
		ws, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (store.Worker, error) {
			var w store.Worker
			var until, rivalSince, rivalAt, cordoned *time.Time
			var c store.Cordon
			var left *int64
			var why string
			var tally, load []byte
			err := row.Scan(&w.ID, &w.Pool, &w.Version, &w.Slots, &w.InUse, &w.Draining, &w.StartedAt,
				(*[]byte)(&w.Host), (*[]byte)(&w.Offer), &w.Held, &tally, &load, &w.SeenAt, &until, &why, &left, &rivalSince, &rivalAt,
				&cordoned, &c.By, &c.Reason, &c.Pool)
			if cordoned != nil {
				c.At = *cordoned
				w.Cordon = &c
			}
			if rivalSince != nil && rivalAt != nil {
				w.Rival = &store.Rival{StartedAt: *rivalSince, SeenAt: *rivalAt}
			}
			if left != nil && *left > 0 {
				w.Quarantine = &store.Quarantine{Until: *until, Reason: why, Left: time.Duration(*left) * time.Millisecond}
			}
			if err == nil && tally != nil && json.Unmarshal(tally, &w.Tally) != nil {
				w.Tally = nil // of a worker of another version
			}
			w.Load.Running = w.InUse // unless the load has a better value
			if err == nil && load != nil {
				err = json.Unmarshal(load, &w.Load)
			}
			w.Settle()
			return w, err
		})
		return err
	})
	return ws, err
}

func tallyOf(t *store.Tally) json.RawMessage {
	if t == nil {
		return nil
	}
	raw, _ := json.Marshal(t) // plain data always marshals
	return raw
}

func loadOf(l store.WorkerLoad) json.RawMessage {
	raw, _ := json.Marshal(l) // numbers always marshal
	return raw
}

// quarantine counts the quarantines that began within longest of the end of the previous one.
const quarantine = `
UPDATE workers SET quarantine = $2,
	quarantines = CASE WHEN soon THEN quarantines + 1 ELSE 1 END,
	quarantined_until = now() + interval '1 millisecond' * least($3::bigint * CASE WHEN soon THEN 2::float8 ^ least(quarantines, 20) ELSE 1 END, $4::bigint)
FROM (SELECT id AS w, coalesce(quarantined_until > now() - $4::bigint * interval '1 millisecond', false) AS soon FROM workers WHERE id = $1) recent
WHERE id = w AND (quarantined_until IS NULL OR quarantined_until <= now())`

// Quarantine implements store.Registry.
func (s *Registry) Quarantine(ctx context.Context, worker, why string, first, longest time.Duration) (done bool, err error) {
	err = s.db.Urgent(ctx, "quarantine", func(ctx context.Context) error {
		tag, err := s.db.Pool.Exec(ctx, quarantine, worker, pg.CleanText(why), first.Milliseconds(), longest.Milliseconds())
		done = tag.RowsAffected() > 0
		return err
	})
	return done, err
}
