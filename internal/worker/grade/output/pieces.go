package output

import (
	"bufio"
	"bytes"
	"errors"
	"hash/maphash"
	"io"
)

// piece is a word of an output with the blanks before it. The last piece has no word. Long words
// are represented by a hash only, so outputs of any size need the same small memory.
type piece struct {
	lines  int   // line ends before it
	blanks sum64 // after the last line end
	word   sum64
	at     int64  // offset of the word in the output
	text   []byte // first maxWord bytes of the word; valid until the next piece
}

// sum64 is the length and hash of some bytes. The seed is secret, so authors of outputs cannot
// choose collisions.
type sum64 struct {
	bytes int64
	hash  uint64
}

// maxWord is the most stored bytes of a word, longer than any number.
const maxWord = 4096

// pieces reads an output piece by piece.
type pieces struct {
	r    *bufio.Reader
	fold bool // ignore the case of ASCII letters
	hash maphash.Hash
	text [maxWord]byte
	at   int64 // offset of the next byte
}

func newPieces(r io.Reader, seed maphash.Seed, fold bool) *pieces {
	p := &pieces{r: bufio.NewReaderSize(r, 64<<10), fold: fold}
	p.hash.SetSeed(seed)
	return p
}

// next returns the next piece, and io.EOF with the piece without a word.
func (p *pieces) next() (c piece, err error) {
	err = p.space(&c)
	if c.at = p.at; err != nil {
		return c, err
	}
	return c, p.wordInto(&c)
}

// space reads the blanks before a word.
func (p *pieces) space(c *piece) error {
	p.hash.Reset()
	for {
		part, err := p.run(isSpace)
		for len(part) > 0 {
			i := bytes.IndexByte(part, '\n')
			if i < 0 {
				break
			}
			c.lines++
			c.blanks.bytes, part = 0, part[i+1:]
			p.hash.Reset()
		}
		c.blanks.bytes += int64(len(part))
		_, _ = p.hash.Write(part)
		if err != nil || !p.ahead(isSpace) {
			c.blanks.hash = p.hash.Sum64()
			return err
		}
	}
}

// wordInto reads the next word.
func (p *pieces) wordInto(c *piece) error {
	p.hash.Reset()
	n := 0
	for {
		part, err := p.run(isWord)
		if p.fold {
			part = lower(part)
		}
		c.word.bytes += int64(len(part))
		_, _ = p.hash.Write(part)
		n += copy(p.text[n:], part)
		if err != nil || !p.ahead(isWord) {
			c.word.hash, c.text = p.hash.Sum64(), p.text[:n]
			if errors.Is(err, io.EOF) && c.word.bytes > 0 { // the end has its own piece
				err = nil
			}
			return err
		}
	}
}

// run consumes buffered bytes of a kind. The result is valid until the next read.
func (p *pieces) run(is func(byte) bool) ([]byte, error) {
	if _, err := p.r.Peek(1); err != nil {
		return nil, err
	}
	all, _ := p.r.Peek(p.r.Buffered())
	n := 0
	for n < len(all) && is(all[n]) {
		n++
	}
	_, err := p.r.Discard(n)
	p.at += int64(n)
	return all[:n], err
}

// ahead reports whether the next byte is of a kind. It also returns true on an error, which the
// next read returns.
func (p *pieces) ahead(is func(byte) bool) bool {
	next, err := p.r.Peek(1)
	return err != nil || is(next[0])
}

// isSpace reports whether b is an ASCII blank or line end.
func isSpace(b byte) bool { return b == ' ' || '\t' <= b && b <= '\r' }

func isWord(b byte) bool { return !isSpace(b) }

// lower returns a copy of b with ASCII letters in lower case.
func lower(b []byte) []byte {
	out := make([]byte, len(b))
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		out[i] = c
	}
	return out
}
