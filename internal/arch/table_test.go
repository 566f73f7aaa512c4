package arch

// row is one of our packages: its purpose, and the packages of ours that its code may import. Tests of a package may
// import more (see testOnly).
type row struct {
	is      string
	imports []string
}

// ideas are the packages of interfaces and nouns, without a technology.
var ideas = []string{"pkg/fleet", "pkg/job", "pkg/policy", "pkg/placement", "pkg/store", "pkg/queue", "pkg/control", "pkg/runtime"}

func with(base []string, more ...string) []string {
	return append(append([]string{}, base...), more...)
}

var table = map[string]row{
	"pkg/job":      {"nouns, states, errors", nil},
	"pkg/language": {"programming languages: how programs of each are compiled and run", []string{"pkg/job"}},
	"pkg/netrule":  {"the language of network allow-lists", nil},
	"pkg/policy":   {"what a program may do", []string{"pkg/job", "pkg/netrule"}},

	"pkg/placement": {"which workers can run which jobs", []string{"pkg/job", "pkg/policy"}},
	"pkg/control":   {"what dispatchers and workers say to each other", []string{"pkg/job", "pkg/policy", "pkg/placement", "pkg/store"}},

	"pkg/fleet": {"workers, tenants, queues, batches as a whole, what operators do: nouns", []string{"pkg/job"}},
	"pkg/store": {"system of record: the idea", []string{"pkg/fleet", "pkg/job"}},
	"pkg/store/postgres": {"over Postgres", []string{
		"pkg/job", "pkg/store", "pkg/store/postgres/internal/lifecycle", "pkg/store/postgres/internal/pg", "pkg/store/postgres/internal/read",
		"pkg/store/postgres/internal/registry", "pkg/store/postgres/internal/schema", "pkg/store/postgres/internal/submit", "pkg/store/postgres/internal/transfer"}},
	"pkg/store/postgres/internal/pg":        {"connections, calls, errors, values", []string{"pkg/job", "pkg/store"}},
	"pkg/store/postgres/internal/schema":    {"migrations and days", []string{"pkg/job", "pkg/store", "pkg/store/postgres/internal/pg", "migrations"}},
	"pkg/store/postgres/internal/format":    {"jobs and results, as columns have them", []string{"pkg/job", "pkg/store", "pkg/store/postgres/internal/pg"}},
	"pkg/store/postgres/internal/read":      {"what is asked about jobs", []string{"pkg/fleet", "pkg/job", "pkg/store", "pkg/store/postgres/internal/format", "pkg/store/postgres/internal/pg"}},
	"pkg/store/postgres/internal/submit":    {"jobs and batches, accepted", []string{"pkg/job", "pkg/store", "pkg/store/postgres/internal/format", "pkg/store/postgres/internal/pg", "pkg/store/postgres/internal/read"}},
	"pkg/store/postgres/internal/lifecycle": {"jobs, from state to state", []string{"pkg/job", "pkg/store", "pkg/store/postgres/internal/format", "pkg/store/postgres/internal/pg", "pkg/store/postgres/internal/read", "pkg/store/postgres/internal/turns"}},
	"pkg/store/postgres/internal/turns":     {"which queued jobs get the free places of a window; pure", nil},
	"pkg/store/postgres/internal/registry":  {"what is put and looked up by name", []string{"pkg/job", "pkg/store", "pkg/store/postgres/internal/pg"}},
	"pkg/store/postgres/internal/transfer":  {"tenants, from and to another fleet", []string{"pkg/job", "pkg/store", "pkg/store/postgres/internal/pg"}},
	"pkg/store/postgres/internal/pgtest":    {"what tests of statements share", []string{"pkg/store/postgres/internal/pg", "pkg/store/postgres/internal/schema"}},
	"pkg/store/storetest":                   {"its specification", []string{"pkg/fleet", "pkg/job", "pkg/store"}},
	"migrations":                            {"the schema, embedded", nil},

	"pkg/queue":           {"delivery: the idea", []string{"pkg/control", "pkg/job", "pkg/policy", "pkg/placement", "pkg/store"}},
	"pkg/queue/identity":  {"who is who on the queue", []string{"pkg/job"}},
	"pkg/queue/jetstream": {"over NATS JetStream", []string{"pkg/control", "pkg/job", "pkg/policy", "pkg/placement", "pkg/store", "pkg/queue", "pkg/queue/identity"}},
	"pkg/queue/queuetest": {"its specification", []string{"pkg/control", "pkg/job", "pkg/policy", "pkg/store", "pkg/queue"}},

	"pkg/runtime": {"running one attempt: the idea", []string{"pkg/job", "pkg/policy"}},
	"pkg/runtime/containerd": {"over containerd", []string{
		"pkg/job", "pkg/policy", "pkg/runtime", "pkg/runtime/background", "pkg/runtime/cell", "pkg/runtime/cgroup", "pkg/runtime/cores", "pkg/runtime/disk", "pkg/runtime/containerd/filter", "pkg/runtime/egress",
		"pkg/runtime/containerd/engine", "pkg/runtime/containerd/image", "pkg/runtime/containerd/overlay", "pkg/runtime/containerd/registry", "pkg/runtime/environment", "pkg/runtime/hostcheck", "pkg/runtime/meter",
		"pkg/runtime/packet", "pkg/runtime/pool", "pkg/runtime/process", "pkg/runtime/sandbox", "internal/guest", "guest/python"}},
	"pkg/runtime/containerd/engine":  {"containers, made and destroyed", []string{"pkg/runtime/process", "pkg/runtime/sandbox", "internal/guest"}},
	"pkg/runtime/containerd/filter":  {"which system calls programs may make, compiled without cgo", []string{"pkg/policy"}},
	"pkg/runtime/containerd/rawloop": {"a bare client loop, to compare with", []string{"pkg/runtime/cgroup"}},
	"pkg/runtime/fake":               {"without walls, scripted", []string{"pkg/job", "pkg/policy", "pkg/runtime"}},
	"pkg/runtime/runtimetest":        {"its specification", []string{"pkg/job", "pkg/policy", "pkg/runtime"}},
	"pkg/runtime/artifact":           {"files out of a sandbox, never through links", []string{"pkg/job"}},
	"pkg/runtime/background":         {"what goes on beside a runtime's calls, and its end", nil},
	"pkg/runtime/capture":            {"output, capped while draining", []string{"pkg/job"}},
	"pkg/runtime/cell": {"containers in which the jobs of a tenant and an image have boxes", []string{
		"pkg/job", "pkg/policy", "pkg/runtime", "pkg/runtime/background", "pkg/runtime/cgroup", "pkg/runtime/cgroup/lease", "pkg/runtime/containerd/engine",
		"pkg/runtime/containerd/filter", "pkg/runtime/containerd/image", "pkg/runtime/containerd/overlay", "pkg/runtime/egress", "pkg/runtime/packet",
		"pkg/runtime/pool", "pkg/runtime/process", "pkg/runtime/sandbox", "pkg/runtime/tracee", "internal/guest", "guest/python"}},
	"pkg/runtime/cgroup":                      {"limits and meters, both cgroup versions", []string{"pkg/job"}},
	"pkg/runtime/cgroup/lease":                {"control groups, lent to one job after the other", []string{"pkg/job", "pkg/runtime/cgroup", "pkg/runtime/process"}},
	"pkg/runtime/egress":                      {"the one way out of a sandbox, an allow-list", []string{"pkg/netrule", "pkg/runtime/toll"}},
	"pkg/runtime/environment":                 {"images with packages on top: built, shared, kept", []string{"pkg/job", "pkg/netrule", "pkg/policy", "pkg/runtime"}},
	"pkg/runtime/environment/environmenttest": {"packages of Python and their index, for tests", nil},
	"pkg/runtime/disk":                        {"file systems of a limited size on the host's disk", nil},
	"pkg/runtime/mask":                        {"secrets out of what programs write", nil},
	"pkg/runtime/packet":                      {"messages and descriptors to the inside of a cell", []string{"pkg/runtime/poll", "internal/guest"}},
	"pkg/runtime/cores":                       {"which cores each program runs on", nil},
	"pkg/runtime/toll":                        {"the worker's CPU time for one job, measured and rationed", nil},
	"pkg/runtime/poll":                        {"what a descriptor is ready for, whatever signals come", nil},
	"pkg/runtime/pool":                        {"warm things by key, made ahead of need", nil},
	"pkg/runtime/hostcheck":                   {"what this host lets a worker do", []string{"pkg/job", "pkg/policy", "pkg/runtime/cgroup", "pkg/runtime/sandbox", "internal/guest"}},
	"pkg/runtime/process":                     {"processes that are not our children: name, kill, await", []string{"pkg/runtime/cgroup", "pkg/runtime/poll"}},
	"pkg/runtime/tracee":                      {"processes held from birth on, and what they are made to do", []string{"pkg/job", "pkg/runtime/process", "pkg/runtime/sandbox"}},
	"pkg/runtime/sandbox/owntime":             {"the time of a program, without what it waits for a core", []string{"pkg/runtime", "pkg/runtime/cgroup", "pkg/runtime/toll"}},
	"pkg/runtime/sandbox": {"one program in a place, under limits", []string{
		"pkg/job", "pkg/netrule", "pkg/policy", "pkg/runtime", "pkg/runtime/artifact", "pkg/runtime/capture", "pkg/runtime/cgroup", "pkg/runtime/sandbox/owntime",
		"pkg/runtime/cores", "pkg/runtime/egress", "pkg/runtime/mask", "pkg/runtime/packet", "pkg/runtime/poll", "pkg/runtime/process", "pkg/runtime/toll", "internal/boundedjson", "internal/guest", "guest/python"}},

	"pkg/runtime/containerd/image": {"images of a containerd: found, pulled, mounted, collected", []string{
		"pkg/job", "pkg/language", "pkg/policy", "pkg/runtime", "pkg/runtime/containerd/overlay", "pkg/runtime/containerd/registry", "pkg/runtime/meter", "pkg/runtime/sandbox"}},
	"pkg/runtime/containerd/image/imagetest": {"registries of one image, and images of more layers, for tests", nil},
	"pkg/runtime/containerd/overlay":         {"an image's layers, as each sandbox sees them", []string{"pkg/job", "pkg/runtime/sandbox"}},
	"pkg/runtime/containerd/registry":        {"how images are pulled from registries, which are strangers'", []string{"pkg/job", "pkg/netrule", "pkg/runtime"}},
	"pkg/runtime/meter":                      {"counts what is brought to a host and removed again", []string{"pkg/job", "pkg/runtime"}},

	"pkg/object": {"object paths and blobs", []string{"pkg/job"}},
	"pkg/client": {"Go client of the API", []string{"api", "pkg/fleet", "pkg/job", "pkg/policy"}},
	"api":        {"the contract: wire types, OpenAPI", []string{"pkg/fleet", "pkg/job", "pkg/policy", "pkg/placement"}},

	"api/openapi": {"the OpenAPI document as JSON", []string{"api"}},

	"internal/dispatcher/admin":                  {"what operators do, by hand or in the file of tenants", []string{"api", "pkg/fleet", "pkg/job", "pkg/object", "pkg/policy", "pkg/store", "internal/dispatcher/fleet", "internal/dispatcher/identity", "internal/dispatcher/secret", "internal/transfer"}},
	"internal/transfer":                          {"the file that moves a tenant", []string{"pkg/job"}},
	"internal/dispatcher/admit":                  {"bytes in, accepted jobs out", with(ideas, "api", "pkg/language", "pkg/object")},
	"internal/dispatcher/recent":                 {"what was read a moment ago, for many", nil},
	"internal/dispatcher/fleet":                  {"who is connected, what fits, who has room", with(ideas, "internal/dispatcher/recent")},
	"internal/dispatcher/intake":                 {"admits, stores and hands on", with(ideas, "api", "internal/dispatcher/admit", "internal/dispatcher/recent", "internal/telemetry")},
	"internal/dispatcher/share":                  {"what one dispatcher has, divided between tenants", []string{"pkg/job", "pkg/policy", "internal/dispatcher/recent"}},
	"internal/dispatcher/watch":                  {"batches, for those who watch them", []string{"pkg/job", "pkg/store", "internal/dispatcher/share"}},
	"internal/site":                              {"requests of browsers: which of them reach a server", []string{"pkg/job"}},
	"internal/dispatcher/identity":               {"who sends a request, and what they may do", []string{"api", "internal/site", "pkg/job", "pkg/store"}},
	"internal/dispatcher/identity/oidc":          {"who an OpenID Connect issuer vouches for", []string{"api", "internal/dispatcher/identity", "pkg/job"}},
	"internal/dispatcher/identity/oidc/oidctest": {"an issuer on this machine, for tests", nil},
	"internal/dispatcher/httpapi": {"the HTTP surface", with(ideas, "api", "api/openapi", "guest/python", "internal/dispatcher/identity", "pkg/object", "pkg/language", "internal/dispatcher/admin", "internal/dispatcher/admit", "internal/dispatcher/fleet",
		"internal/dispatcher/httpapi/browse", "internal/dispatcher/httpapi/dropin", "internal/dispatcher/httpapi/files", "internal/dispatcher/httpapi/account", "internal/dispatcher/httpapi/sessions", "internal/dispatcher/httpapi/web", "internal/dispatcher/intake", "internal/mcp", "internal/pause", "internal/dispatcher/recent", "internal/dispatcher/session", "internal/dispatcher/share", "internal/site", "internal/telemetry", "internal/dispatcher/token", "internal/dispatcher/watch")},
	"internal/dispatcher/httpapi/account":  {"its part about keys and tenants", []string{"api", "pkg/job", "pkg/store", "internal/dispatcher/admin", "internal/dispatcher/httpapi/web", "internal/dispatcher/identity"}},
	"internal/dispatcher/token":            {"signed and sealed texts with an expiry", nil},
	"internal/dispatcher/httpapi/browse":   {"its part for those who look at jobs and batches", []string{"api", "internal/dispatcher/admit", "internal/dispatcher/identity", "pkg/job", "pkg/store", "internal/dispatcher/httpapi/web", "internal/dispatcher/recent", "internal/dispatcher/share"}},
	"internal/dispatcher/httpapi/sessions": {"its part about sessions", []string{"api", "internal/dispatcher/identity", "pkg/control", "pkg/job", "pkg/object", "pkg/queue", "pkg/store", "internal/dispatcher/httpapi/files", "internal/dispatcher/httpapi/web", "internal/dispatcher/session", "internal/dispatcher/share"}},
	"internal/dispatcher/httpapi/dropin": {"answers in the formats of other servers that run code", []string{
		"api", "pkg/control", "pkg/job", "pkg/language", "pkg/object", "pkg/policy", "internal/dispatcher/httpapi/files", "internal/dispatcher/httpapi/web", "internal/dispatcher/identity", "internal/dispatcher/recent"}},
	"internal/dispatcher/httpapi/files": {"its part about artifacts, outputs, links and logs", []string{"api", "pkg/control", "pkg/job", "pkg/object", "pkg/store", "internal/dispatcher/httpapi/web", "internal/dispatcher/identity", "internal/dispatcher/share", "internal/dispatcher/token"}},
	"internal/dispatcher/httpapi/web":   {"reads requests, writes answers", []string{"api", "api/openapi", "internal/dispatcher/identity", "pkg/job", "pkg/store", "internal/dispatcher/share"}},
	"internal/dispatcher/ui":            {"the web page", []string{"api", "internal/dispatcher/identity", "internal/dispatcher/recent", "internal/site", "internal/dispatcher/token", "internal/dispatcher/ui/display", "pkg/job", "pkg/store"}},
	"internal/dispatcher/ui/display":    {"untrusted text and data, made displayable", []string{"pkg/job"}},
	"internal/mcp":                      {"sandboxes as tools for agents", []string{"api", "pkg/client", "pkg/job", "internal/version"}},
	"internal/dispatcher":               {"schedule, relay, record, reap, sweep", with(ideas, "api", "pkg/object", "internal/dispatcher/fleet", "internal/dispatcher/session", "internal/telemetry")},
	"internal/fault":                    {"failing stores and queues, for tests", []string{"pkg/control", "pkg/job", "pkg/object", "pkg/queue", "pkg/store"}},
	"internal/dispatcher/callback":      {"telling others that a batch is done", []string{"pkg/job", "pkg/netrule", "pkg/store"}},
	"internal/dispatcher/secret":        {"what jobs are told and nobody else may read", []string{"pkg/control", "pkg/job", "pkg/policy", "pkg/queue", "pkg/store"}},
	"internal/worker/compile":           {"programs, compiled in sandboxes and kept", []string{"pkg/job", "pkg/language", "pkg/policy", "pkg/runtime", "internal/worker/grade"}},
	"internal/worker":                   {"take, run, report", with(ideas, "pkg/language", "pkg/runtime/mask", "pkg/runtime/toll", "internal/worker/awake", "internal/budget", "internal/worker/compile", "internal/worker/grade", "internal/pause", "internal/worker/live", "internal/telemetry", "internal/worker/capacity", "internal/worker/health", "internal/worker/transfer")},
	"internal/worker/capacity":          {"what a worker has, and promises to jobs", []string{"pkg/job", "pkg/policy"}},
	"internal/worker/health":            {"what keeps a worker from taking jobs", []string{"pkg/job", "pkg/policy", "pkg/runtime", "internal/pause"}},
	"internal/worker/transfer":          {"files between a worker and the object store", []string{"pkg/control", "pkg/job", "pkg/policy", "pkg/queue", "pkg/runtime", "pkg/object", "internal/budget", "internal/pause", "internal/worker/live"}},
	"internal/worker/grade":             {"verdicts on solutions", with(ideas, "pkg/runtime/capture", "pkg/runtime/poll", "pkg/runtime/toll", "internal/boundedjson", "internal/frame", "internal/worker/grade/output", "internal/worker/grade/value", "internal/guest", "guest/python")},
	"internal/worker/grade/output":      {"what programs write, kept and compared", []string{"pkg/job"}},
	"internal/worker/grade/value":       {"values of python, read and compared", []string{"pkg/job", "internal/boundedjson"}},
	"internal/dispatcher/session":       {"jobs that stay: the dispatcher's side", with(ideas, "api", "internal/dispatcher/admit", "internal/dispatcher/fleet", "internal/pause", "internal/telemetry")},
	"internal/worker/live":              {"jobs that stay: the worker's side", with(ideas, "pkg/runtime/toll", "internal/worker/awake", "internal/boundedjson", "internal/budget", "internal/frame", "internal/pause", "internal/telemetry")},
	"internal/worker/machines":          {"commands in the sandboxes of agents, and their ends", []string{"internal/frame", "internal/guest/processes", "internal/worker/journal", "pkg/job", "pkg/runtime"}},
	"internal/worker/journal":           {"output of a command on disk, for readers from any position", nil},
	"internal/worker/awake":             {"processors that do not sleep while somebody waits", nil},
	"internal/guest":                    {"the protocol with the inside of a sandbox", []string{"internal/frame", "pkg/job"}},
	"internal/guest/files":              {"files of a sandbox, read and changed as one of its users", nil},
	"internal/guest/processes":          {"many programs at once in one sandbox, and their streams", []string{"internal/frame"}},
	"internal/guest/launcher":           {"the programs inside of a sandbox: the wall around unsafe forks", []string{"internal/guest", "internal/frame"}},
	"internal/boundedjson":              {"JSON that an enemy wrote", []string{"internal/budget"}},
	"internal/budget":                   {"memory, divided between tenants", nil},
	"internal/frame":                    {"a length and JSON, over a stream", []string{"internal/boundedjson"}},
	"guest/python":                      {"the harness inside python, embedded", nil},
	"internal/pause":                    {"waits for a time, or for the end of a context", nil},
	"internal/ociimage":                 {"image archives", nil},
	"internal/telemetry":                {"traces, metrics, logs", []string{"pkg/job"}},
	"internal/cli/doctor":               {"what this machine can enforce", with(ideas, "pkg/runtime/hostcheck", "pkg/runtime/cgroup", "internal/advisories", "internal/cli/dev")},
	"internal/cli/dev":                  {"a fleet on one machine, for people", []string{"api", "pkg/client", "pkg/job", "pkg/policy", "pkg/store", "pkg/queue/identity", "pkg/language", "images", "internal/daemon", "internal/ociimage", "internal/telemetry"}},
	"internal/daemon":                   {"servers that end with this process, and containerd as one", nil},
	"internal/testenv":                  {"real components, for tests", []string{"internal/cli/dev", "pkg/job", "pkg/client"}},
	"internal/advisories":               {"known holes in what walls are made of", nil},
	"internal/sysmon":                   {"the Go runtime's monitor thread, calmed", nil},
	"internal/version":                  {"which build this is", nil},
	"internal/arch":                     {"this table", nil},

	"cmd/dispatcher": {"wiring", with(ideas, "api", "migrations", "pkg/object", "pkg/store/postgres", "pkg/queue/jetstream", "pkg/queue/identity",
		"internal/dispatcher/admin", "internal/dispatcher/admit", "internal/dispatcher/callback", "internal/dispatcher/identity/oidc", "internal/dispatcher", "internal/fault", "internal/dispatcher/httpapi", "internal/dispatcher/identity", "internal/dispatcher/intake", "internal/dispatcher/session", "internal/site", "internal/sysmon", "internal/dispatcher/secret", "internal/telemetry", "internal/dispatcher/ui", "internal/version", "pkg/netrule")},
	"cmd/worker": {"wiring", with(ideas, "pkg/object", "pkg/queue/jetstream", "pkg/queue/identity", "pkg/runtime/containerd", "pkg/runtime/containerd/image", "pkg/runtime/fake", "pkg/runtime/toll",
		"pkg/netrule", "pkg/runtime/cgroup", "pkg/runtime/egress", "pkg/runtime/environment", "internal/advisories", "internal/worker/awake", "internal/daemon", "internal/fault", "internal/worker/live", "internal/site", "internal/sysmon", "internal/worker", "internal/worker/health", "internal/worker/transfer", "internal/telemetry", "internal/version")},
	"cmd/assay": {"command line", with(ideas, "api", "pkg/fleet", "pkg/client", "pkg/runtime/containerd/image", "pkg/runtime/cgroup",
		"internal/cli/operate", "internal/cli/problems", "internal/cli/program", "internal/cli/show", "internal/cli/top", "internal/cli/dev", "internal/cli/doctor", "internal/mcp", "internal/pause", "internal/sysmon", "internal/telemetry", "internal/version", "examples/humaneval")}, // which assay demo runs
	"internal/cli/program":  {"programs and policies, as a command line names them", []string{"pkg/job"}},
	"internal/cli/problems": {"problems that others have packed, as tests", []string{"pkg/job", "pkg/language"}},
	"internal/cli/operate":  {"what tenants are granted, their keys, and who did what", []string{"api", "internal/cli/show", "internal/transfer", "pkg/client", "pkg/fleet", "pkg/job"}},
	"internal/cli/show":     {"what a fleet says, for people", []string{"pkg/client", "pkg/job"}},
	"internal/cli/top":      {"a fleet or a batch, live, on a terminal", []string{"api", "pkg/fleet", "pkg/job", "pkg/placement", "pkg/policy", "pkg/store", "internal/cli/show"}},
	"cmd/guest":             {"the first process of a sandbox", []string{"internal/guest", "internal/guest/files", "internal/guest/launcher", "internal/guest/processes", "internal/sysmon", "internal/version"}},

	"images":                      {"recipes of images, embedded", nil},
	"images/mkimage":              {"builds image archives", []string{"internal/ociimage"}},
	"examples/humaneval":          {"164 real problems", []string{"pkg/job"}},
	"examples/humaneval/generate": {"writes them as a batch file", []string{"pkg/job", "examples/humaneval"}},
	"examples/forksearch":         {"a search by forks of a session", []string{"api", "pkg/client", "pkg/job"}},
	"examples/sessioncallbacks":   {"a session that calls its host", []string{"api", "pkg/client", "pkg/job"}},

	"test/bench": {"benchmarks over real binaries, and over simulated workers", with(outside,
		"internal/pause", "internal/worker", "pkg/queue/jetstream", "pkg/queue/identity", "pkg/runtime/containerd/rawloop", "pkg/runtime/fake", "pkg/store/postgres")},

	"test/conformance": {"every program held to every limit, over real binaries", outside},
	"test/cheats":      {"attempts to forge a pass", with(outside, "internal/worker/compile", "internal/worker/grade", "pkg/language", "test/corpus")},
	"test/chaos":       {"faults over real binaries", outside},
	"test/e2e":         {"whole stories over real binaries", with(outside, "test/hostile", "test/prom")},
	"test/hostile":     {"attacks over real binaries", with(outside, "internal/worker/compile", "pkg/language", "test/corpus")},
	"test/corpus":      {"programs of attacks, and what each says of itself", []string{"pkg/job", "pkg/language"}},
	"test/compose":     {"the compose file, in Docker", outside},
	"test/image":       {"the images, as containers", outside},
	"test/start":       {"what newcomers are told to run: pages and examples", outside},
	"test/languages":   {"programs in every language, over real binaries", with(outside, "pkg/language")},
	"test/tools":       {"each program of the image tools, over real binaries", outside},
	"test/ui":          {"the web page, by a real browser", outside},
	"test/k8s":         {"the chart on a cluster", outside},
	"test/alerts":      {"alerts fire when they should, and only then", []string{"test/prom"}},
	"test/prom":        {"PromQL over series of tests", nil},
}

// outside is the packages that a driver of real binaries may import.
var outside = with(ideas, "api", "pkg/client", "pkg/object", "pkg/runtime/containerd", "examples/humaneval",
	"internal/cli/dev", "internal/testenv", "internal/telemetry")

// testOnly are packages for tests. Code imports them only where the table above allows it.
var testOnly = []string{"internal/dispatcher/identity/oidc/oidctest", "internal/testenv", "pkg/store/storetest", "pkg/store/postgres/internal/pgtest", "pkg/queue/queuetest", "pkg/runtime/runtimetest", "pkg/runtime/containerd/image/imagetest", "pkg/runtime/environment/environmenttest", "test/corpus", "test/hostile", "test/prom"}
