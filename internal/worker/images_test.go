package worker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/pkg/policy"
)

// Heartbeats report the images of a worker.
func TestHeartbeatsSayWhichImagesThereAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, newFleet())
		res := b.recorded(b.submit(t, script("exit=0")))
		time.Sleep(time.Minute)
		synctest.Wait()
		b.mu.Lock()
		defer b.mu.Unlock()
		host := b.beats[len(b.beats)-1].Worker.Host
		want := []policy.HostImage{{Name: "python", Digest: res.ImageDigest}}
		if d := cmp.Diff(want, host.Images); d != "" || host.ImagesMore != 0 || host.ImageDigests["python"] != res.ImageDigest {
			t.Errorf("the last heartbeat says %+v (-want +got):\n%s", host, d)
		}
	})
}
