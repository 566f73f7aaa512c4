package program

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

// largeBatch is from how many bytes on a batch goes in chunks, which survive a connection that breaks.
const largeBatch = 32 << 20

// OpenBatch opens the file of a batch, - is standard input, and says whether it is large. What cannot be asked for
// its size, such as a pipe, is read ahead to know.
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
