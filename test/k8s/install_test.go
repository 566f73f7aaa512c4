//go:build cluster

package k8s

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

var (
	jobsFlag   = flag.Int("k8s.jobs", 400, "jobs of TestInstall, at least: each of its acts has its share under way")
	actsFlag   = flag.String("k8s.acts", ".", "regular expression of the acts of TestInstall to play")
	levelsFlag = flag.String("k8s.levels", "cell,task,gvisor", "isolations that the nodes have")
	valuesFlag = flag.String("k8s.values", "", "file of values for TestInstall, besides install.yaml")
)

// Settings of TestInstall for the cluster, besides its KUBECONFIG.
var (
	loadImage   = os.Getenv("ASSAY_LOAD_IMAGE")   // a command that loads an image archive into every node
	killNode    = os.Getenv("ASSAY_KILL_NODE")    // a command that kills a node, like a loss of power
	testAddress = os.Getenv("ASSAY_TEST_ADDRESS") // address of this machine for the cluster
)

// images are the images of the installation.
var images = []string{"worker", "dispatcher", "nats", "objects", "postgres"}

// acts is the number of acts of TestInstall with jobs under way.
const acts = 7

// TestInstall installs the chart on the cluster of KUBECONFIG and does what a platform does, while
// jobs run:
//
//   - workers go from one to four, to none and back by hand, and to four and back by the exported metric
//   - all programs are replaced under new tokens
//   - a node is drained, and one is killed
//   - a second pool comes and goes
//
// Each job is recorded once with its own outcome, and only jobs of the killed node run again for
// lack of a worker. Nothing is left on the nodes in the end.
func TestInstall(t *testing.T) {
	if os.Getenv("KUBECONFIG") == "" || loadImage == "" || *helmFlag == "" {
		t.Fatal("KUBECONFIG, ASSAY_LOAD_IMAGE or -k8s.helm is missing; make test-k8s runs only the tests for which there is a cluster")
	}
	f := newFleet(t)
	f.watchNodes()
	f.helm("install", f.values(1)...)
	f.rolledOut(1)
	f.helm("test")
	f.connect()

	f.during("one worker", nil, func(*load) {})
	f.during("workers by hand", drained, func(l *load) {
		f.scale(4)
		f.until("jobs on all four workers", func() bool { return l.workersSince(f.pods("worker")) == 4 })
		f.scale(0)
		f.until("a backlog that nobody works on", func() bool { return f.backlog("default") > 0 })
		f.scale(1)
	})
	f.byMetric()
	f.forbidden()
	f.secondPool()
	f.helm("upgrade", f.values(4)...)
	f.rolledOut(4)
	f.during("rolling upgrade", drained, func(*load) {
		f.helm("upgrade", f.values(4, "--set", "nats.generation=2,dispatcher.podAnnotations.version=next,poolDefaults.podAnnotations.version=next")...)
		f.rolledOut(4)
	})
	f.during("drained node", drained, func(*load) { f.drain() })
	if killNode != "" {
		f.during("killed node", []job.Reason{job.ReasonLost, job.ReasonInfra}, func(l *load) { f.kill(l) })
	} else {
		t.Log("no node was killed: ASSAY_KILL_NODE is not set")
	}
	f.helm("test")

	f.helm("uninstall", "--wait", "--timeout=5m")
	f.gone()
	f.nothingOnNodes()
}

// values returns the arguments of an installation with that many workers.
func (f *fleet) values(workers int, more ...string) []string {
	args := []string{chart, "--values", "install.yaml", "--set", fmt.Sprintf("poolDefaults.replicas=%d,quickstart.nodeSelector.%s=%s", workers, storesLabel, f.namespace),
		"--wait", "--timeout=8m"}
	if *valuesFlag != "" {
		args = append(args, "--values", *valuesFlag)
	}
	return append(args, more...)
}

// drained has the reasons for which jobs may run again during planned changes.
var drained = []job.Reason{job.ReasonDrained, job.ReasonPreempted}

// forbidden tries, with a token of the workers, everything that a worker may not do.
func (f *fleet) forbidden() {
	f.t.Helper()
	port, stop := f.forward("service/fleet-assay-nats", 4222)
	defer stop()
	cmd := exec.CommandContext(f.t.Context(), "go", "test", "-count=1", "-v", "-run=^TestForbidden$", "./pkg/queue/jetstream", "-args",
		fmt.Sprintf("-nats.url=nats://127.0.0.1:%d", port), "-worker.token="+f.secret("fleet-assay-worker-default", "token-1"))
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if n := strings.Count(string(out), "--- PASS: TestForbidden/"); err != nil || n < 50 {
		f.t.Errorf("with a token of the workers, %d things were refused (%v):\n%s", n, err, out)
	} else {
		f.t.Logf("with a token of the workers, %d things were tried and refused", n)
	}
}

// gone waits until no object of the release is left in the cluster.
func (f *fleet) gone() {
	f.t.Helper()
	var left []string
	start := time.Now()
	f.eventually(func() bool {
		left = strings.Fields(f.kubectl("get", "all,secrets,configmaps,serviceaccounts,roles,rolebindings,networkpolicies,poddisruptionbudgets,persistentvolumeclaims,horizontalpodautoscalers",
			"--output=name"))
		left = slices.DeleteFunc(left, func(name string) bool {
			return name == "configmap/kube-root-ca.crt" || name == "serviceaccount/default" || strings.Contains(name, "/watch")
		})
		return len(left) == 0
	})
	if len(left) > 0 {
		f.t.Errorf("left after uninstall: %v", left)
		return
	}
	f.t.Logf("after %v nothing of the release is left in the cluster", time.Since(start).Round(time.Second))
}
