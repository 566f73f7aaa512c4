package job

// Limits of one chunk of an upload. The dispatcher holds it in memory and stores it in one
// transaction.
const (
	MaxChunk     = 32 << 20 // bytes of lines
	MaxChunkJobs = 20_000
)

// MaxChunks is how many chunks an upload has at most: each is a row for as long as its batch is
// kept. Chunks of 1,000 jobs reach any quota of jobs with it.
const MaxChunks = 10_000
