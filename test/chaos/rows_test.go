package chaos

import (
	"fmt"
	"testing"
)

// rows is the failure matrix. What a row demands stands in its function.
var rows = []struct {
	n     int
	fault string
	run   func(t *testing.T)
}{
	{1, "the answer to a submit is lost", lostAnswer},
	{2, "same key, another body", keyOfAnother},
	{3, "dispatcher dies before it publishes", diesBeforePublish},
	{4, "dispatcher dies after it published", diesAfterPublish},
	{5, "publish executed, error returned", publishUnanswered},
	{6, "a batch of messages holds queued ones", publishPartlyQueued},
	{7, "retry published while the old message is held", retryWhileHeld},
	{8, "JetStream's data deleted", natsDataDeleted},
	{9, "JetStream's last seconds lost", natsDataOld},
	{10, "NATS restarted again and again", natsRestarts},
	{12, "messages of jobs that are over", staleMessages},
	{13, "worker killed at every step", workerKilled},
	{14, "worker paused past its lease", workerPaused},
	{20, "late ack while another worker runs the job", lateAck},
}

func TestRows(t *testing.T) {
	for _, r := range rows {
		t.Run(fmt.Sprintf("%02d %s", r.n, r.fault), func(t *testing.T) {
			t.Parallel()
			r.run(t)
		})
	}
}
