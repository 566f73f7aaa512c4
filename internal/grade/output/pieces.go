package output

import (
	"bufio"
	"bytes"
	"errors"
	"hash/maphash"
	"io"
)

// piece is a word of an output with what stands before it. The last one has no word. Of what is long there is a hash only:
// outputs of any size are compared in the same little memory.
type piece struct {
	lines  int   // line ends before it
	blanks sum64 // since the last of them
	word   sum64
	at     int64  // offset of the word in the output
	text   []byte // of the word, its first maxWord bytes; good until the next piece
}

// sum64 is bytes, by their number and a hash whose seed nobody knows who wrote them.
type sum64 struct {
	bytes int64
	hash  uint64
}

// maxWord is what is kept of a word, in bytes: more than numbers have.
const maxWord = 4096

// pieces reads an output piece by piece.
type pieces struct {
	r    *bufio.Reader
	fold bool // capital letters of ASCII are small ones
	hash maphash.Hash
	text [maxWord]byte
	at   int64 // offset of the next byte
}

func newPieces(r io.Reader, seed maphash.Seed, fold bool) *pieces {
	p := &pieces{r: bufio.NewReaderSize(r, 64<<10), fold: fold}
	p.hash.SetSeed(seed)
	return p
}

// next returns the next piece, and io.EOF with one that has no word.
func (p *pieces) next() (c piece, err error) {
	err = p.space(&c)
	if c.at = p.at; err != nil {
		return c, err
	}
	return c, p.wordInto(&c)
}

// space reads what stands before a word.
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

// wordInto reads the word that comes now.
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
			if errors.Is(err, io.EOF) && c.word.bytes > 0 { // the end has a piece of its own
				err = nil
			}
			return err
		}
	}
}

// run consumes what is buffered of bytes that are of a kind. It is good until the next read.
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

// ahead reports whether a byte of a kind comes next, or nothing can be read, which the next read says.
func (p *pieces) ahead(is func(byte) bool) bool {
	next, err := p.r.Peek(1)
	return err != nil || is(next[0])
}

// isSpace has the blanks of ASCII, and the ends of lines.
func isSpace(b byte) bool { return b == ' ' || '\t' <= b && b <= '\r' }

func isWord(b byte) bool { return !isSpace(b) }

// lower makes capital letters of ASCII small, in bytes of its own.
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
