//go:build cluster

package k8s

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
)

// storesLabel marks the node of the quickstart's Postgres, NATS and object store, whose data is
// lost with it.
const storesLabel = "assay-test-stores"

// watchNodes chooses the node of the stores, and starts a pod on each node that inspects the whole
// node and records its content.
func (f *fleet) watchNodes() {
	f.t.Helper()
	nodes := strings.Fields(kubectl(f.t, "", "get", "nodes", "--output=jsonpath={.items[*].metadata.name}"))
	if len(nodes) < 3 {
		f.t.Fatalf("the cluster has %d nodes; TestInstall needs three: one that stays, one to drain and one to kill", len(nodes))
	}
	kubectl(f.t, "", "label", "--overwrite", "node", nodes[0], storesLabel+"="+f.namespace)
	f.t.Cleanup(func() { _ = exec.Command(*kubectlFlag, "label", "node", nodes[0], storesLabel+"-").Run() })
	if _, err := command(f.t, watcher, *kubectlFlag, "--namespace", f.namespace, "apply", "--filename=-"); err != nil {
		f.t.Fatal(err)
	}
	f.kubectl("rollout", "status", "daemonset/watch", "--timeout=3m")
	f.before = map[string][]string{}
	for node, pod := range f.watchers() {
		f.before[node] = f.look(pod)
	}
	f.t.Logf("watching %d nodes", len(f.before))
}

const watcher = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: watch}
spec:
  selector: {matchLabels: {app: watch}}
  template:
    metadata: {labels: {app: watch}}
    spec:
      hostPID: true
      hostNetwork: true
      terminationGracePeriodSeconds: 0
      tolerations: [{operator: Exists}]
      containers:
        - {name: watch, image: "assay.local/worker:latest", imagePullPolicy: IfNotPresent, command: [sleep, infinity], securityContext: {privileged: true}}
`

// watchers returns the inspecting pods, by node.
func (f *fleet) watchers() map[string]string {
	f.t.Helper()
	found := map[string]string{}
	for line := range strings.Lines(f.kubectl("get", "pods", "--selector=app=watch", `--output=go-template={{range .items}}{{.spec.nodeName}} {{.metadata.name}}{{"\n"}}{{end}}`)) {
		if node, pod, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			found[node] = pod
		}
	}
	return found
}

// see lists the content of a node: mounts, control groups, interfaces, and running programs with
// their network namespaces.
const see = `
cut -d' ' -f5 /proc/1/mountinfo | sed 's/^/mount /'
find /proc/1/root/sys/fs/cgroup -type d 2>/dev/null | sed 's/^/cgroup /'
sed -n '3,$s/:.*//p' /proc/1/net/dev | sed 's/ *//;s/^/interface /'
ls /proc/1/root/run/netns 2>/dev/null | sed 's/^/netns /'
for p in /proc/[0-9]*; do
	ppid=$(sed -n 's/^PPid:\t//p' $p/status 2>/dev/null); [ "$ppid" = 2 ] || echo "process $(cat $p/comm 2>/dev/null)"
done | sort | grep -vE '^process (|sh|sed|sort|grep|find|cut|ls|cat|runc.*|exe)$'
`

// clusters matches objects that the cluster itself creates on a node with the first pod of some
// kind, and keeps: the bridge of its network, and the control group of a class of service.
var clusters = regexp.MustCompile(`^(interface cni0|cgroup .*/kubepods[^/]*/(kubepods-)?(besteffort|burstable|guaranteed)(\.slice)?)$`)

// look returns the current content of a node except those, sorted.
func (f *fleet) look(pod string) []string {
	f.t.Helper()
	out := strings.Split(strings.TrimSpace(f.kubectl("exec", pod, "--", "sh", "-c", see)), "\n")
	if len(out) < 20 || !slices.Contains(out, "process kubelet") {
		f.t.Fatalf("%s sees no node: %q", pod, out)
	}
	out = slices.DeleteFunc(out, clusters.MatchString)
	slices.Sort(out)
	return out
}

// nothingOnNodes waits until the nodes have exactly their earlier content.
func (f *fleet) nothingOnNodes() {
	f.t.Helper()
	pods := f.watchers()
	var diff string
	if !f.eventually(func() bool {
		diff = ""
		for node, pod := range pods {
			if f.before[node] != nil {
				if d := cmp.Diff(f.before[node], f.look(pod)); d != "" {
					diff += node + ":\n" + d
				}
			}
		}
		return diff == ""
	}) {
		f.t.Errorf("the nodes (-before +after):\n%s", diff)
		return
	}
	f.t.Logf("%d nodes have what they had before", len(pods))
}

// aWorkersNode returns a node with a worker and without stores.
func (f *fleet) aWorkersNode() string {
	f.t.Helper()
	stores := strings.TrimSpace(kubectl(f.t, "", "get", "nodes", "--selector="+storesLabel+"="+f.namespace, "--output=jsonpath={.items[*].metadata.name}"))
	for _, node := range strings.Fields(f.kubectl("get", "pods", "--selector=app.kubernetes.io/component=worker", "--output=jsonpath={.items[*].spec.nodeName}")) {
		if node != stores {
			return node
		}
	}
	f.t.Fatalf("all workers are on %s", stores)
	return ""
}

// drain takes a node out of service, and back in.
func (f *fleet) drain() {
	f.t.Helper()
	node := f.aWorkersNode()
	f.kubectl("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--pod-selector=app.kubernetes.io/instance=fleet", "--timeout=8m")
	if left := f.kubectl("get", "pods", "--selector=app.kubernetes.io/instance=fleet", "--field-selector=spec.nodeName="+node, "--output=name"); left != "" {
		f.t.Errorf("left on %s, which was drained: %s", node, left)
	}
	f.rolledOut(4)
	kubectl(f.t, "", "uncordon", node)
	f.t.Logf("drained %s", node)
}

// kill kills a node with running jobs, and then removes it as a cloud does.
func (f *fleet) kill(l *load) {
	f.t.Helper()
	f.until("jobs on all four workers", func() bool { return l.workersSince(f.pods("worker")) == 4 })
	node := f.aWorkersNode()
	if _, err := command(f.t, "", "sh", "-c", killNode+` "$0"`, node); err != nil {
		f.t.Fatal(err)
	}
	f.until(fmt.Sprintf("the cluster knows that %s is gone", node), func() bool {
		return strings.TrimSpace(kubectl(f.t, "", "get", "node", node, `--output=jsonpath={.status.conditions[?(@.type=="Ready")].status}`)) != "True"
	})
	kubectl(f.t, "", "delete", "node", node)
	f.rolledOut(4)
}
