package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	// Whoever says nothing for so long waits for more, and never gets it.
	patience = 400 * time.Millisecond
	// A second answer, which nobody asked for, comes right behind the first.
	aftermath = 15 * time.Millisecond
)

// outcome is what the attacker saw: the codes of the answers, and whether the connection or stream was ended.
type outcome struct {
	codes []string
	ended bool
}

func (o outcome) String() string { return fmt.Sprintf("answers %v, ended %v", o.codes, o.ended) }

// refused tells whether nobody took the request: an error, or an end without an answer.
func (o outcome) refused() bool {
	for _, code := range o.codes {
		if code < "400" {
			return false
		}
	}
	return o.ended || len(o.codes) > 0
}

func sendBytes(c *attack, to string) outcome {
	conn, err := net.Dial("tcp", to)
	if err != nil {
		return outcome{}
	}
	defer conn.Close()
	conn.Write([]byte(c.bytes))
	var have []byte
	piece := make([]byte, 64<<10)
	var got outcome
	for {
		wait := patience
		if len(got.codes) > 0 && got.codes[0] >= "200" {
			wait = aftermath
		}
		conn.SetReadDeadline(time.Now().Add(wait))
		n, err := conn.Read(piece)
		have = append(have, piece[:n]...)
		got.codes = codes(have)
		if err != nil {
			var late net.Error
			got.ended = !errors.As(err, &late) || !late.Timeout()
			return got
		}
	}
}

// codes finds the status lines. No body of these back ends looks like one.
func codes(answer []byte) []string {
	var found []string
	for _, line := range bytes.Split(answer, []byte("\r\n")) {
		words := strings.SplitN(string(line), " ", 3)
		if strings.HasPrefix(words[0], "HTTP/1.") && len(words) > 1 && words[1] != "100" {
			found = append(found, words[1])
		}
	}
	return found
}

func sendFrames(c *attack, to string) outcome {
	conn, err := net.Dial("tcp", to)
	if err != nil {
		return outcome{}
	}
	defer conn.Close()
	io.WriteString(conn, http2.ClientPreface)
	framer := http2.NewFramer(conn, conn)
	framer.AllowIllegalWrites = true
	framer.WriteSettings()
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	head := func(fields []field, end bool) {
		block.Reset()
		for _, f := range fields {
			encoder.WriteField(hpack.HeaderField{Name: f.name, Value: f.value})
		}
		framer.WriteHeaders(http2.HeadersFrameParam{
			StreamID: 1, BlockFragment: block.Bytes(), EndStream: end, EndHeaders: true,
		})
	}
	head(c.fields, len(c.data)+len(c.trailers) == 0)
	for i, data := range c.data {
		framer.WriteData(1, len(c.trailers) == 0 && i == len(c.data)-1, []byte(data))
	}
	if len(c.trailers) > 0 {
		head(c.trailers, true)
	}
	return readFrames(framer, conn)
}

// readFrames reads until the stream or the connection ends.
func readFrames(framer *http2.Framer, conn net.Conn) (got outcome) {
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	conn.SetReadDeadline(time.Now().Add(patience))
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			var late net.Error
			got.ended = !errors.As(err, &late) || !late.Timeout()
			return got
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				framer.WriteSettingsAck()
			}
		case *http2.MetaHeadersFrame:
			if code := frame.PseudoValue("status"); code != "" && code != "100" {
				got.codes = append(got.codes, code)
			}
			if frame.StreamEnded() {
				return got
			}
		case *http2.DataFrame:
			if frame.StreamEnded() {
				return got
			}
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			got.ended = true
			return got
		}
	}
}
