package main

import "github.com/assay-run/assay/internal/settings"

// gone lists removed settings of workers.
var gone = settings.Removed{
	"awake":          "processors stay awake while a client waits; a worker that is not given /dev/cpu_dma_latency does without",
	"warm":           "as many slots are kept ready as are asked for; --warm-memory bounds them, 0 for none",
	"cell-warm":      "as many slots are kept ready as are asked for; --warm-memory bounds them, 0 for none",
	"pressure-cpu":   "cores are promised several times over, and jobs wait for them; --cpu and --slots say how much is promised",
	"pressure-io":    "no more jobs are taken while all tasks wait for disks 90 percent of the time",
	"gvisor-runtime": "the shim of runc runs runsc, and gvisor=PATH in --runtimes says which; vm=HANDLER takes any other handler",
	"guest":          "the guest program is beside the worker's",
	"long-running":   "it follows from the cores of the host, and from --slots",
	"session-cpu":    "each session is promised a core",

	"nats-creds":       "put it into --nats-dir, as user.creds",
	"nats-nkey":        "put it into --nats-dir, as user.nk",
	"nats-ca":          "put it into --nats-dir, as ca.crt",
	"nats-cert":        "put it into --nats-dir, as tls.crt",
	"nats-key":         "put it into --nats-dir, as tls.key",
	"pip-allow":        "say it in --pip-index, after the index and a comma",
	"image-mirrors":    "say HOST=MIRROR in --image-registries",
	"environment-size": "it is a tenth of --environment-space, and no more than a quarter of the host's memory",
	"environment-time": "the building of an environment may take ten minutes",
	"trusted-images":   "say it in --image-registries, as ghcr.io/ours?trusted, or with &pull=never if such images are not to be pulled",
	"image-pull":       "say it of each entry of --image-registries, as docker.io/library?pull=always",
	"canary-image":     "it is the first of --images, else python; one without the program echo is tried as far as it goes",
	"image-size":       "it is a fifth of --image-space",
	"sessions":         "sessions are promised eight times --memory, and there is one for each 512Mi of that",
	"session-memory":   "it is eight times --memory",
	"runsc":            "say gvisor=PATH or gvisor=none in --runtimes",
	"vm-runtime":       "say vm=HANDLER in --runtimes",
	"pressure-memory":  "no more jobs are taken while tasks wait for memory 20 percent of the time",
}
