//go:build cluster

package k8s

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/oasdiff/yaml"

	"github.com/assay-run/assay/pkg/placement"
)

var (
	helmFlag    = flag.String("k8s.helm", "", "helm's program")
	kubectlFlag = flag.String("k8s.kubectl", "kubectl", "kubectl's program, for the cluster of KUBECONFIG")
)

// helm runs helm and returns its output.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	if *helmFlag == "" {
		t.Fatal("there is no helm; run: make test-k8s")
	}
	return command(t, "", *helmFlag, args...)
}

func command(t *testing.T, stdin, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w\n%s%s", filepath.Base(name), strings.Join(args, " "), err, out.String(), stderr.String())
	}
	return out.String(), nil
}

func kubectl(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	out, err := command(t, stdin, *kubectlFlag, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// object is a Kubernetes object, or a part of one.
type object map[string]any

// at follows a path of fields and of named list items.
func (o object) at(path ...string) any {
	var v any = map[string]any(o)
	for _, step := range path {
		switch x := v.(type) {
		case map[string]any:
			v = x[step]
		case []any:
			v = nil
			for _, item := range x {
				if m, ok := item.(map[string]any); ok && m["name"] == step {
					v = m
				}
			}
		default:
			return nil
		}
	}
	return v
}

// release is the rendered objects of a set of values, by kind and name.
type release map[string]object

func render(t *testing.T, args ...string) (release, string) {
	t.Helper()
	text, err := helm(t, append([]string{"template", "r", chart, "--namespace", "fleet"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	r := release{}
	for doc := range strings.SplitSeq(text, "\n---\n") {
		var o object
		if _, err := yaml.Unmarshal([]byte(doc), &o, yaml.DecodeOpts{}); err != nil {
			t.Fatalf("%v in:\n%s", err, doc)
		}
		if o == nil {
			continue
		}
		key := fmt.Sprint(o["kind"], "/", o.at("metadata", "name"))
		if r[key] != nil {
			t.Errorf("%s is there twice", key)
		}
		r[key] = o
	}
	return r, text
}

// is reports an error unless a field has the wanted value, as text.
func (r release) is(t *testing.T, key string, want any, path ...string) {
	t.Helper()
	o := r[key]
	if o == nil {
		t.Errorf("there is no %s", key)
		return
	}
	if got := o.at(path...); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %s is %v, want %v", key, strings.Join(path, "."), got, want)
	}
}

// pod returns the template of an object's pods, nil if it has none.
func (o object) pod() object {
	v := o.at("spec", "template", "spec")
	if o["kind"] == "Pod" {
		v = o["spec"]
	}
	m, _ := v.(map[string]any)
	return m
}

// env returns the path of a container's variable.
func env(container, name string) []string {
	return []string{"spec", "template", "spec", "containers", container, "env", name}
}

// TestRender checks that each file of values passes helm's linter, and renders sound objects with
// its settings.
func TestRender(t *testing.T) {
	t.Parallel()
	const worker, dispatcher = "Deployment/r-assay-worker-default", "Deployment/r-assay-dispatcher"
	spec := func(path ...string) []string { return append([]string{"spec", "template", "spec"}, path...) }
	value := func(container, name string) []string { return append(env(container, name), "value") }
	for name, check := range map[string]func(*testing.T, release, string){
		"default": func(t *testing.T, r release, _ string) {
			r.is(t, worker, 2, "spec", "replicas")
			r.is(t, worker, "own", value("worker", "ASSAY_CONTAINERD_ADDRESS")...)
			r.is(t, worker, "token-1", append(env("worker", "ASSAY_WORKER_TOKEN"), "valueFrom", "secretKeyRef", "key")...)
			r.is(t, dispatcher, nil, env("dispatcher", "ASSAY_INSECURE")...)
			r.is(t, dispatcher, nil, env("dispatcher", "ASSAY_NATS_DIR")...)
			r.is(t, dispatcher, nil, spec("volumes", "nats")...)
			r.is(t, dispatcher, "1", value("dispatcher", "ASSAY_ENVIRONMENT_WITNESSES")...)
			r.is(t, dispatcher, "4Gi", value("dispatcher", "ASSAY_SPOOL")...)
			r.is(t, dispatcher, "5Gi", spec("volumes", "spool", "emptyDir", "sizeLimit")...)
			r.is(t, "Job/r-assay-migrate", "pre-install,pre-upgrade", "metadata", "annotations", "helm.sh/hook")
		},
		"quickstart": func(t *testing.T, r release, _ string) {
			for _, part := range []string{"postgres", "nats", "objects"} {
				r.is(t, "StatefulSet/r-assay-"+part, 1, "spec", "replicas")
			}
			if r["Job/r-assay-migrate"] != nil {
				t.Error("a migration before there is a database")
			}
		},
		"quickstart-kept": func(t *testing.T, r release, _ string) {
			r.is(t, "StatefulSet/r-assay-postgres", "Delete", "spec", "persistentVolumeClaimRetentionPolicy", "whenDeleted")
			r.is(t, "NetworkPolicy/r-assay-dispatcher", "[Ingress Egress]", "spec", "policyTypes")
		},
		"hpa": func(t *testing.T, r release, _ string) {
			r.is(t, worker, nil, "spec", "replicas")
			r.is(t, "HorizontalPodAutoscaler/r-assay-worker-default", 40, "spec", "maxReplicas")
		},
		"keda": func(t *testing.T, r release, text string) {
			r.is(t, worker, nil, "spec", "replicas")
			r.is(t, "ScaledObject/r-assay-worker-default", 0, "spec", "minReplicaCount")
			if !strings.Contains(text, `max(assay_backlog_slots{pool=\"default\",namespace=\"fleet\"})`) {
				t.Error("it does not ask for this pool of this fleet")
			}
		},
		"ingress": func(t *testing.T, r release, _ string) {
			r.is(t, "Ingress/r-assay", "nginx", "spec", "ingressClassName")
			r.is(t, dispatcher, "assay-seal", append(env("dispatcher", "ASSAY_SECRETS_KEY"), "valueFrom", "secretKeyRef", "name")...)
		},
		"pools": func(t *testing.T, r release, _ string) {
			const gpu, users, bare = "Deployment/r-assay-worker-gpu", "Deployment/r-assay-worker-users", "Deployment/r-assay-worker-bare"
			const pulls = "Deployment/r-assay-worker-pulls"
			r.is(t, gpu, 0, "spec", "replicas")
			r.is(t, gpu, "gpu=a100,zone=b&c", value("worker", "ASSAY_LABELS")...)
			r.is(t, gpu, 1, spec("containers", "worker", "resources", "limits", "nvidia.com/gpu")...)
			r.is(t, gpu, "4Gi", spec("containers", "worker", "resources", "requests", "memory")...) // from the defaults
			r.is(t, users, false, spec("hostUsers")...)
			r.is(t, users, nil, spec("volumes", "state", "emptyDir")...) // replaced, not mixed
			r.is(t, "PodDisruptionBudget/r-assay-worker-users", "25%", "spec", "maxUnavailable")
			r.is(t, bare, 2, "spec", "replicas")
			for name, want := range map[string]string{"ASSAY_IMAGE_REGISTRIES": "docker.io/library?pull=always,ghcr.io/ours?trusted,docker.io=mirror.example.com/hub,docker.io=http://10.0.0.5:5000",
				"ASSAY_IMAGE_CREDENTIALS": "/etc/assay/images/.dockerconfigjson", "ASSAY_IMAGE_SPACE": "30Gi"} {
				r.is(t, pulls, want, value("worker", name)...)
				r.is(t, bare, nil, env("worker", name)...)
			}
			r.is(t, pulls, "registries", spec("volumes", "image-credentials", "secret", "secretName")...)
			r.is(t, pulls, "/etc/assay/images", spec("containers", "worker", "volumeMounts", "image-credentials", "mountPath")...)
			r.is(t, bare, nil, spec("volumes", "image-credentials")...)
			pools, _ := r[dispatcher].at(value("dispatcher", "ASSAY_POOLS")...).(string)
			known, err := placement.ParsePools(strings.Split(pools, ","))
			want := placement.Pools{"bare": {}, "default": {}, "gpu": {Exclusive: true, Labels: map[string]string{"gpu": "a100", "zone": "b&c"}, Images: []string{"cuda", "ghcr.io/ours/torch:2"}}, "pulls": {}, "users": {}}
			if diff := cmp.Diff(want, known); diff != "" || err != nil {
				t.Errorf("dispatchers are told %q of pools, %v (-want +got):\n%s", pools, err, diff)
			}
			r.is(t, worker, nil, env("worker", "ASSAY_LABELS")...)
		},
		"network": func(t *testing.T, r release, text string) {
			r.is(t, dispatcher, "/etc/assay/nats", value("dispatcher", "ASSAY_NATS_DIR")...)
			files := fmt.Sprint(r[worker].at(spec("volumes", "nats", "projected", "sources")...))
			if files != "[map[secret:map[items:[map[key:ca.crt path:ca.crt] map[key:tls.crt path:tls.crt] map[key:tls.key path:tls.key]] name:nats-tls]]]" {
				t.Errorf("files for NATS: %s", files)
			}
			r.is(t, worker, "/etc/assay/nats", spec("containers", "worker", "volumeMounts", "nats", "mountPath")...)
			r.is(t, worker, "https://pypi.example.org/simple,files.example.org:443", value("worker", "ASSAY_PIP_INDEX")...)
			r.is(t, worker, "store-worker", append(env("worker", "AWS_ACCESS_KEY_ID"), "valueFrom", "secretKeyRef", "name")...)
			egress := fmt.Sprint(r["NetworkPolicy/r-assay-worker-default"].at("spec", "egress"))
			for _, want := range []string{"port:4443", "port:9000", "port:4317", "port:80 ", "cidr:10.1.2.0/24", "port:5432", "cidr:fd00::/128", "cidr:fd00:1::/64", "cidr:10.9.9.9/32"} {
				if !strings.Contains(egress, want) {
					t.Errorf("workers' egress lacks %s: %s", want, egress)
				}
			}
			if strings.Contains(egress, "6432") || strings.Contains(egress, "10.0.5.7") {
				t.Errorf("workers reach Postgres: %s", egress)
			}
		},
		"tenants": func(t *testing.T, r release, _ string) {
			r.is(t, dispatcher, "r-assay-tenants", spec("volumes", "tenants", "configMap", "name")...)
			r.is(t, dispatcher, "/etc/assay/tenants/tenants.json", value("dispatcher", "ASSAY_TENANTS_FILE")...)
			text, _ := r["ConfigMap/r-assay-tenants"].at("data", "tenants.json").(string)
			tenants, ok := parseYAML(t, text).([]any)
			if !ok || len(tenants) != 3 {
				t.Errorf("the file of tenants: %s", text)
			}
		},
		"tenants-from": func(t *testing.T, r release, _ string) {
			r.is(t, dispatcher, "assay-tenants", spec("volumes", "tenants", "secret", "secretName")...)
			if r["Job/r-assay-migrate"] != nil {
				t.Error("a migration that was not asked for")
			}
		},
		"s3": func(t *testing.T, r release, _ string) {
			r.is(t, "ServiceAccount/r-assay-dispatcher", "arn:aws:iam::123456789012:role/assay-dispatcher", "metadata", "annotations", "eks.amazonaws.com/role-arn")
			r.is(t, worker, "assay-worker-of-mine", spec("serviceAccountName")...)
			r.is(t, dispatcher, "verify-full", value("dispatcher", "PGSSLMODE")...)
			r.is(t, "Job/r-assay-migrate", "/etc/assay/database/tls.crt", value("migrate", "PGSSLCERT")...)
			r.is(t, worker, nil, env("worker", "PGSSLCERT")...)
		},
		"file": func(t *testing.T, r release, _ string) {
			for key, container := range map[string]string{worker: "worker", dispatcher: "dispatcher"} {
				r.is(t, key, "/objects", spec("containers", container, "volumeMounts", "objects", "mountPath")...)
				r.is(t, key, "objects", spec("volumes", "objects", "persistentVolumeClaim", "claimName")...)
			}
			r.is(t, dispatcher, "no-tokens,open-nats", value("dispatcher", "ASSAY_INSECURE")...)
		},
		"oidc": func(t *testing.T, r release, _ string) {
			for name, want := range map[string]any{
				"ASSAY_OIDC_ISSUER": "https://id.example.org", "ASSAY_OIDC_AUDIENCE": "assay", "ASSAY_OIDC_GROUPS": "team-a=a\nops=ops:operator",
				"ASSAY_OIDC_CLIENT_ID": "assay", "ASSAY_PUBLIC_URL": "https://assay.example.org", "ASSAY_TLS_CERT": "/etc/assay/tls/tls.crt",
			} {
				r.is(t, dispatcher, want, value("dispatcher", name)...)
			}
			r.is(t, dispatcher, nil, env("dispatcher", "ASSAY_INSECURE")...)
			r.is(t, dispatcher, "assay-oidc", append(env("dispatcher", "ASSAY_OIDC_CLIENT_SECRET"), "valueFrom", "secretKeyRef", "name")...)
			r.is(t, dispatcher, "assay-tls", spec("volumes", "tls", "secret", "secretName")...)
			r.is(t, dispatcher, "HTTPS", spec("containers", "dispatcher", "readinessProbe", "httpGet", "scheme")...)
		},
		"users": func(t *testing.T, r release, text string) {
			for key, want := range map[string]string{dispatcher: "map[key:dispatcher.creds path:user.creds]] name:nats-dispatcher", worker: "map[key:worker.nk path:user.nk]] name:nats-worker"} {
				if files := fmt.Sprint(r[key].at(spec("volumes", "nats", "projected", "sources")...)); files != "[map[secret:map[items:["+want+"]]]" {
					t.Errorf("%s: files for NATS: %s", key, files)
				}
			}
			r.is(t, worker, "/etc/assay/nats", value("worker", "ASSAY_NATS_DIR")...)
			if strings.Contains(text, "ASSAY_WORKERS_KEY") || strings.Contains(text, "-issue") {
				t.Error("something is issued")
			}
		},
		"key": func(t *testing.T, r release, _ string) {
			r.is(t, worker, "assay-worker-default", append(env("worker", "ASSAY_WORKER_TOKEN"), "valueFrom", "secretKeyRef", "name")...)
		},
		"monitoring": func(t *testing.T, r release, text string) {
			r.is(t, "ServiceMonitor/r-assay", "prometheus", "metadata", "labels", "release")
			if !strings.Contains(text, `up{component=\"dispatcher\",namespace=\"fleet\"}`) || strings.Contains(text, "SELECTOR") {
				t.Error("alerts do not look at this fleet alone")
			}
			if !strings.Contains(text, "operate/runbooks.md#assaynoworkers") {
				t.Error("an alert leads to no runbook")
			}
			if fmt.Sprint(r["ConfigMap/r-assay-dashboards"].at("data", "fleet.json")) == "" {
				t.Error("no dashboard")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := "values/" + name + ".yaml"
			if _, err := helm(t, "lint", "--strict", chart, "--values", file); err != nil {
				t.Error(err)
			}
			r, text := render(t, "--values", file)
			r.sound(t)
			check(t, r, text)
		})
	}
}

// sound checks properties of all rendered objects.
func (r release) sound(t *testing.T) {
	t.Helper()
	for key, o := range r {
		if name, _ := o.at("metadata", "name").(string); name == "" || len(name) > 63 {
			t.Errorf("%s: its name has %d characters", key, len(name))
		}
		pod := o.pod()
		if pod == nil {
			continue
		}
		issues := strings.HasPrefix(key, "Job/r-assay-issue")
		if pod["automountServiceAccountToken"] != issues {
			t.Errorf("%s: its pods come with a token of the cluster: %v", key, pod["automountServiceAccountToken"])
		}
		if all := fmt.Sprint(pod); strings.Contains(all, "hostPath") || strings.Contains(all, "hostPID") || strings.Contains(all, "hostNetwork") {
			t.Errorf("%s: its pods have something of their node", key)
		}
		if !strings.HasPrefix(key, "Deployment/r-assay-worker-") {
			if strings.Contains(fmt.Sprint(pod), "privileged") {
				t.Errorf("%s: its pods are privileged", key)
			}
			continue
		}
		r.is(t, key, 0, "spec", "strategy", "rollingUpdate", "maxSurge")
		r.is(t, key, 150, "spec", "template", "spec", "terminationGracePeriodSeconds")
		r.is(t, key, "120s", append(env("worker", "ASSAY_GRACE"), "value")...)
		budget := "PodDisruptionBudget/" + strings.TrimPrefix(key, "Deployment/")
		r.is(t, budget, fmt.Sprint(o.at("spec", "selector")), "spec", "selector")
		if o.at("spec", "template", "spec", "containers", "worker", "startupProbe") == nil {
			t.Errorf("%s: has no startup probe", key)
		}
		if o.at("spec", "template", "spec", "affinity") != nil {
			t.Errorf("%s: is tied to nodes", key)
		}
	}
}

// TestRefused checks that values which fit the schema but make no fleet are refused, with the
// remedy.
func TestRefused(t *testing.T) {
	t.Parallel()
	for says, set := range map[string]string{
		"auth.secret or auth.oidc is required":                "image.tag=x",
		"nats.secret is required":                             "auth.secret=a,nats.auth=key,poolDefaults.tokenSecret=t",
		"pools.default.tokenSecret is required":               "auth.secret=a,nats.auth=key,nats.secret=k",
		"nats.credentials.secret is required":                 "auth.secret=a,nats.auth=users,poolDefaults.credentials.secret=w,poolDefaults.credentials.nkey=n",
		"nats.credentials.creds or nkey":                      "auth.secret=a,nats.auth=users,nats.credentials.secret=c,poolDefaults.credentials.secret=w,poolDefaults.credentials.nkey=n",
		"networkPolicy.otlp is required":                      "auth.secret=a,telemetry.otlpEndpoint=http://c:4317",
		"networkPolicy.dispatcherEgress.database is required": "auth.secret=a,networkPolicy.dispatcherEgress.enabled=true",
		"networkPolicy.clients is required":                   "auth.secret=a,networkPolicy.clients=null",
		"ingress.enabled with auth.insecureNoTokens":          "auth.insecureNoTokens=true,ingress.enabled=true",
		"objects.volume is for an objects.url of file://":     "auth.secret=a,objects.volume.emptyDir.medium=Memory",
		"nats.auth": "auth.secret=a,nats.auth=none",
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			_, err := helm(t, "template", "r", chart, "--set", set)
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v, want a refusal that says %s", set, err, says)
			}
		})
	}
}

// TestServerTakesIt checks that the API server of KUBECONFIG accepts the rendered objects of each
// file of values.
func TestServerTakesIt(t *testing.T) {
	if os.Getenv("KUBECONFIG") == "" {
		t.Fatal("KUBECONFIG names no cluster; make test-k8s runs only the tests for which there is one")
	}
	namespace := fmt.Sprintf("assay-render-%d", os.Getpid())
	kubectl(t, "", "create", "namespace", namespace)
	t.Cleanup(func() { _ = exec.Command(*kubectlFlag, "delete", "namespace", namespace, "--wait=false").Run() })
	crds, err := os.ReadFile("crds.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// Existing ones are another operator's, and take precedence.
	for doc := range strings.SplitSeq(string(crds), "\n---\n") {
		var o object
		if _, err := yaml.Unmarshal([]byte(doc), &o, yaml.DecodeOpts{}); err != nil {
			t.Fatal(err)
		}
		name, _ := o.at("metadata", "name").(string)
		if name == "" {
			continue
		}
		if _, err := command(t, "", *kubectlFlag, "get", "crd", name); err == nil {
			continue
		}
		kubectl(t, doc, "create", "-f", "-")
		t.Cleanup(func() { _ = exec.Command(*kubectlFlag, "delete", "crd", name, "--wait=false").Run() })
		kubectl(t, "", "wait", "--for=condition=Established", "--timeout=60s", "crd/"+name)
	}
	files, err := filepath.Glob("values/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			text, err := helm(t, "template", "r", chart, "--namespace", namespace, "--values", file)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := command(t, text, *kubectlFlag, "--namespace", namespace, "apply", "--dry-run=server", "--validate=strict", "-f", "-"); err != nil {
				t.Error(err)
			}
		})
	}
}
