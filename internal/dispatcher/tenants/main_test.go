package tenants

import (
	"testing"

	"github.com/assay-run/assay/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }
