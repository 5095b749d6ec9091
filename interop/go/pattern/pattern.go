// Package pattern makes and checks bodies of any length that are different at every place, so that a lost, doubled or
// swapped block is seen. Used by the programs beside it.
package pattern

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
)

// Block is the length of one piece in bytes; each begins with its number.
const Block = 64 << 10

// Reader gives the first Left bytes of the pattern.
type Reader struct {
	Left int64
	at   int64
	now  [Block]byte
}

func (r *Reader) Read(p []byte) (int, error) {
	if r.Left == 0 {
		return 0, io.EOF
	}
	inside := r.at % Block
	if inside == 0 {
		fill(&r.now, r.at/Block)
	}
	n := copy(p, r.now[inside:min(Block, inside+r.Left)])
	r.at += int64(n)
	r.Left -= int64(n)
	return n, nil
}

// Check reads to the end; it gives the length, and an error where the bytes are not those of the pattern.
func Check(from io.Reader) (int64, error) {
	var have, want [Block]byte
	for total := int64(0); ; {
		n, err := io.ReadFull(from, have[:])
		fill(&want, total/Block)
		if !bytes.Equal(have[:n], want[:n]) {
			return total, fmt.Errorf("wrong bytes in the %d after byte %d", n, total)
		}
		total += int64(n)
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return total, nil
		}
		if err != nil {
			return total, fmt.Errorf("after %d bytes: %w", total, err)
		}
	}
}

func fill(block *[Block]byte, number int64) {
	if block[Block-1] == 0 {
		for i := range block {
			block[i] = byte(i*7 + i>>8 | 1)
		}
	}
	binary.BigEndian.PutUint64(block[:8], uint64(number))
}
