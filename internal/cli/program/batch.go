package program

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

// largeBatch is the size in bytes above which a batch is sent in chunks, which survive broken
// connections.
const largeBatch = 32 << 20

// OpenBatch opens the file of a batch and reports whether it is large. - is standard input. For
// files without a size, such as pipes, it reads ahead.
func OpenBatch(file string, stdin io.Reader) (in io.Reader, large bool, closeInput func(), err error) {
	in, closeInput = stdin, func() {}
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, false, nil, err
		}
		closeInput = func() { _ = f.Close() }
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			return f, info.Size() > largeBatch, closeInput, nil
		}
		in = f
	}
	var ahead bytes.Buffer
	switch _, err := io.CopyN(&ahead, in, largeBatch+1); err {
	case nil:
		return io.MultiReader(&ahead, in), true, closeInput, nil
	case io.EOF:
		return bytes.NewReader(ahead.Bytes()), false, closeInput, nil
	default:
		closeInput()
		return nil, false, nil, fmt.Errorf("read input: %w", err)
	}
}
