package arch

// home is the only place of a technology. A prefix that ends in / or with a whole path names modules. Tests are
// exempt, except from reaching a binary.
type home struct {
	prefix string
	in     []string // our packages, "" for everything
	reason string
}

const (
	adapters = "a technology has one home, so that it can be replaced, faked and upgraded in one place"
	testing_ = "test tools must not be linked into what we ship"
)

var homes = []home{
	{"github.com/jackc/pgx/", []string{"pkg/store/postgres/..."}, adapters},
	{"github.com/pressly/goose/", []string{"pkg/store/postgres/internal/schema", "migrations"}, adapters},
	{"database/sql", []string{"pkg/store/postgres/internal/schema", "migrations"}, "pgx is spoken natively; database/sql would hide batches and arrays"},
	{"github.com/nats-io/nats.go", []string{"pkg/queue/jetstream"}, adapters},
	{"github.com/nats-io/nats-server/", []string{"internal/cli/dev", "internal/testenv"}, "the embedded server is for one machine and for tests; a fleet runs its own"},
	{"github.com/containerd/", []string{"pkg/runtime/containerd", "pkg/runtime/containerd/engine", "pkg/runtime/containerd/image", "pkg/runtime/containerd/image/imagetest", "pkg/runtime/containerd/overlay", "pkg/runtime/containerd/registry", "pkg/runtime/containerd/filter", "pkg/runtime/containerd/rawloop"},
		"containers, images, their layers, the registries they come from and a profile of its own, each apart, and nothing else; " + adapters},
	{"github.com/opencontainers/runtime-spec/", []string{"pkg/runtime/containerd/...", "pkg/runtime/cell"}, adapters},
	{"gocloud.dev/", []string{"pkg/object"}, adapters},
	{"github.com/go-jose/", []string{"internal/dispatcher/identity/oidc", "internal/dispatcher/identity/oidc/oidctest"}, adapters},
	{"golang.org/x/oauth2", []string{"internal/dispatcher/identity/oidc"}, adapters},
	{"github.com/modelcontextprotocol/", []string{"internal/mcp"}, adapters},
	{"unsafe", []string{"internal/guest/launcher", "pkg/runtime/tracee"}, "what the compiler does not check lies behind one wall, to be read with care; go:linkname takes it, too"},
	{"github.com/aws/", []string{"pkg/object"}, adapters},
	{"go.opentelemetry.io/otel/sdk", []string{"internal/telemetry", "cmd/..."}, "libraries speak to the OpenTelemetry API; one package chooses what is behind it"},
	{"go.opentelemetry.io/otel/exporters/", []string{"internal/telemetry", "cmd/..."}, "as the SDK"},
	{"github.com/prometheus/", []string{"internal/telemetry", "cmd/...", "test/..."}, "as the SDK"},
	{"github.com/alecthomas/kong", []string{"cmd/...", "images/...", "test/...", "examples/..."}, "flags belong to commands; libraries take structs"},
	{"github.com/schollz/progressbar/", []string{"cmd/...", "internal/cli/...", "test/..."}, "people watch commands, not libraries"},
	{"testing", []string{"internal/testenv", "pkg/runtime/containerd/image/imagetest", "pkg/runtime/environment/environmenttest", "pkg/store/storetest", "pkg/store/postgres/internal/pgtest", "pkg/queue/queuetest", "pkg/runtime/runtimetest", "test/..."}, testing_},
	{"github.com/google/go-cmp/", []string{"internal/testenv", "pkg/store/storetest", "pkg/queue/queuetest", "pkg/runtime/runtimetest", "test/..."}, testing_},
	{"pgregory.net/rapid", []string{"pkg/store/storetest", "pkg/queue/queuetest", "pkg/runtime/runtimetest", "test/..."}, testing_},
	{"go.uber.org/goleak", []string{"internal/testenv", "test/..."}, testing_},
	{"github.com/chromedp/", []string{"test/..."}, testing_},
	{"github.com/getkin/kin-openapi/", []string{"test/..."}, testing_},
}

// stdOnly lists the packages that may import only the standard library and the packages of ours in the table.
var stdOnly = map[string]string{
	"pkg/job":     "the domain outlives every dependency",
	"pkg/fleet":   "the domain outlives every dependency",
	"pkg/netrule": "judging a policy must be pure, fast and easy to audit",
	"pkg/policy":  "judging a policy must be pure, fast and easy to audit",
	"pkg/store":   "an idea knows none of its implementations",
	"pkg/control": "an idea knows none of its implementations",
	"pkg/queue":   "an idea knows none of its implementations",
	"pkg/runtime": "an idea knows none of its implementations",
	"migrations":  "files, embedded",
}

// reach is packages that must not be linked into a package, directly or indirectly.
type reach struct {
	from   string
	never  []string // prefixes; ours are written ./internal/x
	reason string
}

var reaches = []reach{
	{"cmd/worker", []string{"github.com/jackc/pgx/", "./pkg/store/postgres", "./migrations"},
		"a worker sits beside untrusted code: it has no database credentials, and no code that could use them"},
	{"cmd/worker", []string{"./internal/dispatcher"}, "a worker speaks NATS only"},
	{"cmd/dispatcher", []string{"github.com/containerd/containerd/", "./pkg/runtime/containerd", "./pkg/runtime/cell", "./internal/guest", "./internal/worker"}, "a dispatcher runs nobody's code"},
	{"cmd/dispatcher", []string{"github.com/nats-io/nats-server/", "./internal/cli", "./internal/testenv", "testing"}, "production binaries carry no servers of their own and no test tools"},
	{"cmd/worker", []string{"github.com/nats-io/nats-server/", "./internal/cli", "./internal/testenv", "testing"}, "production binaries carry no servers of their own and no test tools"},
	{"cmd/assay", []string{"github.com/jackc/pgx/", "./internal/testenv", "testing"}, "the command line is a client of the API, on one machine too"},
	{"cmd/worker", []string{"./internal/guest/launcher"}, "what runs inside of a sandbox is not for outside; forks that the runtime does not know of least of all"},
	{"cmd/guest", []string{"net/http", "github.com/", "google.golang.org/", "go.opentelemetry.io/", "gocloud.dev/"},
		"it starts once per job and shares the sandbox with the job: small, and nothing worth stealing"},
	{"pkg/client", []string{"github.com/nats-io/", "github.com/jackc/", "github.com/containerd/", "./pkg/store", "./pkg/queue", "./pkg/control", "./pkg/runtime", "./pkg/object", "./internal/"}, "other people's programs import it, and ask the API only"},
	{"internal/worker", []string{"github.com/jackc/pgx/", "github.com/containerd/containerd/", "github.com/nats-io/"}, "it is tested against fakes, and wired in cmd/worker"},
	{"internal/dispatcher", []string{"github.com/jackc/pgx/", "github.com/nats-io/", "github.com/containerd/containerd/"}, "it is tested against fakes, and wired in cmd/dispatcher"},
	{"internal/dispatcher/httpapi", []string{"github.com/jackc/pgx/", "github.com/nats-io/", "github.com/containerd/containerd/"}, "it is tested against fakes, and wired in cmd/dispatcher"},
}
