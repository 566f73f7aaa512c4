package chaos

import (
	"fmt"
	"testing"

	"github.com/assay-run/assay/internal/testenv"
)

// rows is the failure matrix. The function of a row has its requirements.
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
	{11, "one message with two workers", deliveredTwice},
	{12, "messages of jobs that are over", staleMessages},
	{13, "worker killed at every step", workerKilled},
	{14, "worker paused past its lease", workerPaused},
	{15, "worker cut off from NATS", workerCutOff},
	{16, "Postgres down", postgresAway},
	{17, "worker cut off from the object store", objectsAway},
	{18, "Postgres commits, its answer is lost", commitUnanswered},
	{19, "Postgres connections killed", connectionsKilled},
	{20, "late ack while another worker runs the job", lateAck},
	{21, "a worker without processor time", starvedPastAckWait},
	{22, "hostile user code", hostileCode},
	{23, "containerd restarted, shim killed", engineFails},
	{24, "images missing, corrupt, slow", imagesFail},
	{25, "drain", drained},
	{26, "rolling restart of every component", rolling},
	{27, "several dispatchers schedule and reap at once", splitLeader},
	{28, "clocks off by ten minutes", clocksOff},
	{29, "a job that kills its worker", poison},
	{30, "cancel races claim, finish and reap", cancelRaces},
	{31, "deadline passes while queued and while running", deadlines},
	{32, "one tenant floods", flood},
	{33, "caps with crashed holders", capRecovers},
	{34, "a batch with poison in it; its callback is down", poisonedBatch},
	{35, "crash between two uploads", halfUploaded},
	{36, "disks full", disksFull},
	{37, "stream and consumer changed by hand", streamByHand},
	{38, "a node of three NATS servers lost", nodeLost},
	{39, "what a NATS leader had not synced lost", unsyncedLost},
	{40, "the standby of a dead Postgres promoted", promoted},
	{41, "NATS away for longer than a lease, again and again", outages},
	{42, "worker killed and started again, leases as in production", restartedWorker},
	{43, "the largest outputs beside small jobs; a dispatcher dies while they are reported", largestOutputs},
	{44, "one tenant asks for much of everything", crowded},
}

// floods and crowds compare measurements, one after the other. They run alone: interference of
// other rows is not the scheduler's fault.
const floods, crowds = 32, 44

func TestRows(t *testing.T) {
	testenv.Needs(t, "a fleet, and root")
	for _, r := range rows {
		t.Run(fmt.Sprintf("%02d %s", r.n, r.fault), func(t *testing.T) {
			if r.n != floods && r.n != crowds {
				t.Parallel()
			}
			r.run(t)
		})
	}
}
