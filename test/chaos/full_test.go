package chaos

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/job"
)

// A disk is a small file system that a test fills.
type disk struct {
	t   *testing.T
	dir string
}

func newDisk(t *testing.T, size string) *disk {
	t.Helper()
	d := &disk{t, filepath.Join(plainDir(t), "disk")}
	if err := os.Mkdir(d.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("chaos", d.dir, "tmpfs", 0, "size="+size+",mode=0755"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(d.dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return d
}

func (d *disk) filler() string { return filepath.Join(d.dir, "filler") }

// fill leaves no room.
func (d *disk) fill() {
	d.t.Helper()
	f, err := os.OpenFile(d.filler(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	for n := 1 << 20; n > 0; {
		_, err := f.Write(make([]byte, n))
		switch {
		case errors.Is(err, unix.ENOSPC):
			n /= 2
		case err != nil:
			d.t.Fatal(err)
		}
	}
}

// free frees the room again.
func (d *disk) free() {
	d.t.Helper()
	if err := os.Remove(d.filler()); err != nil {
		d.t.Fatal(err)
	}
}

// The disk under each component is full for a while. Refusals have a message, and accepted jobs are
// done once there is room.
func disksFull(t *testing.T) {
	t.Run("Postgres", postgresFull)
	t.Run("NATS", natsFull)
	t.Run("objects", objectsFull)
	t.Run("snapshots", snapshotsFull)
}

// whileFull submits batches for a while and returns how many jobs were accepted. The refusal of the
// others must be temporary.
func (f *fleet) whileFull(d *disk, size int) (accepted, refused int) {
	f.t.Helper()
	d.fill()
	for range 20 {
		<-time.After(250 * time.Millisecond)
		d.fill() // room that was freed meanwhile
		body := ""
		for range size {
			body += fmt.Sprintf(`{"program": {"python": {"code": "# fake: "}}, "labels": {"pad": "%0200d"}}`+"\n", 0)
		}
		switch status, answer := f.post("/v1/batches", "application/x-ndjson", string(job.NewID()), body); status {
		case http.StatusCreated, http.StatusAccepted, http.StatusOK:
			accepted += size
		case http.StatusServiceUnavailable, http.StatusInsufficientStorage:
			refused++
		default:
			f.t.Errorf("with the disk full: %d: %s", status, answer)
			return accepted, refused
		}
	}
	return accepted, refused
}

func postgresFull(t *testing.T) {
	t.Parallel()
	d := newDisk(t, "400m")
	dir := filepath.Join(d.dir, "pg")
	pg := ownPostgres(t, dir)
	f := newFleet(t, shape{postgres: pg})
	f.batch(100, always(""))
	f.rested()
	_, refused := f.whileFull(d, 2000)
	if refused == 0 {
		t.Error("nothing was refused")
	}
	d.free()
	// A Postgres that could not write its log has ended, and is started again.
	_ = pg.Stop(t.Context())
	ownPostgres(t, dir)
	eventually(t, "jobs are accepted again", func() bool {
		status, _ := f.post("/v1/jobs", "application/json", string(job.NewID()), `{"program": {"python": {"code": "# fake: "}}}`)
		return status/100 == 2
	})
	f.check()
}

func natsFull(t *testing.T) {
	t.Parallel()
	d := newDisk(t, "64m")
	f := newFleet(t, shape{natsDir: filepath.Join(d.dir, "nats")})
	f.batch(100, always(""))
	f.rested()
	accepted, _ := f.whileFull(d, 500)
	if accepted == 0 {
		t.Error("the record does not depend on the queue: nothing was accepted")
	}
	d.free()
	f.restartNATS(nil) // a server that could not write has disabled its storage
	f.check()
}

func objectsFull(t *testing.T) {
	t.Parallel()
	d := newDisk(t, "8m")
	f := newFleet(t, shape{objects: filepath.Join(d.dir, "objects")})
	d.fill()
	id := f.submit("artifact=/workspace/out:content")
	eventually(t, "the attempt is a failure of ours", func() bool {
		return f.count("SELECT count(*) FROM attempts WHERE reason = 'infra'") > 0
	})
	if r := f.row(id); r.State.Terminal() {
		t.Errorf("recorded without its artifact: %+v", r)
	}
	d.free()
	f.until(id, job.Finished)
	r, err := f.api.Result(t.Context(), id)
	if err != nil || r.Outcome != job.Succeeded || len(r.Artifacts) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	f.check()
}

func snapshotsFull(t *testing.T) {
	t.Parallel()
	d := newDisk(t, "1g")
	s := realFleet(t, filepath.Join(d.dir, "containerd"), -1)
	d.fill()
	s.addWorker("worker0").keep() // as a supervisor does
	accepted, err := s.api.Submit(t.Context(), program("cell", "print('room')"))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the worker says why it cannot start", func() bool {
		log, err := os.ReadFile(s.workers[0].log)
		return err == nil && bytes.Contains(log, []byte("no space left on device"))
	})
	if r := s.row(accepted.ID); r.State.Terminal() || r.Losses != 0 {
		t.Errorf("without a worker: %+v", r)
	}
	d.free()
	r, err := s.api.Result(t.Context(), s.ended(accepted.ID))
	if err != nil || r.Outcome != job.Succeeded || r.Stdout.Text != "room\n" || s.row(accepted.ID).Tries != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	s.check()
}
