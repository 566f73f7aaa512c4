package job

// Limits of one chunk of an upload. The dispatcher holds it in memory and stores it in one
// transaction.
const (
	MaxChunk     = 32 << 20 // bytes of lines
	MaxChunkJobs = 20_000
)
