package job

// What a chunk of an upload may be at most: a request that is held in memory, and a transaction.
const (
	MaxChunk     = 32 << 20 // bytes of lines
	MaxChunkJobs = 20_000
)
