package intake

import (
	"errors"
	"strings"
	"testing"

	"github.com/assay-run/assay/pkg/job"
)

func TestCheckChunk(t *testing.T) {
	t.Parallel()
	if err := CheckChunk(job.MaxChunks - 1); err != nil {
		t.Errorf("the last chunk: %v", err)
	}
	err := CheckChunk(job.MaxChunks)
	if !errors.Is(err, job.ErrTooMany) || !strings.Contains(err.Error(), "chunks: ") || !strings.Contains(err.Error(), "10000") {
		t.Errorf("one more: %v", err)
	}
}
